//! Leader election on a real API server, between real processes.

use std::{os::unix::fs::OpenOptionsExt, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context, Result};
use kube::config::Kubeconfig;
use multicluster::{Cluster, cluster, eventually, proxy::Proxy};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::watch,
};

/// The lease time of the candidates.
const LEASE: Duration = Duration::from_secs(5);

/// What a candidate has said.
#[derive(Debug, Clone, Copy, Default)]
struct Said {
    waiting: bool,
    /// When it acted first and last.
    acted: Option<(i128, i128)>,
}

struct Candidate {
    process: Child,
    said: watch::Receiver<Said>,
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
        let (sender, said) = watch::channel(Said::default());
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let acts = line.strip_prefix("acting ").and_then(|it| it.parse::<i128>().ok());
                sender.send_modify(|said| match acts {
                    Some(at) => said.acted = Some((said.acted.map_or(at, |(first, _)| first), at)),
                    None => said.waiting |= line == "waiting",
                });
            }
        });
        Ok(Self { process, said })
    }

    async fn until(&mut self, what: impl Fn(&Said) -> bool) -> Result<Said> {
        let said = tokio::time::timeout(multicluster::PATIENCE, self.said.wait_for(|it| what(it))).await??;
        Ok(*said)
    }

    /// When it acted first.
    async fn first_act(&mut self) -> Result<i128> {
        let said = self.until(|it| it.acted.is_some()).await?;
        said.acted.map(|(first, _)| first).context("it acted")
    }

    /// When it acted last, once it has ended and everything it said has been read.
    async fn last_act(&mut self) -> Result<i128> {
        let ended = async { while self.said.changed().await.is_ok() {} };
        tokio::time::timeout(multicluster::PATIENCE, ended).await.context("it still acts")?;
        let said = *self.said.borrow();
        said.acted.map(|(_, last)| last).context("it never acted")
    }
}

/// A file that goes with this value.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A kubeconfig like the cluster's, through `proxy`; only its owner can read it, as it may hold keys.
fn through(cluster: &Cluster, proxy: &Proxy) -> Result<Temporary> {
    let mut config = Kubeconfig::read_from(&cluster.kubeconfig)?;
    for named in &mut config.clusters {
        if let Some(it) = &mut named.cluster {
            it.server = Some(format!("https://{}", proxy.address));
        }
    }
    let name = format!("through-{}-{}.json", std::process::id(), proxy.address.port());
    let file = Temporary(std::env::temp_dir().join(name));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    serde_json::to_writer(options.open(&file.0)?, &config)?;
    Ok(file)
}

// Calls of kubectl block their thread; the link of this test needs another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced() -> Result<()> {
    let cluster = cluster("m1");
    let namespace = cluster.namespace("leader").await?;
    let mut first = Candidate::start(&cluster.kubeconfig, &namespace, "first")?;
    first.first_act().await?;
    let mut second = Candidate::start(&cluster.kubeconfig, &namespace, "second")?;
    second.until(|it| it.waiting).await?;
    first.process.kill().await?;
    let last = first.last_act().await?;
    let taken_over = second.first_act().await?;
    assert!(last < taken_over, "the second acted at {taken_over}, before the first ended at {last}");
    let after = Duration::from_nanos(u64::try_from(taken_over - last)?);
    println!("taken over {after:?} after the last act, with a lease of {LEASE:?}");
    // The exact bound, lease plus one retry, is tested on a clock of our own; here machines may be slow.
    assert!(after < 3 * LEASE, "taken over only after {after:?}");
    cluster.forget(&namespace).await
}

// Calls of kubectl block their thread; the link of this test needs another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_stops_before_another_acts() -> Result<()> {
    let cluster = cluster("m1");
    let namespace = cluster.namespace("leader").await?;
    let link = Proxy::open(&cluster.config().await?).await?;
    let kubeconfig = through(&cluster, &link)?;
    let mut cut_off = Candidate::start(&kubeconfig.0, &namespace, "cut-off")?;
    cut_off.first_act().await?;
    let mut other = Candidate::start(&cluster.kubeconfig, &namespace, "other")?;
    other.until(|it| it.waiting).await?;
    let renewed = || {
        let path = "jsonpath={.spec.renewTime}";
        cluster.kubectl(&["get", "lease", "candidates", "--namespace", &namespace, "-o", path])
    };
    let before = renewed()?;
    eventually("the lease is renewed while the other one waits", async || {
        Ok((renewed()? != before).then_some(()))
    })
    .await?;
    assert!(other.said.borrow().acted.is_none(), "two leaders at once");
    link.cut();
    let started = other.first_act().await?;
    let last = cut_off.last_act().await?;
    assert!(last < started, "the cut-off leader acted at {last}, the other from {started}");
    println!("the cut-off leader stopped {} ms before the other began", (started - last) / 1_000_000);
    cluster.forget(&namespace).await
}
