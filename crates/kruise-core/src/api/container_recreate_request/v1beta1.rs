//! ContainerRecreateRequest as it is stored.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RecreateContainer, RecreateStrategy};
use crate::api::common::{blank_is_none, is_default};

/// Which containers of which pod to restart. Never changes.
#[derive(CustomResource, JsonSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "ContainerRecreateRequest",
    plural = "containerrecreaterequests",
    shortname = "crr",
    namespaced,
    status = "ContainerRecreateRequestStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "ContainerRecreateRequest restarts containers of one running pod."
)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecreateRequestSpec {
    /// The pod, in the request's namespace.
    pub pod_name: String,
    /// The containers, in the order in which they are restarted.
    pub containers: Vec<RecreateContainer>,
    /// How they are restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RecreateStrategy>,
    /// Seconds after the request was made when it is given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after its end when the request is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// How far the request has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["phase"]))]
pub struct ContainerRecreateRequestStatus {
    /// Where the request stands as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "blank_is_none")]
    pub phase: Option<RecreatePhase>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Why it ended early, for a person to read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Where each container stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub container_recreate_states: Vec<ContainerRecreateState>,
    /// What the controller last saw of the containers started since the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub container_status_snapshot: Vec<ContainerStatusSnapshot>,
    /// Aspects of the request's state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Where one container stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecreateState {
    /// The container's name.
    pub name: String,
    /// `Pending`, `Recreating`, `Succeeded` or `Failed`.
    pub phase: RecreatePhase,
    /// Why it failed, for a person to read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Whether the old container was stopped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_killed: bool,
}

/// A container as the controller saw it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatusSnapshot {
    /// The container's name.
    pub name: String,
    /// Whether it was ready.
    pub ready: bool,
    /// How often it had been restarted.
    pub restart_count: i32,
    /// What the runtime calls it.
    #[serde(rename = "containerID", default, skip_serializing_if = "String::is_empty")]
    pub container_id: String,
}

/// How far a request or one of its containers has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RecreatePhase {
    /// Not begun.
    #[default]
    Pending,
    /// Being restarted.
    Recreating,
    /// Restarted. Of containers only.
    Succeeded,
    /// Not restarted. Of containers only.
    Failed,
    /// Over, well or not. Of requests only.
    Completed,
}
