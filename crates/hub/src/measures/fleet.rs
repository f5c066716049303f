//! What the fleet holds and uses, as gauges over all objects, and what happened to it, as counters.
//!
//! An object's part is taken out of the sums before its new one is added, so a gauge is at any time the sum over the
//! objects that are there. Objects have no labels of their own: there may be thousands.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use crate::dispatch::status::figures::{Budget, Figures, MovedBecause, Replicas, Undone};

/// Sums over all objects. Clones count into the same ones.
#[derive(Debug, Clone)]
pub struct Fleet {
    replicas: Family<OfReplicas, Gauge>,
    budget_used: Family<OfBudget, Gauge>,
    budget_limit: Family<OfBudget, Gauge>,
    budget_violations: Counter,
    partition_error: Gauge,
    ledger_bytes: Gauge,
    moves: Family<OfMove, Counter>,
    drift: Counter,
    dispatch_seconds: Histogram,
    /// The part of each object in the sums.
    parts: Arc<Mutex<HashMap<String, Part>>>,
}

/// What one object has in the sums.
#[derive(Debug, Clone, Default)]
struct Part {
    figures: Figures,
    ledger_bytes: u64,
    /// The generation of the binding whose ledger that was.
    weighed: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfReplicas {
    cluster: String,
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfBudget {
    r#type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfMove {
    why: &'static str,
}

impl Fleet {
    /// Nothing counted yet.
    pub(super) fn new() -> Self {
        Self {
            replicas: Family::default(),
            budget_used: Family::default(),
            budget_limit: Family::default(),
            budget_violations: Counter::default(),
            partition_error: Gauge::default(),
            ledger_bytes: Gauge::default(),
            moves: Family::default(),
            drift: Counter::default(),
            // From a link in the same room to a cluster that was away for an hour.
            dispatch_seconds: Histogram::new(exponential_buckets(0.01, 4.0, 10)),
            parts: Arc::default(),
        }
    }

    pub(super) fn register(&self, prefix: &mut Registry) {
        prefix.register(
            "replicas",
            "Replicas over all objects, as granted, ready or not known",
            self.replicas.clone(),
        );
        prefix.register(
            "budget_used",
            "What clusters may be doing of a budget, over all objects",
            self.budget_used.clone(),
        );
        prefix.register(
            "budget_limit",
            "What specs allow of a budget, over all objects",
            self.budget_limit.clone(),
        );
        prefix.register(
            "budget_violation",
            "Rounds that let a budget grow beyond its limit",
            self.budget_violations.clone(),
        );
        prefix.register(
            "partition_error",
            "Pods too many or too few at the target revision",
            self.partition_error.clone(),
        );
        prefix.register("ledger_bytes", "Size of all ledgers as they are stored", self.ledger_bytes.clone());
        prefix.register(
            "moves",
            "Replicas that left a cluster because they run elsewhere",
            self.moves.clone(),
        );
        prefix.register(
            "drift",
            "Changes by somebody else to what was applied: undone, or found and left",
            self.drift.clone(),
        );
        prefix.register(
            "dispatch_latency_seconds",
            "From the write of a share to its acknowledgement",
            self.dispatch_seconds.clone(),
        );
    }

    /// Takes in what a round of an object came to.
    pub fn follow(&self, object: &str, figures: &Figures) {
        for (why, count) in &figures.moved {
            let why = match why {
                MovedBecause::Drain => "drain",
                MovedBecause::Policy => "policy",
                MovedBecause::Rebalance => "rebalance",
            };
            self.moves.get_or_create(&OfMove { why }).inc_by(*count);
        }
        self.budget_violations.inc_by(figures.violations);
        let mut parts = self.parts();
        let part = parts.entry(object.to_owned()).or_default();
        self.drift.inc_by(figures.drifted.difference(&part.figures.drifted).count() as u64);
        for (cluster, Undone { count, told }) in &figures.corrected {
            // What this process has not counted yet; after a start, what was not stored before it.
            let known = part.figures.corrected.get(cluster).map_or(*told, |it| it.count);
            self.drift.inc_by(if *count >= known { *count - known } else { *count });
        }
        self.replace(&part.figures, figures);
        part.figures = figures.clone();
    }

    /// Takes in the size of an object's ledger, as of a generation of its binding that was not weighed yet.
    pub fn weigh(&self, object: &str, generation: i64, bytes: impl FnOnce() -> usize) {
        let mut parts = self.parts();
        let part = parts.entry(object.to_owned()).or_default();
        if part.weighed == Some(generation) {
            return;
        }
        let bytes = bytes() as u64;
        self.ledger_bytes.inc_by(signed(bytes) - signed(part.ledger_bytes));
        (part.ledger_bytes, part.weighed) = (bytes, Some(generation));
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, object: &str) {
        if let Some(part) = self.parts().remove(object) {
            self.replace(&part.figures, &Figures::default());
            self.ledger_bytes.dec_by(signed(part.ledger_bytes));
        }
    }

    /// Notes how long a share took to be acknowledged.
    pub fn acknowledged(&self, after: Duration) {
        self.dispatch_seconds.observe(after.as_secs_f64());
    }

    /// Shows nothing of a cluster that has left.
    pub(super) fn leave(&self, cluster: &str) {
        for kind in ["granted", "ready", "unknown"] {
            self.replicas.remove(&OfReplicas { cluster: cluster.to_owned(), kind });
        }
    }

    fn replace(&self, before: &Figures, after: &Figures) {
        for (figures, sign) in [(before, -1), (after, 1)] {
            for (cluster, Replicas { granted, ready, unknown }) in &figures.clusters {
                for (kind, count) in [("granted", granted), ("ready", ready), ("unknown", unknown)] {
                    let label = OfReplicas { cluster: cluster.clone(), kind };
                    self.replicas.get_or_create(&label).inc_by(sign * signed(*count));
                }
            }
            for (budget, used) in &figures.budgets {
                let r#type = match budget {
                    Budget::Unavailable => "unavailable",
                    Budget::Surge => "surge",
                    Budget::Parallelism => "parallelism",
                };
                self.budget_used.get_or_create(&OfBudget { r#type }).inc_by(sign * signed(used.used));
                self.budget_limit.get_or_create(&OfBudget { r#type }).inc_by(sign * signed(used.limit));
            }
            self.partition_error.inc_by(sign * signed(figures.partition_error));
        }
    }

    fn parts(&self) -> MutexGuard<'_, HashMap<String, Part>> {
        // Nothing panics under this lock.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
