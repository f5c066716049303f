//! Ring 3: agents on real API servers.

mod replicas;
mod rights;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::PostParams};
use multicluster::Cluster;
use serde_json::{Value, json};

/// A pod whose two containers start one after the other, if they start at all: no node is good enough for it.
fn ordered_pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name,
            "annotations": { "apps.kruise.io/container-launch-priority": "Ordered" },
        },
        "spec": {
            "nodeSelector": { "fleet.test/nowhere": "true" },
            "containers": [{ "name": "first", "image": "lab/web:1" }, { "name": "second", "image": "lab/web:1" }],
        },
    })
}

/// Has `pod` admitted, and stored unless it is a rehearsal.
async fn create(cluster: &Cluster, namespace: &str, pod: &Value, rehearsal: bool) -> Result<Pod> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, namespace);
    let params = PostParams { dry_run: rehearsal, ..PostParams::default() };
    Ok(pods.create(&params, &serde_json::from_value(pod.clone())?).await?)
}

/// Whether admission by us has seen `pod`.
fn is_ours(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|it| &it.containers);
    containers.flat_map(|it| it.env.iter().flatten()).any(|it| it.name == "KRUISE_CONTAINER_BARRIER")
}

/// The status of the condition `kind` of `pod`.
fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a str> {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.filter(|it| it.type_ == kind).map(|it| it.status.as_str()).next()
}
