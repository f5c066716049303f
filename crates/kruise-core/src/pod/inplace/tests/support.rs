//! A pod as JSON, and what the API server makes of our patches.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    pod::{
        inplace::{Context, Start, UpdateSpec, UpdateState, update},
        lifecycle::State,
        patch::{Part, PodPatch},
    },
    runtime::cache::pod::PodLite,
};

pub(super) const STATE: &str = "apps.kruise.io/inplace-update-state";
pub(super) const GRACE: &str = "apps.kruise.io/inplace-update-grace";

/// Ten o'clock and so many seconds.
pub(super) fn at(seconds: i64) -> Context {
    let start: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
    let now = Timestamp::from_second(start.as_second() + seconds).unwrap();
    Context { now, vertical_scaling: false, server_resizes: true }
}

pub(super) fn time(seconds: i64) -> String {
    crate::pod::readiness::rfc3339(at(seconds).now)
}

pub(super) fn read(pod: &Value) -> PodLite {
    serde_json::from_value(pod.clone()).unwrap()
}

pub(super) fn state(pod: &Value) -> UpdateState {
    UpdateState::of(&read(pod)).unwrap().unwrap()
}

/// A running container: its spec and its status.
pub(super) fn container(name: &str, image: &str) -> (Value, Value) {
    (
        json!({"name": name, "image": image, "env": []}),
        json!({
            "name": name, "image": image, "imageID": format!("id:{image}"), "containerID": format!("{name}-0"),
            "ready": true, "restartCount": 0, "state": {"running": {"startedAt": time(-3600)}},
        }),
    )
}

/// A running pod with the readiness gate of in-place updates.
pub(super) fn pod(containers: Vec<(Value, Value)>) -> Value {
    let (specs, statuses): (Vec<_>, Vec<_>) = containers.into_iter().unzip();
    json!({
        "metadata": {
            "name": "a", "uid": "u", "labels": {"app": "x", "controller-revision-hash": "set-old"},
            "annotations": {"keep": "me"}, "finalizers": ["other"],
        },
        "spec": {"nodeName": "n", "containers": specs, "readinessGates": [{"conditionType": "InPlaceUpdateReady"}]},
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"},
                {"type": "InPlaceUpdateReady", "status": "True"},
            ],
            "containerStatuses": statuses,
        },
    })
}

pub(super) fn env_from(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
}

pub(super) fn barrier(priority: i64) -> Value {
    json!({
        "name": "KRUISE_CONTAINER_BARRIER",
        "valueFrom": {"configMapKeyRef": {"name": "a-barrier", "key": format!("p_{priority}")}},
    })
}

pub(super) fn condition(pod: &Value, kind: &str) -> Value {
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|it| it["type"] == kind).cloned().unwrap_or_default()
}

pub(super) fn image(pod: &Value, name: &str) -> String {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    containers.iter().find(|it| it["name"] == name).unwrap()["image"].as_str().unwrap().to_owned()
}

/// An update of images.
pub(super) fn images(images: &[(&str, &str)]) -> UpdateSpec {
    UpdateSpec {
        revision: "set-new".into(),
        container_images: images.iter().map(|(name, image)| ((*name).into(), (*image).into())).collect(),
        ..UpdateSpec::default()
    }
}

pub(super) fn begin(pod: &Value, spec: &UpdateSpec, ctx: &Context) -> Vec<PodPatch> {
    let labels = BTreeMap::from([
        ("controller-revision-hash".to_owned(), "set-new".to_owned()),
        ("pod-template-hash".to_owned(), "new".to_owned()),
    ]);
    update(&read(pod), spec, &Start { labels: &labels, state: Some(State::Updating) }, ctx)
}

pub(super) fn started(pod: &mut Value, spec: &UpdateSpec) {
    let patches = begin(pod, spec, &at(0));
    send(pod, &patches);
}

/// The container runs its new image and is ready.
pub(super) fn run(pod: &mut Value, index: usize) {
    let image = pod["spec"]["containers"][index]["image"].as_str().unwrap().to_owned();
    let status = &mut pod["status"]["containerStatuses"][index];
    status["image"] = json!(image);
    status["imageID"] = json!(format!("id:{image}"));
    status["ready"] = json!(true);
}

/// Sends patches, checking that each stays in its part of the pod.
pub(super) fn send(pod: &mut Value, patches: &[PodPatch]) {
    for patch in patches {
        let fields: Vec<&str> = patch.body.as_object().unwrap().keys().map(String::as_str).collect();
        match patch.part {
            Part::Main => assert!(fields.iter().all(|it| ["metadata", "spec"].contains(it)), "{fields:?}"),
            Part::Status => assert_eq!(fields, ["status"]),
            Part::Resize => assert_eq!(fields, ["spec"]),
        }
        merge(pod, &patch.body, "");
    }
}

/// A strategic merge patch, as far as we use them.
fn merge(target: &mut Value, patch: &Value, field: &str) {
    match (patch, field) {
        (Value::Object(changes), _) => {
            if !target.is_object() {
                *target = json!({});
            }
            for (key, value) in changes {
                if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
                    let gone = value.as_array().unwrap();
                    target[list].as_array_mut().unwrap().retain(|it| !gone.contains(it));
                } else if key.starts_with("$setElementOrder/") {
                } else if value.is_null() {
                    target.as_object_mut().unwrap().remove(key);
                } else {
                    merge(&mut target[key], value, key);
                }
            }
        }
        (Value::Array(items), "containers") => merge_list(target, items, "name"),
        (Value::Array(items), "conditions") => merge_list(target, items, "type"),
        (Value::Array(items), "finalizers") => {
            let there = target.as_array().cloned().unwrap_or_default();
            let added = items.iter().filter(|it| !there.contains(it)).cloned();
            *target = there.iter().cloned().chain(added).collect();
        }
        (other, _) => *target = other.clone(),
    }
}

fn merge_list(target: &mut Value, items: &[Value], key: &str) {
    if !target.is_array() {
        *target = json!([]);
    }
    let there = target.as_array_mut().unwrap();
    for item in items {
        match there.iter_mut().find(|it| it[key] == item[key]) {
            Some(existing) => merge(existing, item, ""),
            None => there.push(item.clone()),
        }
    }
}
