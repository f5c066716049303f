//! What is read of the objects in the API server, independently of the controller's own types.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kruise_core::{
    api::{
        cloneset::{keys::INSTANCE_ID, v1beta1::CloneSet},
        common::keys,
    },
    controllers::cloneset::plan::limits::Limits,
};
use serde_json::{Value, json};
use sim::{
    World,
    server::{Cluster, object::Stored},
};

use crate::kit::CLUSTER;

pub(super) const SET: &str = "web";
const WRITTEN: [&str; 5] = [
    "pods",
    "persistentvolumeclaims",
    "controllerrevisions.apps",
    "clonesets.apps.kruise.io",
    "imagepulljobs.apps.kruise.io",
];
/// The label that holds pods back before their deletion, where the CloneSet has a hook for it.
pub(super) const HOOK: &str = "hook";
pub(super) const SETS: &str = "/apis/apps.kruise.io/v1beta1/namespaces/default/clonesets";

/// What a release is about: image and environment. Two templates with the same are one revision.
pub(super) fn release(template_or_pod: &Value) -> String {
    let container = &template_or_pod["spec"]["containers"][0];
    format!("{} {}", container["image"].as_str().unwrap_or_default(), container["env"][0]["value"])
}

/// A pod of the CloneSet.
#[derive(Debug, Clone)]
pub(super) struct Pod {
    pub(super) version: u64,
    pub(super) uid: String,
    pub(super) name: String,
    pub(super) id: String,
    pub(super) release: String,
    /// Neither ended nor on its way out.
    pub(super) is_active: bool,
    /// On its way out, or held back before that.
    pub(super) is_leaving: bool,
    pub(super) is_marked: bool,
    /// The lifecycle state.
    state: String,
    /// The claims that it mounts.
    pub(super) claims: Vec<String>,
    /// Since when it serves.
    pub(super) serves_since: Option<Timestamp>,
}

impl Pod {
    pub(super) fn read(stored: &Stored) -> Self {
        let value = stored.value();
        let label = |name: &str| value["metadata"]["labels"][name].as_str().unwrap_or_default().to_owned();
        let conditions = value["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition = |name: &str| conditions.iter().find(|it| it["type"] == name);
        let phase = value["status"]["phase"].as_str().unwrap_or_default();
        let is_active =
            value["metadata"]["deletionTimestamp"].is_null() && !matches!(phase, "Failed" | "Succeeded");
        let state = label(keys::LIFECYCLE_STATE);
        let is_updating = condition(keys::CONDITION_INPLACE_UPDATE_READY)
            .is_some_and(|it| it["status"] != "True")
            || !matches!(&*state, "" | "Normal");
        let volumes = value["spec"]["volumes"].as_array().into_iter().flatten();
        let claims = volumes.filter_map(|it| it["persistentVolumeClaim"]["claimName"].as_str());
        let ready = condition("Ready").filter(|it| it["status"] == "True");
        let since = ready.and_then(|it| it["lastTransitionTime"].as_str()?.parse().ok());
        Self {
            version: stored.version,
            uid: stored.uid.to_string(),
            name: stored.name.to_string(),
            id: label(INSTANCE_ID),
            release: release(&value),
            is_active,
            is_leaving: !is_active || state == "PreparingDelete",
            is_marked: !value["metadata"]["labels"][keys::SPECIFIED_DELETE].is_null(),
            state,
            claims: claims.map(str::to_owned).collect(),
            serves_since: since.filter(|_| is_active && !is_updating && phase == "Running"),
        }
    }

    /// One line for a person.
    pub(super) fn told(&self) -> String {
        let Self { version, name, release, is_active, is_marked, state, serves_since, .. } = self;
        let serves =
            serves_since.map_or_else(|| "does not serve".to_owned(), |it| format!("serves since {it}"));
        let words = [(!is_active, "on its way out"), (*is_marked, "marked")];
        let words: Vec<&str> = words.iter().filter(|it| it.0).map(|it| it.1).collect();
        format!("{name} @{version} at {release}, {state}, {serves} {}", words.join(", "))
    }

    pub(super) fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        let wait = SignedDuration::from_secs(min_ready_seconds.into());
        self.serves_since.is_some_and(|it| min_ready_seconds == 0 || it + wait < now)
    }
}

/// The CloneSet as it was at one version.
#[derive(Debug, Clone)]
pub(super) struct Set {
    pub(super) version: u64,
    pub(super) limits: Limits,
    pub(super) release: String,
    /// The name of the revision that pods come from, if that is settled.
    pub(super) current: Option<String>,
    pub(super) object: CloneSet,
}

impl Set {
    /// Whether somebody has named this pod for deletion.
    pub(super) fn names(&self, pod: &str) -> bool {
        self.object.spec.scale_strategy.pods_to_delete.iter().any(|it| it == pod)
    }

    pub(super) fn read(stored: &Stored) -> Self {
        let object: CloneSet = stored.read().unwrap();
        let current = object.status.as_ref().map(|it| it.current_revision.clone());
        Self {
            version: stored.version,
            limits: Limits::of(&object.spec),
            release: release(&object.spec.template),
            current: current.filter(|it| !it.is_empty()),
            object,
        }
    }
}

/// A claim template of which every pod has its own.
pub(super) fn claim_template() -> Value {
    json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

pub(super) fn set(world: &World) -> Option<Set> {
    let stored = world.cluster(CLUSTER).server().get("clonesets.apps.kruise.io", "default", SET)?;
    Some(Set::read(&stored))
}

pub(super) fn pods(world: &World) -> Vec<Pod> {
    world.cluster(CLUSTER).server().list("pods").iter().map(|it| Pod::read(it)).collect()
}

/// The names of pods that a hook holds back before their deletion.
pub(super) fn held_back(world: &World) -> Vec<String> {
    let all = world.cluster(CLUSTER).server().list("pods");
    let has =
        |it: &Stored, key: &str, value: &str| it.labels.iter().any(|it| (&*it.0, &*it.1) == (key, value));
    let is_held = |it: &Stored| has(it, keys::LIFECYCLE_STATE, "PreparingDelete") && has(it, HOOK, "on");
    all.iter().filter(|it| is_held(it)).map(|it| it.name.to_string()).collect()
}

/// The releases that revisions record, by name.
pub(super) fn revisions(world: &World) -> BTreeMap<String, String> {
    let all = world.cluster(CLUSTER).server().list("controllerrevisions.apps");
    all.iter().map(|it| (it.name.to_string(), release(&it.value()["data"]["spec"]["template"]))).collect()
}

/// The names of volume claims and the instances that they are for; claims on their way out are left out.
pub(super) fn claims(world: &World) -> BTreeMap<String, String> {
    let all = world.cluster(CLUSTER).server().list("persistentvolumeclaims");
    let living = all.iter().map(|it| it.value()).filter(|it| it["metadata"]["deletionTimestamp"].is_null());
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    living.map(|it| (text(&it["metadata"]["name"]), text(&it["metadata"]["labels"][INSTANCE_ID]))).collect()
}

/// Changes with every change of pods and claims: how many there are, and the newest version.
pub(super) fn stamp(server: &Cluster) -> Vec<(usize, u64)> {
    let of = |table: &str| {
        let all = server.list(table);
        (all.len(), all.iter().map(|it| it.version).max().unwrap_or_default())
    };
    ["pods", "persistentvolumeclaims"].map(of).into()
}

/// Everything that the controller may write, with versions.
pub(super) fn written(world: &World) -> Vec<String> {
    let server = world.cluster(CLUSTER).server().clone();
    let of = |table: &str| {
        let all = server.list(table);
        all.iter().map(|it| format!("{table}/{} {}", it.name, it.version)).collect::<Vec<_>>()
    };
    WRITTEN.iter().flat_map(|it| of(it)).collect()
}

/// A CloneSet whose spec is changed by `spec`.
pub(super) fn cloneset(spec: &Value) -> Value {
    let mut whole = json!({
        "replicas": 3,
        "selector": {"matchLabels": {"app": SET}},
        "template": template("web:1", 1),
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "ReCreate"}},
    });
    merge(&mut whole, spec);
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": SET}, "spec": whole,
    })
}

/// A template with this image and environment, with the gate that the pod webhook adds.
pub(super) fn template(image: &str, env: u64) -> Value {
    json!({
        "metadata": {"labels": {"app": SET, HOOK: "on"}},
        "spec": {
            "readinessGates": [{"conditionType": keys::CONDITION_KRUISE_POD_READY}],
            "containers": [
                {"name": "main", "image": image, "env": [{"name": "NUMBER", "value": env.to_string()}]},
            ],
        },
    })
}

/// RFC 7396, for objects.
fn merge(into: &mut Value, patch: &Value) {
    match (into.as_object_mut(), patch.as_object()) {
        (Some(fields), Some(patch)) => {
            for (key, value) in patch {
                merge(fields.entry(key).or_insert(Value::Null), value);
            }
        }
        _ => into.clone_from(patch),
    }
}
