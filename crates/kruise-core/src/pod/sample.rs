//! Pods for tests: only what differs has to be said.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::runtime::cache::pod::{ConditionLite, ContainerLite, ContainerStatusLite, PodLite};

/// A moment for tests to start from.
pub(crate) fn noon() -> Timestamp {
    "2026-01-15T12:00:00Z".parse().expect("a valid time")
}

/// A running pod without a node, conditions, labels or a time of creation.
pub(crate) fn pod(name: &str) -> PodLite {
    let mut pod = PodLite::default();
    pod.metadata.name = Some(name.to_owned());
    pod.status.phase = Some("Running".into());
    pod
}

impl PodLite {
    pub(crate) fn on(mut self, node: &str) -> Self {
        self.spec.node_name = Some(node.into());
        self
    }

    pub(crate) fn in_phase(mut self, phase: &str) -> Self {
        self.status.phase = Some(phase.into());
        self
    }

    pub(crate) fn with_condition(mut self, kind: &str, status: &str, since: Option<Timestamp>) -> Self {
        let last_transition_time = since.map(Time);
        self.status.conditions.push(ConditionLite {
            kind: kind.into(),
            status: status.into(),
            last_transition_time,
            ..ConditionLite::default()
        });
        self
    }

    pub(crate) fn ready_since(self, since: Option<Timestamp>) -> Self {
        self.with_condition("Ready", "True", since)
    }

    pub(crate) fn created(mut self, at: Timestamp) -> Self {
        self.metadata.creation_timestamp = Some(Time(at));
        self
    }

    pub(crate) fn with_label(mut self, key: &str, value: &str) -> Self {
        let labels = self.metadata.labels.get_or_insert_with(BTreeMap::new);
        labels.insert(key.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn with_annotation(mut self, key: &str, value: &str) -> Self {
        let annotations = self.metadata.annotations.get_or_insert_with(BTreeMap::new);
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn restarted(mut self, times: i32) -> Self {
        let status = ContainerStatusLite { restart_count: times, name: "main".into(), ..Default::default() };
        self.status.container_statuses.push(status);
        self
    }

    pub(crate) fn sidecar_restarted(mut self, times: i32) -> Self {
        self.spec.init_containers.push(ContainerLite {
            name: "sidecar".to_owned(),
            restart_policy: Some("Always".to_owned()),
            ..ContainerLite::default()
        });
        self.status.init_container_statuses.push(ContainerStatusLite {
            name: "sidecar".into(),
            restart_count: times,
            ..ContainerStatusLite::default()
        });
        self
    }

    pub(crate) fn terminating(mut self) -> Self {
        self.metadata.deletion_timestamp = Some(Time(noon()));
        self
    }
}
