//! What is there before anything is measured: clusters, policies, objects and how programs are started.

use std::{
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use anyhow::Result;
use http::Method;
use hub::members::access;
use kruise_core::api;
use lab::{join::Joined, pki::write_private};
use multicluster::{agent::VARIABLES, processes::Running, programs};
use serde_json::{Value, json};
use sim::{
    World,
    nodes::Behaviour,
    serve::Served,
    server::{Settings, store::Retention},
};

use crate::hall::{FLEET, HUB, SHOP};

/// A program of ours: how it is started, where it tells its metrics, and where it logs.
pub(crate) struct Program {
    pub(crate) command: Command,
    pub(crate) metrics: SocketAddr,
    pub(crate) log: PathBuf,
}

impl Program {
    pub(crate) fn start(&self) -> Result<Running> {
        Running::start(&self.command, &self.log)
    }
}

/// A cluster with our kinds, served over HTTPS.
pub(crate) fn add(world: &World, name: &str, folder: &Path) -> Result<(Served, PathBuf)> {
    // All writes of a minute, however many.
    let retention = Retention { age: Duration::from_secs(60), count: 1_000_000 };
    let settings = Settings { retention, ..Settings::default() };
    let cluster = world.add_cluster_with(name, settings, Behaviour::default());
    let crds = if name == HUB { api::crds() } else { api::member_crds() };
    for crd in crds {
        cluster.server().define(&json!(crd)).map_err(|it| anyhow::anyhow!("{}", it.message))?;
    }
    for kind in api::converted_crds() {
        let convert =
            |object: Value, version: &str| api::convert(object, version).map_err(|it| it.to_string());
        cluster.server().convert(&kind, Arc::new(convert));
    }
    let (served, kubeconfig) = (world.serve(name)?, folder.join(format!("{name}.kubeconfig")));
    served.write_kubeconfig(&kubeconfig)?;
    Ok((served, kubeconfig))
}

pub(crate) fn namespace(world: &World, cluster: &str, name: &str) -> Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    put(world, cluster, "/api/v1/namespaces", &body)
}

pub(crate) fn put(world: &World, cluster: &str, folder: &str, body: &Value) -> Result<()> {
    match world.write(cluster, Method::POST, folder, body) {
        Err(failure) if failure.code != 409 => anyhow::bail!("{folder}: {}", failure.message),
        _ => Ok(()),
    }
}

/// What is there after a cluster has joined and its agent has said what it is.
pub(crate) fn enter(world: &World, name: &str, group: usize) -> Result<()> {
    for object in access::granted(name, &access::user(name, "")) {
        let (kind, metadata) = (object["kind"].as_str().unwrap_or_default(), &object["metadata"]);
        let group = match object["apiVersion"].as_str().unwrap_or_default() {
            "v1" => "/api/v1".to_owned(),
            version => format!("/apis/{version}"),
        };
        let place = metadata["namespace"].as_str().map_or_else(String::new, |it| format!("/namespaces/{it}"));
        put(world, HUB, &format!("{group}{place}/{}s", kind.to_lowercase()), &object)?;
    }
    let labels = json!({"group": format!("g{group}")});
    let member = json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "MemberCluster",
        "metadata": {"name": name, "labels": labels},
        "spec": {"clusterUid": format!("uid-of-{name}"), "publicKey": "", "accepted": true},
    });
    put(world, HUB, &format!("{FLEET}/memberclusters"), &member)?;
    let path = format!("{FLEET}/memberclusters/{name}");
    let said = json!({"status": {"apis": ["apps.kruise.io/v1beta1/CloneSet"], "reportedEpoch": 0}});
    for (path, patch) in [(format!("{path}/status"), said), (path, json!({"metadata": {"labels": labels}}))] {
        let written = world.write(HUB, Method::PATCH, &path, &patch);
        written.map_err(|it| anyhow::anyhow!("{path}: {}", it.message))?;
    }
    Ok(())
}

pub(crate) fn policy(group: usize) -> Value {
    let label = json!({"matchLabels": {"group": format!("g{group}")}});
    json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "PlacementPolicy", "metadata": {"name": format!("g{group}")},
        "spec": {
            "targets": [{"kind": "CloneSet", "labelSelector": label}],
            "clusters": {"labelSelector": label},
        },
    })
}

/// A CloneSet with one pod in each of its clusters.
pub(crate) fn object(name: &str, group: usize, replicas: usize) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
        "metadata": {"name": name, "namespace": SHOP, "labels": {"group": format!("g{group}")}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "main", "image": "registry.example/shop/web:1.2.3",
                    "env": [{"name": "SHOP", "value": name}],
                    "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
                    "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
                }]},
            },
        },
    })
}

/// The hub.
pub(crate) async fn hub_command(kubeconfig: &Path, folder: &Path) -> Result<Program> {
    let mut command = Command::new(programs::hub().await?);
    let metrics = free_port()?;
    command
        // Renewals of its lease are no writes that say anything.
        .args(["--health-probe-addr=127.0.0.1:0", "--enable-leader-election=false"])
        .arg(format!("--metrics-addr={metrics}"))
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .envs(VARIABLES.into_iter().filter(|it| it.0 != "POD_NAMESPACE"))
        // The same after a restart, as behind a Service: another one would have to be written into every webhook configuration.
        .env("WEBHOOK_PORT", free_port()?.port().to_string());
    Ok(Program { command, metrics, log: folder.join("hub.log") })
}

/// The agent.
pub(crate) async fn agent_command(kubeconfig: &Path, joined: Joined, folder: &Path) -> Result<Program> {
    let granted = folder.join("agent-on-hub.kubeconfig");
    write_private(&granted, &joined.kubeconfig.to_string())?;
    let mut command = Command::new(programs::agent().await?);
    let metrics = free_port()?;
    command
        .args(["manager", "--health-probe-addr=127.0.0.1:0", "--enable-leader-election=false"])
        .arg(format!("--metrics-addr={metrics}"))
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .arg("--hub-kubeconfig")
        .arg(granted)
        .args(["--hub-uid", &joined.hub_uid])
        .envs(VARIABLES);
    Ok(Program { command, metrics, log: folder.join("agent.log") })
}

fn free_port() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
