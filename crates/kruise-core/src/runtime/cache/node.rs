//! Nodes as controllers read them: names, labels and conditions.

use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::pod::ConditionLite;

/// A node, as far as controllers read it.
#[derive(Debug, Clone, Default, Deserialize, Resource)]
#[resource(inherit = "Node")]
pub struct NodeLite {
    /// Names and labels.
    pub metadata: ObjectMeta,
    /// How it stands.
    #[serde(default)]
    pub status: NodeStatusLite,
}

/// How a node stands.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatusLite {
    /// Conditions.
    pub conditions: Vec<ConditionLite>,
}

impl NodeLite {
    /// The condition that says whether pods can run here, if it is true.
    pub fn ready(&self) -> Option<&ConditionLite> {
        self.status.conditions.iter().find(|it| it.kind == "Ready" && it.status == "True")
    }

    /// Whether no machine stands behind it.
    pub fn is_virtual(&self) -> bool {
        let labels = self.metadata.labels.as_ref();
        labels.and_then(|it| it.get("type")).is_some_and(|it| it == crate::api::common::keys::VIRTUAL_KUBELET)
    }
}
