//! Assignment: one object's share for one cluster, and what the cluster says about it.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::{
    ByteString,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::{CustomResource, core::Duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Counts, FederatedObject, PatchStep, Slice,
    policy::{DeletionPolicy, DriftPolicy, ImageRegistry, WhenExists},
};
use crate::api::{
    columns::{Column, integer, text},
    common::is_default,
    schema,
};

/// What `kubectl get` shows.
pub(crate) const COLUMNS: [Column; 6] = [
    text("OBJECT", ".spec.object.name"),
    integer("SEQ", ".spec.seq"),
    integer("ACKED", ".status.appliedSeq"),
    integer("R", ".spec.slice.cloneSet.replicas"),
    integer("U", ".spec.slice.cloneSet.updated"),
    text("STATE", ".status.state"),
];

/// What one cluster should do with one object. The pair of term and seq only grows.
#[derive(CustomResource, JsonSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "fleet.kruise.io",
    version = "v1alpha1",
    kind = "Assignment",
    plural = "assignments",
    shortname = "asg",
    category = "fleet",
    namespaced,
    status = "AssignmentStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Assignment is one object's share for one cluster, in that cluster's own namespace."
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.term > oldSelf.term || (self.term == oldSelf.term && self.seq >= oldSelf.seq)",
    "message": "the plan is older than the one that is there (term, seq)"
}]))]
pub struct AssignmentSpec {
    /// The object on the hub.
    pub object: FederatedObject,
    /// Leadership term of the hub that made the plan.
    pub term: u64,
    /// Number of the plan.
    pub seq: u64,
    /// Epoch of the cluster that the plan is for.
    pub epoch: u64,
    /// What to do with the object.
    #[serde(default)]
    pub intent: Intent,
    /// The revision that the member object is made from. A cluster that does not get the fleet's target yet has the
    /// stable one here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<RevisionRef>,
    /// The revision last released everywhere: pods that may not carry the target keep it, or get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable: Option<RevisionRef>,
    /// The cluster's numbers; absent if the object is to go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Slice>,
    /// Changes to the body in this cluster, applied before the numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub overrides: Vec<PatchStep>,
    /// Registries that images come from instead, in this cluster: each image by the first that fits, after the overrides. They
    /// are no overrides, because target and stable revision have different images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4096))]
    pub image_registries: Vec<ImageRegistry>,
    /// What to do with an object of the same name that is already there.
    #[serde(default)]
    pub when_exists: WhenExists,
    /// What to do when somebody else changes the member object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub drift: DriftPolicy,
    /// What becomes of the member object when the hub's object is deleted.
    #[serde(default)]
    pub deletion: DeletionPolicy,
    /// How long the agent may go without the hub before it stops the object's pods; for ever if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub fence_after: Option<Duration>,
    /// Pods to answer with the cluster's room for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_question: Option<CapacityQuestion>,
    /// Names of pods whose cluster is looked for, because the user wants them deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub pods_asked: Vec<String>,
    /// Secrets for the registry that a job names. They are here and not in the body, because every cluster may read bodies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub pull_secrets: Vec<PullSecret>,
}

/// A Secret for the registry, on its way to one cluster.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PullSecret {
    /// Its name on the hub, by which the body names it. The member has it under another one.
    pub name: String,
    /// Its type: `kubernetes.io/dockerconfigjson` or `kubernetes.io/dockercfg`.
    #[serde(rename = "type")]
    pub type_: String,
    /// What it says.
    #[schemars(schema_with = "schema::bytes")]
    pub data: BTreeMap<String, ByteString>,
}

impl PullSecret {
    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.data.iter().map(|(key, value)| key.len() + value.0.len()).sum()
    }
}

impl fmt::Debug for PullSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it says is never printed (SEC-3).
        let Self { name, type_, data: _ } = self;
        f.debug_struct("PullSecret").field("name", name).field("type", type_).finish_non_exhaustive()
    }
}

/// What a cluster should do with an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Intent {
    /// Keep it as the plan says.
    #[default]
    Apply,
    /// Let go of it and leave it running.
    Orphan,
    /// Delete it.
    Delete,
    /// Nothing but answer the capacity question: the cluster has no share. The number of such a plan is 0, so that every share
    /// comes after it.
    Ask,
}

/// A FleetRevision.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct RevisionRef {
    /// Namespace of the FleetRevision; `fleet-content` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the FleetRevision.
    pub name: String,
    /// Hash of the fields that make a revision in a member: 16 hexadecimal digits.
    #[schemars(length(max = 16))]
    pub hash: String,
}

/// Pods whose room in the cluster is asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityQuestion {
    /// Which question it is; the answer names it.
    #[schemars(length(max = 64))]
    pub id: String,
    /// Requests, selectors and tolerations, as in a pod's spec.
    #[schemars(schema_with = "schema::raw_object")]
    pub pod: Value,
    /// Room beyond this many pods makes no difference and is not told; without a limit all of it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<u32>,
}

/// What a cluster says about its share. Counts are read after the member's controller has seen the applied slice.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssignmentStatus {
    /// Which start of the agent reports.
    pub incarnation: u64,
    /// Number of the report; only grows.
    pub report: u64,
    /// When the report was made, by the member's clock. For people; nothing is decided by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_at: Option<Time>,
    /// Term of the plan that was applied.
    #[serde(default)]
    pub applied_term: u64,
    /// Number of the plan that was applied.
    #[serde(default)]
    pub applied_seq: u64,
    /// Epoch of the plan that was applied.
    #[serde(default)]
    pub epoch: u64,
    /// The newest epoch that the agent knows its cluster to be in.
    #[serde(default)]
    pub known_epoch: u64,
    /// Generation of the member object that the plan led to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub generation: i64,
    /// Generation of the member object that its controller has seen.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// The slice that was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Slice>,
    /// The target that was applied; counts of updated pods are about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<RevisionRef>,
    /// The stable revision that was applied; counts of stable pods are about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable: Option<RevisionRef>,
    /// What the cluster has.
    #[serde(default, skip_serializing_if = "is_default")]
    pub counts: Counts,
    /// Pods at the target revision that crash, cannot get their image, or failed an update in place.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failing: u32,
    /// Names of the revisions in the member.
    #[serde(default, skip_serializing_if = "is_default")]
    pub revisions: LocalRevisions,
    /// The answer to the capacity question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacityAnswer>,
    /// The answer to the names of pods asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodsAnswer>,
    /// Whether a job is over in this cluster: its counts are the last ones.
    #[serde(default, skip_serializing_if = "is_default")]
    pub completed: bool,
    /// Paths at which the member object differs from what was applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub drift: Vec<String>,
    /// Field managers besides the agent's that have claimed one of those paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    pub drifted_by: Vec<String>,
    /// What somebody else changed and the agent put right. Told at most once a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected: Option<Corrected>,
    /// Whether the member object was there before the fleet and was taken over.
    #[serde(default, skip_serializing_if = "is_default")]
    pub adopted: bool,
    /// Nodes or namespaces that could not be served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub failures: Vec<String>,
    /// Whether every node would stop the object's pods by itself when the agent falls silent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fence_covered: bool,
    /// Where the share stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ShareState>,
    /// Aspects of the share's state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Changes by somebody else that were undone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Corrected {
    /// How often, since the share is there.
    pub count: u64,
    /// The paths that were put right since the report before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub paths: Vec<String>,
    /// Field managers that had claimed them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    pub by: Vec<String>,
}

/// Names of revisions in a member. They are never compared across clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalRevisions {
    /// The revision that pods are being updated from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub current: String,
    /// The revision that pods are being updated to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub update: String,
}

/// A cluster's room for the pods asked about.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityAnswer {
    /// The question that is answered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub question: String,
    /// Pods that would be scheduled now, besides those that are. Large numbers are rounded down.
    pub fit_now: u32,
    /// Pods that nodes could hold if they were empty. Large numbers are rounded down.
    pub schedulable: u32,
    /// When it was counted, by the member's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Time>,
}

/// Which of the pods asked for are pods of the object in this cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PodsAnswer {
    /// The names that were asked for.
    #[schemars(length(max = 1000))]
    pub asked: Vec<String>,
    /// Those that are here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub found: Vec<String>,
}

/// Where a share stands in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ShareState {
    /// Not applied yet.
    Pending,
    /// Applied; the member works towards it.
    Applying,
    /// The member is as the plan says.
    Settled,
    /// It cannot be applied.
    Failed,
    /// The object belongs to somebody else.
    Conflict,
    /// The object is going, or gone, as asked.
    Deleted,
    /// The object was let go of, as asked.
    Orphaned,
    /// The object's pods were stopped because the hub was away.
    Fenced,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_3_what_a_pull_secret_says_is_not_printed() {
        let secret = PullSecret {
            name: "registry".into(),
            type_: "kubernetes.io/dockercfg".into(),
            data: BTreeMap::from([(".dockercfg".to_owned(), ByteString(b"hunter2".to_vec()))]),
        };
        let plan = AssignmentSpec { pull_secrets: vec![secret.clone()], ..AssignmentSpec::default() };
        let printed = format!("{plan:?} {plan:#?} {:?}", Assignment::new("a", plan.clone()));
        // Neither as it is, nor as numbers, nor as it travels.
        for hidden in ["hunter2", "104, 117", "104,", "aHVudGVy"] {
            assert!(!printed.contains(hidden), "{printed}");
        }
        assert!(printed.contains("registry"));
        assert_eq!(secret.size(), 17);
        let read: AssignmentSpec = serde_json::from_value(serde_json::json!(plan)).unwrap();
        assert_eq!(read, plan);
    }
}
