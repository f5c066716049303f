use super::*;

/// Two clusters of three old pods each, all to be updated.
fn releasing(unavailable: u32) -> Hub {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.unavailable = unavailable;
    hub.spec.target = Revision(2);
    hub.round();
    hub.report_old(0);
    hub.report_old(1);
    hub
}

#[test]
fn shares_add_up_to_u_and_freed_ones_wait_for_the_acknowledgement_as_bud_3_says() {
    let mut hub = releasing(1);
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable), [1, 0]);
    // The first cluster is through, by its report. Its share goes down; the other one's does not go up yet.
    hub.obey(0);
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable), [0, 0]);
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable), [0, 0]);
    hub.obey(0);
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable), [0, 1]);
}

#[test]
fn an_acknowledgement_frees_nothing_while_the_pods_are_still_down_as_bud_2_says() {
    let mut hub = releasing(1);
    hub.round();
    hub.report(0, |it| (it.available, it.updated_available) = (2, 2));
    hub.round();
    hub.report(0, |it| (it.available, it.updated_available) = (2, 2));
    assert_eq!(hub.ledger.rows[0].unavailable.grant, 0);
    assert_eq!(hub.ledger.rows[0].unavailable.exposure, 1);
    hub.round();
    assert_eq!(hub.share(1).unavailable, 0);
}

#[test]
fn a_broken_cluster_is_given_what_mends_it_as_bud_4_says() {
    let mut hub = releasing(1);
    // Two old pods of the second cluster are down by themselves: more than U.
    hub.report(1, |it| {
        (it.available, it.updated, it.updated_available, it.at_stable) = (1, 0, 0, 3);
    });
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable), [0, 0]);
    hub.report_old(0);
    let plan = hub.round();
    assert_eq!(hub.shares(|it| it.unavailable), [0, 1]);
    assert!(
        words(&plan.conditions).contains("of 1 unavailable pods are held: 2 by c1"),
        "{:?}",
        plan.conditions
    );
}

#[test]
fn an_incident_takes_idle_shares_back_everywhere_as_bud_5_says() {
    let mut hub = releasing(1);
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable), [1, 0]);
    hub.report_old(0);
    hub.report(1, |it| {
        (it.available, it.updated, it.updated_available, it.at_stable) = (2, 0, 0, 3);
    });
    let plan = hub.round();
    assert_eq!(hub.share(0).unavailable, 0);
    assert!(reasons(&plan, "c0").contains(&Why::ShareWithdrawn(1)));
}

#[test]
fn a_cluster_that_is_not_heard_holds_what_the_policy_says_as_bud_6_says() {
    for (unknown, share) in [(UnknownCountsAs::Unavailable, 0), (UnknownCountsAs::LastReported, 1)] {
        let mut hub = releasing(1);
        hub.rules.unknown = unknown;
        hub.set(1, State::Offline);
        hub.round();
        assert_eq!(hub.share(0).unavailable, share);
    }
}

#[test]
fn room_goes_to_named_pods_before_pods_left_to_update_as_bud_7_says() {
    let mut hub = Hub::at_rest(2, 3);
    hub.clusters[1].candidate.named_for_deletion = 1;
    hub.clusters[1].names = 7;
    hub.spec.target = Revision(2);
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable), [0, 1]);
    assert_eq!(hub.share(1).named, 7);
}

#[test]
fn a_share_not_used_within_the_deadline_goes_to_another_as_bud_7_says() {
    let mut hub = releasing(1);
    hub.round();
    hub.report_old(0);
    hub.elapsed = 601;
    hub.round();
    assert_eq!(hub.share(0).unavailable, 0);
    hub.elapsed = 0;
    hub.report_old(0);
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable), [0, 1]);
}

#[test]
fn surge_adds_up_to_s_and_its_pods_count_until_they_are_gone_as_bud_8_says() {
    let mut hub = releasing(0);
    hub.spec.surge = 1;
    hub.round();
    assert_eq!(hub.shares(|it| it.surge), [1, 0]);
    assert_eq!(hub.shares(|it| it.unavailable), [0, 0]);
    // All is updated, but the extra pod is there still.
    hub.report(0, |it| (it.pods, it.available, it.at_stable) = (4, 4, 1));
    hub.round();
    hub.report(0, |it| (it.pods, it.available, it.at_stable) = (4, 4, 1));
    hub.round();
    assert_eq!(hub.shares(|it| it.surge), [0, 0]);
    hub.obey(0);
    hub.round();
    assert_eq!(hub.shares(|it| it.surge), [0, 1]);
}

#[test]
fn a_member_without_shares_is_written_paused_as_bud_9_says() {
    let mut hub = releasing(1);
    hub.round();
    assert!(hub.share(1).is_still() && hub.share(1).paused);
    assert!(!hub.share(0).is_still() && !hub.share(0).paused);
}

#[test]
fn a_member_without_surge_deletes_only_by_a_share_as_bud_9_says() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.in_place_only = true;
    hub.spec.replicas = 5;
    hub.round();
    // First the share, then the shrink.
    assert_eq!(hub.shares(|it| it.replicas), [3, 3]);
    assert_eq!(hub.shares(|it| it.unavailable).iter().sum::<u32>(), 1);
    hub.obey_all();
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas).iter().sum::<u32>(), 5);
    let giver = usize::from(hub.share(1).replicas == 2);
    // It holds one while the pod is there, whatever is written.
    hub.report(giver, |it| {
        (it.pods, it.available, it.updated, it.updated_available, it.at_stable) = (3, 3, 3, 3, 3);
    });
    assert_eq!(hub.ledger.rows[giver].unavailable.exposure, 1);
    hub.settle();
    assert_eq!(hub.ledger.rows.iter().map(|it| it.unavailable.exposure).sum::<u32>(), 0);
}

#[test]
fn growth_keeps_to_the_scale_limit_and_repair_is_never_forbidden_as_bud_10_says() {
    let mut hub = Hub::empty(2);
    hub.spec.replicas = 10;
    hub.spec.scale_unavailable = Some(3);
    let plan = hub.round();
    assert_eq!(hub.shares(|it| it.replicas).iter().sum::<u32>(), 3);
    assert!(plan.decisions.iter().any(|it| matches!(it.why, Why::GrowthHeldByStarting(_))));
    assert!(hub.ledger.rows.iter().all(|it| it.share.seq == 0 || it.share.scale_unavailable >= Some(1)));
    hub.obey_all();
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas).iter().sum::<u32>(), 6);
}

#[test]
fn a_lower_u_binds_at_once_and_what_was_granted_counts_until_acknowledged_as_bud_12_says() {
    let mut hub = releasing(2);
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable), [1, 1]);
    hub.spec.unavailable = 1;
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable).iter().sum::<u32>(), 1);
    let exposed: u32 = hub.ledger.rows.iter().map(|it| it.unavailable.exposure).sum();
    assert_eq!(exposed, 2);
}

/// Correction of BUD-3/BUD-12: pods that broke under the old U keep the sum of exposures above the new one for as long
/// as they are broken, and with "sum of exposures <= U" alone nothing could be granted that mends them.
#[test]
fn pods_that_broke_under_a_larger_u_are_mended_under_a_smaller_one() {
    let mut hub = releasing(3);
    hub.round();
    for index in 0..2 {
        let share = hub.share(index).unavailable;
        hub.report(index, |it| {
            (it.updated, it.updated_available, it.at_stable) = (share, 0, 3 - share);
            it.available = 3 - share;
        });
    }
    // A new template, and U is lowered to 1 while three pods are down.
    hub.spec.unavailable = 1;
    hub.spec.target = Revision(3);
    for _ in 0..3 {
        hub.round();
        for index in 0..2 {
            hub.report(index, |it| {
                let down = if index == 0 { 2 } else { 1 };
                (it.updated, it.updated_available, it.at_stable) = (0, 0, 3 - down);
                (it.available, it.neither_unavailable) = (3 - down, down);
            });
        }
    }
    let exposed: u32 = hub.ledger.rows.iter().map(|it| it.unavailable.exposure).sum();
    assert!(exposed > hub.spec.unavailable);
    assert_eq!(hub.shares(|it| it.unavailable).iter().sum::<u32>(), 1);
}

/// Correction of BUD-12: what a cluster that is not heard holds cannot be taken back, so the others give theirs up.
#[test]
fn a_lower_u_is_withdrawn_beside_a_holder_that_is_not_heard() {
    let mut hub = releasing(2);
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable), [1, 1]);
    // The share of the second cluster is in use.
    hub.report(1, |it| {
        (it.available, it.updated, it.updated_available, it.at_stable) = (2, 1, 0, 2);
    });
    hub.spec.unavailable = 1;
    hub.set(0, State::Offline);
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable), [1, 0]);
}

#[test]
fn a_lower_s_is_withdrawn_beside_a_holder_that_is_not_heard() {
    let mut hub = releasing(0);
    hub.spec.surge = 2;
    hub.round();
    assert_eq!(hub.shares(|it| it.surge), [1, 1]);
    hub.spec.surge = 1;
    hub.set(0, State::Offline);
    hub.round();
    assert_eq!(hub.shares(|it| it.surge), [1, 0]);
}

/// A shrink-first move has left a hole of one, its receiver's replica is down by a share, and is taken back. The share
/// may not be granted again: it would take down a pod that nothing stands for any more, two below N with U = B = 1.
#[test]
fn a_share_is_not_granted_again_beside_the_hole_of_a_move_whose_growth_is_taken_back() {
    let mut hub = Hub::at_rest(2, 2);
    (hub.rules.move_surge, hub.rules.move_unavailable) = (0, 1);
    hub.report(0, |it| (it.available, it.updated_available) = (1, 1));
    hub.ledger.move_hole = 1;
    hub.ledger.rows[0].moving = 1;
    hub.ledger.rows[0].unavailable.exposure = 1;
    hub.clusters[0].candidate.max = Some(1);
    hub.spec.target = Revision(2);
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas), [1, 2]);
    assert_eq!(hub.ledger.move_hole, 1);
    assert_eq!(hub.shares(|it| it.unavailable), [0, 0]);
}

#[test]
fn bud_1_refuses_two_budgets_of_zero_and_says_so() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.target = Revision(2);
    hub.round();
    hub.report_old(0);
    hub.report_old(1);
    hub.round();
    assert_eq!(hub.shares(|it| it.unavailable).iter().sum::<u32>(), 1);
    (hub.spec.unavailable, hub.spec.surge) = (0, 0);
    let plan = hub.round();
    assert!(plan.conditions.iter().any(|it| matches!(it, Condition::BudgetsRefused(_))));
    assert!(words(&plan.conditions).contains("updateStrategy.maxUnavailable must not be 0"));
    assert!(hub.shares(|it| it.unavailable + it.surge).iter().all(|it| *it == 0));
    // A pause has no surge by itself, and without replicas there is nothing to refuse.
    hub.spec.paused = true;
    assert!(!words(&hub.round().conditions).contains("must not be 0"));
    (hub.spec.paused, hub.spec.replicas) = (false, 0);
    assert!(!words(&hub.round().conditions).contains("must not be 0"));
}

#[test]
fn bud_10_members_carry_webster_shares_of_the_scale_limit() {
    let mut hub = Hub::empty(3);
    for (cluster, weight) in hub.clusters.iter_mut().zip([5, 3, 2]) {
        cluster.candidate.weight = weight;
    }
    hub.spec.replicas = 10;
    hub.settle();
    assert_eq!(hub.shares(|it| it.replicas), [5, 3, 2]);
    hub.spec.scale_unavailable = Some(4);
    hub.round();
    // By quotients 5, 3, 2, 5/3: the fourth goes to the first, and 4 * 3/10 rounded down would have lost one.
    let shares: Vec<u32> = hub.ledger.rows.iter().map(|it| it.share.scale_unavailable.unwrap()).collect();
    assert_eq!(shares, [2, 1, 1]);
    hub.spec.scale_unavailable = Some(1);
    hub.round();
    assert!(hub.ledger.rows.iter().all(|it| it.share.scale_unavailable == Some(1)));
}

/// Correction: a cluster that is Pending again, with a plan in its hands, is not out of the sums.
#[test]
fn bud_6_a_pending_cluster_with_a_plan_holds_what_it_was_granted() {
    let mut hub = releasing(1);
    hub.round();
    let holder = usize::from(hub.share(1).unavailable == 1);
    assert_eq!(hub.share(holder).unavailable, 1);
    let before = hub.shares(|it| it.replicas);
    hub.set(holder, State::Pending);
    for _ in 0..3 {
        hub.round();
        assert_eq!(hub.shares(|it| it.unavailable).iter().sum::<u32>(), 1);
        assert_eq!(hub.shares(|it| it.replicas), before);
        hub.report_old(1 - holder);
    }
}

/// A release beside a drain, with less room than replicas: what is surely there never falls below the level of the rule.
#[test]
fn bud_11_what_is_kept_available_is_n_less_unplaced_less_the_deeper_limit() {
    let mut hub = Hub::empty(3);
    for cluster in &mut hub.clusters {
        cluster.candidate.max = Some(4);
    }
    hub.spec.replicas = 14;
    (hub.spec.unavailable, hub.rules.move_surge, hub.rules.move_unavailable) = (1, 0, 2);
    hub.settle();
    hub.spec.target = Revision(2);
    hub.set(2, State::Draining);
    for turn in 0..60 {
        let plan = hub.round();
        assert_eq!((plan.population, plan.unplaced >= 2), (14, true));
        let sure =
            |it: &Row| i64::from(it.settled()) - i64::from(it.unavailable.exposure.saturating_sub(it.moving));
        let kept: i64 = hub.ledger.rows.iter().map(sure).sum();
        assert!(kept >= 14 - plan.homeless as i64 - 2, "{kept} in round {turn}: {:?}", hub.ledger);
        hub.obey(turn % 3);
    }
    // With no room elsewhere the drain waits, and all that runs is updated.
    assert_eq!(hub.shares(|it| it.replicas), [4, 4, 4]);
    assert!(hub.ledger.rows.iter().all(|it| it.report.is_some_and(|it| it.of(Revision(2)) == 4)));
}

#[test]
fn every_change_of_a_share_says_what_it_is_for() {
    let said = |plan: &Plan, cluster: &str| {
        let budgets = |it: &Why| matches!(it, Why::Budget { .. }).then(|| it.to_string());
        reasons(plan, cluster).iter().find_map(budgets).unwrap_or_default()
    };
    let mut hub = Hub::at_rest(2, 3);
    (hub.spec.unavailable, hub.spec.surge) = (2, 1);
    hub.spec.target = Revision(2);
    let plan = hub.round();
    assert_eq!(said(&plan, "c0"), "1 pods may be down and 1 extra: 3 pods are to be updated");
    hub.report_old(0);
    hub.report_old(1);
    hub.spec.unavailable = 1;
    let plan = hub.round();
    assert!(said(&plan, "c1").contains("used elsewhere or smaller"), "{plan:?}");
    hub.obey(0);
    hub.report_old(1);
    let plan = hub.round();
    assert_eq!(said(&plan, "c0"), "0 pods may be down and 0 extra: nothing is left to do here");
    hub.obey(0);
    hub.report_old(1);
    hub.round();
    hub.report_old(1);
    hub.spec.paused = true;
    let plan = hub.round();
    assert_eq!(said(&plan, "c1"), "0 pods may be down and 0 extra: the update is paused");
}

#[test]
fn bud_8_an_object_that_turns_to_in_place_only_gives_its_surge_back() {
    let mut hub = Hub::at_rest(2, 3);
    (hub.spec.unavailable, hub.spec.surge) = (0, 1);
    hub.spec.target = Revision(2);
    hub.round();
    assert_eq!(hub.shares(|it| it.surge).iter().sum::<u32>(), 1);
    hub.report_old(0);
    hub.report_old(1);
    hub.spec.in_place_only = true;
    let plan = hub.round();
    assert_eq!(hub.shares(|it| it.surge), [0, 0]);
    assert!(plan.conditions.iter().any(|it| matches!(it, Condition::BudgetsRefused(_))));
}
