//! A ledger that was lost or is older than what clusters do, from what is stored for each cluster.
//!
//! Somebody may have deleted a FleetBinding. Members act on their Assignments all the same, so what those say is what was
//! granted, and what was last reported may still be there. And the hub may have been restored from an older copy: then what
//! clusters say is newer than both (HA-5).

use kruise_core::api::fleet::{
    Counts, Slice,
    assignment::{Assignment, Intent, RevisionRef},
    binding::{Ledger, LedgerColumn, LedgerRow, LedgerShare},
};
use scheduling::{ledger::Revision, numbers::MAX_REPLICAS};

use super::hash;
use crate::placement::round::fingerprint;

/// Adds a row for a cluster that has an Assignment and no row.
pub fn adopt(saved: &mut Ledger, cluster: &str, assignment: &Assignment) {
    let spec = &assignment.spec;
    // A question promises nothing.
    if saved.clusters.contains_key(cluster) || spec.intent == Intent::Ask {
        return;
    }
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
        // What is not available may be growth for which others have not given way yet: as long as it starts, they must not.
        moving: share.replicas.saturating_sub(counts.available),
        share,
        ..LedgerRow::default()
    };
    saved.clusters.insert(cluster.to_owned(), row);
    // What it has not acknowledged it may not have read: until then it acts on what it says to have applied (BUD-2).
    if let Some(status) = assignment.status.as_ref().filter(|it| it.applied_seq < spec.seq) {
        let is_target = of(&status.target) == of(&spec.target);
        raise(saved, cluster, status.applied.as_ref(), &status.counts, is_target);
    }
}

/// A plan that a cluster may be acting on.
struct Newer<'a> {
    seq: u64,
    epoch: u64,
    target: &'a Option<RevisionRef>,
    stable: &'a Option<RevisionRef>,
    slice: &'a Option<Slice>,
}

/// The newest plan: what was written for the cluster, or what it says to have applied.
fn newest(assignment: &Assignment) -> Newer<'_> {
    let spec = &assignment.spec;
    match &assignment.status {
        Some(it) if it.applied_seq > spec.seq => Newer {
            seq: it.applied_seq,
            epoch: it.epoch,
            target: &it.target,
            stable: &it.stable,
            slice: &it.applied,
        },
        _ => Newer {
            seq: spec.seq,
            epoch: spec.epoch,
            target: &spec.target,
            stable: &spec.stable,
            slice: &spec.slice,
        },
    }
}

/// Counts what a cluster may be doing by a newer plan than the ledger knows. What was granted stays: the cluster is left
/// alone, and others get nothing that it may be using.
pub fn expose(saved: &mut Ledger, cluster: &str, assignment: &Assignment) {
    let newer = newest(assignment);
    let is_target = newer.target.as_ref().map(|it| &it.hash) == saved.target.as_ref().map(|it| &it.hash);
    let counts = assignment.status.as_ref().map(|it| it.counts.clone()).unwrap_or_default();
    raise(saved, cluster, newer.slice.as_ref(), &counts, is_target);
}

/// Counts what a cluster may be doing by `slice`, and what it has. Pods are new by it only if it is of the present target.
fn raise(saved: &mut Ledger, cluster: &str, slice: Option<&Slice>, counts: &Counts, is_target: bool) {
    let Some(row) = saved.clusters.get_mut(cluster) else { return };
    let raise = |column: &mut LedgerColumn, seen: u32| {
        column.exposure = column.exposure.max(seen.min(MAX_REPLICAS));
    };
    raise(&mut row.replicas, counts.replicas);
    raise(&mut row.unavailable, counts.unavailable);
    match slice {
        Some(Slice::CloneSet(slice)) => {
            raise(&mut row.replicas, slice.replicas);
            raise(&mut row.unavailable, slice.max_unavailable);
            raise(&mut row.surge, slice.max_surge.max(counts.replicas.saturating_sub(slice.replicas)));
            if is_target {
                raise(&mut row.updated, slice.updated.max(counts.updated));
            }
        }
        Some(Slice::ImagePullJob(slice)) => {
            raise(&mut row.parallelism, slice.parallelism.max(counts.active.unwrap_or_default()));
        }
        Some(Slice::Whole(_)) | None => {}
    }
}

/// The numbers of a share that a cluster tells, as far as they can be true (SEC-5).
fn bounded(mut slice: Slice) -> Slice {
    match &mut slice {
        Slice::CloneSet(it) => {
            for number in [&mut it.replicas, &mut it.updated, &mut it.max_unavailable, &mut it.max_surge] {
                *number = (*number).min(MAX_REPLICAS);
            }
        }
        Slice::ImagePullJob(it) => it.parallelism = it.parallelism.min(MAX_REPLICAS),
        Slice::Whole(_) => {}
    }
    slice
}

/// Goes on from the newer plan of a cluster as if this hub had written it.
pub fn take_over(saved: &mut Ledger, cluster: &str, assignment: &Assignment) {
    expose(saved, cluster, assignment);
    let Newer { seq, epoch, target, stable, slice } = newest(assignment);
    let slice = &slice.clone().map(bounded);
    let available = assignment.status.as_ref().map_or(0, |it| it.counts.available);
    let Some(row) = saved.clusters.get_mut(cluster) else { return };
    let of = |it: &Option<RevisionRef>| it.as_ref().map(|it| it.hash.clone()).unwrap_or_default();
    let before = row.share.replicas;
    (row.share.seq, row.share.epoch) = (seq, epoch);
    row.epoch = row.epoch.max(epoch);
    (row.acknowledged, row.report) = (false, None);
    match slice {
        Some(Slice::CloneSet(slice)) => {
            (row.share.body, row.share.stable) = (of(target), of(stable));
            row.share.replicas = slice.replicas;
            row.share.updated = slice.updated;
            row.share.unavailable = slice.max_unavailable;
            row.share.surge = slice.max_surge;
            row.share.scale_unavailable = slice.scale_max_unavailable;
            row.share.paused = slice.paused;
            row.share.named = hash(Revision(fingerprint(&slice.pods_to_delete)));
            row.replicas.grant = slice.replicas;
            row.updated.grant = slice.updated;
            row.updated.exposure = row.updated.exposure.max(slice.updated);
            row.unavailable.grant = slice.max_unavailable;
            row.surge.grant = slice.max_surge;
            row.moving = slice.replicas.saturating_sub(available);
            saved.population = saved.population.saturating_sub(before.into()) + u64::from(slice.replicas);
            // What the clusters run is what a release has to begin from.
            if target.is_some() && of(target) != of(&saved.target) {
                let is_released = slice.updated >= slice.replicas;
                saved.stable = if is_released { target.clone() } else { stable.clone() };
            }
        }
        Some(Slice::ImagePullJob(slice)) => row.parallelism.grant = slice.parallelism,
        Some(Slice::Whole(_)) | None => {}
    }
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
        let counts = Counts { replicas: 6, available: 1, unavailable: 3, ..Counts::default() };
        let mut saved = Ledger::default();
        adopt(&mut saved, "a", &assignment("1", CloneSetSlice::default(), Counts::default()));
        adopt(&mut saved, "b", &assignment("2", slice.clone(), counts));
        let row = saved.clusters["b"].clone();
        assert_eq!((row.share.seq, row.epoch, row.share.replicas), (7, 2, 4));
        assert_eq!((row.replicas.exposure, row.unavailable.exposure, row.surge.exposure), (6, 3, 2));
        assert_eq!(row.moving, 3, "MOVE-2: others keep what these may be the replacement for");
        assert_eq!((saved.population, saved.target.clone().unwrap().hash), (4, "2".to_owned()));
        // What the ledger knows stays.
        adopt(&mut saved, "b", &assignment("3", slice, Counts::default()));
        assert_eq!(saved.clusters["b"], row);
    }

    #[test]
    fn bud_2_what_a_cluster_does_until_it_has_read_its_plan_is_held() {
        let slice = CloneSetSlice { replicas: 2, updated: 2, paused: true, ..CloneSetSlice::default() };
        let before = CloneSetSlice {
            replicas: 3,
            updated: 1,
            max_unavailable: 1,
            max_surge: 1,
            ..CloneSetSlice::default()
        };
        let mut assignment =
            assignment("2", slice, Counts { replicas: 2, available: 2, ..Counts::default() });
        let status = assignment.status.as_mut().unwrap();
        (status.applied_seq, status.applied) = (6, Some(Slice::CloneSet(before)));
        let exposed = |assignment: &Assignment| {
            let mut saved = Ledger::default();
            adopt(&mut saved, "a", assignment);
            let LedgerRow { replicas, updated, unavailable, surge, .. } = &saved.clusters["a"];
            [replicas, updated, unavailable, surge].map(|it| (it.grant, it.exposure))
        };
        assert_eq!(exposed(&assignment), [(2, 3), (2, 2), (0, 1), (0, 1)]);
        assignment.status.as_mut().unwrap().applied_seq = 7;
        assert_eq!(exposed(&assignment), [(2, 2), (2, 2), (0, 0), (0, 0)]);
    }

    /// The ledger of last week: plan 7. The cluster has carried out plan 9 since.
    fn restored() -> (Ledger, Assignment) {
        let old = CloneSetSlice { replicas: 4, updated: 4, ..CloneSetSlice::default() };
        let mut assignment =
            assignment("1", old, Counts { replicas: 4, available: 4, updated: 4, ..Counts::default() });
        let mut saved = Ledger::default();
        adopt(&mut saved, "a", &assignment);
        let new = CloneSetSlice {
            replicas: 6,
            updated: 2,
            max_unavailable: 2,
            max_surge: 1,
            ..CloneSetSlice::default()
        };
        let status = assignment.status.as_mut().unwrap();
        status.applied_seq = 9;
        status.applied = Some(Slice::CloneSet(new));
        status.target =
            Some(RevisionRef { hash: "2".to_owned(), name: "two".to_owned(), ..RevisionRef::default() });
        status.stable.clone_from(&assignment.spec.stable);
        status.counts = Counts { replicas: 7, available: 5, updated: 2, unavailable: 1, ..Counts::default() };
        (saved, assignment)
    }

    #[test]
    fn ha_5_what_a_newer_plan_allows_is_exposure_and_no_grant() {
        let (mut saved, assignment) = restored();
        expose(&mut saved, "a", &assignment);
        let row = &saved.clusters["a"];
        assert_eq!((row.share.seq, row.share.replicas), (7, 4), "it is still ahead, and left alone");
        assert_eq!(row.replicas, LedgerColumn { grant: 4, exposure: 7 });
        assert_eq!(row.unavailable, LedgerColumn { grant: 0, exposure: 2 });
        assert_eq!(row.surge, LedgerColumn { grant: 0, exposure: 1 });
        assert_eq!(row.updated, LedgerColumn { grant: 4, exposure: 4 }, "of another target");
        let once = saved.clone();
        expose(&mut saved, "a", &assignment);
        assert_eq!(saved, once);
    }

    #[test]
    fn ha_5_a_plan_that_is_taken_over_is_gone_on_from() {
        let (mut saved, assignment) = restored();
        take_over(&mut saved, "a", &assignment);
        let row = &saved.clusters["a"];
        assert_eq!((row.share.seq, row.share.replicas, row.share.updated), (9, 6, 2));
        assert_eq!((row.replicas, row.moving), (LedgerColumn { grant: 6, exposure: 7 }, 1));
        assert_eq!(row.unavailable, LedgerColumn { grant: 2, exposure: 2 });
        assert_eq!((row.share.body.as_str(), row.acknowledged, row.report.is_none()), ("2", false, true));
        assert_eq!(saved.population, 6);
        assert_eq!(saved.stable.unwrap().hash, "1", "a release was going on: from what was stable");
    }

    #[test]
    fn sec_5_what_a_cluster_claims_is_bounded() {
        let (mut saved, mut assignment) = restored();
        let status = assignment.status.as_mut().unwrap();
        status.applied = Some(Slice::CloneSet(CloneSetSlice {
            replicas: u32::MAX,
            max_surge: u32::MAX,
            ..CloneSetSlice::default()
        }));
        expose(&mut saved, "a", &assignment);
        assert_eq!(saved.clusters["a"].replicas.exposure, MAX_REPLICAS);
        take_over(&mut saved, "a", &assignment);
        assert_eq!(saved.clusters["a"].share.replicas, MAX_REPLICAS);
    }
}
