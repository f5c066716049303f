//! FleetBinding: what the hub has promised for one object, and how every cluster stands.

mod ledger;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use ledger::{
    JobTimes, Ledger, LedgerColumn, LedgerReport, LedgerRow, LedgerShare, PastTarget, Pause, PauseCause,
    RebalanceProgress, ReleaseProgress, WaveStage,
};

use super::{Counts, FederatedObject, Slice, member_cluster::ClusterState};
use crate::api::{
    columns::{Column, integer, text},
    common::is_default,
};

/// What `kubectl get` shows.
pub(crate) const COLUMNS: [Column; 9] = [
    text("KIND", ".spec.object.kind"),
    integer("CLUSTERS", ".status.clusterCount"),
    integer("DESIRED", ".status.desired"),
    integer("READY", ".status.ready"),
    integer("UPDATED", ".status.updated"),
    integer("UNKNOWN", ".status.unknownReplicas"),
    text("WAVE", ".status.wave"),
    text("BUDGET", ".status.budget"),
    text("CONDITION", ".status.summary"),
];

/// Which object, by which policy, and what was promised to whom. Written by the hub only.
#[derive(CustomResource, JsonSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "fleet.kruise.io",
    version = "v1alpha1",
    kind = "FleetBinding",
    plural = "fleetbindings",
    shortname = "fb",
    category = "fleet",
    namespaced,
    status = "FleetBindingStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "FleetBinding holds the plans for one federated object and the state of every cluster that has a share of it."
)]
#[serde(rename_all = "camelCase")]
pub struct FleetBindingSpec {
    /// The object.
    pub object: FederatedObject,
    /// The policy that won for the object; absent while none matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyRef>,
    /// What was promised. Saved before any share is written, so that a crash can delay but never exceed.
    #[serde(default)]
    pub ledger: Ledger,
}

/// A policy at one generation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyRef {
    /// `PlacementPolicy` or `ClusterPlacementPolicy`.
    pub kind: String,
    /// Name of the policy.
    pub name: String,
    /// UID of the policy.
    pub uid: String,
    /// Generation of the policy that the plan is made by.
    pub generation: i64,
}

/// How an object stands over the fleet. Ready and available counts leave out clusters that do not report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetBindingStatus {
    /// Generation of the object that every cluster has acknowledged.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Clusters that have a share.
    #[serde(default)]
    pub cluster_count: u32,
    /// Replicas, nodes or namespaces asked for.
    #[serde(default)]
    pub desired: u32,
    /// Pods that are known to be ready.
    #[serde(default)]
    pub ready: u32,
    /// Pods that are known to be available.
    #[serde(default)]
    pub available: u32,
    /// Pods at the target revision.
    #[serde(default)]
    pub updated: u32,
    /// Pods in clusters that do not report.
    #[serde(default)]
    pub unknown_replicas: u32,
    /// The wave that the release is in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub wave: String,
    /// Pods that may be unavailable: used and limit, as `used/limit`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub budget: String,
    /// Since when fewer pods are available than the spec wants, with no plan under way that would change that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_since: Option<Time>,
    /// Since when no further pod was updated, while some should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_since: Option<Time>,
    /// The condition that matters most now.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// How each cluster stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cluster"]))]
    pub clusters: Vec<ClusterRow>,
    /// Aspects of the object's state over the fleet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// How one cluster stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRow {
    /// The cluster.
    pub cluster: String,
    /// What the cluster can be used for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ClusterState>,
    /// What it was last given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Slice>,
    /// What it last reported.
    #[serde(default, skip_serializing_if = "is_default")]
    pub counts: Counts,
    /// Number of the plan it was last given.
    #[serde(default)]
    pub seq: u64,
    /// Number of the plan it last acknowledged.
    #[serde(default)]
    pub applied_seq: u64,
    /// When its last report came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_at: Option<Time>,
    /// Whether the object was there before the fleet and was taken over.
    #[serde(default, skip_serializing_if = "is_default")]
    pub adopted: bool,
    /// How often somebody else's changes were undone there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub corrected: u64,
    /// Why it has what it has, or why it waits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}
