use super::*;

#[test]
fn a_cluster_without_a_share_never_sees_the_target_as_rev_6_says() {
    let mut hub = Hub::at_rest(3, 3);
    hub.spec.target = Revision(2);
    hub.spec.partition = 8;
    hub.round();
    assert_eq!(hub.shares(|it| it.body.0 as u32), [2, 1, 1]);
    assert_eq!(hub.shares(|it| it.updated), [1, 3, 3]);
    hub.obey_all();
    // Once given, the target stays the body, even with nothing of it due.
    hub.spec.partition = 9;
    hub.rules.partition_rollback = true;
    hub.round();
    assert_eq!((hub.share(0).body, hub.share(0).updated), (Revision(2), 0));
}

#[test]
fn every_share_names_the_stable_revision_to_seed_as_rev_7_and_8_say() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.target = Revision(2);
    hub.spec.partition = 3;
    hub.round();
    hub.join();
    hub.spec.replicas = 9;
    hub.spec.partition = 6;
    hub.round();
    let joined = hub.share(2);
    assert_eq!((joined.replicas, joined.stable), (3, Revision(1)));
    assert!(hub.ledger.rows.iter().all(|it| it.share.stable == Revision(1)));
}

#[test]
fn a_frozen_cluster_holds_its_exposure_whether_it_has_read_the_plan_or_not_as_rev_9_says() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.target = Revision(2);
    hub.spec.partition = 4;
    hub.round();
    assert_eq!(hub.shares(|it| it.updated), [1, 1]);
    hub.set(0, State::Offline);
    hub.report_old(1);
    hub.round();
    assert_eq!(hub.share(1).updated, 1);
}

#[test]
fn a_new_target_starts_from_nothing_and_stable_stays_as_rev_10_says() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.target = Revision(2);
    hub.spec.partition = 4;
    hub.round();
    hub.obey_all();
    hub.spec.target = Revision(3);
    let plan = hub.round();
    assert!(plan.decisions.iter().any(|it| it.why == Why::Superseded(Revision(2))));
    assert_eq!((hub.ledger.target, hub.ledger.stable), (Revision(3), Revision(1)));
    assert_eq!(hub.shares(|it| it.updated), [1, 1]);
}

#[test]
fn a_withheld_cluster_keeps_leftovers_that_are_well_and_sends_back_the_others_as_rev_10_says() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.unavailable = 6;
    hub.spec.target = Revision(2);
    hub.spec.partition = 2;
    hub.round();
    assert_eq!(hub.shares(|it| it.updated), [2, 2]);
    hub.report(0, |it| it.updated_available = 2);
    hub.report(1, |it| (it.updated_available, it.available) = (1, 2));
    hub.spec.target = Revision(3);
    hub.spec.partition = 5;
    hub.round();
    // One pod of the new target goes to the first cluster; the second keeps one well leftover out of two.
    assert_eq!((hub.share(1).body, hub.share(1).updated), (Revision(1), 2));
    hub.report(1, |it| {
        (it.pods, it.available, it.updated, it.updated_available, it.at_stable) = (3, 2, 1, 1, 1);
        it.neither_unavailable = 1;
    });
    hub.round();
    assert_eq!(hub.share(1).unavailable, 1);
}

/// Correction of REV-10: "restart at 0" forgets pods of a target that comes back.
#[test]
fn a_target_that_comes_back_finds_its_exposure_again() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.target = Revision(2);
    hub.spec.partition = 4;
    hub.round();
    assert_eq!(hub.shares(|it| it.updated), [1, 1]);
    hub.obey_all();
    hub.spec.target = Revision(3);
    hub.round();
    hub.spec.target = Revision(2);
    hub.spec.partition = 5;
    hub.round();
    let exposed: u32 = hub.ledger.rows.iter().map(|it| it.updated.exposure).sum();
    assert_eq!(exposed, 2);
    assert!(hub.shares(|it| if it.body == Revision(2) { it.updated } else { 0 }).iter().sum::<u32>() <= 1);
}

#[test]
fn a_pod_of_the_target_moves_only_after_it_is_gone_as_rev_11_says() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.target = Revision(2);
    hub.spec.partition = 5;
    hub.round();
    hub.obey_all();
    assert_eq!(hub.shares(|it| it.body.0 as u32), [2, 1]);
    hub.set(0, State::Draining);
    for _ in 0..20 {
        hub.round();
        let exposed: u32 = hub.ledger.rows.iter().map(|it| it.updated.exposure).sum();
        assert!(exposed <= 1, "{:?}", hub.ledger);
        hub.obey_all();
    }
    assert_eq!(hub.shares(|it| it.replicas), [0, 6]);
    assert_eq!((hub.share(1).body, hub.share(1).updated), (Revision(2), 1));
}

#[test]
fn with_no_partition_every_replica_may_be_new_as_rev_12_says() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.target = Revision(2);
    hub.round();
    assert_eq!(hub.shares(|it| it.updated), [3, 3]);
}

#[test]
fn a_release_ends_when_all_have_acknowledged_as_rev_13_says() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.target = Revision(2);
    hub.round();
    hub.obey(0);
    hub.round();
    assert_eq!(hub.ledger.stable, Revision(1));
    hub.set(1, State::Offline);
    hub.round();
    assert_eq!(hub.ledger.stable, Revision(1));
    hub.set(1, State::Ready);
    hub.obey_all();
    let plan = hub.round();
    assert_eq!(hub.ledger.stable, Revision(2));
    assert!(plan.decisions.iter().any(|it| it.why == Why::Released(Revision(2))));
}

#[test]
fn updated_pods_of_another_revision_do_not_count_as_rev_14_says() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.target = Revision(2);
    hub.spec.partition = 5;
    hub.settle();
    // The withheld cluster reports three updated pods: of the stable body.
    assert_eq!(hub.ledger.rows[1].report.map(|it| it.updated), Some(3));
    assert_eq!(hub.ledger.rows[1].reported_updated(Revision(2)), 0);
    assert!(hub.round().writes.is_empty());
}

#[test]
fn broken_old_pods_come_first_where_the_budget_is_held_as_rev_15_says() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.partition = 5;
    hub.report(1, |it| (it.available, it.updated_available) = (2, 2));
    hub.spec.target = Revision(2);
    hub.round();
    assert_eq!(hub.shares(|it| it.body.0 as u32), [1, 2]);
}

#[test]
fn a_pause_stops_updates_but_added_pods_follow_the_partition() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.paused = true;
    hub.spec.target = Revision(2);
    hub.round();
    assert_eq!(hub.shares(|it| it.body.0 as u32), [1, 1]);
    hub.spec.replicas = 8;
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [4, 4]);
    assert_eq!(hub.shares(|it| if it.body == Revision(2) { it.updated } else { 0 }), [1, 1]);
}

#[test]
fn a_partition_of_more_pods_than_32_bits_count_is_exact() {
    let mut hub = Hub::empty(5_000);
    hub.mode = Mode::Duplicated;
    hub.spec.replicas = 1_000_000;
    hub.round();
    hub.obey_all();
    hub.spec.target = Revision(2);
    let updated = |hub: &Hub| -> u64 {
        let rows = hub.ledger.rows.iter().filter(|it| it.share.body == Revision(2));
        rows.map(|it| u64::from(it.share.updated)).sum()
    };
    for kept in [5_000_000_000, u64::from(u32::MAX) + 1, u64::from(u32::MAX)] {
        hub.spec.partition = kept;
        let plan = hub.round();
        assert_eq!((plan.population, updated(&hub)), (5_000_000_000, 5_000_000_000 - kept));
    }
}

#[test]
fn a_partition_that_cannot_be_divided_is_told_and_changes_nothing() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.target = Revision(2);
    hub.spec.partition = 3;
    // A row that was damaged in store.
    hub.ledger.rows[0].replicas = crate::ledger::Column { grant: 2_000_000, exposure: 2_000_000 };
    hub.set(0, State::Offline);
    for _ in 0..3 {
        let plan = hub.round();
        assert!(plan.conditions.iter().any(|it| matches!(it, Condition::PartitionRefused(_))), "{plan:?}");
        let share = hub.share(1);
        assert_eq!((share.body, share.updated), (Revision(1), share.replicas));
        hub.obey(1);
    }
}

#[test]
fn a_broken_replica_of_a_move_comes_first_where_the_hole_uses_up_the_budget_as_rev_15_says() {
    let mut hub = Hub::at_rest(2, 3);
    (hub.spec.unavailable, hub.spec.partition) = (2, 5);
    hub.report(1, |it| (it.available, it.updated_available) = (2, 2));
    // The one pod that is down was started by growth, and has been counted as taken down since: as both it uses up U.
    hub.ledger.rows[1].moving = 1;
    hub.ledger.rows[1].unavailable.exposure = 1;
    hub.spec.target = Revision(2);
    hub.round();
    assert_eq!(hub.shares(|it| it.body.0 as u32), [1, 2]);
}

#[test]
fn rev_7_a_cluster_that_cannot_seed_is_planned_as_cordoned_during_a_release() {
    let mut hub = Hub::at_rest(2, 3);
    hub.clusters[0].seeding = Seeding::Unable;
    hub.spec.target = Revision(2);
    hub.spec.partition = 8;
    hub.spec.replicas = 10;
    hub.rules.move_surge = 10;
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [3, 7]);
    hub.spec.partition = 0;
    hub.settle();
    assert_eq!(hub.ledger.stable, Revision(2));
    // The release over, it takes its part of what comes.
    hub.spec.replicas = 14;
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas), [7, 7]);
}

/// All or nothing also where exposures leave room for a part of it.
#[test]
fn rev_7_a_cluster_that_cannot_seed_waits_until_all_of_it_may_be_new() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.target = Revision(2);
    hub.spec.partition = 4;
    hub.round();
    assert_eq!(hub.shares(|it| it.updated), [1, 1]);
    hub.obey_all();
    // A third target: c1 may have a pod of it due, but c0 still holds what it was granted.
    hub.clusters[1].seeding = Seeding::Unable;
    hub.spec.target = Revision(3);
    hub.spec.partition = 2;
    for _ in 0..4 {
        hub.round();
        let share = hub.share(1);
        assert!(share.body != Revision(3) || share.updated == share.replicas, "{share:?}");
        hub.obey_all();
    }
}

/// The same release under other revisions, larger and smaller than one another.
#[test]
fn rev_1_revisions_are_told_apart_and_never_ordered() {
    let names = [Revision(1), Revision(2), Revision(3)];
    let run = |names: [Revision; 3]| {
        let mut hub = Hub::empty(3);
        (hub.spec.target, hub.ledger) = (names[0], Ledger { rows: hub.ledger.rows, ..Ledger::new(names[0]) });
        hub.spec.replicas = 10;
        hub.settle();
        (hub.spec.target, hub.spec.partition) = (names[1], 7);
        hub.settle();
        (hub.spec.target, hub.spec.partition) = (names[2], 4);
        let mut shares: Vec<Share> = Vec::new();
        for _ in 0..6 {
            hub.round();
            shares.extend(hub.ledger.rows.iter().map(|it| it.share));
            hub.obey_all();
        }
        let place =
            |it: Revision| Revision(names.iter().position(|name| *name == it).map_or(9, |it| it as u64));
        shares
            .into_iter()
            .map(|it| Share { body: place(it.body), stable: place(it.stable), ..it })
            .collect::<Vec<_>>()
    };
    let plain = run(names);
    assert!(plain.iter().any(|it| it.body == Revision(2) && it.stable == Revision(0)));
    assert_eq!(run([Revision(u64::MAX), Revision(7), Revision(0)]), plain);
    assert_eq!(run([Revision(5), Revision(u64::MAX), Revision(4)]), plain);
}
