//! CloneSet: interchangeable pods that are updated in place or recreated, in any order.

pub mod v1alpha1;
pub mod v1beta1;

pub(crate) mod convert;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    columns::{AGE, Column, integer, wide},
    common::is_default,
};

/// What `kubectl get` shows.
pub(crate) const COLUMNS: [Column; 10] = [
    integer("DESIRED", ".spec.replicas"),
    integer("UPDATED", ".status.updatedReplicas"),
    integer("UPDATED_READY", ".status.updatedReadyReplicas"),
    integer("UPDATED_AVAILABLE", ".status.updatedAvailableReplicas"),
    integer("READY", ".status.readyReplicas"),
    integer("TOTAL", ".status.replicas"),
    AGE,
    wide("CONTAINERS", ".spec.template.spec.containers[*].name"),
    wide("IMAGES", ".spec.template.spec.containers[*].image"),
    wide("SELECTOR", ".status.labelSelector"),
];

/// Labels and annotations of CloneSets, their pods and their revisions.
pub mod keys {
    /// Label on pods and claims: which instance of the CloneSet they belong to.
    pub const INSTANCE_ID: &str = "apps.kruise.io/cloneset-instance-id";
    /// Annotation on ControllerRevisions: hash of the claim templates at that revision.
    pub const CLAIM_TEMPLATES_HASH: &str = "kruise.io/cloneset-volumeclaimtemplate-hash";
    /// Annotation on ControllerRevisions: the claim templates at that revision, as JSON.
    pub const CLAIM_TEMPLATES: &str = "fleet.kruise.io/volume-claim-templates";
    /// Annotation on CloneSets: name of the revision that stays the current one, whatever is updated, for as long as the
    /// annotation is there. Somebody else decides when the release is over.
    pub const PINNED_REVISION: &str = "fleet.kruise.io/pinned-revision";
    /// Label on v1alpha1 CloneSets: pods that prepare for deletion do not count as replicas.
    pub const SCALING_EXCLUDE_PREPARING_DELETE: &str =
        "apps.kruise.io/cloneset-scaling-exclude-preparing-delete";
    /// Annotation on v1alpha1 CloneSets: nodes that download images at the same time.
    pub const PREDOWNLOAD_PARALLELISM: &str = "apps.kruise.io/image-predownload-parallelism";
    /// Annotation on v1alpha1 CloneSets: seconds until one download is given up.
    pub const PREDOWNLOAD_TIMEOUT_SECONDS: &str = "apps.kruise.io/image-predownload-timeout-seconds";
    /// Annotation on v1alpha1 CloneSets: updated pods that must be ready before downloads start.
    pub const PREDOWNLOAD_MIN_UPDATED_READY_PODS: &str =
        "apps.kruise.io/image-predownload-min-updated-ready-pods";
}

/// Condition types of CloneSets.
pub mod conditions {
    /// The last attempt to add or remove pods failed.
    pub const FAILED_SCALE: &str = "FailedScale";
    /// The last attempt to update pods failed.
    pub const FAILED_UPDATE: &str = "FailedUpdate";
    /// Whether a release moves on within its deadline.
    pub const PROGRESSING: &str = "Progressing";
}

/// Reasons of the `Progressing` condition.
pub mod progress {
    /// Every replica is updated and available.
    pub const AVAILABLE: &str = "CloneSetAvailable";
    /// The user has paused the release.
    pub const PAUSED: &str = "CloneSetPaused";
    /// All pods that the partition allows are updated and available.
    pub const PARTITION_AVAILABLE: &str = "ProgressPartitionAvailable";
    /// Nothing moved for the whole deadline.
    pub const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// The release is under way.
    pub const UPDATED: &str = "CloneSetUpdated";
}

/// Reasons of events on CloneSets.
pub mod events {
    /// A pod or claim was created.
    pub const SUCCESSFUL_CREATE: &str = "SuccessfulCreate";
    /// A pod or claim could not be created.
    pub const FAILED_CREATE: &str = "FailedCreate";
    /// A pod or claim was deleted.
    pub const SUCCESSFUL_DELETE: &str = "SuccessfulDelete";
    /// A pod or claim could not be deleted.
    pub const FAILED_DELETE: &str = "FailedDelete";
    /// A claim could not be updated.
    pub const FAILED_UPDATE: &str = "FailedUpdate";
    /// `scaleStrategy.maxUnavailable` holds new pods back.
    pub const SCALE_UP_LIMITED: &str = "ScaleUpLimited";
    /// A pod is being updated in place.
    pub const SUCCESSFUL_UPDATE_IN_PLACE: &str = "SuccessfulUpdatePodInPlace";
    /// A pod could not be updated in place.
    pub const FAILED_UPDATE_IN_PLACE: &str = "FailedUpdatePodInPlace";
    /// A pod is being replaced.
    pub const SUCCESSFUL_UPDATE_RECREATE: &str = "SuccessfulUpdatePodReCreate";
    /// A pod could not be replaced.
    pub const FAILED_UPDATE_RECREATE: &str = "FailedUpdatePodReCreate";
    /// Images are being downloaded ahead of the update.
    pub const CREATED_IMAGE_PULL_JOB: &str = "CreatedImagePullJob";
    /// Downloading images ahead of the update could not be started.
    pub const FAILED_CREATE_IMAGE_PULL_JOB: &str = "FailedCreateImagePullJob";
}

/// What was last seen of a CloneSet and its pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetStatus {
    /// The generation of the spec that these numbers are about.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Pods that exist and are not on their way out.
    pub replicas: i32,
    /// Pods that are ready.
    pub ready_replicas: i32,
    /// Pods that have been ready for at least `minReadySeconds`.
    pub available_replicas: i32,
    /// Pods at the update revision.
    pub updated_replicas: i32,
    /// Pods at the update revision that are ready.
    pub updated_ready_replicas: i32,
    /// Pods at the update revision that have been ready for at least `minReadySeconds`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub updated_available_replicas: i32,
    /// Pods that should be at the update revision: replicas less the partition.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expected_updated_replicas: i32,
    /// Name of the revision that pods are being updated to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub update_revision: String,
    /// Name of the revision that pods are being updated from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub current_revision: String,
    /// How often a new revision's name was already taken by other content; part of the name's hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// What the CloneSet is struggling with or progressing towards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<CloneSetCondition>,
    /// The selector as text; autoscalers find the pods with it through the scale subresource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
}

/// One aspect of a CloneSet's state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetCondition {
    /// Which aspect this is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When the condition was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// One word for why the status is what it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Details for a person to read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
