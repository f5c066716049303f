//! PlacementPolicy and ClusterPlacementPolicy: where objects run, and how changes travel.

mod clusters;
mod failover;
mod overrides;
mod replicas;
mod rollout;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use clusters::{
    ClusterScope, ClusterSelector, FieldKey, FieldOperator, FieldRequirement, SpreadRule, Tier, Toleration,
    TolerationOperator, WhenUnsatisfiable,
};
pub use failover::{Failover, Fencing, OnReturn};
pub use overrides::{ImageRegistry, Override};
pub use replicas::{
    ClusterBounds, ClusterWeight, DynamicWeights, Rebalance, RebalanceTrigger, Replicas, ReplicasMode,
    WhenShort,
};
pub use rollout::{
    ApprovalPoint, OnFailure, PrePull, Rollout, RolloutOrder, UnknownCountsAs, Wave, WaveGate,
};

use crate::api::{
    columns::{Column, text},
    common::is_default,
};

/// What `kubectl get` shows.
pub(crate) const COLUMNS: [Column; 4] = [
    // As they were written: how many objects and clusters that is now, `kubectl get fb` and `kubectl fleet explain` say.
    text("TARGETS", ".spec.targets"),
    text("CLUSTERS", ".spec.clusters"),
    text("MODE", ".spec.replicas.mode"),
    text("ORDER", ".spec.rollout.order"),
];

/// Where objects of the policy's namespace run.
#[derive(CustomResource, JsonSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "fleet.kruise.io",
    version = "v1alpha1",
    kind = "PlacementPolicy",
    plural = "placementpolicies",
    shortname = "pp",
    category = "fleet",
    namespaced,
    status = "PlacementPolicyStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "PlacementPolicy tells where objects of its namespace run and how changes travel through the fleet."
)]
pub struct PlacementPolicySpec {
    /// The policy.
    #[serde(flatten)]
    pub placement: Placement,
}

/// Where objects of any namespace, and cluster-scoped ones, run.
#[derive(CustomResource, JsonSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "fleet.kruise.io",
    version = "v1alpha1",
    kind = "ClusterPlacementPolicy",
    plural = "clusterplacementpolicies",
    shortname = "cpp",
    category = "fleet",
    status = "PlacementPolicyStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "ClusterPlacementPolicy tells where objects of any namespace, and cluster-scoped ones, run and how changes travel through the fleet."
)]
pub struct ClusterPlacementPolicySpec {
    /// The policy.
    #[serde(flatten)]
    pub placement: Placement,
}

/// Where objects run, and how changes travel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// The objects that the policy is for.
    #[schemars(length(min = 1, max = 64))]
    pub targets: Vec<Target>,
    /// Which of several policies of the same standing wins for an object: the one with the higher number. Also which
    /// object gets scarce room first.
    #[serde(default)]
    pub priority: i32,
    /// The clusters that may run the objects; all if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clusters: ClusterScope,
    /// Groups of clusters in order. A later group gets replicas only when the earlier ones are full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub tiers: Vec<Tier>,
    /// Rules for spreading replicas over regions, zones or the like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub spread: Vec<SpreadRule>,
    /// How replicas are divided.
    #[serde(default)]
    pub replicas: Replicas,
    /// When replicas move although nothing forces them to.
    #[serde(default)]
    pub rebalance: Rebalance,
    /// How a new revision travels.
    #[serde(default)]
    pub rollout: Rollout,
    /// What happens when a cluster is lost.
    #[serde(default)]
    pub failover: Failover,
    /// Changes to the objects in some clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub overrides: Vec<Override>,
    /// What to do with an object of the same name that a cluster already has.
    #[serde(default)]
    pub when_exists: WhenExists,
    /// What to do when somebody else changes a member object.
    #[serde(default)]
    pub drift: DriftPolicy,
    /// What becomes of member objects when the hub's object is deleted.
    #[serde(default)]
    pub deletion: DeletionPolicy,
    /// Whether ConfigMaps, Secrets and ServiceAccounts that a pod template names follow it.
    #[serde(default)]
    pub dependencies: Dependencies,
    /// Whether bodies are encrypted to each agent's key.
    #[serde(default)]
    pub encryption: Encryption,
}

/// Objects, by name or by label.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.name) != has(self.labelSelector)", "message": "give either name or labelSelector"}
]))]
pub struct Target {
    /// Group of the objects; `apps.kruise.io` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub group: Option<String>,
    /// Kind of the objects.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Name of one object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// Labels of objects. An empty selector is all of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}

/// What to do with an object that a cluster already has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenExists {
    /// Take it over if that changes nothing but metadata.
    #[default]
    IfIdentical,
    /// Take it over.
    Always,
    /// Leave it alone.
    Never,
}

/// What to do when somebody else changes a member object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftPolicy {
    /// What to do.
    #[serde(default)]
    pub mode: DriftMode,
    /// Fields that others may change, as JSON pointers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 1024)))]
    pub ignore_paths: Vec<String>,
}

/// What to do about a change by somebody else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriftMode {
    /// Undo it.
    #[default]
    Correct,
    /// Leave it and say so.
    Report,
    /// Leave it.
    Ignore,
}

/// What becomes of member objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// They are deleted.
    #[default]
    Delete,
    /// They run on.
    Orphan,
}

/// Whether what a pod template names follows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Dependencies {
    /// It does not.
    #[default]
    None,
    /// It does.
    Auto,
}

/// Whether bodies are encrypted on the hub.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Encryption {
    /// They are not.
    #[default]
    None,
    /// To each agent's key.
    Sealed,
}

/// What a policy applies to now. Not written by this version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementPolicyStatus {
    /// Generation of the spec that this is about.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Objects for which the policy wins.
    #[serde(default)]
    pub targets: u32,
    /// Clusters that it selects.
    #[serde(default)]
    pub clusters: u32,
    /// Aspects of the policy's state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
