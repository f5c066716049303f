//! `cargo xtask bench`: benchmarks, which print tables and assert nothing about time.

mod cloneset;
mod fleet;
mod node;

use anyhow::{Result, bail};
use clap::ValueEnum;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to measure; everything if nothing is named
    #[arg(value_enum)]
    subjects: Vec<Subject>,
    /// Pods of the CloneSets that are measured, one after the other
    #[arg(long, value_delimiter = ',', default_value = "1000,3000")]
    pods: Vec<u32>,
    #[command(flatten)]
    fleet: fleet::Sizes,
    /// Clusters of the simulated fleet of `sim`, each with 10 nodes and 100 pods
    #[arg(long, default_value = "1000")]
    sim_clusters: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// Plans over many clusters
    Scheduling,
    /// CloneSets on a real API server with fake nodes, beside the server's own rate
    Cloneset,
    /// A hub with three real members, and one with many simulated clusters
    Fleet,
    /// The daemon with many pods and images, and image pulls to real nodes, beside those of CRI alone; needs root
    Node,
    /// Simulated clusters: requests, memory, and a fleet of a thousand in which 100,000 pods start
    Sim,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let subjects =
        if arguments.subjects.is_empty() { Subject::value_variants() } else { &arguments.subjects };
    for subject in subjects {
        match subject {
            Subject::Scheduling => bench(&["--package", "scheduling"], &[])?,
            Subject::Cloneset => {
                bench(&["--workspace", "--bench", "cloneset_plan"], &[])?;
                cloneset::run(&arguments.pods)?;
            }
            Subject::Fleet => fleet::run(&arguments.fleet)?,
            Subject::Node => node::run()?,
            Subject::Sim => {
                let clusters = arguments.sim_clusters.to_string();
                bench(&["--workspace", "--bench", "sim"], &[("BENCH_CLUSTERS", clusters)])?;
            }
        }
    }
    Ok(())
}

/// Runs benchmarks with variables in their environment.
fn bench(which: &[&str], variables: &[(&str, String)]) -> Result<()> {
    let variables = variables.iter().map(|(name, value)| (name, value));
    let status = crate::cargo().arg("bench").args(which).envs(variables).status()?;
    if !status.success() {
        bail!("the benchmarks of {} failed", which.join(" "));
    }
    Ok(())
}
