//! What the hub counts besides the runtime.

mod fleet;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
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
pub use fleet::Fleet;

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
    reports_refused: Counter,
    /// What the fleet holds and uses.
    pub fleet: Fleet,
    states: Family<OfCluster, Gauge>,
    ages: Family<Named, Gauge<f64, AtomicU64>>,
    joins: Family<Outcome, Counter>,
    credentials: Family<Named, Gauge>,
    self_suspect: Gauge,
    /// Clusters that are shown.
    shown: Arc<Mutex<BTreeSet<String>>>,
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
struct Named {
    cluster: String,
}

/// How one cluster stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSight {
    /// Its name.
    pub cluster: String,
    /// Its state.
    pub state: ClusterState,
    /// How long its Lease has not changed.
    pub silent_for: Duration,
    /// For how many seconds its credential is still good, where that is known; less than nothing once it is not.
    pub credential_seconds: Option<i64>,
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
        let reports_refused = Counter::default();
        let (joins, credentials, ages) = (Family::default(), Family::default(), Family::default());
        let self_suspect = Gauge::default();
        let fleet = Fleet::new();
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
            prefix.register(
                "report_refused",
                "Reports of clusters that could not be true",
                reports_refused.clone(),
            );
            prefix.register("cluster_state", "1 for the state that a cluster is in", states.clone());
            prefix.register("report_age_seconds", "How long a cluster was not heard", ages.clone());
            prefix.register("join", "Answers to clusters that want to join", joins.clone());
            prefix.register(
                "credential_expiry_seconds",
                "How long the credential of a cluster's agent is still good; less than nothing once it is not",
                credentials.clone(),
            );
            prefix.register(
                "self_suspect",
                "1 while so many clusters vanished at once that the hub doubts what it sees",
                self_suspect.clone(),
            );
            fleet.register(prefix);
        });
        let shown = Arc::default();
        Self {
            metrics,
            webhooks,
            plan_seconds,
            plan_writes,
            plan_noops,
            reports_refused,
            fleet,
            states,
            ages,
            joins,
            credentials,
            self_suspect,
            shown,
        }
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

    /// Counts a report that could not be true.
    pub fn refused(&self) {
        self.reports_refused.inc();
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

    /// Notes whether the hub doubts what it sees (STATE-3).
    pub fn self_suspect(&self, is_suspect: bool) {
        self.self_suspect.set(i64::from(is_suspect));
    }

    /// Notes how all clusters stand. Those that have left are not shown any more.
    pub fn clusters(&self, all: &[ClusterSight]) {
        // Nothing panics under this lock.
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let names: BTreeSet<String> = all.iter().map(|it| it.cluster.clone()).collect();
        for cluster in shown.difference(&names) {
            let named = Named { cluster: cluster.clone() };
            self.credentials.remove(&named);
            self.ages.remove(&named);
            for (_, state) in STATES {
                self.states.remove(&OfCluster { cluster: cluster.clone(), state });
            }
            self.fleet.leave(cluster);
        }
        *shown = names;
        for ClusterSight { cluster, state, silent_for, credential_seconds } in all {
            let named = Named { cluster: cluster.clone() };
            for (other, name) in STATES {
                let label = OfCluster { cluster: cluster.clone(), state: name };
                self.states.get_or_create(&label).set(i64::from(other == *state));
            }
            self.ages.get_or_create(&named).set(silent_for.as_secs_f64());
            match credential_seconds {
                Some(seconds) => drop(self.credentials.get_or_create(&named).set(*seconds)),
                None => drop(self.credentials.remove(&named)),
            }
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
    use std::collections::BTreeMap;

    use super::*;
    use crate::dispatch::status::figures::{Budget, Figures, MovedBecause, Replicas, Undone, Used};

    #[test]
    fn what_the_hub_does_is_counted() {
        let measures = Measures::new();
        measures.planned(Duration::from_millis(1), &Round::default());
        measures.dispatched();
        measures.refused();
        measures.joined(JoinDecision::Denied);
        measures.self_suspect(true);
        let seen = |cluster: &str, credential: i64| ClusterSight {
            cluster: cluster.to_owned(),
            state: ClusterState::Ready,
            silent_for: Duration::from_millis(2_500),
            credential_seconds: Some(credential),
        };
        measures.clusters(&[seen("gone", 5), seen("eu-1", 60)]);
        measures.clusters(&[seen("eu-1", 59)]);
        let text = measures.metrics.text();
        for line in [
            "kruise_fleet_plan_duration_seconds_count 1",
            "kruise_fleet_plan_noop_total 1",
            "kruise_fleet_plan_writes_total 1",
            "kruise_fleet_report_refused_total 1",
            "kruise_fleet_join_total{result=\"denied\"} 1",
            "kruise_fleet_self_suspect 1",
            "kruise_fleet_credential_expiry_seconds{cluster=\"eu-1\"} 59",
            "kruise_fleet_report_age_seconds{cluster=\"eu-1\"} 2.5",
            "kruise_fleet_cluster_state{cluster=\"eu-1\",state=\"Ready\"} 1",
            "kruise_fleet_cluster_state{cluster=\"eu-1\",state=\"Offline\"} 0",
        ] {
            assert!(text.lines().any(|it| it == line), "no line {line:?} in\n{text}");
        }
        assert!(!text.contains("gone"), "a cluster that left is not shown: {text}");
    }

    #[test]
    fn sums_over_objects_follow_each_of_them_and_forget_those_that_are_gone() {
        let measures = Measures::new();
        let figures = |granted: u64, used: u64, error: u64| Figures {
            clusters: [("eu-1".to_owned(), Replicas { granted, ready: 1, unknown: 0 })].into(),
            budgets: [(Budget::Unavailable, Used { used, limit: 2 })].into(),
            partition_error: error,
            moved: [(MovedBecause::Drain, 3)].into(),
            violations: 0,
            drifted: ["eu-1".to_owned()].into(),
            corrected: [("eu-1".to_owned(), Undone { count: used + 5, told: 4 })].into(),
            acknowledged: BTreeMap::new(),
        };
        let fleet = &measures.fleet;
        fleet.follow("CloneSet shop/web", &figures(4, 1, 2));
        fleet.follow("CloneSet shop/web", &figures(6, 2, 0));
        fleet.follow("CloneSet shop/api", &figures(1, 0, 1));
        fleet.weigh("CloneSet shop/web", 1, || 700);
        fleet.weigh("CloneSet shop/web", 2, || 500);
        fleet.weigh("CloneSet shop/web", 2, || unreachable!("it was weighed"));
        fleet.acknowledged(Duration::from_millis(20));
        let expect = |lines: &[&str]| {
            let text = measures.metrics.text();
            for line in lines {
                assert!(text.lines().any(|it| it == *line), "no line {line:?} in\n{text}");
            }
        };
        expect(&[
            "kruise_fleet_replicas{cluster=\"eu-1\",kind=\"granted\"} 7",
            "kruise_fleet_budget_used{type=\"unavailable\"} 2",
            "kruise_fleet_budget_limit{type=\"unavailable\"} 4",
            "kruise_fleet_budget_violation_total 0",
            "kruise_fleet_partition_error 1",
            "kruise_fleet_ledger_bytes 500",
            "kruise_fleet_moves_total{why=\"drain\"} 9",
            // Still the same drift in the second round of the first object. Undone were 2 and 1 there, and 1 in the other: four
            // were counted before this process started.
            "kruise_fleet_drift_total 6",
            "kruise_fleet_dispatch_latency_seconds_count 1",
        ]);
        fleet.forget("CloneSet shop/web");
        expect(&[
            "kruise_fleet_replicas{cluster=\"eu-1\",kind=\"granted\"} 1",
            "kruise_fleet_budget_limit{type=\"unavailable\"} 2",
            "kruise_fleet_ledger_bytes 0",
        ]);
    }
}
