//! NodeImage as it is stored.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ImageTagSpec, NodeImageStatus};
use crate::api::image_pull_job::SandboxConfig;

/// Which images the node of the same name should have.
#[derive(CustomResource, JsonSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "NodeImage",
    plural = "nodeimages",
    status = "NodeImageStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "NodeImage tells which images the node of the same name should have and how their downloads stand."
)]
#[serde(rename_all = "camelCase")]
pub struct NodeImageSpec {
    /// The images, by name without tag and without the default registry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub images: BTreeMap<String, ImageSpec>,
}

/// One image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageSpec {
    /// Secrets for the image's registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pull_secrets: Vec<ReferenceObject>,
    /// Labels and annotations of the sandbox on whose behalf the runtime downloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_config: Option<SandboxConfig>,
    /// The tags and digests to download.
    pub tags: Vec<ImageTagSpec>,
}

/// A secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReferenceObject {
    /// The secret's namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The secret's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// `batch` if the secret is a copy that serves many jobs; such copies are managed by the jobs' controller.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mode: String,
}
