//! `cargo xtask up`: a whole fleet on this machine.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, bail};
use kruise_core::api::image_pull_job::keys::SECRETS_NAMESPACE;
use lab::{
    binaries,
    cluster::{self, Attached, Shape},
    progress::Progress,
};

use crate::agent;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Real control planes and fake nodes. Until simulated clusters arrive this is the only kind
    #[arg(long)]
    kube: bool,
    /// Real nodes in each member, in place of fake ones, each with its daemon; needs root
    #[arg(long, default_value_t = 0)]
    nodes: usize,
}

/// How often, and how far apart, admission is tried before it counts as broken.
const TRIES: u32 = 120;
const BETWEEN: Duration = Duration::from_millis(500);

const MEMBERS: [&str; 3] = ["m1", "m2", "m3"];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut progress = Progress::start();
    if !arguments.kube {
        progress.say("simulated clusters are not there yet: starting real control planes, as with --kube");
    }
    let programs = binaries::control_plane(&mut progress)?;
    progress.say("building kruise-agent");
    let program = agent::build(agent::Profile::Dev)?;
    let fake_nodes = if arguments.nodes == 0 { 3 } else { 0 };
    let member = Shape { nodes: arguments.nodes, fake_nodes, ..Shape::default() };
    let mut fleet: Vec<(&str, Attached)> = Vec::new();
    fleet.push(("hub", cluster::attached("hub", &Shape::default(), &mut progress)?));
    for name in MEMBERS {
        fleet.push((name, cluster::attached(name, &member, &mut progress)?));
    }
    for (name, cluster) in &fleet {
        progress.say(format!("installing the kinds in {name}"));
        let kinds = crate::root().join("config/crd").display().to_string();
        // Those of the fleet are in a folder below.
        let below = format!("--recursive={}", *name == "hub");
        kubectl(&programs.kubectl, cluster, &["apply", "--server-side", "--filename", &kinds, &below])?;
    }
    let mut agents = Vec::new();
    for (name, cluster) in fleet.iter().filter(|it| MEMBERS.contains(&it.0)) {
        progress.say(format!("starting the agents of {name}"));
        for namespace in ["kruise-system", SECRETS_NAMESPACE] {
            kubectl(&programs.kubectl, cluster, &["create", "namespace", namespace])?;
        }
        let log = cluster.record.folder.join("agent.log");
        let kubeconfig = cluster.record.kubeconfig();
        agents.push(agent::start(&program, &kubeconfig, &log)?);
        for node in &cluster.record.nodes {
            agents.push(agent::start_daemon(&program, &kubeconfig, node)?);
        }
    }
    for (name, cluster) in fleet.iter().filter(|it| MEMBERS.contains(&it.0)) {
        progress.say(format!("waiting for the admission of {name}"));
        until_admitted(&programs.kubectl, cluster)?;
    }
    progress.say("the fleet is up");
    println!();
    for (name, cluster) in &fleet {
        println!("{name:<4} export KUBECONFIG={}", cluster.record.kubeconfig().display());
    }
    println!("\nTry, in another shell:");
    println!("  cargo xtask cluster list");
    println!("  cargo xtask cluster kubectl m1 get nodes");
    println!("  cargo xtask cluster kubectl m1 apply -f config/samples/cloneset.yaml");
    println!("  cargo xtask cluster kubectl m1 get clonesets,pods");
    if arguments.nodes > 0 {
        println!("  cargo xtask cluster kubectl m1 get nodeimages");
    }
    println!("  cargo xtask cluster kubectl m1 explain cloneset.spec.updateStrategy");
    println!("\nCtrl-C ends the fleet.");
    loop {
        std::thread::park();
    }
}

fn kubectl(program: &Path, cluster: &Attached, arguments: &[&str]) -> Result<()> {
    let output =
        Command::new(program).env("KUBECONFIG", cluster.record.kubeconfig()).args(arguments).output()?;
    if !output.status.success() {
        bail!("kubectl {}:\n{}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Waits until a CloneSet would be let in: before that its conversion has nobody to ask.
fn until_admitted(program: &Path, cluster: &Attached) -> Result<()> {
    let sample = crate::root().join("config/samples/cloneset.yaml").display().to_string();
    let mut last = Ok(());
    for _ in 0..TRIES {
        last = kubectl(program, cluster, &["apply", "--dry-run=server", "--filename", &sample]);
        if last.is_ok() {
            return last;
        }
        std::thread::sleep(BETWEEN);
    }
    last.with_context(|| format!("see {}", cluster.record.folder.join("agent.log").display()))
}
