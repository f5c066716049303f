//! Clusters that leave the fleet without being drained: every share is let go of or deleted at once (DEL-6). Pure.

use kruise_core::api::fleet::{
    assignment::{AssignmentSpec, Intent},
    binding::{Ledger as Saved, LedgerRow},
    policy::DeletionPolicy,
};

use super::{Cluster, Observed, Round, Write, is_over, shares::is_heard};
use crate::{dispatch::term, ledger, members::departure::Departure};

/// What clusters that leave at once are told about one object.
#[derive(Debug, Default)]
pub(super) struct Farewell {
    writes: Vec<Write>,
    /// Clusters whose Assignment has done its duty.
    removals: Vec<String>,
}

/// Tells clusters that leave at once what becomes of their shares, and notes it in the ledger. A row goes when the cluster has
/// obeyed, or when it was told, is not heard and somebody has said not to wait for it: then its Assignment stays as a tombstone.
pub(super) fn say(observed: &Observed<'_>, saved: &mut Saved) -> Farewell {
    let mut farewell = Farewell::default();
    for cluster in observed.clusters {
        let Some(intent) = cluster.leaves_at_once() else { continue };
        let name = &cluster.facts.name;
        if let Some(assignment) = &cluster.assignment {
            if is_over(assignment) {
                saved.clusters.remove(name);
                farewell.removals.push(name.clone());
                continue;
            }
            ledger::adopt(saved, name, assignment);
        }
        let Some(row) = saved.clusters.get_mut(name).filter(|it| it.share.seq > 0) else { continue };
        if is_told(cluster, row) {
            if is_given_up(cluster) {
                saved.clusters.remove(name);
            }
            continue;
        }
        let newest = cluster.stored().map_or(0, |it| {
            let said = cluster.status().map_or(0, |it| it.applied_seq);
            term::believable(said, it.seq)
        });
        if row.share.seq <= newest {
            row.share.seq = newest + 1;
        }
        empty(row);
        let spec = AssignmentSpec {
            object: observed.reference.clone(),
            seq: row.share.seq,
            epoch: row.share.epoch,
            intent,
            // Where nobody knows any more what was said, nothing is deleted by it later.
            deletion: cluster.stored().map_or(DeletionPolicy::Orphan, |it| it.deletion),
            ..AssignmentSpec::default()
        };
        farewell.writes.push(Write { cluster: name.clone(), spec, grows: false });
    }
    farewell
}

/// A round with what is told to clusters that leave at once.
pub(super) fn with_writes(observed: &Observed<'_>, mut round: Round) -> Round {
    if observed.clusters.iter().all(|it| it.leaves_at_once().is_none()) {
        return round;
    }
    let Farewell { writes, removals } = say(observed, &mut observed.with_all_shares());
    round.is_settled &= writes.is_empty() && removals.is_empty();
    // Nobody may do more by these.
    round.writes.splice(0..0, writes);
    round.removals.extend(removals);
    round
}

/// Whether the cluster was told to delete the object or to let go of it. What is under way is not turned round.
fn is_told(cluster: &Cluster, row: &LedgerRow) -> bool {
    let Some(stored) = cluster.stored() else { return false };
    let is_refused = cluster
        .status()
        .is_some_and(|it| it.applied_seq > stored.seq || term::is_refused(it.applied_term, stored.term));
    matches!(stored.intent, Intent::Delete | Intent::Orphan) && stored.seq >= row.share.seq && !is_refused
}

/// Whether nobody waits for the cluster's answer.
fn is_given_up(cluster: &Cluster) -> bool {
    cluster.departure.is_some_and(|Departure { force, .. }| force) && !is_heard(cluster.planning)
}

/// Nothing is granted any more; what may still be there counts until the row goes.
fn empty(row: &mut LedgerRow) {
    (row.acknowledged, row.moving) = (false, 0);
    let share = &mut row.share;
    (share.replicas, share.updated, share.unavailable, share.surge) = (0, 0, 0, 0);
    for column in
        [&mut row.replicas, &mut row.updated, &mut row.unavailable, &mut row.surge, &mut row.parallelism]
    {
        column.grant = 0;
    }
}

#[cfg(test)]
mod tests;
