//! A hub on a real API server: the built `kruise-hub` with exactly the rights of `config/rbac/hub`.

use std::{
    os::unix::fs::OpenOptionsExt,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, Result, bail};
use kube::config::Kubeconfig;
use multicluster::{
    Cluster,
    access::{Temporary, apply},
    agent::{Turn, turn},
    eventually, programs,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// The namespace of the hub.
pub(crate) const NAMESPACE: &str = "fleet-system";

/// A running hub. It is killed, and its webhook configurations are removed, when this value goes.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) cluster: Cluster,
    process: Child,
    log: Arc<Mutex<Vec<String>>>,
    _kubeconfig: Temporary,
    _turn: Turn,
}

/// The hub's cluster, while no hub is there.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) cluster: Cluster,
    turn: Turn,
}

impl Ground {
    /// Waits until the hubs of other tests have ended.
    pub(crate) async fn take() -> Result<Self> {
        let cluster = multicluster::cluster("hub");
        let turn = turn(&cluster).await;
        cluster.install_crds().await?;
        apply(&cluster, "rbac/hub")?;
        // Those of a run that was killed lead to nobody, and are not ours to mend.
        remove_webhooks(&cluster);
        Ok(Self { cluster, turn })
    }
}

impl Hub {
    /// Starts a hub once the hubs of other tests have ended, and waits until it leads.
    pub(crate) async fn start(flags: &[&str]) -> Result<Self> {
        Self::start_on(Ground::take().await?, flags).await
    }

    /// Starts a hub, and waits until it leads.
    pub(crate) async fn start_on(Ground { cluster, turn }: Ground, flags: &[&str]) -> Result<Self> {
        apply(&cluster, "webhook/hub")?;
        let kubeconfig = as_account(&cluster, NAMESPACE, "kruise-hub")?;
        let mut process = Command::new(programs::hub().await?)
            .arg("--kubeconfig")
            .arg(&kubeconfig.0)
            .args(["--metrics-addr=127.0.0.1:0", "--health-probe-addr=127.0.0.1:0", "--log-format=text"])
            // It is alone: nobody has to give a lease back first.
            .arg("--enable-leader-election=false")
            .args(flags)
            .envs([("WEBHOOK_HOST", "127.0.0.1"), ("WEBHOOK_PORT", "0"), ("WEBHOOK_CERT_WRITER", "secret")])
            .env("POD_NAMESPACE", NAMESPACE)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut lines = BufReader::new(process.stderr.take().context("its log is piped")?).lines();
        let kept = log.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        let mut hub = Self { cluster, process, log, _kubeconfig: kubeconfig, _turn: turn };
        let started = eventually("the hub controls", async || {
            if let Some(status) = hub.process.try_wait()? {
                bail!("the hub ended with {status}");
            }
            Ok(hub.log().contains("caches are complete").then_some(()))
        });
        started.await.with_context(|| hub.log())?;
        Ok(hub)
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).join("\n")
    }

    /// Has the API server judge an object without storing it: what it says, warnings included.
    pub(crate) fn judge(&self, object: &Value) -> Result<(bool, String)> {
        let arguments = ["create", "--dry-run=server", "--validate=false", "--filename", "-"];
        let output = self.cluster.try_kubectl(&arguments, &object.to_string())?;
        Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    /// Makes an object.
    pub(crate) fn create(&self, object: &Value) -> Result<()> {
        let output = self
            .cluster
            .try_kubectl(&["create", "--validate=false", "--filename", "-"], &object.to_string())?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    /// An object as it is.
    pub(crate) fn get(&self, arguments: &[&str]) -> Result<Value> {
        let text = self.cluster.kubectl(&[&["get", "-o", "json"], arguments].concat())?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Has the API server ask it no more.
    pub(crate) fn open_doors(&self) {
        remove_webhooks(&self.cluster);
    }

    /// Deletes objects, whatever their number.
    pub(crate) fn remove(&self, arguments: &[&str]) {
        let always = ["delete", "--ignore-not-found", "--wait=false"];
        let _ = self.cluster.kubectl(&[&always, arguments].concat());
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.process.start_kill();
        remove_webhooks(&self.cluster);
    }
}

/// With nobody to answer, they would refuse every write of the fleet's kinds.
fn remove_webhooks(cluster: &Cluster) {
    for phase in ["mutating", "validating"] {
        let (kind, name) =
            (format!("{phase}webhookconfiguration"), format!("kruise-hub-{phase}-webhook-configuration"));
        let _ = cluster.kubectl(&["delete", &kind, &name, "--ignore-not-found"]);
    }
}

/// A kubeconfig of `cluster` with another user.
fn with_user(cluster: &Cluster, user: &Value) -> Result<Temporary> {
    static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let mut config = serde_json::to_value(Kubeconfig::read_from(&cluster.kubeconfig)?)?;
    for it in config["users"].as_array_mut().context("a kubeconfig has users")? {
        it["user"] = user.clone();
    }
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("joining-{}-{count}.json", std::process::id());
    private(&name, &config.to_string())
}

/// A file that nobody else reads.
pub(crate) fn private(name: &str, text: &str) -> Result<Temporary> {
    let file = Temporary(std::env::temp_dir().join(name));
    let _ = std::fs::remove_file(&file.0);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    std::io::Write::write_all(&mut options.open(&file.0)?, text.as_bytes())?;
    Ok(file)
}

fn as_account(cluster: &Cluster, namespace: &str, account: &str) -> Result<Temporary> {
    let token = cluster.kubectl(&["create", "token", account, "--namespace", namespace])?;
    with_user(cluster, &json!({ "token": token.trim() }))
}
