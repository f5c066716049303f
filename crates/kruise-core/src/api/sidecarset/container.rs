//! A container to be injected, and what the SidecarSet says about it.

use k8s_openapi::api::core::v1::ObjectFieldSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A container with rules for its injection and update. Every field of an ordinary container may be given beside the
/// ones listed here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarContainer {
    /// `BeforeAppContainer` or `AfterAppContainer`: where the container goes among the pod's own ones. Containers go
    /// before and init containers after them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_inject_policy: Option<String>,
    /// How the container is updated in running pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_strategy: Option<SidecarContainerUpgradeStrategy>,
    /// Whether the mounts of the pod's own containers are added to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_volume_policy: Option<ShareVolumePolicy>,
    /// Whether the block devices of the pod's own containers are added to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_volume_device_policy: Option<ShareVolumePolicy>,
    /// Environment variables copied from the pod's own containers.
    #[serde(rename = "transferEnv", default, skip_serializing_if = "Vec::is_empty")]
    pub transfer_env: Vec<TransferEnvVar>,
    /// Resources computed from those of the pod's own containers. Not together with `resources`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources_policy: Option<ResourcesPolicy>,
    /// The container itself, kept as written.
    #[serde(flatten)]
    pub container: Map<String, Value>,
}

/// How a sidecar is updated in running pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarContainerUpgradeStrategy {
    /// `ColdUpgrade` restarts the container, `HotUpgrade` lets a second one take over first; ColdUpgrade if absent.
    /// It never changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_type: Option<String>,
    /// Image of the idle half of a hot upgrade pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot_upgrade_empty_image: Option<String>,
}

/// Whether something of the pod's own containers is shared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShareVolumePolicy {
    /// `enabled` or `disabled`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
}

/// Environment variables to copy from one of the pod's own containers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransferEnvVar {
    /// Name of the container to copy from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_container_name: Option<String>,
    /// Where the name of the container to copy from is found, if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_container_name_from: Option<SourceContainerNameSource>,
    /// Name of one variable to copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_name: Option<String>,
    /// Names of more variables to copy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_names: Vec<String>,
}

/// Where a container's name is found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceContainerNameSource {
    /// A label or annotation of the pod, such as `metadata.labels['main']`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_ref: Option<ObjectFieldSelector>,
}

/// How a sidecar's resources follow from those of the pod's own containers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourcesPolicy {
    /// Which of the pod's containers count, by name.
    #[serde(default = "any_name")]
    pub target_containers_name_regex: String,
    /// Whether the containers' resources are added up or the largest is taken.
    pub target_containers_mode: TargetContainersMode,
    /// The resources, as expressions over those of the containers that count.
    pub resources_expr: ResourcesExpr,
}

/// How the resources of several containers become one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TargetContainersMode {
    /// All added up.
    Sum,
    /// The largest.
    Max,
}

/// Limits and requests as expressions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourcesExpr {
    /// The limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceExpressions>,
    /// The requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<ResourceExpressions>,
}

/// One expression per resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceExpressions {
    /// Expression over the variable `cpu`, such as `max(cpu*50%, 50m)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Expression over the variable `memory`, such as `200Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

fn any_name() -> String {
    ".*".to_owned()
}
