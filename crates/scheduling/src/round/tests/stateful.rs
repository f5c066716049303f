//! Pods with volumes of their own (CS-5).

use super::*;

/// Two clusters with three such pods each.
fn stateful() -> Hub {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.stateful = true;
    hub
}

#[test]
fn cs_5_no_rebalance_moves_pods_with_volumes() {
    for stateful in [true, false] {
        let mut hub = Hub::at_rest(2, 3);
        hub.spec.stateful = stateful;
        hub.join();
        hub.rules.rebalance.trigger = Trigger::Continuous;
        hub.settle();
        let expected: [u32; 3] = if stateful { [3, 3, 0] } else { [2, 2, 2] };
        assert_eq!(hub.shares(|it| it.replicas), expected);
        // New pods go where the split wants them.
        hub.spec.replicas = 9;
        hub.settle();
        assert_eq!(hub.shares(|it| it.replicas), [3, 3, 3]);
    }
}

#[test]
fn cs_5_a_rebalance_that_was_asked_for_is_over_at_once() {
    let mut hub = stateful();
    hub.join();
    hub.ledger.rebalance.ask();
    hub.settle();
    assert_eq!((hub.shares(|it| it.replicas), hub.ledger.rebalance.asked), (vec![3, 3, 0], false));
}

#[test]
fn cs_5_a_plain_drain_leaves_pods_with_volumes_and_says_so() {
    let mut hub = stateful();
    hub.set(0, State::Draining);
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas), [3, 3]);
    let plan = hub.round();
    assert!(words(&plan.conditions).contains("drain c0 --move-stateful"), "{:?}", plan.conditions);
    assert_eq!(plan.unplaced, 0);
    // It gets no more, and a scale-down may take from it.
    hub.spec.replicas = 8;
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas), [3, 5]);
    hub.spec.replicas = 0;
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas), [0, 0]);
    assert!(hub.round().conditions.is_empty());
}

#[test]
fn cs_5_a_drain_that_is_told_to_moves_them_like_others() {
    let mut hub = stateful();
    hub.set(0, State::Draining);
    hub.clusters[0].moves_stateful = true;
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas), [0, 6]);
}

#[test]
fn cs_5_a_drain_of_an_object_that_every_cluster_has_whole_leaves_it_too() {
    let mut hub = Hub::empty(2);
    (hub.mode, hub.spec.replicas, hub.spec.stateful) = (Mode::Duplicated, 3, true);
    hub.settle();
    hub.set(0, State::Draining);
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas), [3, 3]);
}

#[test]
fn split_10_a_policy_that_leaves_a_cluster_out_moves_them_all_the_same() {
    let mut hub = stateful();
    hub.set(0, State::Excluded);
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas), [0, 6]);
    let mut hub = stateful();
    hub.clusters[0].candidate.max = Some(1);
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas), [1, 5]);
}

#[test]
fn cs_5_failover_replaces_them() {
    let mut hub = stateful();
    hub.set(0, State::Lost);
    hub.settle();
    assert_eq!(hub.share(1).replicas, 6);
}
