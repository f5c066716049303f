//! `cargo xtask up`: a whole fleet on this machine.

use std::process::Command;

use anyhow::{Result, bail};
use lab::{
    binaries,
    cluster::{self, Attached, Shape},
    progress::Progress,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Real control planes and fake nodes. Until simulated clusters arrive this is the only kind
    #[arg(long)]
    kube: bool,
    /// Real nodes in each member, in place of fake ones; needs root
    #[arg(long, default_value_t = 0)]
    nodes: usize,
}

const MEMBERS: [&str; 3] = ["m1", "m2", "m3"];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut progress = Progress::start();
    if !arguments.kube {
        progress.say("simulated clusters are not there yet: starting real control planes, as with --kube");
    }
    let programs = binaries::control_plane(&mut progress)?;
    let fake_nodes = if arguments.nodes == 0 { 3 } else { 0 };
    let member = Shape { nodes: arguments.nodes, fake_nodes, ..Shape::default() };
    let mut fleet: Vec<(&str, Attached)> = Vec::new();
    fleet.push(("hub", cluster::attached("hub", &Shape::default(), &mut progress)?));
    for name in MEMBERS {
        fleet.push((name, cluster::attached(name, &member, &mut progress)?));
    }
    for (name, cluster) in &fleet {
        progress.say(format!("installing the kinds in {name}"));
        let mut kubectl = Command::new(&programs.kubectl);
        kubectl.env("KUBECONFIG", cluster.record.kubeconfig()).args(["apply", "--server-side", "--filename"]);
        let output = kubectl.arg(crate::root().join("config/crd")).output()?;
        if !output.status.success() {
            bail!("{name} refuses the kinds:\n{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    progress.say("the fleet is up");
    println!();
    for (name, cluster) in &fleet {
        println!("{name:<4} export KUBECONFIG={}", cluster.record.kubeconfig().display());
    }
    println!("\nTry, in another shell:");
    println!("  cargo xtask cluster list");
    println!("  cargo xtask cluster kubectl m1 get nodes");
    println!("  cargo xtask cluster kubectl m1 explain cloneset.spec.updateStrategy");
    println!("\nCtrl-C ends the fleet.");
    loop {
        std::thread::park();
    }
}
