use super::*;

#[test]
fn a_move_grows_first_and_shrinks_when_the_new_pods_are_available_as_move_1_and_2_say() {
    let mut hub = Hub::at_rest(2, 3);
    hub.set(0, State::Draining);
    let plan = hub.round();
    // One pod above N at a time.
    assert_eq!(hub.shares(|it| it.replicas), [3, 4]);
    assert!(reasons(&plan, "c0").contains(&Why::ShrinkHeld(3)));
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [3, 4]);
    hub.obey(1);
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [2, 4]);
    // The pod that leaves counts until it is gone.
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [2, 4]);
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas), [0, 6]);
}

#[test]
fn move_2_a_drain_is_held_only_where_nothing_moves_and_nothing_can_be_granted() {
    for (surge, unavailable) in [(1, 0), (0, 1), (2, 2)] {
        let mut hub = Hub::at_rest(2, 3);
        (hub.rules.move_surge, hub.rules.move_unavailable) = (surge, unavailable);
        hub.set(0, State::Draining);
        for _ in 0..20 {
            let plan = hub.round();
            assert!(
                !words(&plan.conditions).contains("c0 keeps"),
                "{surge}, {unavailable}: {:?}",
                plan.conditions
            );
            hub.obey_all();
        }
        assert_eq!(hub.shares(|it| it.replicas), [0, 6]);
    }
    // Room for one more elsewhere, which is used first.
    let mut hub = Hub::at_rest(2, 3);
    hub.clusters[1].candidate.max = Some(4);
    hub.set(0, State::Draining);
    let plan = hub.round();
    assert!(!words(&plan.conditions).contains("c0 keeps"), "{:?}", plan.conditions);
    hub.settle();
    let plan = hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [2, 4]);
    assert!(words(&plan.conditions).contains("c0 keeps 2 replicas"), "{:?}", plan.conditions);
}

/// A pod that waits for a node for ever is no move under way.
#[test]
fn move_2_a_drain_whose_pods_do_not_start_elsewhere_in_time_is_held() {
    let mut hub = Hub::at_rest(2, 3);
    hub.set(0, State::Draining);
    hub.round();
    hub.obey(0);
    hub.report(1, |it| (it.available, it.updated_available) = (3, 3));
    hub.elapsed = hub.rules.progress_deadline;
    let plan = hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [3, 4]);
    assert!(!words(&plan.conditions).contains("c0 keeps"), "{:?}", plan.conditions);
    hub.elapsed = 1;
    let plan = hub.round();
    assert!(words(&plan.conditions).contains("c0 keeps 3 replicas"), "{:?}", plan.conditions);
}

/// Section 23 and DEL-6: whoever removes the cluster has to learn why nothing happens.
#[test]
fn move_2_a_drain_is_held_while_the_policy_selects_no_cluster() {
    let mut hub = Hub::at_rest(2, 3);
    hub.selects_none = true;
    hub.set(0, State::Draining);
    hub.set(1, State::Excluded);
    let plan = hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [3, 3]);
    let words = words(&plan.conditions);
    assert!(words.contains("c0 keeps 3 replicas") && !words.contains("c1 keeps"), "{words}");
}

#[test]
fn a_cluster_that_was_not_heard_since_a_restart_keeps_its_part_as_ha_2_says() {
    let mut hub = Hub::empty(3);
    hub.spec.replicas = 9;
    hub.set(1, State::Unconfirmed);
    hub.set(2, State::Unconfirmed);
    let plan = hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [3, 0, 0]);
    assert!(reasons(&plan, "c1").contains(&Why::GrowthHeldUntilHeard(3)));
    assert_eq!(plan.unplaced, 0);
    // One is heard, and the other one is not for so long that it is Offline: nobody waits for it any more.
    hub.set(1, State::Ready);
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [3, 3, 0]);
    hub.set(2, State::Offline);
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas).iter().sum::<u32>(), 9);
}

#[test]
fn without_extra_pods_a_move_shrinks_first_as_move_2_says() {
    let mut hub = Hub::at_rest(2, 3);
    (hub.rules.move_surge, hub.rules.move_unavailable) = (0, 1);
    hub.set(0, State::Draining);
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [2, 3]);
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [2, 3]);
    hub.obey(0);
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [2, 4]);
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas), [0, 6]);
}

#[test]
fn a_share_already_granted_may_use_the_pods_a_move_would_count_on_as_move_2_says() {
    let mut hub = Hub::at_rest(2, 3);
    (hub.rules.move_surge, hub.rules.move_unavailable) = (0, 1);
    hub.spec.target = Revision(2);
    hub.round();
    hub.report_old(0);
    hub.report_old(1);
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable).iter().sum::<u32>(), 1);
    hub.set(0, State::Draining);
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [3, 3]);
}

#[test]
fn a_scale_down_is_written_at_once_as_move_3_says() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.replicas = 2;
    let plan = hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [1, 1]);
    assert!(reasons(&plan, "c0").contains(&Why::ScaledDown(2)));
}

#[test]
fn a_scale_down_waits_for_growth_that_is_starting_as_move_3_says() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.replicas = 10;
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [5, 5]);
    hub.spec.replicas = 8;
    hub.round();
    // Six pods are available, eight are asked for: nothing that may be available goes.
    assert_eq!(hub.shares(|it| it.replicas), [5, 5]);
}

/// Correction of MOVE-3: growth that is overdue is taken back; available pods elsewhere do not go in its place.
#[test]
fn a_scale_down_takes_overdue_growth_before_available_pods() {
    let mut hub = Hub::at_rest(3, 4);
    hub.spec.replicas = 14;
    hub.set(0, State::Cordoned);
    hub.set(1, State::Cordoned);
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [4, 4, 6]);
    hub.report(2, |it| (it.available, it.updated_available) = (4, 4));
    hub.elapsed = 601;
    hub.round();
    hub.spec.replicas = 12;
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [4, 4, 4]);
}

#[test]
fn growth_is_taken_back_only_on_an_acknowledgement_as_move_6_says() {
    let mut hub = Hub::at_rest(2, 3);
    hub.set(0, State::Draining);
    hub.round();
    assert_eq!(hub.share(1).replicas, 4);
    hub.set(0, State::Ready);
    hub.round();
    assert_eq!(hub.share(1).replicas, 4);
    hub.report(1, |it| (it.available, it.updated_available) = (3, 3));
    let plan = hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [3, 3]);
    assert!(reasons(&plan, "c1").contains(&Why::TakenBack(1)));
}

#[test]
fn starting_pods_of_a_move_do_not_stop_a_release_as_move_7_says() {
    let mut hub = Hub::at_rest(2, 3);
    hub.set(0, State::Draining);
    hub.round();
    hub.report(1, |it| (it.available, it.updated_available) = (3, 3));
    hub.spec.target = Revision(2);
    hub.round();
    hub.report_old(0);
    hub.report(1, |it| {
        (it.available, it.updated, it.updated_available, it.at_stable) = (3, 0, 0, 4);
    });
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable).iter().sum::<u32>(), 1);
}

#[test]
fn a_drain_with_no_room_elsewhere_waits_as_move_2_says() {
    let mut hub = Hub::at_rest(2, 3);
    hub.clusters[1].candidate.max = Some(3);
    hub.set(0, State::Draining);
    let plan = hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [3, 3]);
    assert_eq!((plan.unplaced, plan.homeless), (3, 0));
}

#[test]
fn a_drain_takes_no_more_than_there_is_room_for_elsewhere_as_move_2_says() {
    for (extra, missing) in [(0, 1), (1, 2), (0, 6)] {
        for room in 0..3 {
            let mut hub = Hub::at_rest(2, 3);
            (hub.rules.move_surge, hub.rules.move_unavailable) = (extra, missing);
            hub.clusters[1].candidate.max = Some(3 + room);
            hub.set(0, State::Draining);
            hub.settle();
            let plan = hub.round();
            assert_eq!(hub.shares(|it| it.replicas), [3 - room, 3 + room], "M {extra} B {missing}");
            assert!(words(&plan.conditions).contains("c0 keeps"));
        }
    }
}

#[test]
fn rev_13_a_release_ends_though_pods_run_that_have_no_place() {
    let mut hub = Hub::at_rest(2, 3);
    hub.clusters[1].candidate.max = Some(3);
    hub.set(0, State::Draining);
    hub.spec.target = Revision(2);
    hub.settle();
    assert_eq!((hub.shares(|it| it.replicas), hub.ledger.stable), (vec![3, 3], Revision(2)));
}

/// Correction of the hole: replicas without a place that still run where they may not stay are not missing, so they do
/// not excuse replicas that are between clusters.
#[test]
fn replicas_that_may_not_stay_but_run_do_not_fill_the_hole() {
    let mut hub = Hub::at_rest(2, 4);
    (hub.rules.move_surge, hub.rules.move_unavailable) = (0, 2);
    hub.clusters[1].candidate.max = Some(6);
    hub.set(0, State::Draining);
    hub.round();
    hub.obey_all();
    assert_eq!(hub.shares(|it| it.replicas), [2, 4]);
    hub.spec.target = Revision(2);
    let plan = hub.round();
    hub.report_old(0);
    // Two replicas are on their way: with U = 1 nothing else may be taken down.
    hub.round();
    assert_eq!(plan.homeless, 0);
    assert_eq!(hub.shares(|it| it.unavailable), [0, 0]);
}

/// Correction of h_B: a hole that stays because the place is gone is not the move's any more.
#[test]
fn a_move_whose_place_is_gone_does_not_hold_the_release_for_ever() {
    let mut hub = Hub::at_rest(2, 4);
    (hub.rules.move_surge, hub.rules.move_unavailable) = (0, 1);
    hub.set(0, State::Draining);
    hub.round();
    assert_eq!(hub.ledger.move_hole, 1);
    hub.clusters[1].candidate.max = Some(4);
    hub.set(0, State::Cordoned);
    hub.obey_all();
    hub.spec.target = Revision(2);
    let plan = hub.round();
    assert_eq!((plan.homeless, hub.ledger.move_hole), (1, 0));
    hub.report_old(0);
    hub.report_old(1);
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable).iter().sum::<u32>(), 1);
}

/// Correction of BUD-3(b): the hole may wait for the very pods that a share would let go.
#[test]
fn a_shrink_that_cannot_finish_gets_its_share_past_the_hole() {
    let mut hub = Hub::at_rest(2, 3);
    (hub.rules.move_surge, hub.rules.move_unavailable) = (0, 2);
    hub.clusters[0].candidate.max = Some(2);
    hub.clusters[1].candidate.max = Some(3);
    hub.join();
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [2, 3, 0]);
    // A pod of the giver broke, and one that is well is marked: three pods, two replicas, two available.
    hub.report(0, |it| {
        (it.pods, it.available, it.updated, it.updated_available, it.at_stable) = (3, 2, 3, 2, 3);
        it.marked = 1;
    });
    hub.obey(1);
    let plan = hub.round();
    // The new cluster waits for the pod to go, the pod for a share, and the share not for the new cluster.
    assert!(reasons(&plan, "c2").contains(&Why::GrowthHeldByPods(1)));
    assert_eq!(hub.share(0).unavailable, 1);
}

#[test]
fn a_rebalance_that_is_held_says_so() {
    let mut hub = Hub::at_rest(2, 4);
    hub.join();
    hub.rules.rebalance =
        Rebalance { trigger: Trigger::Continuous, max_moves: 1, interval: 300, ..hub.rules.rebalance };
    hub.round();
    hub.obey_all();
    let plan = hub.round();
    assert!(words(&plan.conditions).contains("the next follow in 300 s"), "{:?}", plan.conditions);
}
