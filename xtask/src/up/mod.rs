//! `cargo xtask up`: a whole fleet on this machine, and a CloneSet that runs on all of it.

mod real;
mod simulated;
mod table;

use std::path::PathBuf;

use anyhow::Result;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Real control planes and fake nodes, in place of simulated clusters; needs Go, git and a C compiler, once
    #[arg(long)]
    kube: bool,
    /// Real control planes, and so many real nodes in each member, each with its daemon; needs root
    #[arg(long, default_value_t = 0)]
    nodes: usize,
}

const MEMBERS: [&str; 3] = ["m1", "m2", "m3"];

/// What is applied to the hub, below `config`, and the binding that shows how it stands.
const SAMPLES: [&str; 2] = ["samples/policy.yaml", "samples/cloneset.yaml"];
const BINDING: &str = "cloneset.web";

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.kube || arguments.nodes > 0 { real::run(arguments.nodes) } else { simulated::run() }
}

/// Says where the clusters are and what can be done with them.
fn print_hints(kubeconfigs: &[(&str, PathBuf)], more: &[&str]) {
    println!();
    for (name, kubeconfig) in kubeconfigs {
        println!("{name:<4} export KUBECONFIG={}", kubeconfig.display());
    }
    println!("\nTry, in another shell, and watch the table below:");
    println!("  cargo xtask cluster kubectl hub get clonesets,fleetbindings,memberclusters");
    println!("  cargo xtask cluster kubectl hub scale clonesets.apps.kruise.io web --replicas=7");
    println!("  cargo xtask cluster kubectl hub patch clonesets.apps.kruise.io web --type=json -p \\");
    println!(
        r#"    '[{{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"lab/web:2"}}]'"#
    );
    // As `kubectl fleet` once it is on the PATH.
    let fleet = "KUBECONFIG=$(cargo xtask cluster kubeconfig hub) cargo run --quiet --bin kubectl-fleet --";
    for it in ["status cloneset/web", "explain cloneset/web", "drain m2"] {
        println!("  {fleet} {it}");
    }
    println!("  cargo xtask cluster kubectl m1 get clonesets,pods");
    for it in more {
        println!("  cargo xtask cluster kubectl {it}");
    }
    println!("  cargo xtask cluster kubectl m1 explain cloneset.spec.updateStrategy");
    println!("\nCtrl-C ends the fleet.\n");
}
