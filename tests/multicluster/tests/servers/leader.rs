//! Leader election on a real API server, between real processes.

use std::process::Stdio;

use anyhow::{Context, Result};
use kube::config::Kubeconfig;
use multicluster::{Cluster, cluster, eventually, proxy::Proxy};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::watch,
};

/// A candidate process, and when it acted first and last.
struct Candidate {
    process: Child,
    acted: watch::Receiver<Option<(i128, i128)>>,
}

impl Candidate {
    fn start(kubeconfig: &std::path::Path, namespace: &str, identity: &str) -> Result<Self> {
        let mut process = Command::new(env!("CARGO_BIN_EXE_candidate"))
            .arg(kubeconfig)
            .args([namespace, identity])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(process.stdout.take().context("its output is piped")?).lines();
        let (sender, acted) = watch::channel(None);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(at) = line.strip_prefix("acting ").and_then(|it| it.parse::<i128>().ok()) {
                    sender.send_modify(|it| *it = Some((it.map_or(at, |(first, _)| first), at)));
                }
            }
        });
        Ok(Self { process, acted })
    }

    async fn until_acting(&mut self) -> Result<i128> {
        let acted =
            tokio::time::timeout(multicluster::PATIENCE, self.acted.wait_for(Option::is_some)).await??;
        Ok(acted.map(|(first, _)| first).unwrap_or_default())
    }

    fn has_acted(&self) -> bool {
        self.acted.borrow().is_some()
    }

    /// When it acted last, once it has ended and everything it said has been read.
    async fn last_act(&mut self) -> Result<i128> {
        let ended = async { while self.acted.changed().await.is_ok() {} };
        tokio::time::timeout(multicluster::PATIENCE, ended).await.context("it still acts")?;
        let acted = *self.acted.borrow();
        acted.map(|(_, last)| last).context("it never acted")
    }
}

/// A kubeconfig like the cluster's, through `proxy`.
fn through(cluster: &Cluster, proxy: &Proxy) -> Result<std::path::PathBuf> {
    let mut config = Kubeconfig::read_from(&cluster.kubeconfig)?;
    for named in &mut config.clusters {
        if let Some(it) = &mut named.cluster {
            it.server = Some(format!("https://{}", proxy.address));
        }
    }
    let path =
        std::env::temp_dir().join(format!("through-{}-{}.json", std::process::id(), proxy.address.port()));
    std::fs::write(&path, serde_json::to_vec(&config)?)?;
    Ok(path)
}

// Calls of kubectl block their thread; the link of this test needs another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced() -> Result<()> {
    let cluster = cluster("m1");
    let namespace = cluster.namespace("leader").await?;
    let mut first = Candidate::start(&cluster.kubeconfig, &namespace, "first")?;
    first.until_acting().await?;
    let mut second = Candidate::start(&cluster.kubeconfig, &namespace, "second")?;
    first.process.kill().await?;
    let last = first.last_act().await?;
    let taken_over = second.until_acting().await?;
    assert!(last < taken_over, "the second acted at {taken_over}, before the first ended at {last}");
    println!("taken over {} ms after the last act, with a lease of 5 s", (taken_over - last) / 1_000_000);
    cluster.forget(&namespace).await
}

// Calls of kubectl block their thread; the link of this test needs another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_stops_before_another_acts() -> Result<()> {
    let cluster = cluster("m1");
    let namespace = cluster.namespace("leader").await?;
    let link = Proxy::open(&cluster.config().await?).await?;
    let kubeconfig = through(&cluster, &link)?;
    let mut cut_off = Candidate::start(&kubeconfig, &namespace, "cut-off")?;
    cut_off.until_acting().await?;
    let mut other = Candidate::start(&cluster.kubeconfig, &namespace, "other")?;
    eventually("the lease was renewed with the other one waiting", async || {
        let renewals = cluster.kubectl(&[
            "get",
            "lease",
            "candidates",
            "--namespace",
            &namespace,
            "-o",
            "jsonpath={.spec.renewTime}",
        ])?;
        Ok((!renewals.is_empty()).then_some(()))
    })
    .await?;
    assert!(!other.has_acted(), "two leaders at once");
    link.cut();
    let started = other.until_acting().await?;
    let last = cut_off.last_act().await?;
    assert!(last < started, "the cut-off leader acted at {last}, the other from {started}");
    println!("the cut-off leader stopped {} ms before the other began", (started - last) / 1_000_000);
    std::fs::remove_file(kubeconfig)?;
    cluster.forget(&namespace).await
}
