//! One object over the whole fleet, honest about what is not known (ST-1 to ST-3).

use jiff::Timestamp;
use kruise_core::api::fleet::{Counts, member_cluster::ClusterState};
use scheduling::pulls;

/// One cluster's last word.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberWord<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// Its state, for this object.
    pub state: ClusterState,
    /// What it last reported.
    pub counts: &'a Counts,
    /// Whether its report is about the fleet's target: else none of its pods counts as updated (REV-14).
    pub is_of_target: bool,
    /// Whether it has acknowledged its newest plan.
    pub is_acknowledged: bool,
}

/// The sums over the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// Pods there are, as last reported.
    pub replicas: u64,
    /// Pods known to be ready.
    pub ready: u64,
    /// Pods known to be available.
    pub available: u64,
    /// Pods at the target revision, as last reported.
    pub updated: u64,
    /// Pods at the target revision known to be ready.
    pub updated_ready: u64,
    /// Pods at the target revision known to be available.
    pub updated_available: u64,
    /// Pods in clusters that do not report.
    pub unknown: u64,
    /// Pods that should be at the target revision.
    pub expected_updated: u64,
    /// Name of the target revision.
    pub target: String,
    /// Name of the stable revision.
    pub stable: String,
    /// The generation that every cluster has acknowledged, if that is the present one.
    pub observed_generation: Option<i64>,
    /// Downloads.
    pub pulls: pulls::Totals,
    /// When a job began over the fleet.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub completed: Option<Timestamp>,
    /// Whether its deadline has passed.
    pub is_late: bool,
}

impl Totals {
    /// Adds up what the clusters said. A Lost cluster is left out; of an Offline one nothing is known to be ready.
    /// `generation` is the object's, if that was planned.
    pub fn of(words: &[MemberWord<'_>], generation: Option<i64>) -> Self {
        let mut totals = Self::default();
        for word in words.iter().filter(|it| it.state != ClusterState::Lost) {
            let Counts { replicas, ready, available, updated, updated_ready, updated_available, .. } =
                word.counts;
            let of_target = |count: &u32| if word.is_of_target { u64::from(*count) } else { 0 };
            totals.replicas += u64::from(*replicas);
            totals.updated += of_target(updated);
            if is_heard(word.state) {
                totals.ready += u64::from(*ready);
                totals.available += u64::from(*available);
                totals.updated_ready += of_target(updated_ready);
                totals.updated_available += of_target(updated_available);
            } else {
                totals.unknown += u64::from(*replicas);
            }
        }
        let all = words.iter().filter(|it| it.state != ClusterState::Lost).all(|it| it.is_acknowledged);
        totals.observed_generation = generation.filter(|_| all);
        totals
    }
}

/// Whether what a cluster reported is still true as far as anybody can know.
fn is_heard(state: ClusterState) -> bool {
    match state {
        ClusterState::Ready | ClusterState::Cordoned | ClusterState::Draining | ClusterState::Returning => {
            true
        }
        ClusterState::Pending | ClusterState::Offline | ClusterState::Lost | ClusterState::Revoked => false,
    }
}
