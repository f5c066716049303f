//! ContainerRecreateRequest: restart containers of one running pod.

pub mod v1alpha1;
pub mod v1beta1;

pub(crate) mod convert;

use k8s_openapi::api::core::v1::{ContainerPort, ExecAction, HTTPGetAction, TCPSocketAction};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    columns::{AGE, Column, text},
    common::{blank_is_none, is_default},
};

/// What `kubectl get` shows.
pub(crate) const COLUMNS: [Column; 4] = [
    text("PHASE", ".status.phase"),
    text("POD", ".spec.podName"),
    text("NODE", r".metadata.labels.crr\.apps\.kruise\.io/node-name"),
    AGE,
];

/// Labels, annotations and finalizers of ContainerRecreateRequests.
pub mod keys {
    /// Label: UID of the pod. It never changes.
    pub const POD_UID: &str = "crr.apps.kruise.io/pod-uid";
    /// Label: the node whose daemon does the work. It never changes.
    pub const NODE_NAME: &str = "crr.apps.kruise.io/node-name";
    /// Label: `true` until the request is completed.
    pub const ACTIVE: &str = "crr.apps.kruise.io/active";
    /// Finalizer: the pod was taken out of rotation by us. In v1alpha1 also an annotation: since when (RFC 3339).
    pub const UNREADY_ACQUIRED: &str = "crr.apps.kruise.io/unready-acquired";
    /// Annotation on v1alpha1 objects: the container statuses that the controller saw, as JSON.
    pub const SYNC_CONTAINER_STATUSES: &str = "crr.apps.kruise.io/sync-container-statuses";
}

/// Condition types of ContainerRecreateRequests.
pub mod conditions {
    /// The pod is out of rotation; its transition time is when that began. Also the condition's reason.
    pub const PRE_RECREATE_GRACE: &str = "PreRecreateGrace";
    /// Message of the condition.
    pub const PRE_RECREATE_GRACE_MESSAGE: &str =
        "Pod has been forced to not-ready for unreadyGracePeriodSeconds drain";
}

/// Reasons of events about ContainerRecreateRequests.
pub mod events {
    /// A container was not restarted before the request ended.
    pub const RECREATE_FAILED: &str = "RecreateFailed";
}

/// One container to restart.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecreateContainer {
    /// The container's name.
    pub name: String,
    /// What to run before the container is stopped. Filled in from the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_stop: Option<ProbeHandler>,
    /// The container's ports, for a `preStop` that names one. Filled in from the pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ContainerPort>,
    /// The container as it was when the request was made. Filled in from the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_context: Option<StatusContext>,
}

/// What to run before a container is stopped.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeHandler {
    /// A command in the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecAction>,
    /// An HTTP request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_get: Option<HTTPGetAction>,
    /// A TCP connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_socket: Option<TCPSocketAction>,
}

/// A container at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusContext {
    /// What the runtime calls the container.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// How often it had been restarted.
    pub restart_count: i32,
}

/// How containers are restarted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecreateStrategy {
    /// `Fail` stops at the first container that cannot be restarted, `Ignore` goes on; Fail if absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "blank_is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// Whether each container waits until the one before it is ready again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ordered_recreate: bool,
    /// Whether a container is restarted even if it is not running, or was restarted since the request.
    #[serde(default, skip_serializing_if = "is_default")]
    pub force_recreate: bool,
    /// Seconds a container has for stopping; the pod's value if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub termination_grace_period_seconds: Option<i64>,
    /// Seconds that the pod is out of rotation before anything is stopped. Needs the readiness gate
    /// `KruisePodReady`; the pod stays in rotation if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub unready_grace_period_seconds: Option<i64>,
    /// Seconds a restarted container must run to count as restarted.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(range(min = 0))]
    pub min_started_seconds: i32,
}

/// What a failure means for the other containers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicy {
    /// They are left alone.
    #[default]
    Fail,
    /// They are restarted all the same.
    Ignore,
}
