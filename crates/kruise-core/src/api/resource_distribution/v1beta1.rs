//! ResourceDistribution as it is stored.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::NamespaceList;
use crate::api::{common::is_default, schema};

/// What is distributed, and where to.
#[derive(CustomResource, JsonSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "ResourceDistribution",
    plural = "resourcedistributions",
    shortname = "distributor",
    status = "ResourceDistributionStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "ResourceDistribution keeps copies of one Secret or ConfigMap in many namespaces."
)]
#[serde(rename_all = "camelCase")]
pub struct ResourceDistributionSpec {
    /// The whole Secret or ConfigMap to copy, as it would be applied. Its namespace is ignored.
    #[schemars(schema_with = "schema::embedded_object")]
    pub resource: Value,
    /// The namespaces that get a copy.
    pub targets: ResourceDistributionTargets,
}

/// The namespaces that get a copy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceDistributionTargets {
    /// Whether every namespace gets a copy, except `kube-system` and `kube-public`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub all_namespaces: bool,
    /// Namespaces that get none, whatever else says they do.
    #[serde(default, skip_serializing_if = "is_default")]
    pub excluded_namespaces: NamespaceList,
    /// Namespaces that get a copy by name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub included_namespaces: NamespaceList,
    /// Namespaces that get a copy by their labels. An empty selector selects none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub namespace_selector: LabelSelector,
}

/// How far the distribution has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceDistributionStatus {
    /// The generation of the spec that these numbers are about.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Namespaces that should have a copy.
    #[serde(default)]
    pub desired: i32,
    /// Namespaces that have it.
    #[serde(default)]
    pub succeeded: i32,
    /// Namespaces where it could not be made or updated.
    #[serde(default)]
    pub failed: i32,
    /// What went wrong, one entry per kind of failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ResourceDistributionCondition>,
}

/// One kind of failure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceDistributionCondition {
    /// Which kind of failure this is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True` if it happened somewhere, else `False`.
    pub status: String,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Why it happened, or `Succeeded`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Where it happened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_namespaces: Vec<String>,
}
