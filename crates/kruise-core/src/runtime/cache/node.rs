//! Nodes as controllers read them: what they are labelled with.

use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

/// A node, as far as controllers read it. For reading only, like [`PodLite`](super::pod::PodLite).
#[derive(Debug, Clone, Default, Deserialize, Resource)]
#[resource(inherit = "Node")]
pub struct NodeLite {
    /// Names and labels.
    pub metadata: ObjectMeta,
}
