//! FleetRevision: the body of an object at one moment, shared by all clusters.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::{
    columns::{AGE, Column, text},
    schema,
};

/// What `kubectl get` shows.
pub(crate) const COLUMNS: [Column; 3] = [text("KIND", ".spec.kind"), text("OBJECT", ".spec.name"), AGE];

/// A body. Never changes.
#[derive(CustomResource, JsonSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "fleet.kruise.io",
    version = "v1alpha1",
    kind = "FleetRevision",
    plural = "fleetrevisions",
    shortname = "frv",
    category = "fleet",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    doc = "FleetRevision is the body of a federated object at one moment. It is written once and shared by all clusters."
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self == oldSelf", "message": "a FleetRevision never changes"}
]))]
pub struct FleetRevisionSpec {
    /// Group and version of the object.
    #[schemars(length(max = 253))]
    pub api_version: String,
    /// Kind of the object.
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Namespace of the object; absent for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub namespace: Option<String>,
    /// Name of the object.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Hash of the fields that make a revision in a member, taken before overrides: 16 hexadecimal digits.
    #[schemars(length(max = 16))]
    pub hash: String,
    /// The object as the user wrote it, without the numbers that are divided. Absent if `sealed` is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // Untyped, so that the rule above compares all of it: of an object the API server compares only the keys that
    // both sides have.
    #[schemars(schema_with = "schema::any_value")]
    pub body: Option<Value>,
    /// The body encrypted to one agent's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1_500_000))]
    pub sealed: Option<String>,
}
