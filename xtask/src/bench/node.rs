//! The daemon of a node: real nodes, the agent as it is shipped, and a program that measures both.

use anyhow::Result;
use lab::{
    binaries,
    cluster::{self, Shape},
    progress::Progress,
};

use super::bench;
use crate::agent;

/// Nodes that images are downloaded to.
const NODES: usize = 3;

pub(super) fn run() -> Result<()> {
    if let Some(reason) = binaries::why_no_nodes() {
        println!("skipped: {reason}");
        return Ok(());
    }
    let agent = agent::build_release()?.display().to_string();
    let mut progress = Progress::start();
    let programs = binaries::control_plane(&mut progress)?;
    let shape = Shape { nodes: NODES, fake_nodes: 1, ..Shape::default() };
    let cluster = cluster::attached("bench", &shape, &mut progress)?;
    let variables = [
        ("FLEET_AGENT", agent),
        ("FLEET_KUBECTL", programs.kubectl.display().to_string()),
        ("FLEET_KUBECONFIGS", format!("bench={}", cluster.record.kubeconfig().display())),
    ];
    bench(&["--workspace", "--bench", "node"], &variables)
}
