//! `cargo xtask bench`: benchmarks, which print tables and assert nothing about time.

use anyhow::{Result, bail};
use clap::ValueEnum;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to measure; everything if nothing is named
    #[arg(value_enum)]
    subjects: Vec<Subject>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// Plans over many clusters
    Scheduling,
}

impl Subject {
    fn package(self) -> &'static str {
        match self {
            Self::Scheduling => "scheduling",
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let subjects =
        if arguments.subjects.is_empty() { Subject::value_variants() } else { &arguments.subjects };
    for subject in subjects {
        let status = crate::cargo().args(["bench", "--package", subject.package()]).status()?;
        if !status.success() {
            bail!("the benchmarks of {} failed", subject.package());
        }
    }
    Ok(())
}
