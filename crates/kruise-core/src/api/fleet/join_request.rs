//! JoinRequest: a cluster asks to become a member.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::columns::{AGE, Column, text};

/// What `kubectl get` shows.
pub(crate) const COLUMNS: [Column; 4] = [
    text("CLUSTER-UID", ".spec.clusterUid"),
    text("DECISION", ".status.decision"),
    text("REASON", ".status.reason"),
    AGE,
];

/// Who asks. The name of the request is the name that the cluster wants. Never changes.
#[derive(CustomResource, JsonSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "fleet.kruise.io",
    version = "v1alpha1",
    kind = "JoinRequest",
    plural = "joinrequests",
    shortname = "jr",
    category = "fleet",
    status = "JoinRequestStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "JoinRequest is a cluster's wish to become a member of the fleet."
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self == oldSelf", "message": "a JoinRequest never changes; delete it and ask again"}
]))]
pub struct JoinRequestSpec {
    /// UID of the cluster's `kube-system` namespace.
    #[schemars(length(min = 1, max = 128))]
    pub cluster_uid: String,
    /// The agent's public key. Its private half never leaves the cluster.
    #[schemars(length(min = 1, max = 4096))]
    pub public_key: String,
    /// Labels that the cluster proposes for its MemberCluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
    /// The region the cluster is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub region: Option<String>,
    /// The zone the cluster is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub zone: Option<String>,
    /// Who runs the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub provider: Option<String>,
    /// The CertificateSigningRequest for the agent's credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub signing_request: Option<String>,
    /// Version of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub agent_version: Option<String>,
}

/// What became of the request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinRequestStatus {
    /// Whether the cluster may join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<JoinDecision>,
    /// One word for why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Details for a person to read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Who decided.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub decided_by: String,
    /// When it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Time>,
    /// The cluster's own namespace on the hub.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// UID of the hub's `kube-system` namespace, by which agents know the hub again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub hub_uid: String,
    /// The agent's client certificate for the hub, PEM. It is public: only the agent has its key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 16384))]
    pub certificate: String,
    /// The agent's token for the hub instead of a certificate, sealed to its key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32768))]
    pub sealed_credential: String,
    /// UID of the ServiceAccount whose token it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub sealed_for: String,
    /// Aspects of the request's state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Whether a cluster may join.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum JoinDecision {
    /// Not decided yet.
    #[default]
    Pending,
    /// It may.
    Approved,
    /// It may not.
    Denied,
}
