//! Real control planes, with fake nodes or real ones.

mod fleet;

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, bail};
use lab::{
    binaries,
    cluster::{self, Attached, Shape},
    progress::Progress,
};

use super::{
    MEMBERS, print_hints,
    table::{self, Table},
};
use crate::agent::{self, Running};
use fleet::Hub;

/// How often, and how far apart, something is tried before it counts as broken.
const TRIES: u32 = 240;
const BETWEEN: Duration = Duration::from_millis(500);

/// A cluster, and the kubectl that fits it.
#[derive(Debug)]
struct Place<'a> {
    name: &'a str,
    cluster: &'a Attached,
    kubectl: &'a Path,
}

pub(super) fn run(nodes: usize) -> Result<()> {
    let mut progress = Progress::start();
    let programs = binaries::control_plane(&mut progress)?;
    progress.say("building kruise-hub and kruise-agent");
    let (hub_program, agent_program) = agent::build_both()?;
    let fake_nodes = if nodes == 0 { 3 } else { 0 };
    let member = Shape { nodes, fake_nodes, ..Shape::default() };
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
    let kubeconfigs: Vec<_> = places.iter().map(|it| (it.name, it.cluster.record.kubeconfig())).collect();
    let more: &[&str] = if nodes > 0 { &["m1 get nodeimages"] } else { &[] };
    print_hints(&kubeconfigs, more);
    keep_showing(&hub, &running)
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
