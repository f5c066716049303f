//! CloneSets of many pods: an API server with fake nodes, the agent as it is shipped, and a program that measures both.

use anyhow::{Context, Result, bail};
use lab::{
    binaries,
    cluster::{self, Shape},
    progress::Progress,
};

use super::bench;

/// Enough for pods to be spread; a fake node takes a thousand of them.
const NODES: usize = 10;

pub(super) fn run(pods: &[u32]) -> Result<()> {
    let agent = build_agent()?;
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
    bench(&["--package", "multicluster", "--bench", "cloneset"], &variables)
}

/// The agent as it is shipped, and where cargo has put it.
fn build_agent() -> Result<String> {
    let build = ["build", "--release", "--package", "member-agent", "--message-format", "json"];
    let output = crate::cargo().args(build).stderr(std::process::Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("kruise-agent could not be built");
    }
    let text = String::from_utf8(output.stdout)?;
    let messages = text.lines().filter_map(|it| serde_json::from_str::<serde_json::Value>(it).ok());
    let program = messages.filter_map(|it| it["executable"].as_str().map(str::to_owned)).next_back();
    program.context("cargo does not say where kruise-agent is")
}
