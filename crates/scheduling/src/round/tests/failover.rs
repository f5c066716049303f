use super::*;

#[test]
fn a_cluster_that_is_only_offline_is_left_alone() {
    let mut hub = Hub::at_rest(3, 2);
    hub.set(0, State::Offline);
    hub.spec.replicas = 9;
    let plan = hub.round();
    assert!(plan.writes.iter().all(|it| it.0 != 0));
    assert_eq!(hub.shares(|it| it.replicas), [2, 4, 3]);
}

#[test]
fn a_lost_cluster_is_replaced_and_its_pods_still_count_as_fo_2_and_9_say() {
    let mut hub = Hub::at_rest(3, 2);
    hub.set(0, State::Lost);
    let plan = hub.round();
    assert!(reasons(&plan, "c0").contains(&Why::Lost));
    assert_eq!(hub.shares(|it| it.replicas)[1..], [3, 3]);
    assert_eq!(hub.ledger.rows[0].replicas.exposure, 2);
    let alive: u32 = hub.ledger.rows.iter().map(|it| it.replicas.exposure).sum();
    assert_eq!(alive, 8);
}

#[test]
fn overlap_is_bounded_until_the_cluster_is_known_to_be_stopped_as_fo_2_and_9_say() {
    let mut hub = Hub::at_rest(3, 2);
    hub.rules.max_overlap = 0;
    hub.set(0, State::Lost);
    hub.round();
    // Only what moves may have above N is there.
    assert_eq!(hub.shares(|it| it.replicas)[1..].iter().sum::<u32>(), 5);
    hub.clusters[0].stopped = true;
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas)[1..].iter().sum::<u32>(), 6);
}

#[test]
fn no_more_clusters_are_given_up_than_the_policy_says_as_fo_1_says() {
    let mut hub = Hub::at_rest(3, 2);
    hub.set(0, State::Lost);
    hub.set(1, State::Lost);
    hub.round();
    assert_eq!(hub.ledger.rows.iter().map(|it| it.lost).collect::<Vec<_>>(), [true, false, false]);
}

#[test]
fn a_returned_cluster_is_granted_what_it_runs_and_leaves_when_it_is_not_needed_as_fo_5_and_6_say() {
    let mut hub = Hub::at_rest(3, 2);
    let before = hub.obedient(0);
    hub.set(0, State::Lost);
    hub.round();
    hub.obey(1);
    hub.obey(2);
    // It is heard again, but does not know yet that it was given up: nothing is done with it.
    hub.set(0, State::Ready);
    assert!(hub.round().writes.iter().all(|it| it.0 != 0));
    hub.number += 1;
    let report = Report { number: hub.number, known_epoch: 1, ..before };
    hub.ledger.rows[0].take(report, Revision(1));
    let plan = hub.round();
    assert!(reasons(&plan, "c0").contains(&Why::Returned { replicas: 2 }));
    let share = hub.share(0);
    assert_eq!((share.epoch, share.replicas, share.unavailable, share.surge), (1, 2, 0, 0));
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas).iter().sum::<u32>(), 6);
}

#[test]
fn failback_moves_replicas_back_later_as_fo_6_says() {
    let mut hub = Hub::at_rest(3, 2);
    hub.rules.on_return = OnReturn::Failback;
    let before = hub.obedient(0);
    hub.set(0, State::Lost);
    hub.round();
    hub.obey(1);
    hub.obey(2);
    hub.set(0, State::Ready);
    hub.number += 1;
    let report = Report { number: hub.number, known_epoch: 1, pods: 0, available: 0, updated: 0, ..before };
    let report = Report { updated_available: 0, at_stable: 0, ..report };
    hub.ledger.rows[0].take(report, Revision(1));
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas), [2, 2, 2]);
}

#[test]
fn a_lost_cluster_frees_its_share_of_u_and_keeps_its_updated_pods_as_fo_9_says() {
    let mut hub = Hub::at_rest(3, 2);
    hub.spec.target = Revision(2);
    hub.spec.partition = 5;
    hub.round();
    hub.report_old(0);
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable), [1, 0, 0]);
    hub.set(0, State::Lost);
    hub.round();
    assert_eq!(hub.ledger.rows[0].unavailable.exposure, 0);
    assert_eq!(hub.ledger.rows[0].updated.exposure, 1);
    assert!(hub.ledger.rows[1..].iter().all(|it| it.updated.exposure == 0));
}

#[test]
fn a_cluster_that_is_still_returning_keeps_what_it_was_granted_as_fo_6_says() {
    let mut hub = Hub::at_rest(3, 3);
    let before = hub.obedient(0);
    hub.set(0, State::Lost);
    hub.round();
    // It is back before the others have made a single replacement.
    hub.set(0, State::Returning);
    hub.number += 1;
    let report = Report { number: hub.number, known_epoch: 1, ..before };
    hub.ledger.rows[0].take(report, Revision(1));
    hub.settle();
    let replicas = hub.shares(|it| it.replicas);
    assert_eq!(replicas.iter().sum::<u32>(), 9);
    assert!(replicas[0] > 0, "{replicas:?}");
    let kept = replicas[0];
    hub.spec.replicas = 12;
    hub.settle();
    assert_eq!(hub.share(0).replicas, kept);
}
