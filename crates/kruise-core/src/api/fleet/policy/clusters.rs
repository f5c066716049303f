//! Which clusters.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{common::is_default, fleet::member_cluster::TaintEffect};

/// The clusters that may run an object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterScope {
    /// The clusters, before exclusions.
    #[serde(flatten)]
    pub selector: ClusterSelector,
    /// Names of clusters that may not, whatever else says they may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5000))]
    pub exclude: Vec<String>,
    /// Taints of clusters that do not matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub tolerations: Vec<Toleration>,
}

/// Clusters by label, by field and by name. What is given must all hold; nothing given selects every cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// Labels of the MemberClusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Region, zone, provider or version of the clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub field_selector: Vec<FieldRequirement>,
    /// Names of the clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5000))]
    pub names: Vec<String>,
}

/// One rule about a cluster's fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.operator in ['In', 'NotIn'] || (self.key == 'version' && self.values.size() == 1)",
    "message": "AtLeast and Below take key version and one value"
}]))]
pub struct FieldRequirement {
    /// The field.
    pub key: FieldKey,
    /// How it is compared.
    pub operator: FieldOperator,
    /// What it is compared with.
    #[schemars(length(min = 1, max = 256))]
    pub values: Vec<String>,
}

/// A field of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FieldKey {
    /// The region.
    Region,
    /// The zone.
    Zone,
    /// The provider.
    Provider,
    /// The version of the API server.
    Version,
}

/// How a field is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FieldOperator {
    /// It is one of the values.
    In,
    /// It is none of the values.
    NotIn,
    /// It is this version or a newer one.
    AtLeast,
    /// It is an older version.
    Below,
}

/// A taint that does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Toleration {
    /// Name of the taint; any if absent, with operator `Exists`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether the value is compared.
    #[serde(default)]
    pub operator: TolerationOperator,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Effect of the taint; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
}

/// Whether a toleration compares the value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// It does.
    #[default]
    Equal,
    /// It does not.
    Exists,
}

/// A group of clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tier {
    /// Name of the group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub name: String,
    /// Its clusters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clusters: ClusterSelector,
}

/// A rule for spreading replicas over groups of clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.maxGroups) || self.minGroups <= self.maxGroups",
    "message": "minGroups must not be above maxGroups", "fieldPath": ".minGroups"
}]))]
pub struct SpreadRule {
    /// What makes a group: `region`, `zone`, `provider`, or a label of the MemberClusters.
    #[schemars(length(min = 1, max = 316))]
    pub topology_key: String,
    /// The fewest groups that get replicas.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub min_groups: u32,
    /// The most groups that get replicas; no limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_groups: Option<u32>,
    /// The most that one group gets, as a percentage of the replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4), regex(pattern = r"^(100|[1-9][0-9]?)%$"))]
    pub max_share: Option<String>,
    /// What happens when the rule cannot be met.
    #[serde(default)]
    pub when_unsatisfiable: WhenUnsatisfiable,
}

/// What happens when a spread rule cannot be met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenUnsatisfiable {
    /// Everything stays where it is.
    #[default]
    DoNotSchedule,
    /// The rule is broken as little as possible.
    ScheduleAnyway,
}

fn one() -> u32 {
    1
}
