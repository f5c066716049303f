//! Parts that several kinds share.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// Labels, annotations and finalizers that several kinds use.
pub mod keys {
    /// Label on pods: the revision a pod was made from.
    pub const CONTROLLER_REVISION_HASH: &str = "controller-revision-hash";
    /// Label on ControllerRevisions: the hash of their content.
    pub const REVISION_HASH: &str = "controller.kubernetes.io/hash";
    /// Label on pods: the hash part of the revision, as Deployments write it.
    pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
    /// Label on pods: where a pod stands in its lifecycle.
    pub const LIFECYCLE_STATE: &str = "lifecycle.apps.kruise.io/state";
    /// Annotation on pods: when the lifecycle state last changed (RFC 3339).
    pub const LIFECYCLE_TIMESTAMP: &str = "lifecycle.apps.kruise.io/timestamp";
    /// Label on pods: this pod is to be deleted first. Only its presence matters.
    pub const SPECIFIED_DELETE: &str = "apps.kruise.io/specified-delete";
    /// Annotation on pods: the running in-place update.
    pub const INPLACE_UPDATE_STATE: &str = "apps.kruise.io/inplace-update-state";
    /// Old spelling of [`INPLACE_UPDATE_STATE`], read as a fallback and removed on write.
    pub const INPLACE_UPDATE_STATE_LEGACY: &str = "inplace-update-state";
    /// Annotation on pods: an in-place update that waits for its grace period.
    pub const INPLACE_UPDATE_GRACE: &str = "apps.kruise.io/inplace-update-grace";
    /// Old spelling of [`INPLACE_UPDATE_GRACE`].
    pub const INPLACE_UPDATE_GRACE_LEGACY: &str = "inplace-update-grace";
    /// Annotation on pods: container facts that the node daemon reports.
    pub const RUNTIME_CONTAINERS_META: &str = "apps.kruise.io/runtime-containers-meta";
    /// Annotation on pods: how dear a pod is when some must go.
    pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    /// Label on ControllerRevisions: their images were downloaded ahead.
    pub const PREDOWNLOAD_CREATED: &str = "apps.kruise.io/pre-predownload-created";
    /// Label on ControllerRevisions: downloading their images ahead would not help.
    pub const PREDOWNLOAD_IGNORED: &str = "apps.kruise.io/image-predownload-ignored";
    /// Label on workloads and namespaces: protection against deletion, `Always` or `Cascading`.
    pub const DELETE_PROTECTION: &str = "policy.kruise.io/delete-protection";
    /// Label that virtual-kubelet puts on its nodes under the key `type`.
    pub const VIRTUAL_KUBELET: &str = "virtual-kubelet";
    /// Condition of pods: the in-place update has reached the containers.
    pub const CONDITION_INPLACE_UPDATE_READY: &str = "InPlaceUpdateReady";
    /// Condition of pods: nothing of ours keeps the pod out of rotation.
    pub const CONDITION_KRUISE_POD_READY: &str = "KruisePodReady";
    /// Environment variable of containers, set by users: start order.
    pub const ENV_CONTAINER_PRIORITY: &str = "KRUISE_CONTAINER_PRIORITY";
    /// Environment variable of containers, set by admission: what holds a start back.
    pub const ENV_CONTAINER_BARRIER: &str = "KRUISE_CONTAINER_BARRIER";
}

/// In which order pods are updated, by their labels. Give weights or an order, not both.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdatePriorityStrategy {
    /// Label keys in order of importance. Pods are compared by the number at the end of the label's value, the
    /// highest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order_priority: Vec<OrderPriorityTerm>,
    /// Weights of pods by label. The weights of all matching terms are added; the heaviest pods are updated first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weight_priority: Vec<WeightPriorityTerm>,
}

/// One label key by whose value pods are ordered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderPriorityTerm {
    /// The label key. Its values should end in a number, such as `5` or `sts-10`.
    pub ordered_key: String,
}

/// A weight for the pods that a selector matches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WeightPriorityTerm {
    /// The weight, from 0 to 100.
    #[schemars(range(min = 0, max = 100))]
    pub weight: i32,
    /// The pods that get the weight.
    pub match_selector: LabelSelector,
}

/// Pods with this label are spread over the whole update instead of being updated one after another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpdateScatterTerm {
    /// The label key.
    pub key: String,
    /// The label's value.
    pub value: String,
}

/// Points at which an outside controller may hold a pod back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// Holds a pod back before it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_delete: Option<LifecycleHook>,
    /// Holds a pod back before it is updated in place, and again afterwards until the hook is back on the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place_update: Option<LifecycleHook>,
    /// Holds a new pod back before it counts as available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_normal: Option<LifecycleHook>,
}

/// What a pod must carry for a hook to hold it back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleHook {
    /// Labels that hook the pod when it carries all of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels_handler: BTreeMap<String, String>,
    /// Finalizers that hook the pod when it carries all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers_handler: Vec<String>,
    /// Whether the pod is taken out of rotation while it is held back. Not for `preNormal`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mark_pod_not_ready: bool,
}

/// How an image change is brought into a running pod, with everything that `v1beta1` can say about it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InPlaceUpdateStrategy {
    /// Seconds between taking a pod out of rotation and changing its images, so that traffic can drain.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(range(min = 0))]
    pub grace_period_seconds: i32,
    /// How many nodes download the new images at the same time ahead of the update. An integer; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pre_download_parallelism: Option<IntOrString>,
    /// Seconds after which one download ahead of the update is given up; 300 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub image_pre_download_timeout_seconds: Option<i32>,
    /// How many updated pods must be ready before images are downloaded to the other nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub image_pre_download_min_updated_ready_pods: Option<i32>,
}

/// Whether a value is what its type starts with; such values are not written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads an empty string as "not set", which is what it means to admission as well.
pub(crate) fn blank_is_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    match Option::<serde_json::Value>::deserialize(deserializer)? {
        None => Ok(None),
        Some(serde_json::Value::String(text)) if text.is_empty() => Ok(None),
        Some(value) => serde_json::from_value(value).map(Some).map_err(serde::de::Error::custom),
    }
}
