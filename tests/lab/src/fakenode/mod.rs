//! Nodes without machines: node objects with heartbeats, and pods that claim to run.
//!
//! Unlike a stand-in that sets every pod to Running once, this one follows changes the way a kubelet does: a changed
//! image restarts its container (a new container id and image id, one restart more), a resize shows up in the status,
//! readiness gates hold the pod back, and a deleted pod goes away. Tests of in-place updates depend on it.

mod status;

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Result, bail};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const MANAGER: &str = "lab-fake-kubelet";
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Keeps nodes named `names` alive in the cluster of `client` until told to stop.
pub async fn run(client: Client, names: Vec<String>, stop: CancellationToken) -> Result<()> {
    for name in &names {
        register(&client, name).await?;
    }
    tokio::select! {
        () = beat(&client, &names) => bail!("the heartbeats ended"),
        () = follow(&client, &names) => bail!("the watch of pods ended"),
        () = stop.cancelled() => Ok(()),
    }
}

#[expect(clippy::disallowed_methods, reason = "a node lives in real time")]
fn now() -> Timestamp {
    Timestamp::now()
}

async fn register(client: &Client, name: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "fleet.kruise.io/fake": "true",
        }},
    });
    nodes.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&node)).await?;
    let resources = json!({"cpu": "32", "memory": "64Gi", "pods": "1000", "ephemeral-storage": "100Gi"});
    let status = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {
            "capacity": resources, "allocatable": resources,
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {
                "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "fake", "osImage": "fake",
                "containerRuntimeVersion": "fake://1", "kubeletVersion": "v1.34.4", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64",
            },
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "a fake node is always ready",
                "lastHeartbeatTime": now(), "lastTransitionTime": now(),
            }],
        },
    });
    nodes.patch_status(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&status)).await?;
    Ok(())
}

async fn beat(client: &Client, names: &[String]) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    loop {
        for name in names {
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
                "spec": {
                    "holderIdentity": name, "leaseDurationSeconds": 40,
                    "renewTime": format!("{:.6}", now()),
                },
            });
            let renewed =
                leases.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&lease)).await;
            if let Err(error) = renewed {
                eprintln!("fake node {name}: heartbeat failed: {error}");
            }
        }
        tokio::time::sleep(HEARTBEAT).await;
    }
}

async fn follow(client: &Client, names: &[String]) {
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let pods: Api<Pod> = Api::all(client.clone());
    let scheduled = watcher::Config::default().fields("spec.nodeName!=");
    // A broken watch is an item of the stream, not its end: the next item comes after a new list.
    let changes = watcher(pods, scheduled).default_backoff().applied_objects();
    changes
        .for_each_concurrent(16, |change| async {
            match change {
                Ok(pod) => {
                    let node = pod.spec.as_ref().and_then(|it| it.node_name.as_deref());
                    if node.is_some_and(|it| names.contains(it)) {
                        serve_patiently(client, &pod).await;
                    }
                }
                Err(error) => eprintln!("fake kubelet: the watch broke: {error}"),
            }
        })
        .await;
}

/// A pod whose status could not be written would else wait for its next change, which may never come.
async fn serve_patiently(client: &Client, pod: &Pod) {
    for wait in [1, 2, 4, 8, 16] {
        match serve(client, pod).await {
            Ok(()) => return,
            Err(error) => eprintln!("fake kubelet: {}: {error:#}; again in {wait} s", pod.name_any()),
        }
        tokio::time::sleep(Duration::from_secs(wait)).await;
    }
}

async fn serve(client: &Client, pod: &Pod) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    if pod.metadata.deletion_timestamp.is_some() {
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions { uid: pod.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        return ignore_absent(pods.delete(&pod.name_any(), &params).await.map(|_| ()));
    }
    if let Some(status) = status::due(pod, now()) {
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": status});
        let written =
            pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(&patch)).await;
        return ignore_absent(written.map(|_| ()));
    }
    Ok(())
}

fn ignore_absent(result: kube::Result<()>) -> Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        other => Ok(other?),
    }
}
