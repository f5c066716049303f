//! Release: one target revision on its way through the waves.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    FederatedObject,
    assignment::RevisionRef,
    policy::{OnFailure, PrePull, Wave},
};
use crate::api::{
    columns::{Column, text},
    common::is_default,
};

/// What `kubectl get` shows.
pub(crate) const COLUMNS: [Column; 5] = [
    text("TARGET", ".spec.target.name"),
    text("WAVE", ".status.wave"),
    text("DONE/TOTAL", ".status.progress"),
    text("STATE", ".status.state"),
    text("WAITING-FOR", ".status.waitingFor"),
];

/// What is released, in which waves, and what people say to it.
#[derive(CustomResource, JsonSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "fleet.kruise.io",
    version = "v1alpha1",
    kind = "Release",
    plural = "releases",
    shortname = "rel",
    category = "fleet",
    namespaced,
    status = "ReleaseStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Release brings one revision of an object to the fleet, wave by wave."
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.target == oldSelf.target", "message": "target never changes; a newer target makes a new Release"},
    {"rule": "self.object == oldSelf.object", "message": "object never changes"}
]))]
pub struct ReleaseSpec {
    /// The object.
    pub object: FederatedObject,
    /// The revision to release.
    pub target: RevisionRef,
    /// The revision to go back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable: Option<RevisionRef>,
    /// Generation of the policy whose waves these are.
    #[serde(default)]
    pub policy_generation: i64,
    /// The waves, as they were when the release began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub waves: Vec<Wave>,
    /// Whether images are downloaded to the next wave's nodes ahead of it.
    #[serde(default)]
    pub pre_pull: PrePull,
    /// What happens when a wave fails.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// What people have approved. It counts for this target only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub approvals: Vec<Approval>,
    /// Whether the release stays where it is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// Whether the release is to be taken back.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rollback: bool,
    /// Clusters whose unavailable pods do not hold this release.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5000), extend("x-kubernetes-list-type" = "set"))]
    pub ignored_clusters: Vec<String>,
}

/// Somebody lets a wave begin or end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// The wave, by name.
    #[schemars(length(max = 63))]
    pub wave: String,
    /// What is approved.
    pub stage: ApprovalStage,
    /// Who approved; filled in by admission.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub by: String,
    /// When; filled in by admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}

/// What is approved of a wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApprovalStage {
    /// That it begins.
    Before,
    /// That it ends and the next one may begin.
    After,
}

/// How far a release has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseStatus {
    /// Generation of the spec that this is about.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Where the release stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ReleaseState>,
    /// The wave that the release is in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub wave: String,
    /// Clusters done, as `done/total`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub progress: String,
    /// What the release waits for, for a person to read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waiting_for: String,
    /// How each wave stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 65), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub waves: Vec<WaveStatus>,
    /// Aspects of the release's state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Where a release stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReleaseState {
    /// Not begun.
    Pending,
    /// A wave is being updated.
    Running,
    /// A wave is updated and being watched.
    Soaking,
    /// Somebody has to approve.
    WaitingForApproval,
    /// Stays where it is.
    Paused,
    /// Being taken back.
    RollingBack,
    /// Taken back.
    RolledBack,
    /// Everywhere.
    Done,
    /// A newer target has taken its place.
    Superseded,
}

/// How one wave stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaveStatus {
    /// The wave.
    pub name: String,
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<WaveState>,
    /// Clusters of the wave that are done.
    #[serde(default)]
    pub done: u32,
    /// Clusters of the wave.
    #[serde(default)]
    pub total: u32,
    /// Clusters of the wave that failed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed: u32,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Seconds it has been watched so far; a restart of the hub goes on from here.
    #[serde(default, skip_serializing_if = "is_default")]
    pub soaked_seconds: u64,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// The ImagePullJob that prepares the wave's nodes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pre_pull: String,
}

/// Where a wave stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WaveState {
    /// Not begun.
    Pending,
    /// Somebody has to approve that it begins or ends.
    WaitingForApproval,
    /// Being updated.
    Running,
    /// Updated and being watched.
    Soaking,
    /// Over.
    Done,
    /// Too many of its clusters failed.
    Failed,
}
