//! Pods as controllers read them: a fraction of the size of the full type, and nothing else is ever built in memory. What
//! pods of one template have in common is there once.
//!
//! These types are for reading only. Pods are written as JSON (templates) or by patches, so what is left out here is
//! never lost.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::Resource;
use serde::Deserialize;
use serde_json::Value;

use super::shared::{Common, Pool, Shared, Word};

/// A pod, as far as controllers read it.
#[derive(Debug, Clone, Default, Deserialize, Resource)]
#[resource(inherit = "Pod")]
pub struct PodLite {
    /// Names, labels, annotations, owners, finalizers.
    pub metadata: ObjectMeta,
    /// What should run.
    #[serde(default)]
    pub spec: PodSpecLite,
    /// What runs.
    #[serde(default)]
    pub status: PodStatusLite,
}

/// What should run.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpecLite {
    /// The node, once there is one.
    pub node_name: Option<Word>,
    /// The containers.
    pub containers: Shared<Vec<ContainerLite>>,
    /// The containers that run before, or beside as sidecars.
    pub init_containers: Shared<Vec<ContainerLite>>,
    /// Conditions that have to be true for the pod to be ready.
    pub readiness_gates: Shared<Vec<ReadinessGateLite>>,
    /// Volumes: their names and claims.
    pub volumes: Vec<VolumeLite>,
    /// What happens when a container ends.
    pub restart_policy: Option<Word>,
    /// How long the pod may take to end.
    pub termination_grace_period_seconds: Option<i64>,
}

/// A container of the spec.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerLite {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: Option<String>,
    /// Its environment as it stands: launch priority and values from metadata are read from it.
    pub env: Vec<Value>,
    /// Its resources as they stand; `null` if there are none.
    pub resources: Value,
    /// Whether a resize restarts it, as it stands; `null` if not given.
    pub resize_policy: Value,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<String>,
}

/// A readiness gate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReadinessGateLite {
    /// The condition that has to be true.
    pub condition_type: String,
}

/// A volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeLite {
    /// Its name in the pod.
    pub name: String,
    /// The claim it comes from.
    pub persistent_volume_claim: Option<ClaimSourceLite>,
}

/// A volume's claim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSourceLite {
    /// The name of the PersistentVolumeClaim.
    pub claim_name: String,
}

/// What runs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatusLite {
    /// Pending, Running, Succeeded, Failed or Unknown.
    pub phase: Option<Word>,
    /// Why, in one word: `Evicted`.
    pub reason: Option<Word>,
    /// Conditions.
    pub conditions: Vec<ConditionLite>,
    /// State of the containers.
    pub container_statuses: Vec<ContainerStatusLite>,
    /// State of the init containers.
    pub init_container_statuses: Vec<ContainerStatusLite>,
    /// Guaranteed, Burstable or BestEffort.
    pub qos_class: Option<Word>,
    /// The pod's address.
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    /// When kubelet accepted it.
    pub start_time: Option<Time>,
    /// The generation of the pod that this status is about; kubelets before 1.34 do not tell.
    pub observed_generation: Option<i64>,
}

/// A condition.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConditionLite {
    /// Which one.
    #[serde(rename = "type")]
    pub kind: Word,
    /// True, False or Unknown.
    pub status: Word,
    /// Why, in one word.
    pub reason: Option<Word>,
    /// Why, in full; some of our conditions keep lists in it.
    pub message: Option<Box<str>>,
    /// Since when.
    pub last_transition_time: Option<Time>,
}

/// State of a container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatusLite {
    /// Its name.
    pub name: Word,
    /// The image as the runtime names it.
    pub image: Word,
    /// The image's digest.
    #[serde(rename = "imageID")]
    pub image_id: Word,
    /// The running instance.
    #[serde(rename = "containerID")]
    pub container_id: Option<String>,
    /// How often it was restarted.
    pub restart_count: i32,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether its startup probe has passed.
    pub started: Option<bool>,
    /// Waiting, running or terminated, with details.
    pub state: ContainerStateLite,
    /// The resources in force; `null` if the kubelet does not tell.
    pub resources: Value,
}

/// Waiting, running or terminated: one of them is set.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStateLite {
    /// Why it does not run yet.
    pub waiting: Option<WaitingLite>,
    /// Since when it runs.
    pub running: Option<RunningLite>,
    /// How it ended.
    pub terminated: Option<TerminatedLite>,
}

/// Why a container does not run yet.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WaitingLite {
    /// In one word: `ImagePullBackOff`.
    pub reason: Option<String>,
}

/// A running container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunningLite {
    /// Since when.
    pub started_at: Option<Time>,
}

/// A container that ended.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TerminatedLite {
    /// With which code.
    pub exit_code: i32,
    /// Why, in one word: `Completed`.
    pub reason: Option<String>,
    /// When.
    pub finished_at: Option<Time>,
}

impl Common for Vec<ContainerLite> {
    fn pool() -> &'static Pool<Self> {
        static POOL: Pool<Vec<ContainerLite>> = Pool::new();
        &POOL
    }
}

impl Common for Vec<ReadinessGateLite> {
    fn pool() -> &'static Pool<Self> {
        static POOL: Pool<Vec<ReadinessGateLite>> = Pool::new();
        &POOL
    }
}

impl PodLite {
    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&ConditionLite> {
        self.status.conditions.iter().find(|it| it.kind == kind)
    }

    /// Whether it is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Its labels.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.metadata.labels.as_ref().unwrap_or(&NONE)
    }

    /// Its annotations.
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.metadata.annotations.as_ref().unwrap_or(&NONE)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_read_and_stays_small() {
        let pod: PodLite = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "namespace": "n", "labels": {"app": "x"}},
            "spec": {
                "nodeName": "node-1",
                "unknownToUs": {"a": 1},
                "containers": [{"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "1"}}, "env": [{"name": "E", "value": "1"}]}],
                "readinessGates": [{"conditionType": "InPlaceUpdateReady"}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-a"}}, {"name": "tmp", "emptyDir": {}}],
            },
            "status": {
                "phase": "Running", "podIP": "10.0.0.1",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "containerStatuses": [{
                    "name": "c", "image": "i:1", "imageID": "sha256:1", "containerID": "containerd://1", "ready": true, "restartCount": 2,
                    "started": true, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "lastState": {},
                }],
            },
        }))
        .unwrap();
        let status = &pod.status.container_statuses[0];
        assert_eq!((&*status.image_id, status.restart_count, status.ready), ("sha256:1", 2, true));
        assert!(status.state.running.is_some());
        assert_eq!(pod.condition("Ready").unwrap().status, "True");
        assert_eq!(pod.spec.containers[0].resources["limits"]["cpu"], "1");
        assert_eq!(pod.spec.volumes[0].persistent_volume_claim.as_ref().unwrap().claim_name, "data-a");
        assert_eq!(pod.labels()["app"], "x");
        assert_eq!(PodLite::kind(&()), "Pod");
        // The full types are 2248 and 2144 bytes.
        assert!(size_of::<PodLite>() <= 800, "{}", size_of::<PodLite>());
        assert!(size_of::<ContainerLite>() <= 192, "{}", size_of::<ContainerLite>());
    }

    #[test]
    fn a_pod_without_spec_or_status_is_no_error() {
        let pod: PodLite = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        assert!(pod.spec.containers.is_empty() && !pod.is_terminating());
    }
}
