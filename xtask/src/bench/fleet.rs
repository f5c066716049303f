//! A hub and its members: three real ones for time, and many that are not real for size.

use anyhow::Result;
use lab::{
    binaries,
    cluster::{self, Shape},
    progress::Progress,
};

use super::bench;
use crate::agent;

/// Enough for pods to be spread; a fake node takes a thousand of them.
const NODES: usize = 2;

/// How large the fleets are.
#[derive(Debug, clap::Args)]
pub(super) struct Sizes {
    /// Clusters of the fleets that are simulated, one after the other
    #[arg(long, value_delimiter = ',', default_value = "100")]
    clusters: Vec<u32>,
    /// Objects of the fleets that are simulated, each on 100 clusters
    #[arg(long, default_value = "100")]
    objects: u32,
    /// CloneSets that are applied at once to a hub with three real members
    #[arg(long, default_value = "500")]
    burst: u32,
}

pub(super) fn run(sizes: &Sizes) -> Result<()> {
    let (hub, agent) = agent::build_both_release()?;
    let programs = [("FLEET_HUB", hub.display().to_string()), ("FLEET_AGENT", agent.display().to_string())];
    match binaries::why_no_control_planes() {
        Some(reason) => println!("without real members: {reason}"),
        None => real(sizes, &programs)?,
    }
    let clusters: Vec<String> = sizes.clusters.iter().map(u32::to_string).collect();
    let variables = [("BENCH_CLUSTERS", clusters.join(",")), ("BENCH_OBJECTS", sizes.objects.to_string())];
    bench(&["--workspace", "--bench", "many_clusters"], &[&programs[..], &variables].concat())
}

/// Three real members.
fn real(sizes: &Sizes, programs: &[(&'static str, String)]) -> Result<()> {
    let mut progress = Progress::start();
    let kubectl = binaries::control_plane(&mut progress)?.kubectl;
    let shape = Shape { fake_nodes: NODES, ..Shape::default() };
    let mut clusters = Vec::new();
    for name in ["hub", "m1", "m2", "m3"] {
        clusters.push((name, cluster::attached(&format!("bench-{name}"), &shape, &mut progress)?));
    }
    let named = clusters.iter().map(|(name, it)| format!("{name}={}", it.record.kubeconfig().display()));
    let variables = [
        ("FLEET_KUBECTL", kubectl.display().to_string()),
        ("FLEET_KUBECONFIGS", named.collect::<Vec<_>>().join(",")),
        ("BENCH_BURST", sizes.burst.to_string()),
    ];
    bench(&["--workspace", "--bench", "fleet"], &[programs, &variables].concat())
}
