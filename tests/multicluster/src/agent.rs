//! Agents on real clusters: the built `kruise-agent manager` as a process of its own, which ends with the value that
//! stands for it.
//!
//! Which program that is, [`programs`] says.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{Arc, PoisonError},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
    sync::{Mutex, OwnedMutexGuard},
};

use crate::{Cluster, eventually, programs};

/// The namespace that agents believe to run in.
pub const NAMESPACE: &str = "kruise-system";

/// An agent for `cluster`, yet to be started.
pub fn agent(cluster: &Cluster) -> Builder {
    Builder {
        cluster: cluster.clone(),
        kubeconfig: cluster.kubeconfig.clone(),
        flags: Vec::new(),
        variables: BTreeMap::new(),
        is_replica: false,
        turn: None,
    }
}

/// How an agent is started.
#[derive(Debug)]
pub struct Builder {
    cluster: Cluster,
    kubeconfig: PathBuf,
    flags: Vec<String>,
    variables: BTreeMap<String, String>,
    is_replica: bool,
    turn: Option<Turn>,
}

impl Builder {
    /// With one more flag: `--cloneset-workers=1`.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// With a variable in its environment.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    /// With the rights of this kubeconfig, not with all.
    #[must_use]
    pub fn kubeconfig(mut self, path: impl Into<PathBuf>) -> Self {
        self.kubeconfig = path.into();
        self
    }

    /// As the only agent of its cluster, by a right that the test has already.
    #[must_use]
    pub fn in_turn(mut self, turn: Turn) -> Self {
        self.turn = Some(turn);
        self
    }

    /// As a further replica beside one that runs. It ends before the first one does.
    #[must_use]
    pub fn replica(mut self) -> Self {
        self.is_replica = true;
        self
    }

    /// Starts it, with our CRDs in the cluster, and waits until it is ready. Webhook configurations are one per cluster,
    /// so an agent that is no replica waits until the agents of other tests on the cluster have ended.
    pub async fn start(self) -> Result<Agent> {
        let turn = match (self.is_replica, self.turn) {
            (true, _) => None,
            (false, Some(turn)) => Some(turn),
            (false, None) => Some(turn(&self.cluster).await),
        };
        self.cluster.install_crds().await?;
        // There from an earlier test, perhaps.
        self.cluster.try_kubectl(&["create", "namespace", NAMESPACE], "")?;
        let mut process = Command::new(programs::agent().await?)
            .arg("manager")
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["--metrics-addr=127.0.0.1:0", "--health-probe-addr=127.0.0.1:0"])
            .args(&self.flags)
            .envs(VARIABLES)
            .env_remove("RUST_LOG")
            .envs(&self.variables)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let log = Log::default();
        let mut lines = BufReader::new(process.stderr.take().context("its log is piped")?).lines();
        let kept = log.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                kept.lines().push(line);
            }
        });
        let mut agent = Agent { cluster: self.cluster, process, log, turn };
        let ready =
            eventually("the agent is ready", async || agent.is_ready().await.map(|it| it.then_some(())));
        match ready.await {
            Ok(()) => Ok(agent),
            Err(error) => Err(error.context(format!("the log of the agent:\n{}", agent.log()))),
        }
    }
}

/// A running agent. It is killed, and its webhook configurations are removed, when this value goes.
#[derive(Debug)]
pub struct Agent {
    cluster: Cluster,
    process: Child,
    log: Log,
    /// Held by the first agent of a cluster.
    turn: Option<Turn>,
}

#[derive(Debug, Clone, Default)]
struct Log(Arc<std::sync::Mutex<Vec<String>>>);

impl Log {
    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Agent {
    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.log.lines().join("\n")
    }

    /// Where it serves admission.
    pub fn webhooks(&self) -> Result<SocketAddr> {
        self.logged(|it| it["message"] == "admission is set up")
    }

    /// What it has counted.
    pub async fn metrics(&self) -> Result<String> {
        let at = self.logged(|it| it["flag"] == "metrics-addr")?;
        Ok(get(at, "/metrics").await?.1)
    }

    /// Whether it leads.
    pub async fn is_leader(&self) -> Result<bool> {
        Ok(self.metrics().await?.lines().any(|it| it == "leader 1"))
    }

    /// Whether it says that it is ready; an error if it has ended.
    pub async fn is_ready(&mut self) -> Result<bool> {
        if let Some(status) = self.process.try_wait()? {
            bail!("the agent ended with {status}; its log:\n{}", self.log());
        }
        let at = self.logged(|it| it["flag"] == "health-probe-addr")?;
        Ok(get(at, "/readyz").await?.0 == 200)
    }

    /// The id of its process.
    pub fn process_id(&self) -> Result<u32> {
        self.process.id().context("it has ended already")
    }

    /// Kills it without a chance to say good-bye.
    pub async fn kill(&mut self) -> Result<()> {
        Ok(self.process.kill().await?)
    }

    /// Asks it to end, and waits.
    pub async fn terminate(&mut self) -> Result<ExitStatus> {
        let id = self.process.id().context("it has ended already")?;
        Command::new("kill").args(["-TERM", &id.to_string()]).status().await?;
        Ok(tokio::time::timeout(crate::PATIENCE, self.process.wait()).await??)
    }

    fn logged(&self, which: impl Fn(&Value) -> bool) -> Result<SocketAddr> {
        address(self.log.lines().iter().map(String::as_str), which)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.start_kill();
        if self.turn.is_some() {
            remove_webhooks(&self.cluster);
        }
    }
}

/// The address in the last of those lines of a log that are `which`.
pub(crate) fn address<'a>(
    lines: impl Iterator<Item = &'a str>,
    which: impl Fn(&Value) -> bool,
) -> Result<SocketAddr> {
    let entries = lines.filter_map(|it| serde_json::from_str::<Value>(it).ok());
    let entry = entries.filter(which).last().context("it has not said yet where it listens")?;
    Ok(entry["address"].as_str().context("an address")?.parse()?)
}

/// Variables of an agent beside a cluster of this machine.
pub const VARIABLES: [(&str, &str); 4] = [
    ("POD_NAMESPACE", NAMESPACE),
    ("WEBHOOK_HOST", "127.0.0.1"),
    ("WEBHOOK_PORT", "0"),
    ("WEBHOOK_CERT_WRITER", "secret"),
];

/// Removes the webhook configurations of an agent that has ended: with nobody to answer, they would refuse every pod of
/// the cluster.
pub fn remove_webhooks(cluster: &Cluster) {
    for phase in ["mutating", "validating"] {
        let kind = format!("{phase}webhookconfiguration");
        let name = format!("kruise-{phase}-webhook-configuration");
        let _ = cluster.kubectl(&["delete", &kind, &name, "--ignore-not-found"]);
    }
}

/// The right to be the only agent of a cluster, until it is dropped.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "it is there to be held")] OwnedMutexGuard<()>);

/// Waits until no other test of this program has an agent on `cluster`.
pub async fn turn(cluster: &Cluster) -> Turn {
    static TURNS: Mutex<BTreeMap<String, Arc<Mutex<()>>>> = Mutex::const_new(BTreeMap::new());
    let turn = TURNS.lock().await.entry(cluster.name.clone()).or_default().clone();
    Turn(turn.lock_owned().await)
}

/// A plain HTTP request: the status and the body.
pub(crate) async fn get(at: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(at).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {at}\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer has a head and a body")?;
    let code = head.split(' ').nth(1).context("an answer has a status")?;
    Ok((code.parse()?, body.to_owned()))
}
