//! What a cluster with a real node leaves behind: nothing, however it ends.

mod support;

use std::process::{Command, Stdio};

use anyhow::Result;
use support::{Lab, Remains};

#[test]
fn taking_a_cluster_with_a_node_down_leaves_no_process_mount_namespace_bridge_or_cgroup() -> Result<()> {
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

#[test]
fn ctrl_c_while_a_cluster_starts_leaves_nothing_of_its_node() -> Result<()> {
    let lab = Lab::new("interrupt")?;
    let mut starting = support::interruptible()
        .args(["cluster", "up", &lab.name, "--nodes", "1"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    support::eventually("its node is being started", || {
        Ok(!Remains::of(&lab.name, &[])?.cgroups.is_empty())
    })?;
    Command::new("kill").args(["-INT", &starting.id().to_string()]).status()?;
    starting.wait()?;
    support::eventually("nothing of the cluster is left", || {
        Ok(Remains::of(&lab.name, &[])? == Remains::default())
    })
}
