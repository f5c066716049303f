//! Ring 3: CloneSets on real API servers, by the ids of the acceptance scenarios.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod admission;
mod claims;
mod create;
mod faults;
mod hooks;
mod operators;
mod partition;
mod predownload;
mod rough;
mod scale;
mod update;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use multicluster::stage::{Setting, merged};
use serde_json::{Value, json};

/// An agent as it comes.
const PLAIN: Setting = Setting { cluster: "m1", flags: &[] };
/// An agent with gates on that are off by default.
const GATED: Setting = Setting {
    cluster: "m2",
    flags: &["--feature-gates=CloneSetPartitionRollback=true,CloneSetShortHash=true,\
              PreDownloadImageForInPlaceUpdate=true,ResourcesDeletionProtection=true"],
};

/// The base manifest of the scenarios, with `spec` merged into its spec.
fn cs_demo(spec: Value) -> Value {
    let base = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": {"name": "cs-demo"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "cs"}},
            "template": {
                "metadata": {"labels": {"app": "cs"}},
                "spec": {"containers": [container("nginx:alpine")]},
            },
        },
    });
    merged(&base, &json!({"spec": spec}))
}

/// The one container of the base manifest.
fn container(image: &str) -> Value {
    json!({
        "name": "nginx", "image": image, "imagePullPolicy": "IfNotPresent", "ports": [{"containerPort": 80}],
    })
}

/// The part of a spec that gives its container another image.
fn image(image: &str) -> Value {
    json!({"template": {"spec": {"containers": [container(image)]}}})
}

/// The image of a pod's first container.
fn image_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|it| it.containers.first()?.image.as_deref()).unwrap_or_default()
}

/// How often a pod's first container was restarted.
fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.iter().flat_map(|it| it.container_statuses.iter().flatten());
    statuses.map(|it| it.restart_count).next().unwrap_or_default()
}

/// A condition's status.
fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a str> {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.filter(|it| it.type_ == kind).map(|it| it.status.as_str()).next()
}

/// Where a pod is in its life.
fn state(pod: &Pod) -> &str {
    pod.labels().get("lifecycle.apps.kruise.io/state").map_or("", String::as_str)
}

/// The revision a pod says it has.
fn revision(pod: &Pod) -> &str {
    pod.labels().get("controller-revision-hash").map_or("", String::as_str)
}

/// Uids, in the order of names.
fn uids(pods: &[Pod]) -> Vec<String> {
    pods.iter().filter_map(ResourceExt::uid).collect()
}
