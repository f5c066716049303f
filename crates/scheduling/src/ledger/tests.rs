use super::*;
use crate::names::ClusterName;

const OLD: Revision = Revision(1);
const NEW: Revision = Revision(2);

/// A cluster that was granted four replicas, two of them new, and a share of each budget.
fn row() -> Row {
    let mut row = Row::new(ClusterName::from("eu-1"));
    row.write(share(4, 2, 1, 1), NEW, 0);
    row
}

fn share(replicas: u32, updated: u32, unavailable: u32, surge: u32) -> Share {
    Share { replicas, updated, unavailable, surge, body: NEW, stable: OLD, ..Share::default() }
}

fn rewrite(row: &mut Row, share: Share) {
    let seq = row.share.seq;
    row.write(Share { seq, ..share }, NEW, row.moving);
}

/// What a member reports that has done what plan `seq` says.
fn report(number: u64, seq: u64) -> Report {
    Report {
        incarnation: 1,
        number,
        seq,
        observed: true,
        replicas: 4,
        body: NEW,
        stable: OLD,
        pods: 4,
        available: 4,
        updated: 2,
        updated_available: 2,
        at_stable: 2,
        ..Report::default()
    }
}

fn exposures(row: &Row) -> [u32; 4] {
    [row.replicas, row.updated, row.unavailable, row.surge].map(|it| it.exposure)
}

#[test]
fn writing_less_lowers_no_exposure_and_writing_more_raises_it_at_once_as_bud_2_says() {
    let mut row = row();
    rewrite(&mut row, share(3, 3, 0, 2));
    assert_eq!(exposures(&row), [4, 3, 1, 2]);
}

#[test]
fn an_acknowledgement_lowers_exposures_to_the_effect_but_not_below_the_grant_as_bud_2_says() {
    let mut row = row();
    rewrite(&mut row, share(3, 1, 0, 0));
    // Obeyed, but a surplus pod, an updated pod and an unavailable one are there still.
    let still = Report { replicas: 3, pods: 4, available: 2, updated_available: 1, ..report(1, 2) };
    assert_eq!(row.take(still, NEW), Taken::Acknowledged);
    assert_eq!(exposures(&row), [4, 2, 1, 1]);
    let over =
        Report { replicas: 3, pods: 3, available: 3, updated: 1, updated_available: 1, ..report(2, 2) };
    assert_eq!(row.take(over, NEW), Taken::Acknowledged);
    assert_eq!(exposures(&row), [3, 1, 0, 0]);
}

#[test]
fn a_report_of_an_older_plan_or_before_its_observation_frees_nothing_as_proto_4_says() {
    let mut row = row();
    rewrite(&mut row, share(3, 1, 0, 0));
    let before = exposures(&row);
    assert_eq!(row.take(report(1, 1), NEW), Taken::Noted);
    assert_eq!(row.take(Report { observed: false, ..report(2, 2) }, NEW), Taken::Noted);
    row.epoch = 1;
    assert_eq!(row.take(Report { known_epoch: 1, ..report(3, 2) }, NEW), Taken::Noted);
    assert_eq!(exposures(&row), before);
}

#[test]
fn a_report_that_is_not_newer_is_dropped_also_within_one_plan_as_proto_10_says() {
    let mut row = row();
    assert_eq!(row.take(report(5, 1), NEW), Taken::Acknowledged);
    assert_eq!(row.take(report(5, 1), NEW), Taken::NotNewer);
    assert_eq!(row.take(report(4, 1), NEW), Taken::NotNewer);
    assert_eq!(row.take(Report { incarnation: 0, ..report(9, 1) }, NEW), Taken::NotNewer);
    assert_eq!(row.take(Report { incarnation: 2, ..report(1, 1) }, NEW), Taken::Acknowledged);
}

#[test]
fn absurd_reports_are_refused_and_the_last_one_stays() {
    let mut row = row();
    row.take(report(1, 1), NEW);
    let refused = [
        (Report { updated: 5, ..report(2, 1) }, ReportRefused::Contradiction),
        (Report { available: 5, ..report(2, 1) }, ReportRefused::Contradiction),
        (Report { updated_available: 3, ..report(2, 1) }, ReportRefused::Contradiction),
        (Report { updated: u32::MAX, pods: u32::MAX, ..report(2, 1) }, ReportRefused::Contradiction),
        (Report { replicas: u32::MAX, ..report(2, 1) }, ReportRefused::Contradiction),
        (Report { pods: 9, ..report(2, 1) }, ReportRefused::TooManyPods),
        (report(2, 7), ReportRefused::UnknownPlan),
    ];
    for (absurd, why) in refused {
        assert_eq!(row.take(absurd, NEW), Taken::Refused(why), "{absurd:?}");
        assert_eq!(row.report, Some(report(1, 1)));
    }
}

#[test]
fn moving_falls_with_what_becomes_available_and_never_rises_by_a_report() {
    let mut row = Row::new(ClusterName::from("eu-1"));
    row.write(share(4, 2, 0, 0), NEW, 4);
    assert_eq!(row.settled(), 0);
    row.take(Report { available: 3, ..report(1, 1) }, NEW);
    assert_eq!((row.moving, row.settled()), (1, 3));
    row.take(Report { available: 1, updated_available: 1, ..report(2, 1) }, NEW);
    assert_eq!(row.moving, 1);
}

#[test]
fn updated_exposure_is_kept_per_target_as_rev_10_says() {
    let mut row = row();
    row.retarget(NEW, Revision(3));
    assert_eq!(row.updated, Column::default());
    row.retarget(Revision(3), NEW);
    assert_eq!(row.updated.exposure, 2);
    // Pods known to be gone are not remembered.
    row.retarget(NEW, Revision(3));
    rewrite(&mut row, Share { body: Revision(3), ..share(4, 0, 0, 0) });
    let gone = Report { body: Revision(3), updated: 0, updated_available: 0, at_stable: 4, ..report(1, 2) };
    row.take(gone, Revision(3));
    row.retarget(Revision(3), NEW);
    assert_eq!(row.updated.exposure, 0);
}

#[test]
fn a_withheld_cluster_keeps_the_exposure_of_pods_of_a_target_that_came_back_as_rev_10_says() {
    let mut row = row();
    row.take(report(1, 1), NEW);
    // Back to the stable revision, and to the target again, before any pod was sent back.
    row.retarget(NEW, OLD);
    let seq = row.share.seq;
    row.write(Share { seq, body: OLD, ..share(4, 4, 0, 0) }, OLD, 0);
    row.retarget(OLD, NEW);
    assert_eq!(row.updated, Column { grant: 0, exposure: 2 });
    // The report names the stable body only: the two pods of the target are among those of neither revision.
    let withheld = |number, at_stable| Report {
        body: OLD,
        updated: at_stable,
        updated_available: at_stable,
        at_stable,
        ..report(number, 2)
    };
    assert_eq!(row.take(withheld(2, 2), NEW), Taken::Acknowledged);
    assert_eq!(row.updated.exposure, 2);
    assert_eq!(row.take(withheld(3, 4), NEW), Taken::Acknowledged);
    assert_eq!(row.updated.exposure, 0);
}

#[test]
fn a_lost_cluster_frees_its_unavailable_pods_and_holds_the_rest_as_fo_9_says() {
    let mut row = row();
    row.lose();
    assert_eq!(exposures(&row), [4, 2, 0, 1]);
    assert_eq!(row.epoch, 1);
    // Whatever it says, nothing is acknowledged before it is taken back.
    assert_eq!(row.take(report(1, 1), NEW), Taken::Noted);
}

#[test]
fn reports_that_no_grant_bounds_are_bounded_all_the_same_as_sec_5_says() {
    let absurd = |number| Report {
        replicas: 1_000_001,
        pods: 1_000_001,
        available: 1_000_001,
        ..Report { updated: 1_000_001, updated_available: 0, at_stable: 0, ..report(number, 1) }
    };
    let mut lost = row();
    lost.lose();
    let mut counted = Row::counted(ClusterName::from("eu-1"));
    counted.write(share(0, 2, 1, 0), NEW, 0);
    let mut old_epoch = row();
    old_epoch.epoch = 1;
    for row in [&mut lost, &mut counted, &mut old_epoch] {
        assert_eq!(row.take(absurd(1), NEW), Taken::Refused(ReportRefused::TooManyPods));
    }
}

#[test]
fn a_lost_cluster_claims_no_more_updated_pods_than_it_could_have_as_sec_5_says() {
    let mut row = row();
    row.lose();
    let many = Report { pods: 900, available: 900, updated: 900, at_stable: 0, ..report(1, 1) };
    assert_eq!(row.take(many, NEW), Taken::Noted);
    assert_eq!(row.reported_updated(NEW), 5);
}

#[test]
fn epochs_and_numbers_nobody_gave_are_refused_as_sec_5_says() {
    let mut row = row();
    row.take(report(1, 1), NEW);
    let refused = [
        (Report { known_epoch: 1, ..report(2, 1) }, ReportRefused::UnknownEpoch),
        (Report { epoch: 1, known_epoch: 1, ..report(2, 1) }, ReportRefused::UnknownEpoch),
        (report(u64::MAX, 1), ReportRefused::AbsurdNumber),
        (Report { incarnation: u64::MAX, ..report(2, 1) }, ReportRefused::AbsurdNumber),
    ];
    for (absurd, why) in refused {
        assert_eq!(row.take(absurd, NEW), Taken::Refused(why), "{absurd:?}");
    }
}

/// A report that claims the future would silence the true ones: none may be farther ahead than restarts and losses can
/// explain, however many steps it takes, and after any that is taken there is room for as many as there are.
#[test]
fn proto_10_a_jump_ahead_is_refused_and_leaves_room_for_what_follows() {
    const FAR: u64 = 1 << 32;
    assert_eq!(Order::of(None, (1_763_000_000_000_000_000, 1)), Order::Newer);
    assert_eq!(Order::of(None, (u64::MAX / 2 + 1, 1)), Order::Absurd);
    assert_eq!(Order::of(None, (1, FAR + 1)), Order::Absurd);
    let last = Some((5, 100));
    assert_eq!(Order::of(last, (5, 100)), Order::NotNewer);
    assert_eq!(Order::of(last, (4, u64::MAX)), Order::NotNewer);
    assert_eq!(Order::of(last, (5, 101)), Order::Newer);
    assert_eq!(Order::of(last, (5, 100 + FAR)), Order::Newer);
    assert_eq!(Order::of(last, (5, 101 + FAR)), Order::Absurd);
    assert_eq!(Order::of(last, (6, 0)), Order::Newer);
    assert_eq!(Order::of(last, (6, FAR + 1)), Order::Absurd);
    assert_eq!(Order::of(last, (5 + FAR, 1)), Order::Newer);
    assert_eq!(Order::of(last, (6 + FAR, 1)), Order::Absurd);
    // Whatever was taken, the next start of the agent can be heard.
    let mut last = (u64::MAX / 2, FAR);
    for _ in 0..1_000 {
        let next = (last.0 + FAR, FAR);
        assert_eq!(Order::of(Some(last), next), Order::Newer);
        last = next;
    }
    assert_eq!(Order::of(Some(last), (last.0 + 1, 0)), Order::Newer);
}
