//! What differs in some clusters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ClusterSelector;
use crate::api::{common::is_default, fleet::PatchStep};

/// Changes to an object in some clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Override {
    /// The clusters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clusters: ClusterSelector,
    /// Changes to the object. The numbers that the fleet divides, the selector, the name and the namespace are not
    /// to be changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = [{
        "rule": "!self.exists(it, it.path.matches('^/(spec/(replicas|selector|parallelism|scaleStrategy/podsToDelete|updateStrategy/(rollingUpdate/)?(partition|maxUnavailable|maxSurge|paused))|metadata/(name|namespace))(/|$)') || it.path.matches('^/(spec|metadata|spec/(scaleStrategy|updateStrategy(/rollingUpdate)?))$'))",
        "message": "a path belongs to the fleet: replicas, selector, parallelism, podsToDelete, partition, maxUnavailable, maxSurge, paused, name and namespace cannot be overridden"
    }]))]
    pub patches: Vec<PatchStep>,
    /// Registries that images come from instead: each image by the first that fits, after the patches of all overrides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub image_registries: Vec<ImageRegistry>,
}

/// A registry that takes the place of another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageRegistry {
    /// Start of the image names to change, such as `docker.io/library`.
    #[schemars(length(min = 1, max = 512))]
    pub from: String,
    /// What it is changed to.
    #[schemars(length(min = 1, max = 512))]
    pub to: String,
}

impl ImageRegistry {
    /// The image from the other registry, if it comes from this one. `docker.io/lib` is not the start of
    /// `docker.io/library/web`.
    pub fn rewrite(&self, image: &str) -> Option<String> {
        let from = self.from.trim_end_matches('/');
        let rest = image.strip_prefix(from).filter(|it| it.starts_with('/'))?;
        Some(format!("{}{rest}", self.to.trim_end_matches('/')))
    }
}
