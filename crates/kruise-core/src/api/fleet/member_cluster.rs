//! MemberCluster: one cluster of the fleet.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{
    api::resource::Quantity,
    apis::meta::v1::{Condition, Time},
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{
    columns::{Column, date, integer, text},
    common::is_default,
};

/// What `kubectl get` shows.
pub(crate) const COLUMNS: [Column; 8] = [
    text("STATE", ".status.state"),
    date("SINCE", ".status.stateSince"),
    // Empty while the cluster reports: it does so every few seconds, and that is not worth a write.
    date("AGE-OF-REPORT", ".status.lastReportTime"),
    text("VERSION", ".status.versions.kubernetes"),
    text("REGION", ".spec.region"),
    integer("OBJECTS", ".status.objects"),
    integer("READY-PODS", ".status.readyPods"),
    integer("EPOCH", ".status.epoch"),
];

/// Who a cluster is and what it may be used for. Its labels are those of the object.
#[derive(CustomResource, JsonSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "fleet.kruise.io",
    version = "v1alpha1",
    kind = "MemberCluster",
    plural = "memberclusters",
    shortname = "mc",
    category = "fleet",
    status = "MemberClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "MemberCluster is one cluster of the fleet."
)]
#[serde(rename_all = "camelCase")]
pub struct MemberClusterSpec {
    /// UID of the cluster's `kube-system` namespace. It never changes.
    #[schemars(length(max = 128), extend("x-kubernetes-validations" = [
        {"rule": "self == oldSelf", "message": "the identity of a cluster never changes"}
    ]))]
    pub cluster_uid: String,
    /// The agent's public key, pinned when the cluster joined: SubjectPublicKeyInfo, DER in base64. Empty for a cluster that
    /// joined by hand with a certificate for the user `fleet:agent:<cluster>`.
    pub public_key: String,
    /// Whether the cluster may take part. Taking it back removes the agent's rights; what runs there goes on.
    #[serde(default)]
    pub accepted: bool,
    /// The region the cluster is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The zone the cluster is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Who runs the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Keep away objects whose policies do not tolerate these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub taints: Vec<ClusterTaint>,
    /// Whether the cluster gets no further replicas. What it has stays.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unschedulable: bool,
    /// Whether everything is moved away from the cluster.
    #[serde(default, skip_serializing_if = "is_default")]
    pub drain: bool,
    /// Whether a drain also moves pods that have volumes of their own. The volumes stay behind, and the pods begin with empty ones
    /// elsewhere; without this they stay where they are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub move_stateful: bool,
    /// An operator's word that the cluster is lost, so that others take over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared_lost: Option<LostDeclaration>,
}

/// Keeps objects away from a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterTaint {
    /// Name of the taint.
    #[schemars(length(min = 1, max = 316))]
    pub key: String,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What happens to objects that do not tolerate it.
    pub effect: TaintEffect,
}

/// What a taint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// No new replicas.
    NoSchedule,
    /// No new replicas, and those that are there move away.
    NoExecute,
}

/// An operator's word that a cluster is lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LostDeclaration {
    /// Whether the operator has made sure that nothing runs there any more.
    #[serde(default)]
    pub confirmed_stopped: bool,
}

/// What the hub and the agent know of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberClusterStatus {
    /// What the cluster can be used for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ClusterState>,
    /// Since when the state is what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_since: Option<Time>,
    /// Grows each time the cluster is given up; plans of an older epoch are not carried out.
    #[serde(default)]
    pub epoch: u64,
    /// The epoch in which the agent last said what the cluster is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_epoch: Option<u64>,
    /// How often an agent of the cluster took over or started.
    #[serde(default)]
    pub incarnation: u64,
    /// When the cluster was last heard, while it is Offline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_report_time: Option<Time>,
    /// How often the cluster went Offline within the last hour.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flaps: u32,
    /// When it last did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_flap_time: Option<Time>,
    /// The cluster's own namespace on the hub.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// What runs there, by version.
    #[serde(default, skip_serializing_if = "is_default")]
    pub versions: ClusterVersions,
    /// Kinds that the cluster serves, as `group/version/Kind`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "set"))]
    pub apis: Vec<String>,
    /// What the agent can do beyond the first version of the protocol.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "set"))]
    pub features: Vec<String>,
    /// Room in the cluster as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ClusterCapacity>,
    /// Objects that the cluster has a share of.
    #[serde(default)]
    pub objects: u32,
    /// Ready pods of those objects.
    #[serde(default)]
    pub ready_pods: u32,
    /// The agent's last renewed client certificate for the hub, PEM. It is public: only the agent has its key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 16384))]
    pub certificate: String,
    /// The agent's last renewed token for the hub, sealed to its key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32768))]
    pub sealed_credential: String,
    /// UID of the CertificateSigningRequest that the token answers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub sealed_for: String,
    /// When the agent's present credential expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_expires_at: Option<Time>,
    /// Aspects of the cluster's state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// What a cluster can be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ClusterState {
    /// Accepted, and has not reported yet.
    Pending,
    /// Reports, and may get replicas.
    Ready,
    /// Reports, and keeps what it has.
    Cordoned,
    /// Reports, and is being emptied.
    Draining,
    /// Does not report; its share is frozen and assumed to run.
    Offline,
    /// Given up; others take over.
    Lost,
    /// Was given up and is back; what it runs is being compared with what it should run.
    Returning,
    /// Not accepted any more; its agent applies and deletes nothing.
    Revoked,
}

/// What runs in a cluster, by version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVersions {
    /// Version of the API server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kubernetes: String,
    /// Version of the agent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
}

/// Room in a cluster as a whole. Room for one object's pods is asked for and answered in its Assignment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCapacity {
    /// When it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Time>,
    /// Nodes that take pods.
    #[serde(default)]
    pub nodes: u32,
    /// What pods can request altogether, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: BTreeMap<String, Quantity>,
    /// What pods request now, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requested: BTreeMap<String, Quantity>,
}
