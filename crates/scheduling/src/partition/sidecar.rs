//! The partition of a SidecarSet: its population is the pods it matches (SC-1, SC-2, SC-4, SC-6, SC-7).

use super::{Answer, Cluster, Error, Request, plan};
use crate::{ledger::Revision, numbers::IntOrPercent};

/// One cluster's matched pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matched {
    /// The cluster, with `replicas` being its selected pods: all matched ones unless the update names a selector.
    pub cluster: Cluster,
    /// Pods the SidecarSet matches there.
    pub matched: u32,
}

/// Divides the updated pods of a SidecarSet: the numbers are over matched pods, the division over selected ones.
pub fn plan_sidecar(partition: Option<IntOrPercent>, clusters: Vec<Matched>) -> Result<Answer, Error> {
    let population = clusters.iter().map(|it| u64::from(it.matched)).sum();
    let clusters = clusters.into_iter().map(|it| it.cluster).collect();
    plan(&Request { population, partition, clusters, ..Request::default() })
}

/// Whether a matched count has moved so far that the split is made anew: by more than max(1, 2%).
pub fn needs_replan(planned: u32, now: u32) -> bool {
    let moved = u64::from(planned.abs_diff(now));
    moved > 1 && moved * 50 > u64::from(planned)
}

/// The partition an agent writes for `updated` pods out of `matched_now`: a fixed one would turn every added pod into
/// one more updated pod. With a selector `matched_now` leaves out the pods that are old and not selected: a member
/// counts its partition over the pods it could update.
pub fn member_partition(matched_now: u32, updated: u32) -> u32 {
    matched_now.saturating_sub(updated)
}

/// What a member's SidecarSet carries as its custom-version label (SC-4): the fleet revision of its body, so that an
/// injection pinned to a version means the same one in all clusters, whatever the members call their revisions.
pub fn custom_version(body: Revision) -> String {
    body.to_string()
}
