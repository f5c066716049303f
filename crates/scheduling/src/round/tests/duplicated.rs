use super::*;
use crate::release::{OnFailure, Paused};

/// Three clusters with three old pods each, all of the object's numbers in every one of them.
fn per_cluster() -> Hub {
    let mut hub = Hub::empty(3);
    hub.mode = Mode::Duplicated;
    hub.spec.numbers = Numbers::PerCluster;
    hub.spec.replicas = 3;
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas), [3, 3, 3]);
    hub
}

fn updated(hub: &Hub) -> Vec<u32> {
    hub.shares(|it| if it.body == Revision(2) { it.updated } else { 0 })
}

#[test]
fn split_6_numbers_over_the_fleet_stay_global_where_replicas_are_duplicated() {
    let mut hub = per_cluster();
    hub.spec.numbers = Numbers::Global;
    hub.spec.target = Revision(2);
    hub.spec.partition = 8;
    let plan = hub.round();
    assert_eq!(plan.population, 9);
    assert_eq!(updated(&hub).iter().sum::<u32>(), 1);
    hub.obey_all();
    hub.round();
    assert!(hub.shares(|it| it.unavailable).iter().sum::<u32>() <= 1);
}

#[test]
fn split_6_numbers_per_cluster_are_copied_as_they_are() {
    let mut hub = per_cluster();
    hub.spec.target = Revision(2);
    hub.spec.partition = 2;
    hub.spec.surge = 1;
    hub.round();
    assert_eq!(updated(&hub), [1, 1, 1]);
    assert_eq!(hub.shares(|it| it.unavailable), [1, 1, 1]);
    assert_eq!(hub.shares(|it| it.surge), [1, 1, 1]);
    // The integer is copied even where more pods are updated already: the member does not take them back.
    hub.obey_all();
    hub.spec.partition = 3;
    hub.round();
    assert_eq!(updated(&hub), [0, 0, 0]);
    assert!(hub.ledger.rows.iter().all(|it| it.share.body == Revision(2)));
    hub.obey_all();
    hub.spec.partition = 0;
    hub.settle();
    assert_eq!(hub.ledger.stable, Revision(2));
    // A pause takes the surge, as in one cluster.
    hub.spec.paused = true;
    hub.round();
    assert!(hub.ledger.rows.iter().all(|it| it.share.paused && it.share.surge == 0));
}

#[test]
fn split_6_the_scale_limit_is_copied_as_it_is_too_and_holds_in_every_cluster() {
    let mut hub = per_cluster();
    hub.spec.scale_unavailable = Some(2);
    hub.spec.replicas = 8;
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [5, 5, 5]);
    assert!(hub.ledger.rows.iter().all(|it| it.share.scale_unavailable == Some(2)));
    // Pods that do not come up hold their own cluster, and no other.
    hub.report(0, |it| (it.available, it.updated_available) = (3, 3));
    hub.obey(1);
    hub.obey(2);
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [5, 7, 7]);
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas), [8, 8, 8]);
}

#[test]
fn split_6_a_scale_down_that_is_held_does_not_widen_the_partition_of_a_cluster() {
    let mut hub = per_cluster();
    hub.spec.replicas = 5;
    hub.round();
    // Growth nobody has acknowledged is not taken back yet.
    (hub.spec.replicas, hub.spec.target, hub.spec.partition) = (3, Revision(2), 2);
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [5, 5, 5]);
    assert_eq!(updated(&hub), [1, 1, 1]);
}

#[test]
fn split_6_shares_of_each_cluster_do_not_stop_a_drain_that_shrinks_first() {
    let mut hub = per_cluster();
    (hub.rules.move_surge, hub.rules.move_unavailable) = (0, 1);
    hub.join();
    hub.set(2, State::Draining);
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas), [3, 3, 0, 3]);
}

#[test]
fn split_6_a_cluster_that_waits_until_all_of_it_may_be_new_holds_no_wave() {
    let mut hub = per_cluster();
    hub.waves = vec![Wave::named("canary"), Wave::named("rest")];
    hub.clusters[2].wave = 1;
    hub.clusters[0].seeding = Seeding::Unable;
    hub.spec.target = Revision(2);
    hub.spec.partition = 1;
    hub.settle();
    assert_eq!(updated(&hub), [0, 2, 2]);
}

#[test]
fn split_6_waves_and_gates_also_hold_numbers_per_cluster() {
    let mut hub = per_cluster();
    hub.waves = vec![Wave::named("canary"), Wave::named("rest")];
    hub.waves[0].gate = Gate { max_failing_pods: 0, on_failure: OnFailure::Pause, ..Gate::default() };
    (hub.clusters[0].wave, hub.clusters[1].wave, hub.clusters[2].wave) = (0, 1, 1);
    hub.spec.target = Revision(2);
    hub.spec.partition = 1;
    hub.round();
    assert_eq!(updated(&hub), [2, 0, 0]);
    hub.report(0, |it| (it.available, it.updated_available, it.failing) = (2, 1, 1));
    hub.round();
    let paused = hub.ledger.release.as_ref().and_then(|it| it.paused);
    assert_eq!(paused, Some(Paused::PodsFailing { failing: 1 }));
    assert!(hub.share(0).paused);
    hub.ledger.resume();
    hub.obey(0);
    hub.round();
    hub.round();
    assert_eq!(updated(&hub), [2, 2, 2]);
}

/// A gate that stops those that are through puts off their acknowledgements, and fails for the want of them.
#[test]
fn split_6_a_failed_gate_stops_only_clusters_that_are_not_through() {
    let mut hub = per_cluster();
    hub.rules.gate = Gate { max_failed: 0, on_failure: OnFailure::Pause, ..Gate::default() };
    hub.rules.progress_deadline = 40;
    hub.spec.target = Revision(2);
    hub.spec.partition = 1;
    hub.round();
    hub.obey(0);
    hub.obey(1);
    hub.elapsed = 41;
    hub.round();
    assert!(hub.ledger.paused().is_some());
    assert_eq!(hub.shares(|it| u32::from(it.paused)), [0, 0, 1]);
    assert_eq!(updated(&hub), [2, 2, 2]);
}

/// What one cluster has too many stands for nothing another has no room for.
#[test]
fn split_6_a_surplus_leaves_while_another_cluster_has_no_room_for_all_replicas() {
    for numbers in [Numbers::PerCluster, Numbers::Global] {
        let mut hub = per_cluster();
        (hub.rules.move_surge, hub.rules.move_unavailable) = (1, 0);
        hub.spec.numbers = numbers;
        hub.spec.replicas = 6;
        hub.clusters[0].candidate.max = Some(2);
        hub.settle();
        assert_eq!(hub.shares(|it| it.replicas), [2, 6, 6]);
        hub.spec.replicas = 5;
        hub.settle();
        assert_eq!(hub.shares(|it| it.replicas), [2, 5, 5]);
    }
}

#[test]
fn split_6_numbers_are_per_cluster_only_where_replicas_are_duplicated() {
    let mut hub = Hub::at_rest(3, 3);
    hub.spec.numbers = Numbers::PerCluster;
    hub.spec.target = Revision(2);
    hub.spec.partition = 8;
    hub.round();
    assert_eq!(updated(&hub), [1, 0, 0]);
}

/// Correction of REV-12: P = 0 because nobody is to run anything is no leave to update what still runs.
#[test]
fn rev_12_a_population_of_zero_does_not_lift_the_partition() {
    let mut hub = per_cluster();
    hub.spec.numbers = Numbers::Global;
    (hub.rules.max_lost, hub.spec.unavailable) = (2, 3);
    hub.set(0, State::Lost);
    hub.set(1, State::Lost);
    hub.set(2, State::Draining);
    hub.spec.target = Revision(2);
    hub.spec.partition = 5;
    let plan = hub.round();
    assert_eq!(plan.population, 0);
    assert_eq!(updated(&hub), [0, 0, 0]);
    assert_eq!(hub.ledger.stable, Revision(1));
}

#[test]
fn a_drain_is_no_scale_down_where_every_cluster_has_all_replicas_as_move_2_says() {
    let mut hub = per_cluster();
    hub.spec.numbers = Numbers::Global;
    hub.settle();
    // Three pods are down elsewhere, with U = 1: one may go here.
    hub.report(2, |it| (it.available, it.updated_available) = (0, 0));
    hub.set(0, State::Draining);
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [2, 3, 3]);
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas), [0, 3, 3]);
    // The user's own scale-down goes at once, wherever pods are down.
    hub.report(2, |it| (it.available, it.updated_available) = (0, 0));
    hub.spec.replicas = 1;
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [0, 1, 1]);
}

#[test]
fn a_policy_that_selects_no_cluster_changes_nothing_wherever_clusters_are() {
    for state in [State::Offline, State::Lost, State::Pending, State::Unsupported, State::Excluded] {
        for mode in [Mode::Divided, Mode::Duplicated] {
            let mut hub = per_cluster();
            (hub.spec.numbers, hub.mode) = (Numbers::Global, mode);
            hub.spec.replicas = if mode == Mode::Divided { 9 } else { 3 };
            hub.settle();
            hub.selects_none = true;
            hub.set(0, state);
            hub.set(1, State::Excluded);
            hub.set(2, State::Excluded);
            let plan = hub.round();
            assert_eq!(hub.shares(|it| it.replicas), [3, 3, 3], "{state:?} {mode:?}");
            assert!(words(&plan.conditions).contains("selects no cluster"), "{state:?} {mode:?}");
        }
    }
}

/// MOVE-3: what other clusters have too many is no right of a drain to take more at once.
#[test]
fn a_drain_does_not_use_up_the_scale_down_of_others() {
    let mut hub = per_cluster();
    (hub.spec.numbers, hub.spec.replicas) = (Numbers::Global, 5);
    hub.rules.move_surge = 9;
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas), [5, 5, 5]);
    hub.report(2, |it| (it.available, it.updated_available) = (0, 0));
    hub.set(0, State::Draining);
    hub.spec.replicas = 3;
    hub.round();
    // Two by the scale-down; five of c0 and c1 are sure then, and as many have to be.
    assert_eq!(hub.shares(|it| it.replicas), [2, 3, 3]);
}

/// SPLIT-6: what one cluster has too many leaves, however many another lacks.
#[test]
fn a_scale_down_does_not_wait_for_growth_of_another_cluster_where_each_has_all() {
    for overdue in [0, 1000] {
        let mut hub = per_cluster();
        (hub.spec.numbers, hub.spec.replicas) = (Numbers::Global, 5);
        hub.rules.move_surge = 9;
        hub.round();
        hub.obey(0);
        hub.obey(2);
        hub.report(1, |it| (it.available, it.updated_available) = (3, 3));
        hub.elapsed = overdue;
        hub.spec.replicas = 4;
        hub.round();
        assert_eq!(hub.shares(|it| it.replicas), [4, 4, 4]);
    }
}

/// Section 23: not even a template goes out.
#[test]
fn a_policy_that_selects_no_cluster_hands_out_no_new_template() {
    for mode in [Mode::Divided, Mode::Duplicated] {
        let mut hub = per_cluster();
        (hub.spec.numbers, hub.mode) = (Numbers::Global, mode);
        hub.spec.replicas = if mode == Mode::Divided { 9 } else { 3 };
        hub.settle();
        let shares = |hub: &Hub| [0, 1, 2].map(|it| hub.share(it));
        let before = shares(&hub);
        hub.selects_none = true;
        (0..3).for_each(|it| hub.set(it, State::Excluded));
        hub.spec.target = Revision(2);
        for _ in 0..3 {
            let plan = hub.round();
            assert!(plan.writes.is_empty(), "{mode:?}: {:?}", plan.writes);
        }
        assert_eq!(shares(&hub), before, "{mode:?}");
        // Selected again, they catch up.
        hub.selects_none = false;
        (0..3).for_each(|it| hub.set(it, State::Ready));
        hub.settle();
        assert_eq!((updated(&hub), hub.shares(|it| it.replicas)), (vec![3; 3], vec![3; 3]), "{mode:?}");
    }
}

#[test]
fn a_policy_that_selects_no_cluster_does_not_count_on_one_that_is_lost() {
    let mut hub = per_cluster();
    (hub.spec.numbers, hub.spec.replicas, hub.mode) = (Numbers::Global, 9, Mode::Divided);
    hub.settle();
    hub.selects_none = true;
    hub.set(0, State::Lost);
    hub.set(1, State::Excluded);
    hub.set(2, State::Excluded);
    let plan = hub.round();
    assert_eq!((plan.unplaced, plan.homeless), (3, 3));
}
