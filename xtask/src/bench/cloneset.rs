//! CloneSets of many pods: an API server with fake nodes, the agent as it is shipped, and a program that measures both.

use anyhow::Result;
use lab::{
    binaries,
    cluster::{self, Shape},
    progress::Progress,
};

use super::bench;
use crate::agent;

/// Enough for pods to be spread; a fake node takes a thousand of them.
const NODES: usize = 10;

pub(super) fn run(pods: &[u32]) -> Result<()> {
    let agent = agent::build_release()?.display().to_string();
    let mut progress = Progress::start();
    let programs = binaries::control_plane(&mut progress)?;
    let shape = Shape { fake_nodes: NODES, ..Shape::default() };
    let cluster = cluster::attached("bench", &shape, &mut progress)?;
    let pods: Vec<String> = pods.iter().map(u32::to_string).collect();
    let variables = [
        ("FLEET_AGENT", agent),
        ("FLEET_KUBECTL", programs.kubectl.display().to_string()),
        ("FLEET_KUBECONFIGS", format!("bench={}", cluster.record.kubeconfig().display())),
        ("BENCH_PODS", pods.join(",")),
    ];
    bench(&["--workspace", "--bench", "cloneset"], &variables)
}
