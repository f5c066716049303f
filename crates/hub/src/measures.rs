//! What the hub counts besides the runtime.

use std::time::Duration;

use kruise_core::{
    api::fleet::member_cluster::ClusterState,
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
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCluster {
    cluster: String,
    state: &'static str,
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
        });
        Self { metrics, webhooks, plan_seconds, plan_writes, plan_noops, states }
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
        let text = measures.metrics.text();
        for line in [
            "kruise_fleet_plan_duration_seconds_count 1",
            "kruise_fleet_plan_noop_total 1",
            "kruise_fleet_plan_writes_total 1",
            "kruise_fleet_cluster_state{cluster=\"eu-1\",state=\"Ready\"} 1",
            "kruise_fleet_cluster_state{cluster=\"eu-1\",state=\"Offline\"} 0",
        ] {
            assert!(text.lines().any(|it| it == line), "no line {line:?} in\n{text}");
        }
    }
}
