//! Nodes as controllers read them: names, labels, what keeps pods away, conditions and room.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Node, Taint},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use kube::Resource;
use serde::Deserialize;

use super::pod::ConditionLite;

/// A node, as far as controllers read it.
#[derive(Debug, Clone, Default, Deserialize, Resource)]
#[resource(inherit = "Node")]
pub struct NodeLite {
    /// Names and labels.
    pub metadata: ObjectMeta,
    /// What keeps pods away.
    #[serde(default)]
    pub spec: NodeSpecLite,
    /// How it stands.
    #[serde(default)]
    pub status: NodeStatusLite,
}

/// What keeps pods away from a node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpecLite {
    /// Whether it takes no further pods.
    pub unschedulable: bool,
    /// What pods have to tolerate.
    pub taints: Vec<Taint>,
}

/// How a node stands.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatusLite {
    /// What pods can request on it.
    pub allocatable: BTreeMap<String, Quantity>,
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
