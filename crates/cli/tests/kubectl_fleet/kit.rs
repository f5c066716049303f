//! Running the program, and clusters that only exist on the hub.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use multicluster::{Cluster, cluster, eventually};
use serde_json::{Value, json};

/// How the program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn json(&self) -> Result<Value> {
        ensure!(self.code == 0 || self.code == 2, "{self:?}");
        serde_json::from_str(&self.out).with_context(|| format!("{self:?}"))
    }
}

/// The hub, and `kubectl fleet` for it.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) hub: Cluster,
}

impl Fleet {
    /// With every kind served, and the hub's own namespace.
    pub(crate) async fn new() -> Result<Self> {
        let hub = cluster("hub");
        hub.install_crds().await?;
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "fleet-system" } });
        let this = Self { hub };
        this.apply(&namespace)?;
        // A kind that was made just now is established before its storage answers.
        let kinds = "memberclusters,joinrequests,placementpolicies,clusterplacementpolicies,fleetbindings,assignments,clonesets";
        eventually("every kind is served", async || {
            Ok(Some(this.hub.kubectl(&["get", kinds, "--all-namespaces", "--output=name"])?))
        })
        .await?;
        Ok(this)
    }

    /// Runs the program.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Ended> {
        self.run_with(arguments, "")
    }

    /// Runs the program with something to read.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &str) -> Result<Ended> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kubectl-fleet"))
            .args(arguments)
            .env("KUBECONFIG", &self.hub.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stdin = child.stdin.take().context("its input is piped")?;
        // One that has ended does not read nothing.
        if !input.is_empty() {
            stdin.write_all(input.as_bytes())?;
        }
        drop(stdin);
        let output = child.wait_with_output()?;
        Ok(Ended {
            code: output.status.code().context("it was killed")?,
            out: String::from_utf8(output.stdout)?,
            err: String::from_utf8(output.stderr)?,
        })
    }

    /// Applies an object.
    pub(crate) fn apply(&self, object: &Value) -> Result<()> {
        let output = self.hub.try_kubectl(&["apply", "--filename", "-"], &object.to_string())?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Writes what a hub would write.
    pub(crate) fn answer(&self, kind: &str, name: &str, status: &Value) -> Result<()> {
        let patch = json!({ "status": status }).to_string();
        self.hub
            .kubectl(&["patch", kind, name, "--subresource=status", "--type=merge", "--patch", &patch])
            .map(drop)
    }

    /// An object of the hub.
    pub(crate) fn get(&self, arguments: &[&str]) -> Result<Value> {
        let text =
            self.hub.kubectl(&[&["get", "--output=json", "--ignore-not-found"], arguments].concat())?;
        Ok(if text.is_empty() { Value::Null } else { serde_json::from_str(&text)? })
    }

    /// A cluster that has reported.
    pub(crate) fn member(&self, name: &str) -> Result<()> {
        self.apply(&json!({
            "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "MemberCluster", "metadata": { "name": name },
            "spec": { "clusterUid": name, "publicKey": "key", "accepted": true },
        }))?;
        let status = json!({ "state": "Ready", "apis": ["apps.kruise.io/v1beta1/CloneSet"] });
        self.answer("membercluster", name, &status)
    }

    /// Deletes what is not in a namespace of the test's own.
    pub(crate) fn forget(&self, kind: &str, names: &[String]) -> Result<()> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.hub
            .kubectl(&[&["delete", "--ignore-not-found", "--wait=false", kind], &names[..]].concat())
            .map(drop)
    }
}

/// A name that no other run has.
pub(crate) fn unique(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}
