//! One file per question: what is filled in, what is refused (of it the update strategy apart), what is warned of, and how reviews answer.

mod defaults;
mod rejects;
mod reviews;
mod strategy;
mod warnings;

use serde_json::{Value, json};

use super::{Context, PodFacts, validate};
use crate::{admission::Version, runtime::webhook::FieldError};

const BOTH: [Version; 2] = [Version::V1Alpha1, Version::V1Beta1];

/// A good CloneSet with its defaults.
fn cloneset(version: Version) -> Value {
    let numbers = json!({"partition": 0, "maxUnavailable": "20%", "maxSurge": 0});
    let (api_version, strategy) = match version {
        Version::V1Alpha1 => ("apps.kruise.io/v1alpha1", with(numbers, "/type", json!("ReCreate"))),
        Version::V1Beta1 => {
            let rolling = with(numbers, "/podUpdatePolicy", json!("ReCreate"));
            ("apps.kruise.io/v1beta1", json!({"type": "RollingUpdate", "rollingUpdate": rolling}))
        }
    };
    json!({
        "apiVersion": api_version, "kind": "CloneSet",
        "metadata": {"name": "foo", "namespace": "ns", "uid": "me"},
        "spec": {
            "replicas": 5, "revisionHistoryLimit": 10, "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "i:1", "resources": {}}], "restartPolicy": "Always"},
            },
            "updateStrategy": strategy,
        },
    })
}

/// The object with one value set; objects on the way are made.
fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let mut it = &mut object;
    for name in pointer.split('/').skip(1) {
        it = match name.parse::<usize>() {
            Ok(index) => &mut it[index],
            Err(_) => &mut it[name],
        };
    }
    *it = value;
    object
}

/// The pointer of a field of a rolling update.
fn rolling(version: Version, field: &str) -> String {
    match version {
        Version::V1Alpha1 => format!("/spec/updateStrategy/{field}"),
        Version::V1Beta1 => format!("/spec/updateStrategy/rollingUpdate/{field}"),
    }
}

/// The pointer of the way of updating one pod.
fn policy(version: Version) -> String {
    match version {
        Version::V1Alpha1 => "/spec/updateStrategy/type".to_owned(),
        Version::V1Beta1 => rolling(version, "podUpdatePolicy"),
    }
}

fn path(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

/// Pods as a cluster might have them.
fn pod(name: &str) -> Option<PodFacts> {
    let facts =
        |is_terminating, controller: &str| PodFacts { is_terminating, controller: Some(controller.into()) };
    match name {
        "foo-a" | "foo-b" => Some(facts(false, "me")),
        "foo-leaving" => Some(facts(true, "me")),
        "bar-a" => Some(facts(false, "other")),
        "orphan" => Some(PodFacts { is_terminating: false, controller: None }),
        _ => None,
    }
}

fn faults(new: &Value, old: Option<&Value>, version: Version) -> Vec<FieldError> {
    validate(new, old, version, &Context { pods: Some(&pod) })
}

#[track_caller]
fn assert_good(new: &Value, old: Option<&Value>, version: Version) {
    let faults = faults(new, old, version);
    let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert!(told.is_empty(), "{version:?}: {told:?}");
}

/// Exactly one fault, in this field, whose text contains this.
#[track_caller]
fn assert_fault(new: &Value, old: Option<&Value>, version: Version, path: &str, text: &str) {
    let faults = faults(new, old, version);
    let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert!(
        faults.len() == 1 && faults[0].path == path && told[0].contains(text),
        "{version:?} {path}: {told:?}"
    );
}
