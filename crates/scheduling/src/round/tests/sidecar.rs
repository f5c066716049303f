use super::*;
use crate::partition::sidecar::{custom_version, member_partition};

/// A SidecarSet over clusters with so many matched pods each, all at revision 1.
fn matched(pods: &[u32]) -> Hub {
    let mut hub = Hub::empty(pods.len());
    hub.spec.population = Population::Matched;
    for (index, row) in hub.ledger.rows.iter_mut().enumerate() {
        *row = Row::counted(hub.clusters[index].candidate.name.clone());
    }
    for (index, pods) in pods.iter().enumerate() {
        count(&mut hub, index, *pods, 0);
    }
    hub.round();
    for (index, pods) in pods.iter().enumerate() {
        count(&mut hub, index, *pods, 0);
    }
    hub
}

/// A report with so many matched pods, of which so many are updated.
fn count(hub: &mut Hub, index: usize, pods: u32, updated: u32) {
    hub.report(index, |it| {
        (it.replicas, it.pods, it.available) = (pods, pods, pods);
        let same = it.body == it.stable;
        (it.updated, it.updated_available) = if same { (pods, pods) } else { (updated, updated) };
        it.at_stable = if same { pods } else { pods - updated };
    });
}

#[test]
fn numbers_are_over_matched_pods_and_the_share_is_a_number_of_updated_ones_as_sc_1_and_6_say() {
    let mut hub = matched(&[6, 3, 1]);
    hub.spec.target = Revision(2);
    hub.spec.partition = 5;
    let plan = hub.round();
    assert_eq!(plan.population, 10);
    let updated = hub.shares(|it| if it.body == Revision(2) { it.updated } else { 0 });
    assert_eq!(updated.iter().sum::<u32>(), 5);
    assert!(hub.shares(|it| it.replicas).iter().all(|it| *it == 0));
    assert!(hub.shares(|it| it.surge).iter().all(|it| *it == 0));
}

#[test]
fn a_cluster_without_a_share_keeps_the_stable_sidecar_for_new_pods_too_as_sc_3_says() {
    let mut hub = matched(&[6, 3]);
    hub.spec.target = Revision(2);
    hub.spec.partition = 8;
    hub.round();
    assert_eq!(hub.shares(|it| it.body.0 as u32), [2, 1]);
    // "All" is no number there: pods that come and go need no new plan.
    assert_eq!(hub.share(1).updated, u32::MAX);
    let before = hub.share(1);
    count(&mut hub, 1, 5, 0);
    hub.spec.partition = 10;
    hub.round();
    assert_eq!(hub.share(1), before);
}

#[test]
fn pods_that_come_shift_the_split_by_their_own_share_as_sc_2_says() {
    let mut hub = matched(&[4, 4]);
    hub.spec.target = Revision(2);
    hub.spec.partition = 4;
    hub.round();
    assert_eq!(hub.shares(|it| it.updated), [2, 2]);
    count(&mut hub, 0, 8, 2);
    count(&mut hub, 1, 4, 2);
    hub.spec.partition = 6;
    hub.round();
    assert_eq!(hub.shares(|it| it.updated), [4, 2]);
}

#[test]
fn budgets_hold_over_matched_pods() {
    let mut hub = matched(&[4, 4]);
    hub.spec.unavailable = 1;
    hub.spec.target = Revision(2);
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable).iter().sum::<u32>(), 1);
}

/// Like [`count`], with pods that the update's selector leaves out and that are old.
fn count_selected(hub: &mut Hub, index: usize, pods: u32, updated: u32, unselected: u32) {
    count(hub, index, pods, updated);
    hub.report(index, |it| {
        (it.replicas, it.pods, it.available) = (pods, pods, pods);
        (it.updated, it.updated_available, it.at_stable) = (updated, updated, pods - updated);
        it.unselected = unselected;
        if it.body == it.stable {
            (it.updated, it.updated_available, it.at_stable) = (pods, pods, pods);
            it.unselected_updated = unselected;
        }
    });
}

#[test]
fn sc_7_numbers_are_over_matched_pods_and_the_division_over_selected_ones() {
    let mut hub = matched(&[10, 10]);
    hub.spec.target = Revision(2);
    hub.spec.unavailable = 4;
    hub.spec.partition = 16;
    // Of the first cluster one pod is selected, of the second all: P is over all twenty, G = 4.
    for (index, unselected) in [9, 0].into_iter().enumerate() {
        hub.report(index, |it| {
            (it.replicas, it.pods, it.available) = (10, 10, 10);
            (it.updated, it.updated_available, it.at_stable) = (10, 10, 10);
            it.unselected = unselected;
        });
    }
    let plan = hub.round();
    assert_eq!(plan.population, 20);
    assert_eq!(hub.shares(|it| if it.body == Revision(2) { it.updated } else { 0 }), [0, 4]);
    count_selected(&mut hub, 0, 10, 0, 9);
    count(&mut hub, 1, 10, 0);
    hub.round();
    // Demand is what is selected, not what is matched.
    hub.spec.partition = 8;
    hub.round();
    assert_eq!(hub.shares(|it| if it.body == Revision(2) { it.updated } else { 0 }), [1, 10]);
    count_selected(&mut hub, 0, 10, 1, 9);
    count(&mut hub, 1, 10, 10);
    let plan = hub.round();
    assert!(words(&plan.conditions).contains("1 pods that should be updated cannot be"));
    assert_eq!(hub.shares(|it| it.unavailable), [0, 0]);
}

#[test]
fn sc_4_every_cluster_with_a_share_names_the_same_version_and_the_others_the_stable_one() {
    let mut hub = matched(&[6, 3]);
    hub.spec.target = Revision(2);
    hub.spec.partition = 8;
    hub.round();
    let versions: Vec<String> = hub.ledger.rows.iter().map(|it| custom_version(it.share.body)).collect();
    assert_eq!(versions, ["0000000000000002", "0000000000000001"]);
    hub.spec.partition = 0;
    hub.round();
    assert!(hub.ledger.rows.iter().all(|it| custom_version(it.share.body) == "0000000000000002"));
}

#[test]
fn sc_5_a_new_template_waits_until_the_release_it_comes_after_is_over() {
    let mut hub = matched(&[6, 3]);
    hub.spec.target = Revision(2);
    hub.after = Some("CloneSet shop/web");
    let plan = hub.round();
    assert_eq!(hub.ledger.target, Revision(1));
    assert!(hub.ledger.rows.iter().all(|it| it.share.body == Revision(1)));
    assert!(words(&plan.conditions).contains("waits until the release of CloneSet shop/web is over"));
    hub.after = None;
    hub.round();
    assert_eq!(hub.ledger.target, Revision(2));
    // What has begun goes on, whatever begins elsewhere.
    hub.after = Some("CloneSet shop/web");
    assert!(!words(&hub.round().conditions).contains("waits until"));
}

#[test]
fn sc_6_pods_that_come_between_rounds_stay_old_and_the_share_says_how_many_are_new() {
    let mut hub = matched(&[6, 4]);
    hub.spec.target = Revision(2);
    hub.spec.partition = 5;
    hub.round();
    let share = hub.share(0);
    assert_eq!((share.body, share.updated, share.replicas), (Revision(2), 3, 0));
    // The member keeps the others old, however many come or go.
    assert_eq!(member_partition(6, share.updated), 3);
    assert_eq!(member_partition(9, share.updated), 6);
    assert_eq!(member_partition(2, share.updated), 0);
}

/// A SidecarSet that is released in two waves, one cluster each.
fn in_waves(pods: &[u32]) -> Hub {
    let mut hub = matched(pods);
    hub.waves = vec![Wave::named("first"), Wave::named("second")];
    hub.clusters[1].wave = 1;
    hub.spec.target = Revision(2);
    hub
}

/// REL-3: "all" is no number to be reached.
#[test]
fn sc_1_waves_pass_and_gates_count_whoever_has_updated_all_that_match() {
    let mut hub = in_waves(&[4, 4]);
    for _ in 0..12 {
        hub.round();
        for index in 0..2 {
            let given = hub.share(index).body == Revision(2);
            count(&mut hub, index, 4, if given { 4 } else { 0 });
        }
    }
    assert_eq!(hub.ledger.stable, Revision(2));

    let mut hub = matched(&[4, 4]);
    hub.spec.target = Revision(2);
    hub.rules.gate = Gate { max_failed: 1, ..Gate::default() };
    hub.round();
    count(&mut hub, 0, 4, 4);
    count(&mut hub, 1, 4, 1);
    hub.round();
    count(&mut hub, 0, 4, 4);
    count(&mut hub, 1, 4, 1);
    hub.elapsed = 601;
    hub.round();
    assert_eq!(hub.ledger.paused, None);
}

#[test]
fn sc_7_pods_that_no_update_can_reach_keep_no_later_wave_closed() {
    let mut hub = in_waves(&[10, 4]);
    hub.spec.partition = 9;
    hub.spec.unavailable = 9;
    for _ in 0..6 {
        for (index, unselected) in [8, 0].into_iter().enumerate() {
            let pods = [10, 4][index];
            let share = hub.share(index);
            let updated = if share.body == Revision(2) { share.updated.min(pods) } else { 0 };
            count_selected(&mut hub, index, pods, updated, unselected);
        }
        hub.round();
    }
    assert_eq!(hub.shares(|it| if it.body == Revision(2) { it.updated } else { 0 }), [2, 3]);
}

#[test]
fn sc_2_what_a_cluster_that_is_away_was_given_counts_for_no_more_than_it_matched() {
    // One that had "all" and is not heard any more, when the partition is raised.
    let mut hub = in_waves(&[4, 4]);
    hub.round();
    count(&mut hub, 0, 4, 4);
    hub.set(0, State::Offline);
    hub.spec.partition = 1;
    for _ in 0..4 {
        hub.round();
        let updated = if hub.share(1).body == Revision(2) { hub.share(1).updated.min(4) } else { 0 };
        count(&mut hub, 1, 4, updated);
    }
    assert_eq!(hub.share(1).updated, 3);
    // One that is lost matches nothing that is counted.
    let mut hub = matched(&[4, 4]);
    hub.spec.target = Revision(2);
    hub.spec.partition = 6;
    hub.round();
    count(&mut hub, 0, 4, 1);
    count(&mut hub, 1, 4, 1);
    hub.set(0, State::Lost);
    hub.spec.partition = 2;
    hub.round();
    assert_eq!(hub.share(1).updated, 2);
}

/// REL-7 over matched pods: a pause takes the shares back there too.
#[test]
fn sc_1_a_failed_gate_stops_the_clusters_of_a_sidecar() {
    let mut hub = matched(&[4, 4]);
    hub.spec.target = Revision(2);
    hub.spec.unavailable = 2;
    hub.rules.gate = Gate { max_failing_pods: 0, ..Gate::default() };
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable), [1, 1]);
    count(&mut hub, 1, 4, 1);
    count(&mut hub, 0, 4, 1);
    hub.report(0, |it| {
        (it.replicas, it.pods, it.available) = (4, 4, 3);
        (it.updated, it.updated_available, it.at_stable, it.failing) = (1, 0, 3, 1);
    });
    hub.round();
    assert!(hub.ledger.paused().is_some());
    assert!(hub.ledger.rows.iter().all(|it| it.share.paused && it.share.unavailable == 0));
}
