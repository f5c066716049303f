//! What one round of one object comes to in numbers that are worth a graph. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kruise_core::api::fleet::{Counts, member_cluster::ClusterState};
use scheduling::{
    ledger::Row,
    round::{Numbers, Why},
    split::State,
};

use super::{Account, is_silent};
use crate::placement::{kinds::totals::Totals, select::Selection};

/// One object in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// Replicas by cluster.
    pub clusters: BTreeMap<String, Replicas>,
    /// Budgets.
    pub budgets: BTreeMap<Budget, Used>,
    /// How many pods there are too many or too few at the target revision; 0 at rest.
    pub partition_error: u64,
    /// Replicas that left a cluster in this round because they run elsewhere, and why they had to.
    pub moved: BTreeMap<MovedBecause, u64>,
    /// Budgets that this round let grow beyond their limit. There are none.
    pub violations: u64,
    /// Clusters in which somebody else has changed what was applied (DR-1).
    pub drifted: BTreeSet<String>,
    /// What was undone of changes by somebody else.
    pub corrected: BTreeMap<String, Undone>,
    /// Clusters that have acknowledged their newest share, with its number.
    pub acknowledged: BTreeMap<String, u64>,
}

/// How often changes by somebody else were undone in one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Undone {
    /// As it says now.
    pub count: u64,
    /// As it was stored before.
    pub told: u64,
}

/// The replicas of one object in one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replicas {
    /// Granted.
    pub granted: u64,
    /// Known to be ready.
    pub ready: u64,
    /// There when the cluster was last heard, which is too long ago.
    pub unknown: u64,
}

/// A number of the spec that is held over the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Budget {
    /// Pods that may be down.
    Unavailable,
    /// Pods above the replicas.
    Surge,
    /// Downloads at a time.
    Parallelism,
}

/// How much of a budget is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// What clusters may be doing, or have done.
    pub used: u64,
    /// What the spec allows.
    pub limit: u64,
}

/// Why replicas left a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MovedBecause {
    /// It is drained.
    Drain,
    /// The policy does not select it any more.
    Policy,
    /// The split has changed.
    Rebalance,
}

/// The numbers of a round.
pub(super) fn of(account: &Account<'_>, totals: &Totals) -> Figures {
    let has_drifted = |it: &&super::Cluster| {
        let status = it.assignment.as_ref().and_then(|it| it.status.as_ref());
        status.is_some_and(|it| !it.drift.is_empty())
    };
    let names = |it: &super::Cluster| it.facts.name.clone();
    let undone = |(row, cluster): (&Row, &super::Cluster)| {
        let count = account.words().heard(row, cluster).corrected?.count;
        let told = account.observed.last_told(&cluster.facts.name).map_or(0, |it| it.corrected);
        Some((names(cluster), Undone { count, told }))
    };
    let shared = Figures {
        corrected: account.given().filter_map(undone).collect(),
        drifted: account.given().map(|it| it.1).filter(has_drifted).map(names).collect(),
        acknowledged: account
            .given()
            .filter(|(row, _)| row.acknowledged)
            .map(|(row, cluster)| (names(cluster), row.share.seq))
            .collect(),
        ..Figures::default()
    };
    if let Some(pulls) = account.pulls {
        let used = Used { used: pulls.exposed(), limit: u64::from(pulls.numbers.parallelism) };
        return Figures { budgets: [(Budget::Parallelism, used)].into(), ..shared };
    }
    let spec = &account.prepared.spec;
    let limit = |number: u32| super::over_fleet(account, number.into());
    let unavailable = Used { used: super::unavailable(account.rows), limit: limit(spec.unavailable) };
    let surge = Used { used: surging(account.rows), limit: limit(spec.surge) };
    Figures {
        clusters: account.given().map(|(row, cluster)| replicas(account, row, cluster)).collect(),
        budgets: [(Budget::Unavailable, unavailable), (Budget::Surge, surge)].into(),
        partition_error: partition_error(account, totals),
        moved: moved(account),
        violations: violations(account),
        ..shared
    }
}

fn replicas(account: &Account<'_>, row: &Row, cluster: &super::Cluster) -> (String, Replicas) {
    let heard = account.words().heard(row, cluster);
    let counts = if heard.is_counted { heard.counts } else { Counts::default() };
    let is_unknown = is_silent(cluster.shown) && cluster.shown != ClusterState::Lost;
    let figures = Replicas {
        granted: u64::from(row.share.replicas),
        ready: if is_silent(cluster.shown) { 0 } else { u64::from(counts.ready) },
        unknown: if is_unknown { u64::from(counts.replicas) } else { 0 },
    };
    (cluster.facts.name.clone(), figures)
}

/// A partition is about pods of two revisions: where there is only one, no pod of it is too many (REV-12). On the way back from a
/// release that was given up there are still two.
fn partition_error(account: &Account<'_>, totals: &Totals) -> u64 {
    let ledger = &account.planned.ledger;
    let is_under_way = ledger.is_releasing() || ledger.rolled_back.is_some();
    if is_under_way { totals.expected_updated.abs_diff(totals.updated) } else { 0 }
}

/// Pods above the replicas that there may be. Where a share is each cluster's own it may be larger than the cluster (SPLIT-6).
fn surging(rows: &[Row]) -> u64 {
    rows.iter().map(|it| u64::from(it.surge.exposure.min(it.replicas.exposure))).sum()
}

fn surge(rows: &[Row]) -> u64 {
    rows.iter().map(|it| u64::from(it.surge.exposure)).sum()
}

/// What is granted may be above a limit that the user has lowered; it must never be what a round did (BUD-3, BUD-8).
fn violations(account: &Account<'_>) -> u64 {
    let granted = |rows: &[Row]| -> u64 {
        rows.iter().filter(|it| !it.lost).map(|it| u64::from(it.unavailable.exposure)).sum()
    };
    let spec = &account.prepared.spec;
    if spec.numbers == Numbers::PerCluster {
        // Each cluster has all of them, and holds them itself.
        return 0;
    }
    let cases = [
        (granted(&account.before.rows), granted(account.rows), spec.unavailable),
        (surge(&account.before.rows), surge(account.rows), spec.surge),
    ];
    let grew = |(before, after, limit): &(u64, u64, u32)| after > before && *after > u64::from(*limit);
    cases.iter().filter(|it| grew(it)).count() as u64
}

fn moved(account: &Account<'_>) -> BTreeMap<MovedBecause, u64> {
    let mut moved = BTreeMap::new();
    for decision in &account.planned.decisions {
        let (Some(name), Why::MovedAway(count)) = (&decision.cluster, &decision.why) else { continue };
        let state = account.cluster(name.as_str()).map(|it| it.planning);
        let is_selected =
            account.prepared.selections.iter().any(|it| it.0 == *name && !matches!(it.1, Selection::Not(_)));
        let why = match state {
            Some(State::Draining) => MovedBecause::Drain,
            _ if !is_selected => MovedBecause::Policy,
            _ => MovedBecause::Rebalance,
        };
        *moved.entry(why).or_default() += u64::from(*count);
    }
    moved
}
