//! ImagePullJob: one image, downloaded to many nodes.

pub mod v1alpha1;
pub mod v1beta1;

mod template;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use template::{
    CompletionPolicy, CompletionPolicyType, ImagePullJobTemplate, ImagePullPolicy, NodeSelector, PullPolicy,
    SandboxConfig,
};

use super::{
    columns::{AGE, Column, integer, text},
    common::is_default,
};

/// What `kubectl get` shows.
pub(crate) const COLUMNS: [Column; 5] = [
    integer("TOTAL", ".status.desired"),
    integer("ACTIVE", ".status.active"),
    integer("SUCCEED", ".status.succeeded"),
    integer("FAILED", ".status.failed"),
    AGE,
];

/// What `kubectl get` shows of v1alpha1, which has one column more.
pub(crate) const COLUMNS_V1ALPHA1: [Column; 6] = {
    let [total, active, succeeded, failed, age] = COLUMNS;
    [total, active, succeeded, failed, age, text("MESSAGE", ".status.message")]
};

/// Finalizers, and annotations of the copies of pull secrets.
pub mod keys {
    /// Finalizer of jobs: copies of their secrets must be released first.
    pub const FINALIZER: &str = "apps.kruise.io/deletion-protection";
    /// Annotation on copies: `<namespace>/<name>` of the secret they were made from.
    pub const SECRET_SOURCE: &str = "imagepulljobs.kruise.io/source-key";
    /// Annotation on copies: the jobs that use them, as a sorted list of `<namespace>/<name>`.
    pub const SECRET_REFERENCES: &str = "imagepulljobs.kruise.io/references";
    /// Annotation on copies: one copy serves many jobs if this is `batch`.
    pub const SECRET_MODE: &str = "imagepulljobs.kruise.io/mode";
    /// Label on copies of older releases: the UID of the secret they were made from.
    pub const SECRET_SOURCE_UID: &str = "imagepulljobs.kruise.io/source-uid";
    /// Namespace in which the node daemon finds pull secrets.
    pub const SECRETS_NAMESPACE: &str = "kruise-daemon-config";
    /// The mode that one copy serves many jobs in.
    pub const MODE_BATCH: &str = "batch";
}

/// How far a job has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImagePullJobStatus {
    /// When the job was first looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the last node was done, or the deadline passed. Never set for completion policy `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Generation of the job that the controller acted on when it counted. OpenKruise does not have this; a fleet needs it
    /// to know when a smaller parallelism is obeyed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Nodes that should have the image.
    pub desired: i32,
    /// Nodes that are downloading it.
    #[serde(default)]
    pub active: i32,
    /// Nodes that have it.
    #[serde(default)]
    pub succeeded: i32,
    /// Nodes that could not get it.
    #[serde(default)]
    pub failed: i32,
    /// How the job stands, for a person to read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Names of the nodes that could not get it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_nodes: Vec<String>,
}
