//! What an agent says about a share, as the ledger reads it.

use kruise_core::api::fleet::{
    Counts, Slice,
    assignment::{AssignmentStatus, RevisionRef},
};
use scheduling::{
    ledger::{Report, Revision},
    round::SlotReport,
};

use crate::ledger;

/// A report about pods. It acknowledges a plan only if the member's controller had observed it (PROTO-4).
pub fn pods_report(status: &AssignmentStatus) -> Report {
    let of =
        |it: &Option<RevisionRef>| it.as_ref().map_or(Revision::default(), |it| ledger::revision(&it.hash));
    let counts = &status.counts;
    let body = of(&status.target);
    let stable = of(&status.stable);
    Report {
        incarnation: status.incarnation,
        number: status.report,
        seq: status.applied_seq,
        epoch: status.epoch,
        known_epoch: status.known_epoch,
        observed: is_observed(status),
        replicas: match &status.applied {
            Some(Slice::CloneSet(slice)) => slice.replicas,
            _ => 0,
        },
        body,
        stable,
        pods: counts.replicas,
        available: counts.available,
        updated: counts.updated,
        updated_available: counts.updated_available,
        // The same pods, where body and stable are one revision.
        at_stable: if body == stable { counts.updated } else { counts.stable },
        neither_unavailable: counts.other_unavailable,
        marked: counts.marked_for_deletion,
        failing: status.failing,
        unselected: counts.unselected,
        unselected_updated: counts.unselected_updated,
    }
}

/// Whether counts that the ledger has no use for fit those that it checks.
pub fn is_possible(counts: &Counts) -> bool {
    counts.ready <= counts.replicas && counts.updated_ready <= counts.updated.min(counts.ready)
}

/// A report about downloads.
pub fn pulls_report(status: &AssignmentStatus) -> SlotReport {
    let of = |it: Option<u32>| it.unwrap_or(0);
    let counts = &status.counts;
    let done = of(counts.succeeded).saturating_add(of(counts.failed));
    SlotReport {
        incarnation: status.incarnation,
        number: status.report,
        seq: status.applied_seq,
        observed: is_observed(status),
        active: of(counts.active),
        left: if status.completed { 0 } else { of(counts.desired).saturating_sub(done) },
    }
}

fn is_observed(status: &AssignmentStatus) -> bool {
    status.applied_seq > 0 && status.generation > 0 && status.observed_generation >= status.generation
}
