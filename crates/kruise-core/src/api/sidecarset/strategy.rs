//! How sidecars reach pods and follow changes.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::common::{UpdatePriorityStrategy, UpdateScatterTerm, is_default};

/// How sidecars in running pods follow a change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetUpdateStrategy {
    /// `RollingUpdate` changes running pods in place, `NotUpdate` only new pods; RollingUpdate if absent.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Whether running pods are left as they are for now.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// Only matching pods are updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// How many pods keep the old sidecars, as a number or as a percentage of the matched pods; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<IntOrString>,
    /// How many pods may be unavailable during an update, as a number or as a percentage of the matched pods; 1 if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// In which order pods are updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_strategy: Option<UpdatePriorityStrategy>,
    /// Labels whose pods are spread over the update.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scatter_strategy: Vec<UpdateScatterTerm>,
}

/// What new pods get.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetInjectionStrategy {
    /// Whether new pods get no sidecars for now. Pods that have them are still updated.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// The revision that new pods get instead of the newest one. Name it by `customVersion` or `revisionName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<SidecarSetInjectRevision>,
}

/// A revision for new pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetInjectRevision {
    /// The revision's version as the user named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_version: Option<String>,
    /// The revision's object name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision_name: Option<String>,
    /// Whether every new pod gets the revision.
    #[serde(default)]
    pub policy: InjectRevisionPolicy,
}

/// Which new pods get the named revision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InjectRevisionPolicy {
    /// Every new pod.
    #[default]
    Always,
    /// As many as the partition says; the others get the newest revision.
    Partial,
}

/// Annotations that pods get along with the sidecars.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetPatchPodMetadata {
    /// The annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// `Retain` keeps what the pod has, `Overwrite` replaces it, `MergePatchJson` merges JSON objects; Retain if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_policy: Option<String>,
}
