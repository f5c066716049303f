//! How replicas are divided, and when they move.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ClusterSelector;
use crate::api::{common::is_default, schema};

/// How replicas are divided.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replicas {
    /// What each cluster gets.
    #[serde(default)]
    pub mode: ReplicasMode,
    /// Weights of clusters. A cluster takes the largest that matches it; all weigh the same if none matches any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub weights: Vec<ClusterWeight>,
    /// Whether weights come from the clusters themselves.
    #[serde(default)]
    pub dynamic: DynamicWeights,
    /// Least and most replicas of clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub per_cluster: Vec<ClusterBounds>,
    /// What happens when the clusters have too little room.
    #[serde(default)]
    pub when_short: WhenShort,
}

/// What each cluster gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReplicasMode {
    /// A part of the replicas, by weight.
    #[default]
    Divided,
    /// All of the replicas, each.
    Duplicated,
    /// A part of the replicas, on as few clusters as possible.
    Aggregated,
}

/// The weight of some clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterWeight {
    /// The clusters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clusters: ClusterSelector,
    /// The weight, from 0 to 10000.
    #[schemars(range(max = 10000))]
    pub weight: u32,
}

/// Where weights come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DynamicWeights {
    /// From the policy.
    #[default]
    None,
    /// From the room that clusters report.
    FreeCapacity,
}

/// Least and most replicas of some clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.min) || !has(self.max) || self.min <= self.max",
    "message": "min must not be above max", "fieldPath": ".min"
}]))]
pub struct ClusterBounds {
    /// The clusters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clusters: ClusterSelector,
    /// The least that each of them gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000_000))]
    pub min: Option<u32>,
    /// The most that each of them gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000_000))]
    pub max: Option<u32>,
}

/// What happens when the clusters have too little room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenShort {
    /// All replicas are placed; some pods wait for nodes.
    #[default]
    Overcommit,
    /// What does not fit is not placed, and shown.
    Hold,
}

/// When replicas move although nothing forces them to, and how fast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!((self.maxSurge == 0 || self.maxSurge == '0%') && (self.maxUnavailable == 0 || self.maxUnavailable == '0%'))",
    "message": "maxSurge and maxUnavailable must not both be 0: no move could ever be made", "fieldPath": ".maxUnavailable"
}]))]
pub struct Rebalance {
    /// What makes them move.
    pub trigger: RebalanceTrigger,
    /// How far a cluster may be from its ideal share before anything moves, as a percentage of the replicas.
    #[schemars(length(max = 4), regex(pattern = r"^(100|[1-9]?[0-9])%$"))]
    pub tolerance: String,
    /// How many replicas move in one interval, as a number or as a percentage of the replicas.
    #[schemars(extend("pattern" = "^(0|[1-9][0-9]*)%$", "minimum" = 0))]
    pub max_moves: IntOrString,
    /// Length of the interval.
    #[schemars(schema_with = "schema::duration")]
    pub interval: Duration,
    /// How many replicas may run twice while they move, as a number or as a percentage of the replicas rounded up.
    #[schemars(extend("pattern" = "^(0|[1-9][0-9]*)%$", "minimum" = 0))]
    pub max_surge: IntOrString,
    /// How many replicas may be missing while they move, as a number or as a percentage of the replicas rounded
    /// down.
    #[schemars(extend("pattern" = "^(0|[1-9][0-9]*)%$", "minimum" = 0))]
    pub max_unavailable: IntOrString,
}

impl Default for Rebalance {
    fn default() -> Self {
        Self {
            trigger: RebalanceTrigger::default(),
            tolerance: "10%".to_owned(),
            max_moves: IntOrString::String("10%".to_owned()),
            interval: std::time::Duration::from_secs(300).into(),
            max_surge: IntOrString::String("10%".to_owned()),
            max_unavailable: IntOrString::Int(0),
        }
    }
}

/// What makes replicas move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RebalanceTrigger {
    /// Nothing but drain, failover and limits.
    Never,
    /// A change of the policy.
    #[default]
    OnPolicyChange,
    /// Any imbalance beyond the tolerance.
    Continuous,
}
