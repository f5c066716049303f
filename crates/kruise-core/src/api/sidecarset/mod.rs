//! SidecarSet: containers that are injected into other workloads' pods and updated on their own.

pub mod v1alpha1;
pub mod v1beta1;

mod container;
pub(crate) mod convert;
mod strategy;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use container::{
    ResourceExpressions, ResourcesExpr, ResourcesPolicy, ShareVolumePolicy, SidecarContainer,
    SidecarContainerUpgradeStrategy, SourceContainerNameSource, TargetContainersMode, TransferEnvVar,
};
pub use strategy::{
    InjectRevisionPolicy, SidecarSetInjectRevision, SidecarSetInjectionStrategy, SidecarSetPatchPodMetadata,
    SidecarSetUpdateStrategy,
};

use super::{
    columns::{AGE, Column, integer},
    common::is_default,
};

/// What `kubectl get` shows.
pub(crate) const COLUMNS: [Column; 4] = [
    integer("MATCHED", ".status.matchedPods"),
    integer("UPDATED", ".status.updatedPods"),
    integer("READY", ".status.readyPods"),
    AGE,
];

/// Labels and annotations of SidecarSets, their revisions and the pods they are injected into.
pub mod keys {
    /// Label on v1alpha1 SidecarSets and on ControllerRevisions: the version's name given by the user.
    pub const CUSTOM_VERSION: &str = "apps.kruise.io/sidecarset-custom-version";
    /// Label on ControllerRevisions: the SidecarSet they belong to.
    pub const NAME: &str = "kruise.io/sidecarset-name";
    /// Annotation on SidecarSets and pods: hash of the injected containers.
    pub const HASH: &str = "kruise.io/sidecarset-hash";
    /// Annotation on SidecarSets and pods: the same hash with images left out.
    pub const HASH_WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
    /// Annotation on pods: names of the SidecarSets that were injected.
    pub const INJECTED_LIST: &str = "kruise.io/sidecarset-injected-list";
    /// Annotation on pods: running in-place updates by SidecarSet.
    pub const INPLACE_UPDATE_STATE: &str = "kruise.io/sidecarset-inplace-update-state";
    /// Annotation on pods: which half of each hot upgrade pair does the work.
    pub const WORKING_HOT_UPGRADE_CONTAINER: &str = "kruise.io/sidecarset-working-hotupgrade-container";
    /// Start of the annotation key that holds a hot upgrade container's version.
    pub const VERSION_PREFIX: &str = "version.sidecarset.kruise.io/";
    /// Start of the annotation key that holds the version of the other half.
    pub const VERSION_ALT_PREFIX: &str = "versionalt.sidecarset.kruise.io/";
    /// Annotation on SidecarSets: this one is a canary of another.
    pub const CANARY: &str = "apps.kruise.io/sidecarset-canary";
    /// Annotation on canary SidecarSets: the one they are a canary of.
    pub const BASE: &str = "apps.kruise.io/sidecarset-base";
    /// Environment variable of hot upgrade containers: their own version.
    pub const ENV_VERSION: &str = "SIDECARSET_VERSION";
    /// Environment variable of hot upgrade containers: the version of the other half.
    pub const ENV_VERSION_ALT: &str = "SIDECARSET_VERSION_ALT";
    /// Key in the configuration map: which annotations SidecarSets may patch.
    pub const PATCH_WHITELIST: &str = "SidecarSet_PatchPodMetadata_WhiteList";
}

/// Values of fields that the API leaves open for other words.
pub mod values {
    /// Update strategy: containers follow changes in place.
    pub const ROLLING_UPDATE: &str = "RollingUpdate";
    /// Update strategy: only new pods get changes.
    pub const NOT_UPDATE: &str = "NotUpdate";
    /// Inject policy: before the pod's own containers.
    pub const BEFORE_APP_CONTAINER: &str = "BeforeAppContainer";
    /// Inject policy: after the pod's own containers.
    pub const AFTER_APP_CONTAINER: &str = "AfterAppContainer";
    /// Upgrade type: the container is restarted with the new image.
    pub const COLD_UPGRADE: &str = "ColdUpgrade";
    /// Upgrade type: a second container takes over before the first one stops.
    pub const HOT_UPGRADE: &str = "HotUpgrade";
    /// Share volume policy: the pod's mounts are added to the sidecar.
    pub const ENABLED: &str = "enabled";
    /// Share volume policy: the sidecar has only its own mounts.
    pub const DISABLED: &str = "disabled";
    /// Patch policy: what the pod has wins.
    pub const RETAIN: &str = "Retain";
    /// Patch policy: the SidecarSet wins.
    pub const OVERWRITE: &str = "Overwrite";
    /// Patch policy: JSON objects are merged.
    pub const MERGE_PATCH_JSON: &str = "MergePatchJson";
}

/// Condition types that SidecarSets put on pods.
pub mod conditions {
    /// Whether every injected SidecarSet can be updated in place.
    pub const UPGRADABLE: &str = "SidecarSetUpgradable";
    /// Reason: all of them can.
    pub const ALL_UPGRADABLE: &str = "AllSidecarsetUpgradable";
    /// Reason: one changed a field that running pods cannot take over.
    pub const UPDATE_IMMUTABLE_FIELD: &str = "UpdateImmutableField";
}

/// Reasons of events about SidecarSets.
pub mod events {
    /// Some pods can only get the change by being recreated.
    pub const NOT_UPGRADABLE_PODS: &str = "NotUpgradablePods";
    /// The old half of a hot upgrade pair was emptied.
    pub const RESET_CONTAINER_SUCCEED: &str = "ResetContainerSucceed";
    /// The old half of a hot upgrade pair could not be emptied.
    pub const RESET_CONTAINER_FAILED: &str = "ResetContainerFailed";
}

/// What was last seen of a SidecarSet and the pods it matches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetStatus {
    /// The generation of the spec that these numbers are about.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Pods that carry the sidecars.
    pub matched_pods: i32,
    /// Matched pods with the newest sidecars.
    pub updated_pods: i32,
    /// Matched pods whose sidecars run and that are ready.
    pub ready_pods: i32,
    /// Matched pods with the newest sidecars that are ready.
    #[serde(default, skip_serializing_if = "is_default")]
    pub updated_ready_pods: i32,
    /// Name of the newest revision.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub latest_revision: String,
    /// How often a new revision's name was already taken by other content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
}
