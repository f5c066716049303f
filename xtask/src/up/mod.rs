//! `cargo xtask up`: a whole fleet on this machine, and a CloneSet that runs on all of it.

mod fleet;
mod table;

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, bail};
use lab::{
    binaries,
    cluster::{self, Attached, Shape},
    progress::Progress,
};

use crate::agent::{self, Running};
use fleet::Hub;
use table::Table;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Real control planes and fake nodes. Until simulated clusters arrive this is the only kind
    #[arg(long)]
    kube: bool,
    /// Real nodes in each member, in place of fake ones, each with its daemon; needs root
    #[arg(long, default_value_t = 0)]
    nodes: usize,
}

/// How often, and how far apart, something is tried before it counts as broken.
const TRIES: u32 = 240;
const BETWEEN: Duration = Duration::from_millis(500);

const MEMBERS: [&str; 3] = ["m1", "m2", "m3"];

/// A cluster, and the kubectl that fits it.
#[derive(Debug)]
struct Place<'a> {
    name: &'a str,
    cluster: &'a Attached,
    kubectl: &'a Path,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut progress = Progress::start();
    if !arguments.kube {
        progress.say("simulated clusters are not there yet: starting real control planes, as with --kube");
    }
    let programs = binaries::control_plane(&mut progress)?;
    progress.say("building kruise-hub and kruise-agent");
    let (hub_program, agent_program) = agent::build_both()?;
    let fake_nodes = if arguments.nodes == 0 { 3 } else { 0 };
    let member = Shape { nodes: arguments.nodes, fake_nodes, ..Shape::default() };
    let mut fleet: Vec<(&str, Attached)> = Vec::new();
    fleet.push(("hub", cluster::attached("hub", &Shape::default(), &mut progress)?));
    for name in MEMBERS {
        fleet.push((name, cluster::attached(name, &member, &mut progress)?));
    }
    let places: Vec<Place<'_>> =
        fleet.iter().map(|(name, cluster)| Place { name, cluster, kubectl: &programs.kubectl }).collect();
    let (hub_place, members) = places.split_first().context("there is a hub")?;
    for place in &places {
        progress.say(format!("installing the kinds in {}", place.name));
        fleet::install_kinds(place)?;
    }
    progress.say("starting the hub");
    let (hub, mut running) = Hub::start(hub_place, &hub_program)?;
    fleet::until_admitted(hub_place)?;
    for place in members {
        progress.say(format!("joining {} to the hub and starting its agents", place.name));
        running.extend(hub.join(place, &agent_program)?);
    }
    for place in members {
        progress.say(format!("waiting for the admission of {}", place.name));
        fleet::until_admitted(place)?;
    }
    progress.say("waiting until the hub calls all members Ready; they have to be heard for half a minute");
    hub.until_ready(&MEMBERS)?;
    progress.say("applying config/samples/policy.yaml and config/samples/cloneset.yaml to the hub");
    hub.apply_samples()?;
    hub.until_split()?;
    progress.say("the fleet is up");
    print_hints(&places, arguments.nodes);
    keep_showing(&hub, &running)
}

fn print_hints(places: &[Place<'_>], nodes: usize) {
    println!();
    for Place { name, cluster, .. } in places {
        println!("{name:<4} export KUBECONFIG={}", cluster.record.kubeconfig().display());
    }
    println!("\nTry, in another shell, and watch the table below:");
    println!("  cargo xtask cluster kubectl hub get clonesets,fleetbindings,memberclusters");
    println!("  cargo xtask cluster kubectl hub scale clonesets.apps.kruise.io web --replicas=7");
    println!("  cargo xtask cluster kubectl hub patch clonesets.apps.kruise.io web --type=json -p \\");
    println!(
        r#"    '[{{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"lab/web:2"}}]'"#
    );
    println!(
        r#"  cargo xtask cluster kubectl hub patch memberclusters m2 --type=merge -p '{{"spec":{{"drain":true}}}}'"#
    );
    println!("  cargo xtask cluster kubectl m1 get clonesets,pods");
    if nodes > 0 {
        println!("  cargo xtask cluster kubectl m1 get nodeimages");
    }
    println!("  cargo xtask cluster kubectl m1 explain cloneset.spec.updateStrategy");
    println!("\nCtrl-C ends the fleet.\n");
}

/// Shows how the CloneSet stands until somebody ends this.
fn keep_showing(hub: &Hub<'_>, _running: &[Running]) -> Result<()> {
    let mut table = Table::default();
    loop {
        // A server that does not answer now may in a moment.
        if let Ok(status) = hub.binding() {
            table.show(&table::lines(&status));
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

impl Place<'_> {
    /// Runs kubectl and gives what it printed.
    fn run(&self, arguments: &[&str]) -> Result<String> {
        let kubeconfig = self.cluster.record.kubeconfig();
        let output = Command::new(self.kubectl).env("KUBECONFIG", kubeconfig).args(arguments).output()?;
        if !output.status.success() {
            bail!("kubectl {}:\n{}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// Tries until it works; the last error if it never does.
fn patiently<T>(what: &str, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..TRIES {
        if let Ok(done) = attempt() {
            return Ok(done);
        }
        std::thread::sleep(BETWEEN);
    }
    attempt().with_context(|| format!("waited {:?} until {what}", BETWEEN * TRIES))
}
