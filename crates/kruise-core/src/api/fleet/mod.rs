//! The kinds of the fleet, group `fleet.kruise.io`. They live on the hub.

pub mod agent_token;
pub mod assignment;
pub mod binding;
pub mod join_request;
pub mod keys;
pub mod member_cluster;
pub mod owned;
pub mod policy;
pub mod release;
pub mod revision;
pub mod told;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{columns::Column, common::is_default, schema};

/// API group of the fleet.
pub const GROUP: &str = "fleet.kruise.io";
/// The only version of [`GROUP`].
pub const API_VERSION: &str = "fleet.kruise.io/v1alpha1";

/// The definitions of the fleet's kinds, with their columns.
pub(crate) fn crds() -> Vec<(CustomResourceDefinition, &'static [Column])> {
    vec![
        (assignment::Assignment::crd(), &assignment::COLUMNS),
        (policy::ClusterPlacementPolicy::crd(), &policy::COLUMNS),
        (binding::FleetBinding::crd(), &binding::COLUMNS),
        (revision::FleetRevision::crd(), &revision::COLUMNS),
        (join_request::JoinRequest::crd(), &join_request::COLUMNS),
        (member_cluster::MemberCluster::crd(), &member_cluster::COLUMNS),
        (policy::PlacementPolicy::crd(), &policy::COLUMNS),
        (release::Release::crd(), &release::COLUMNS),
    ]
}

/// A federated object on the hub.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FederatedObject {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object; absent for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
    /// UID of the object, so that a successor of the same name is not taken for it.
    pub uid: String,
}

/// The numbers of one object that the hub divides, for one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Slice {
    /// The share of a CloneSet.
    CloneSet(CloneSetSlice),
    /// The share of an ImagePullJob or ImageListPullJob.
    ImagePullJob(PullSlice),
    /// No number is divided: the object is copied as it is.
    Whole(WholeSlice),
}

/// One cluster's share of a CloneSet. Without a share of unavailable and of extra pods the agent writes the member so
/// that nothing available goes down: paused, maxUnavailable 0, maxSurge 1; where pods are only updated in place,
/// paused and maxUnavailable 1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetSlice {
    /// r: replicas that the cluster keeps.
    pub replicas: u32,
    /// u: pods of the cluster that may carry the target revision; the member's partition is the rest.
    pub updated: u32,
    /// U: pods that the cluster may make unavailable.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_unavailable: u32,
    /// S: pods that the cluster may start beyond its replicas.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_surge: u32,
    /// Limit of unavailable pods while pods are added, where the object has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_max_unavailable: Option<u32>,
    /// Whether existing pods are left as they are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// Names of pods of this cluster to delete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub pods_to_delete: Vec<String>,
}

/// One cluster's share of a job that downloads images. Members never carry a time to live: the hub has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullSlice {
    /// Downloads that may run at the same time; 0 pauses.
    pub parallelism: u32,
    /// Seconds that are left of the job's deadline; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<u32>,
    /// Nodes of this cluster that the job names; as the body says if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 5000))]
    pub nodes: Option<Vec<String>>,
}

/// An object that is copied as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WholeSlice {}

/// What a cluster has of one object. Absent ones do not exist for the kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Pods that exist.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replicas: u32,
    /// Pods that are ready.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ready: u32,
    /// Pods that are available.
    #[serde(default, skip_serializing_if = "is_default")]
    pub available: u32,
    /// Pods at the target revision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub updated: u32,
    /// Pods at the target revision that are ready.
    #[serde(default, skip_serializing_if = "is_default")]
    pub updated_ready: u32,
    /// Pods at the target revision that are available.
    #[serde(default, skip_serializing_if = "is_default")]
    pub updated_available: u32,
    /// Pods at the stable revision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stable: u32,
    /// Pods at neither revision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub other: u32,
    /// Pods at neither revision that are not available.
    #[serde(default, skip_serializing_if = "is_default")]
    pub other_unavailable: u32,
    /// Pods that are marked for deletion.
    #[serde(default, skip_serializing_if = "is_default")]
    pub marked_for_deletion: u32,
    /// Replicas asked for less pods available, and never below 0: a pod deleted and not yet replaced counts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unavailable: u32,
    /// Pods that wait for a node, where the room for them is asked for. Those that take the place of a pod on its way out do not
    /// count.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unscheduled: u32,
    /// Matched pods that the selector of a SidecarSet's update leaves out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unselected: u32,
    /// How many of those are at the target revision all the same.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unselected_updated: u32,
    /// Pods that a SidecarSet matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<u32>,
    /// Nodes or namespaces that a job or a distribution has to serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<u32>,
    /// Nodes that are downloading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<u32>,
    /// Nodes or namespaces that are served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<u32>,
    /// Nodes or namespaces that could not be served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<u32>,
}

/// One step of a JSON patch (RFC 6902).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PatchStep {
    /// What the step does.
    pub op: PatchOperation,
    /// Where, as a JSON pointer such as `/spec/template/spec/priorityClassName`.
    // The length is bounded because CEL rules match it.
    #[schemars(length(max = 256), regex(pattern = r"^/"))]
    pub path: String,
    /// From where, for `move` and `copy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub from: Option<String>,
    /// The value, for `add`, `replace` and `test`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_value")]
    pub value: Option<Value>,
}

/// What a step of a JSON patch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PatchOperation {
    /// Adds a value.
    Add,
    /// Removes a value.
    Remove,
    /// Replaces a value.
    Replace,
    /// Moves a value.
    Move,
    /// Copies a value.
    Copy,
    /// Fails if a value is another.
    Test,
}
