//! SidecarSet as it is stored.

use k8s_openapi::{api::core::v1::LocalObjectReference, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    SidecarContainer, SidecarSetInjectionStrategy, SidecarSetPatchPodMetadata, SidecarSetStatus,
    SidecarSetUpdateStrategy,
};
use crate::api::{common::is_default, schema};

/// Which sidecars go into which pods.
#[derive(CustomResource, JsonSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "SidecarSet",
    plural = "sidecarsets",
    status = "SidecarSetStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "SidecarSet injects containers into the pods of other workloads and updates them on their own."
)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetSpec {
    /// Which pods get the sidecars. An empty selector matches none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Which namespaces the pods are in, by the namespaces' labels; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Init containers to inject into new pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<SidecarContainer>,
    /// Containers to inject into new pods and to update in running ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<SidecarContainer>,
    /// Volumes of the sidecars, kept as written. Only those that a sidecar mounts are injected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::raw_objects")]
    pub volumes: Vec<Value>,
    /// How sidecars in running pods follow a change.
    #[serde(default, skip_serializing_if = "is_default")]
    pub update_strategy: SidecarSetUpdateStrategy,
    /// What new pods get.
    #[serde(default, skip_serializing_if = "is_default")]
    pub injection_strategy: SidecarSetInjectionStrategy,
    /// Secrets for pulling the sidecars' images, added to the pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::local_object_references")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// How many old revisions are kept; 10 if absent, and never fewer than 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// Annotations that pods get along with the sidecars.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patch_pod_metadata: Vec<SidecarSetPatchPodMetadata>,
    /// A name for this version of the sidecars, by which `injectionStrategy` can refer to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub custom_version: String,
}
