//! ImageListPullJob: several images, downloaded to many nodes.

pub mod v1alpha1;
pub mod v1beta1;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::columns::{AGE, Column, integer};

/// What `kubectl get` shows.
pub(crate) const COLUMNS: [Column; 4] = [
    integer("TOTAL", ".status.desired"),
    integer("SUCCEEDED", ".status.succeeded"),
    integer("COMPLETED", ".status.completed"),
    AGE,
];

/// Reasons of events on ImageListPullJobs.
pub mod events {
    /// ImagePullJobs were created.
    pub const SUCCESSFUL_CREATE: &str = "Successful create ImagePullJob";
    /// ImagePullJobs were deleted.
    pub const SUCCESSFUL_DELETE: &str = "Successful delete ImagePullJob";
    /// An ImagePullJob was refused.
    pub const FAILED_CREATE: &str = "Failed create ImagePullJob";
    /// An ImagePullJob could not be deleted.
    pub const FAILED_DELETE: &str = "Failed delete ImagePullJob";
}

/// How far a job has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageListPullJobStatus {
    /// When the job was first looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the last image was done. Never set for completion policy `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Images to download.
    pub desired: i32,
    /// Images that are being downloaded somewhere.
    #[serde(default)]
    pub active: i32,
    /// Images that every node is done with.
    #[serde(default)]
    pub completed: i32,
    /// Images that every node has.
    #[serde(default)]
    pub succeeded: i32,
    /// Images that some node could not get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_image_statuses: Vec<FailedImageStatus>,
}

/// An image that some node could not get.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedImageStatus {
    /// The ImagePullJob that downloads the image.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image_pull_job: String,
    /// The image.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Where to look for the reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
