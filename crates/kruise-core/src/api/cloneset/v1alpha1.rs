//! CloneSet in its older served version.

use k8s_openapi::apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use super::{CloneSetCondition, CloneSetStatus};
use crate::api::{
    common::{
        InPlaceUpdateStrategy, Lifecycle, UpdatePriorityStrategy, UpdateScatterTerm, blank_is_none,
        is_default,
    },
    schema,
};

/// What pods a CloneSet keeps and how it changes them.
#[derive(CustomResource, JsonSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "CloneSet",
    plural = "clonesets",
    shortname = "clone",
    namespaced,
    status = "CloneSetStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "CloneSet keeps a number of interchangeable pods and updates them in place or by replacing them.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetSpec {
    /// How many pods to keep; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Which pods belong to the CloneSet. It must match the labels of the template and never changes.
    pub selector: LabelSelector,
    /// What a pod looks like. Kept as written, fields unknown to this version included.
    #[schemars(schema_with = "schema::raw_object")]
    pub template: Value,
    /// Claims that every pod gets for itself, by the name of the volume. Kept as written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::raw_objects")]
    pub volume_claim_templates: Vec<Value>,
    /// How pods are added and removed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scale_strategy: CloneSetScaleStrategy,
    /// How existing pods follow a change of the template.
    #[serde(default, skip_serializing_if = "is_default")]
    pub update_strategy: CloneSetUpdateStrategy,
    /// How many old revisions are kept for going back; 10 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub revision_history_limit: Option<i32>,
    /// Seconds a pod must be ready before it counts as available.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: i32,
    /// Points at which an outside controller may hold a pod back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
    /// Seconds without progress after which a release counts as stuck. Not tracked if absent or 2147483647.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub progress_deadline_seconds: Option<i32>,
}

/// How pods are added and removed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetScaleStrategy {
    /// Names of pods to delete. Each is replaced unless the replicas go down at the same time. Names are dropped
    /// from the list once their pods are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods_to_delete: Vec<String>,
    /// How many pods may be unavailable while pods are added, as a number or as a percentage of the replicas
    /// rounded up. No limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Whether a pod that takes the place of another one gets claims of its own instead of the ones left behind.
    #[serde(rename = "disablePVCReuse", default, skip_serializing_if = "is_default")]
    pub disable_pvc_reuse: bool,
}

/// How existing pods follow a change of the template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetUpdateStrategy {
    /// How one pod is brought to the new revision, or `OnDelete` to wait until somebody deletes it; ReCreate if
    /// absent.
    #[serde(
        rename = "type",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "blank_is_none"
    )]
    #[schemars(schema_with = "schema::or_blank::<CloneSetUpdateStrategyType>")]
    pub type_: Option<CloneSetUpdateStrategyType>,
    /// How many pods keep the old revision, as a number or as a percentage of the replicas rounded up; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<IntOrString>,
    /// How many pods may be unavailable during an update, as a number or as a percentage of the replicas; 20% if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// How many pods may be started beyond the replicas during an update, as a number or as a percentage of the
    /// replicas rounded up; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
    /// Whether existing pods are left as they are for now. Scaling goes on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// In which order pods are updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_strategy: Option<UpdatePriorityStrategy>,
    /// Labels whose pods are spread over the update.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scatter_strategy: Vec<UpdateScatterTerm>,
    /// Details of updates in place. In this version only `gracePeriodSeconds` takes effect; the other fields are
    /// set through annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place_update_strategy: Option<InPlaceUpdateStrategy>,
}

/// How one pod is brought to the new revision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CloneSetUpdateStrategyType {
    /// The pod is deleted and another one made.
    #[default]
    ReCreate,
    /// The pod is changed in place where the change allows it, and else replaced.
    InPlaceIfPossible,
    /// The pod is only ever changed in place.
    InPlaceOnly,
    /// The pod stays until somebody deletes it.
    OnDelete,
}
