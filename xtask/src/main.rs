//! `cargo xtask`: everything a developer, CI or a first-time user runs.

mod cluster;
mod crds;

use std::path::PathBuf;

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
    /// Write the files generated from the types: config/crd
    Crds {
        /// Write nothing; fail and name the files that differ
        #[arg(long)]
        check: bool,
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
        Command::Crds { check } => crds::run(check),
        Command::LabKeep { folder, until_taken_down } => {
            let ends =
                if until_taken_down { lab::keeper::Ends::WhenAsked } else { lab::keeper::Ends::WithInput };
            lab::keeper::run(&folder, ends)
        }
        Command::LabNode { order } => lab::node::init::run(&order),
    }
}
