//! Clusters by name, and what is left of them.

mod support;

use std::process::{Command, Stdio};

use anyhow::Result;
use support::{Lab, Remains};

#[test]
fn a_cluster_can_be_started_listed_used_and_taken_down() -> Result<()> {
    let lab = Lab::new("life")?;
    lab.xtask(&["cluster", "up", &lab.name, "--fake-nodes", "2"])?;
    let listed = lab.xtask(&["cluster", "list"])?;
    assert!(listed.lines().any(|it| it.starts_with(&lab.name) && it.contains("Running")), "{listed}");
    let nodes = lab.kubectl(&["get", "nodes", "--no-headers"])?;
    assert_eq!(nodes.lines().filter(|it| it.contains(" Ready ")).count(), 2, "{nodes}");
    let again = lab.try_xtask(&["cluster", "up", &lab.name])?;
    assert!(!again.status.success(), "a running cluster is not started again");

    lab.xtask(&["cluster", "down", &lab.name])?;
    assert_eq!(Remains::of(&lab.name, &[])?, Remains::default());
    let gone = lab.try_xtask(&["cluster", "kubeconfig", &lab.name])?;
    let complaint = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert!(complaint.contains(&format!("there is no cluster {}", lab.name)), "{complaint}");
    Ok(())
}

#[test]
fn a_cluster_that_lives_with_a_process_ends_when_that_is_killed() -> Result<()> {
    let lab = Lab::new("parent")?;
    let mut parent = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["lab-hold", &lab.name])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    support::eventually("the cluster is up", || {
        Ok(lab.try_xtask(&["cluster", "kubectl", &lab.name, "get", "namespaces"])?.status.success())
    })?;
    parent.kill()?;
    parent.wait()?;
    support::eventually("nothing of the cluster is left", || {
        Ok(Remains::of(&lab.name, &[])? == Remains::default())
    })?;
    assert!(!lab.xtask(&["cluster", "list"])?.contains(&lab.name));
    Ok(())
}

#[test]
fn ctrl_c_during_the_start_leaves_nothing() -> Result<()> {
    let lab = Lab::new("interrupt")?;
    let mut starting = support::interruptible()
        .args(["lab-hold", &lab.name])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    support::eventually("its first process runs", || Ok(!Remains::of(&lab.name, &[])?.processes.is_empty()))?;
    Command::new("kill").args(["-INT", &starting.id().to_string()]).status()?;
    starting.wait()?;
    support::eventually("nothing of the cluster is left", || {
        Ok(Remains::of(&lab.name, &[])? == Remains::default())
    })
}

#[test]
fn the_containers_of_fake_nodes_follow_a_changed_image() -> Result<()> {
    let lab = Lab::new("fake")?;
    lab.xtask(&["cluster", "up", &lab.name, "--fake-nodes", "1"])?;
    lab.start_pod()?;
    let restarts =
        || lab.kubectl(&["get", "pod", "web", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"]);
    assert_eq!(restarts()?, "0");
    lab.kubectl(&["set", "image", "pod/web", "main=lab/web:2"])?;
    support::eventually("the container restarted", || Ok(restarts()? == "1"))?;
    lab.kubectl(&["delete", "pod", "web", "--timeout=60s"])?;
    lab.xtask(&["cluster", "down", &lab.name])?;
    Ok(())
}
