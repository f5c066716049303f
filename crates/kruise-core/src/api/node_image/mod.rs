//! NodeImage: which images one node should have, and which it has.

pub mod v1alpha1;
pub mod v1beta1;

pub(crate) mod convert;

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    columns::{AGE, Column, integer},
    common::is_default,
};

/// What `kubectl get` shows.
pub(crate) const COLUMNS: [Column; 5] = [
    integer("DESIRED", ".status.desired"),
    integer("PULLING", ".status.pulling"),
    integer("SUCCEED", ".status.succeeded"),
    integer("FAILED", ".status.failed"),
    AGE,
];

/// Labels of NodeImages.
pub mod keys {
    /// Label on NodeImages that stand for no node, for tests.
    pub const FAKE: &str = "apps.kruise.io/fake-nodeimage";
}

/// Reasons of events on NodeImages and on the owners of their tags.
pub mod events {
    /// A download ended well.
    pub const PULL_IMAGE_SUCCEED: &str = "PullImageSucceed";
    /// A download failed.
    pub const PULL_IMAGE_FAILED: &str = "PullImageFailed";
}

/// One tag or digest to download.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageTagSpec {
    /// The tag, or a digest such as `sha256:…`.
    pub tag: String,
    /// When the download was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// Limits of the download.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<ImageTagPullPolicy>,
    /// The jobs that asked for the download. The tag goes when the last of them is gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<ObjectReference>,
    /// Grows each time the download is asked for again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub version: i64,
    /// `Always` asks the registry every time, `IfNotPresent` only if the node lacks the image; Always if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
}

/// Limits of the download of one tag.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageTagPullPolicy {
    /// Seconds until one attempt is given up; 600 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// How often a failed attempt is repeated; 3 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
    /// Seconds after the end of the download when the tag is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
    /// Seconds after which the download is given up altogether.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
}

/// What the node has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeImageStatus {
    /// Tags that the node should have.
    pub desired: i32,
    /// Tags that were downloaded.
    #[serde(default)]
    pub succeeded: i32,
    /// Tags that could not be downloaded.
    #[serde(default)]
    pub failed: i32,
    /// Tags that are being downloaded.
    #[serde(default)]
    pub pulling: i32,
    /// Tags that wait for their turn.
    #[serde(default)]
    pub waiting: i32,
    /// How each image stands, by the image's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub image_statuses: BTreeMap<String, ImageStatus>,
    /// How the first synchronisation of the node went. Written by other tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_sync_status: Option<SyncStatus>,
}

/// How one image stands on a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImageStatus {
    /// How each of its tags stands.
    pub tags: Vec<ImageTagStatus>,
}

/// How one tag stands on a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageTagStatus {
    /// The tag or digest.
    pub tag: String,
    /// `Waiting`, `Pulling`, `Succeeded` or `Failed`.
    pub phase: String,
    /// How much is downloaded, in percent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub progress: i32,
    /// When the download began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// The version of the tag's spec that this is about.
    #[serde(default, skip_serializing_if = "is_default")]
    pub version: i64,
    /// What the runtime calls the image.
    #[serde(rename = "imageID", default, skip_serializing_if = "String::is_empty")]
    pub image_id: String,
    /// Why it failed, for a person to read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How a synchronisation went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncStatus {
    /// When it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_at: Option<Time>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// Details for a person to read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
