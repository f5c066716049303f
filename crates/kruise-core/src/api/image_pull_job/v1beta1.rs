//! ImagePullJob as it is stored.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ImagePullJobStatus, ImagePullJobTemplate};

/// Which image to download, and where.
#[derive(CustomResource, JsonSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "ImagePullJob",
    plural = "imagepulljobs",
    namespaced,
    status = "ImagePullJobStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "ImagePullJob downloads one image to many nodes."
)]
#[serde(rename_all = "camelCase")]
pub struct ImagePullJobSpec {
    /// The image.
    pub image: String,
    /// Which nodes download it, and how.
    #[serde(flatten)]
    pub template: ImagePullJobTemplate,
}
