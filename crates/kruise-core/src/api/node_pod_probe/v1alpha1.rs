//! NodePodProbe as it is stored.

use k8s_openapi::api::core::v1::Probe;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NodePodProbeStatus;

/// What is probed on the node of the same name.
#[derive(CustomResource, JsonSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "NodePodProbe",
    plural = "nodepodprobes",
    status = "NodePodProbeStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "NodePodProbe tells what the node of the same name probes in its pods and what came of it."
)]
#[serde(rename_all = "camelCase")]
pub struct NodePodProbeSpec {
    /// The pods that are probed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_probes: Vec<PodProbe>,
}

/// The probes of one pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodProbe {
    /// The pod's name.
    pub name: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's UID.
    pub uid: String,
    /// The pod's address, for probes that name no host.
    #[serde(rename = "IP")]
    pub ip: String,
    /// What is probed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ContainerProbe>,
}

/// One probe of one container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerProbe {
    /// The name of the PodProbeMarker and that of its probe, with `#` between them.
    pub name: String,
    /// The container's name.
    pub container_name: String,
    /// What is done, and how often. Ports are numbers; a gRPC handler is not carried out.
    pub probe: Probe,
}
