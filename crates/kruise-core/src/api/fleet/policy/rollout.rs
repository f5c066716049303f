//! How a new revision travels through the fleet.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ClusterSelector;
use crate::api::{common::is_default, schema};

/// How a new revision travels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollout {
    /// Whether clusters are updated side by side or in waves.
    pub order: RolloutOrder,
    /// The waves in order. Clusters in none of them form a last wave called `rest`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub waves: Vec<Wave>,
    /// Whether images are downloaded to the next wave's nodes ahead of it.
    pub pre_pull: PrePull,
    /// What pods in clusters that do not report count as.
    pub unknown_counts_as: UnknownCountsAs,
    /// What happens when a wave fails.
    pub on_failure: OnFailure,
    /// How long a cluster may go without progress before it counts as failed.
    #[schemars(schema_with = "schema::duration")]
    pub progress_deadline: Duration,
}

impl Default for Rollout {
    fn default() -> Self {
        Self {
            order: RolloutOrder::default(),
            waves: Vec::new(),
            pre_pull: PrePull::default(),
            unknown_counts_as: UnknownCountsAs::default(),
            on_failure: OnFailure::default(),
            progress_deadline: minutes(10),
        }
    }
}

/// Whether clusters are updated side by side or in waves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutOrder {
    /// Side by side, each in proportion to its replicas.
    #[default]
    Proportional,
    /// One wave after another.
    Waves,
}

/// Clusters that are updated together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wave {
    /// Name of the wave.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Its clusters; all that are in no earlier wave if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clusters: ClusterSelector,
    /// How many of them are updated at the same time, as a number or as a percentage rounded down, and at least 1;
    /// all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^[1-9][0-9]*%$", "minimum" = 1))]
    pub max_concurrency: Option<IntOrString>,
    /// How long the wave is watched after its update before the next one begins.
    #[serde(default = "no_time")]
    #[schemars(schema_with = "schema::duration", extend("default" = "0s"))]
    pub soak: Duration,
    /// Whether somebody has to approve the wave.
    #[serde(default)]
    pub approval: ApprovalPoint,
    /// What makes the wave fail.
    #[serde(default)]
    pub gate: WaveGate,
}

impl Default for Wave {
    fn default() -> Self {
        Self {
            name: String::new(),
            clusters: ClusterSelector::default(),
            max_concurrency: None,
            soak: no_time(),
            approval: ApprovalPoint::default(),
            gate: WaveGate::default(),
        }
    }
}

/// When somebody has to approve a wave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApprovalPoint {
    /// Never.
    #[default]
    None,
    /// Before it begins.
    Before,
    /// After its soak, before the next one begins.
    After,
}

/// What makes a wave fail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaveGate {
    /// How many clusters may fail.
    #[serde(default)]
    pub max_failed: u32,
    /// How many updated pods may be crashing.
    #[serde(default)]
    pub max_crashing: u32,
}

/// Downloads of images ahead of a wave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PrePull {
    /// Whether images are downloaded ahead.
    pub enabled: bool,
    /// How many of the wave's nodes must have them before it begins.
    #[schemars(length(max = 4), regex(pattern = r"^(100|[1-9]?[0-9])%$"))]
    pub threshold: String,
    /// How long the wave waits for that at most.
    #[schemars(schema_with = "schema::duration")]
    pub timeout: Duration,
}

impl Default for PrePull {
    fn default() -> Self {
        Self { enabled: false, threshold: "90%".to_owned(), timeout: minutes(10) }
    }
}

/// What pods in clusters that do not report count as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnknownCountsAs {
    /// As unavailable.
    #[default]
    Unavailable,
    /// As they were last reported.
    LastReported,
}

/// What happens when a wave fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnFailure {
    /// The release stays where it is.
    #[default]
    Pause,
    /// The release is taken back.
    Rollback,
}

fn no_time() -> Duration {
    std::time::Duration::ZERO.into()
}

fn minutes(count: u64) -> Duration {
    std::time::Duration::from_secs(60 * count).into()
}
