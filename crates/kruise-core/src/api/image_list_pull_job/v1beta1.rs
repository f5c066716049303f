//! ImageListPullJob as it is stored.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ImageListPullJobStatus;
use crate::api::image_pull_job::ImagePullJobTemplate;

/// Which images to download, and where.
#[derive(CustomResource, JsonSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "ImageListPullJob",
    plural = "imagelistpulljobs",
    namespaced,
    status = "ImageListPullJobStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "ImageListPullJob downloads several images to many nodes, with one ImagePullJob for each."
)]
#[serde(rename_all = "camelCase")]
pub struct ImageListPullJobSpec {
    /// The images, at most 255.
    pub images: Vec<String>,
    /// Which nodes download them, and how.
    #[serde(flatten)]
    pub template: ImagePullJobTemplate,
}
