use super::*;

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
