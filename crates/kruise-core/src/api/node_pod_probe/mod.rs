//! NodePodProbe: what the daemon of one node probes in its pods, and what came of it. Served as v1alpha1 only.

pub mod v1alpha1;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::columns::{AGE, Column};

/// What `kubectl get` shows.
pub(crate) const COLUMNS: [Column; 1] = [AGE];

/// Reasons of events on probed pods.
pub mod events {
    /// A probe succeeds now, or says something else.
    pub const PROBE_SUCCEEDED: &str = "KruiseProbeSucceeded";
    /// A probe fails now, or says something else.
    pub const PROBE_FAILED: &str = "KruiseProbeFailed";
}

/// What came of the probes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePodProbeStatus {
    /// The pods that have results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_probe_statuses: Vec<PodProbeStatus>,
}

/// What came of the probes of one pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodProbeStatus {
    /// The pod's name.
    pub name: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's UID.
    pub uid: String,
    /// The result of each probe.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probe_states: Vec<ContainerProbeState>,
}

/// What came of one probe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerProbeState {
    /// The probe's name.
    pub name: String,
    /// How it stands.
    pub state: ProbeState,
    /// When the result was last recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// When the state last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// What the probe said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How a probe stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProbeState {
    /// As often as asked for in a row, it succeeded.
    Succeeded,
    /// As often as asked for in a row, it failed; or the container does not run.
    Failed,
    /// Nothing is known about the container that runs now.
    #[default]
    Unknown,
}
