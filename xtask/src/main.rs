//! `cargo xtask`: everything a developer, CI or a first-time user runs.

mod agent;
mod bench;
mod cluster;
mod generated;
mod test;
mod up;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Clusters on this machine, tests, generated files")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Real clusters on this machine: control planes, nodes, fake nodes
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Start a whole fleet, a hub and three members, simulated unless told otherwise, and say what to type next; Ctrl-C ends it
    Up(up::Arguments),
    /// Run the tests, ring by ring; ends with `N passed, N failed, N skipped`
    Test(test::Arguments),
    /// Measure, and print tables
    Bench(bench::Arguments),
    /// Write the files generated from code: config/crd, config/rbac, config/webhook and docs/api
    Crds {
        /// Write nothing; fail and name the files that differ
        #[arg(long)]
        check: bool,
    },
    /// Holds a cluster as long as this process lives (for tests of just that)
    #[command(hide = true)]
    LabHold {
        /// The cluster's name
        name: String,
    },
    /// Owns one cluster (started by `cluster up` and by tests)
    #[command(hide = true)]
    LabKeep {
        #[arg(long)]
        folder: PathBuf,
        #[arg(long)]
        until_taken_down: bool,
    },
    /// The first process of a real node (started by the keeper of its cluster)
    #[command(hide = true)]
    LabNode {
        #[arg(long)]
        order: PathBuf,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Cluster(command) => cluster::run(&command),
        Command::Up(arguments) => up::run(&arguments),
        Command::Test(arguments) => test::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Crds { check } => generated::run(check),
        Command::LabHold { name } => cluster::hold(&name),
        Command::LabKeep { folder, until_taken_down } => {
            let ends =
                if until_taken_down { lab::keeper::Ends::WhenAsked } else { lab::keeper::Ends::WithInput };
            lab::keeper::run(&folder, ends)
        }
        Command::LabNode { order } => lab::node::init::run(&order),
    }
}

/// The top of this checkout.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The cargo that runs this program.
fn cargo() -> std::process::Command {
    let mut cargo = lab::cargo::command();
    if std::env::var_os("CI").is_some() {
        // What nobody will build again needs no gigabytes to do so faster.
        cargo.env("CARGO_INCREMENTAL", "0");
    }
    cargo
}
