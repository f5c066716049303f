//! What the hub counts besides the runtime.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kruise_core::{
    api::fleet::{join_request::JoinDecision, member_cluster::ClusterState},
    runtime::{metrics::Metrics, webhook},
};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
};

use crate::dispatch::plan::Round;

/// Every metric of the process. Clones count into the same registry.
#[derive(Debug, Clone)]
pub struct Measures {
    /// Those of the runtime, and where all of them are read.
    pub metrics: Metrics,
    /// Those of admission.
    pub webhooks: webhook::Measures,
    plan_seconds: Histogram,
    plan_writes: Counter,
    plan_noops: Counter,
    states: Family<OfCluster, Gauge>,
    joins: Family<Outcome, Counter>,
    credentials: Family<Credential, Gauge>,
    /// Clusters whose credential is shown.
    shown: Arc<Mutex<BTreeMap<String, i64>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCluster {
    cluster: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Credential {
    cluster: String,
}

const STATES: [(ClusterState, &str); 8] = [
    (ClusterState::Pending, "Pending"),
    (ClusterState::Ready, "Ready"),
    (ClusterState::Cordoned, "Cordoned"),
    (ClusterState::Draining, "Draining"),
    (ClusterState::Offline, "Offline"),
    (ClusterState::Lost, "Lost"),
    (ClusterState::Returning, "Returning"),
    (ClusterState::Revoked, "Revoked"),
];

impl Measures {
    /// Nothing counted yet.
    pub fn new() -> Self {
        // From a few clusters to thousands.
        let plan_seconds = Histogram::new(exponential_buckets(0.000_05, 4.0, 9));
        let (plan_writes, plan_noops, states) = (Counter::default(), Counter::default(), Family::default());
        let (joins, credentials) = (Family::default(), Family::default());
        let webhooks = webhook::Measures::default();
        let metrics = Metrics::new(|it| {
            webhooks.register(it);
            let prefix = it.sub_registry_with_prefix("kruise_fleet");
            prefix.register(
                "plan_duration_seconds",
                "How long planning one object takes",
                plan_seconds.clone(),
            );
            prefix.register("plan_writes", "Shares that were written", plan_writes.clone());
            prefix.register("plan_noop", "Rounds that changed nothing", plan_noops.clone());
            prefix.register("cluster_state", "1 for the state that a cluster is in", states.clone());
            prefix.register("join", "Answers to clusters that want to join", joins.clone());
            prefix.register(
                "credential_expiry_seconds",
                "How long the credential of a cluster's agent is still good; less than nothing once it is not",
                credentials.clone(),
            );
        });
        let shown = Arc::default();
        Self { metrics, webhooks, plan_seconds, plan_writes, plan_noops, states, joins, credentials, shown }
    }

    /// Counts one round.
    pub fn planned(&self, took: Duration, round: &Round) {
        self.plan_seconds.observe(took.as_secs_f64());
        if round.save.is_none() && round.writes.is_empty() {
            self.plan_noops.inc();
        }
    }

    /// Counts one share that was written.
    pub fn dispatched(&self) {
        self.plan_writes.inc();
    }

    /// Counts an answer to a cluster that wants to join.
    pub fn joined(&self, decision: JoinDecision) {
        let result = match decision {
            JoinDecision::Pending => "pending",
            JoinDecision::Approved => "approved",
            JoinDecision::Denied => "denied",
        };
        self.joins.get_or_create(&Outcome { result }).inc();
    }

    /// Notes for how many seconds the credentials of all clusters are still good. Those of others are forgotten.
    pub fn credentials(&self, all: BTreeMap<String, i64>) {
        // Nothing panics under this lock.
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for cluster in shown.keys().filter(|it| !all.contains_key(*it)) {
            self.credentials.remove(&Credential { cluster: cluster.clone() });
        }
        for (cluster, seconds) in &all {
            self.credentials.get_or_create(&Credential { cluster: cluster.clone() }).set(*seconds);
        }
        *shown = all;
    }

    /// Notes the state of a cluster.
    pub fn cluster(&self, cluster: &str, state: ClusterState) {
        for (other, name) in STATES {
            let label = OfCluster { cluster: cluster.to_owned(), state: name };
            self.states.get_or_create(&label).set(i64::from(other == state));
        }
    }
}

impl Default for Measures {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_hub_does_is_counted() {
        let measures = Measures::new();
        measures.planned(Duration::from_millis(1), &Round::default());
        measures.dispatched();
        measures.cluster("eu-1", ClusterState::Ready);
        measures.joined(JoinDecision::Denied);
        measures.credentials([("gone".to_owned(), 5), ("eu-1".to_owned(), 60)].into());
        measures.credentials([("eu-1".to_owned(), 59)].into());
        let text = measures.metrics.text();
        for line in [
            "kruise_fleet_plan_duration_seconds_count 1",
            "kruise_fleet_plan_noop_total 1",
            "kruise_fleet_plan_writes_total 1",
            "kruise_fleet_join_total{result=\"denied\"} 1",
            "kruise_fleet_credential_expiry_seconds{cluster=\"eu-1\"} 59",
            "kruise_fleet_cluster_state{cluster=\"eu-1\",state=\"Ready\"} 1",
            "kruise_fleet_cluster_state{cluster=\"eu-1\",state=\"Offline\"} 0",
        ] {
            assert!(text.lines().any(|it| it == line), "no line {line:?} in\n{text}");
        }
        assert!(!text.contains("gone"), "a cluster that left is not shown: {text}");
    }
}
