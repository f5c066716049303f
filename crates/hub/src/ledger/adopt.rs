//! A ledger that was lost, from what is stored for each cluster.
//!
//! Somebody may have deleted a FleetBinding. Members act on their Assignments all the same, so what those say is what was
//! granted, and what was last reported may still be there.

use kruise_core::api::fleet::{
    Slice,
    assignment::{Assignment, RevisionRef},
    binding::{Ledger, LedgerColumn, LedgerRow, LedgerShare},
};
use scheduling::ledger::Revision;

use super::hash;
use crate::placement::round::fingerprint;

/// Adds a row for a cluster that has an Assignment and no row.
pub fn adopt(saved: &mut Ledger, cluster: &str, assignment: &Assignment) {
    if saved.clusters.contains_key(cluster) {
        return;
    }
    let spec = &assignment.spec;
    let of = |it: &Option<RevisionRef>| it.as_ref().map(|it| it.hash.clone()).unwrap_or_default();
    let mut share = LedgerShare {
        seq: spec.seq,
        epoch: spec.epoch,
        body: of(&spec.target),
        stable: of(&spec.stable),
        ..LedgerShare::default()
    };
    if let Some(Slice::CloneSet(slice)) = &spec.slice {
        share.replicas = slice.replicas;
        share.updated = slice.updated;
        share.unavailable = slice.max_unavailable;
        share.surge = slice.max_surge;
        share.scale_unavailable = slice.scale_max_unavailable;
        share.paused = slice.paused;
        share.named = hash(Revision(fingerprint(&slice.pods_to_delete)));
    }
    let slots = match &spec.slice {
        Some(Slice::ImagePullJob(slice)) => slice.parallelism,
        _ => 0,
    };
    let counts = assignment.status.as_ref().map(|it| it.counts.clone()).unwrap_or_default();
    let column = |grant: u32, seen: u32| LedgerColumn { grant, exposure: grant.max(seen) };
    saved.population += u64::from(share.replicas);
    // A release that was going on goes on: any target that is not the stable revision is the one.
    if saved.stable.is_none() {
        saved.stable.clone_from(&spec.stable);
    }
    if saved.target.is_none() || of(&saved.target) == of(&saved.stable) {
        saved.target.clone_from(&spec.target);
    }
    let row = LedgerRow {
        epoch: spec.epoch,
        replicas: column(share.replicas, counts.replicas),
        updated: column(share.updated, counts.updated),
        unavailable: column(share.unavailable, counts.unavailable),
        parallelism: column(slots, counts.active.unwrap_or_default()),
        surge: column(share.surge, counts.replicas.saturating_sub(share.replicas)),
        share,
        ..LedgerRow::default()
    };
    saved.clusters.insert(cluster.to_owned(), row);
}

#[cfg(test)]
mod tests {
    use kruise_core::api::fleet::{
        CloneSetSlice, Counts, PullSlice,
        assignment::{AssignmentSpec, AssignmentStatus},
    };

    use super::*;

    fn assignment(target: &str, slice: CloneSetSlice, counts: Counts) -> Assignment {
        let revision = |hash: &str| RevisionRef { hash: hash.to_owned(), ..RevisionRef::default() };
        let spec = AssignmentSpec {
            seq: 7,
            epoch: 2,
            target: Some(revision(target)),
            stable: Some(revision("1")),
            slice: Some(Slice::CloneSet(slice)),
            ..AssignmentSpec::default()
        };
        let status = Some(AssignmentStatus { counts, ..AssignmentStatus::default() });
        Assignment { spec, status, ..Assignment::default() }
    }

    #[test]
    fn ipj_1_downloads_that_were_granted_or_run_are_held() {
        let mut job =
            assignment("1", CloneSetSlice::default(), Counts { active: Some(3), ..Counts::default() });
        job.spec.slice = Some(Slice::ImagePullJob(PullSlice { parallelism: 2, ..PullSlice::default() }));
        let mut saved = Ledger::default();
        adopt(&mut saved, "a", &job);
        assert_eq!(saved.clusters["a"].parallelism, LedgerColumn { grant: 2, exposure: 3 });
    }

    #[test]
    fn what_is_stored_or_was_seen_is_held() {
        let slice = CloneSetSlice { replicas: 4, updated: 1, max_unavailable: 1, ..CloneSetSlice::default() };
        let counts = Counts { replicas: 6, unavailable: 3, ..Counts::default() };
        let mut saved = Ledger::default();
        adopt(&mut saved, "a", &assignment("1", CloneSetSlice::default(), Counts::default()));
        adopt(&mut saved, "b", &assignment("2", slice.clone(), counts));
        let row = saved.clusters["b"].clone();
        assert_eq!((row.share.seq, row.epoch, row.share.replicas), (7, 2, 4));
        assert_eq!((row.replicas.exposure, row.unavailable.exposure, row.surge.exposure), (6, 3, 2));
        assert_eq!((saved.population, saved.target.clone().unwrap().hash), (4, "2".to_owned()));
        // What the ledger knows stays.
        adopt(&mut saved, "b", &assignment("3", slice, Counts::default()));
        assert_eq!(saved.clusters["b"], row);
    }
}
