//! ResourceDistribution: one Secret or ConfigMap, kept the same in many namespaces.

pub mod v1alpha1;
pub mod v1beta1;

pub(crate) mod convert;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::columns::{Column, integer};

/// What `kubectl get` shows.
pub(crate) const COLUMNS: [Column; 3] = [
    integer("TOTAL", ".status.desired"),
    integer("SUCCEED", ".status.succeeded"),
    integer("FAILED", ".status.failed"),
];

/// Annotations of distributed objects.
pub mod keys {
    /// Hash of the resource that the copy was made from.
    pub const RESOURCE_HASH: &str = "kruise.io/resourcedistribution.resource.hashcode";
    /// Name of the ResourceDistribution that made the copy.
    pub const RESOURCE_FROM: &str = "kruise.io/resourcedistribution.resource.from";
}

/// Condition types of ResourceDistributions, in the order in which they are written.
pub mod conditions {
    /// Reading a copy failed.
    pub const GET_RESOURCE_FAILED: &str = "GetResourceFailed";
    /// Creating a copy failed.
    pub const CREATE_RESOURCE_FAILED: &str = "CreateResourceFailed";
    /// Updating a copy failed.
    pub const UPDATE_RESOURCE_FAILED: &str = "UpdateResourceFailed";
    /// Deleting a copy failed.
    pub const DELETE_RESOURCE_FAILED: &str = "DeleteResourceFailed";
    /// An object of the same name that is not ours stands in the way.
    pub const CONFLICT_OCCURRED: &str = "ConflictOccurred";
    /// A namespace does not exist.
    pub const NAMESPACE_NOT_EXISTS: &str = "NamespaceNotExists";
    /// Reason of a condition that does not hold.
    pub const SUCCEEDED: &str = "Succeeded";
}

/// A list of namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamespaceList {
    /// The namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub list: Vec<NamespaceRef>,
}

/// One namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamespaceRef {
    /// The namespace's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}
