//! What a cluster with a real node leaves behind: nothing, however it ends.

mod support;

use anyhow::Result;
use support::{Lab, Remains};

#[test]
fn taking_a_cluster_with_a_node_down_leaves_no_process_mount_bridge_or_cgroup() -> Result<()> {
    let lab = Lab::new("down")?;
    lab.xtask(&["cluster", "up", &lab.name, "--nodes", "1"])?;
    lab.start_pod()?;
    let bridges = lab.bridges()?;
    let during = Remains::of(&lab.name, &bridges)?;
    assert!(during.processes.len() >= 6, "a cluster with a node has at least six processes: {during:#?}");
    assert!(!during.cgroups.is_empty(), "a node has cgroups");
    assert_eq!(during.links.len(), 1, "a node with a pod has a bridge");

    lab.xtask(&["cluster", "down", &lab.name])?;
    assert_eq!(Remains::of(&lab.name, &bridges)?, Remains::default());
    Ok(())
}

#[test]
fn a_node_dies_with_its_keeper_and_the_next_command_removes_the_rest() -> Result<()> {
    let lab = Lab::new("killed")?;
    lab.xtask(&["cluster", "up", &lab.name, "--nodes", "1"])?;
    lab.start_pod()?;
    let bridges = lab.bridges()?;
    lab.kill_keeper()?;
    support::eventually("every process of the cluster is gone", || {
        Ok(Remains::of(&lab.name, &bridges)?.processes.is_empty())
    })?;
    lab.xtask(&["cluster", "down", &lab.name])?;
    assert_eq!(Remains::of(&lab.name, &bridges)?, Remains::default());
    Ok(())
}
