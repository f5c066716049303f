use super::*;
use crate::{
    numbers::IntOrPercent,
    release::{Approval, Approved, OnFailure, Paused, Stage},
};

fn waves(hub: &mut Hub, of: &[usize]) {
    hub.waves = vec![Wave::named("canary"), Wave::named("rest")];
    for (cluster, wave) in hub.clusters.iter_mut().zip(of) {
        cluster.wave = *wave;
    }
    hub.spec.target = Revision(2);
}

fn bodies(hub: &Hub) -> Vec<u32> {
    hub.shares(|it| it.body.0 as u32)
}

#[test]
fn a_later_wave_gets_the_target_when_the_earlier_one_is_done_as_rel_1_to_3_say() {
    let mut hub = Hub::at_rest(3, 2);
    waves(&mut hub, &[1, 0, 1]);
    hub.round();
    assert_eq!(bodies(&hub), [1, 2, 1]);
    hub.report(1, |it| (it.updated_available, it.available) = (1, 1));
    hub.round();
    assert_eq!(bodies(&hub), [1, 2, 1]);
    hub.obey(1);
    hub.round();
    assert_eq!(bodies(&hub), [2, 2, 2]);
    hub.settle();
    assert_eq!((hub.ledger.stable, hub.ledger.release.is_none()), (Revision(2), true));
}

/// Correction of REL-2: a wave that is done only as far as the partition goes does not open the next one. Opened early,
/// the next one would run without the gates of the first once the partition is lowered.
#[test]
fn the_partition_keeps_later_waves_closed_until_they_are_needed() {
    let mut hub = Hub::at_rest(2, 2);
    waves(&mut hub, &[0, 1]);
    hub.spec.partition = 3;
    hub.round();
    hub.obey_all();
    let plan = hub.round();
    assert!(words(&plan.conditions).contains("the partition is reached"));
    assert!(!hub.ledger.rows[1].admitted);
    hub.obey_all();
    hub.spec.partition = 0;
    hub.round();
    assert_eq!(bodies(&hub), [2, 1]);
    hub.settle();
    assert_eq!(hub.ledger.stable, Revision(2));
}

/// Rounds and obedience with `seconds` between them.
fn pass(hub: &mut Hub, rounds: usize, seconds: u32) {
    hub.elapsed = seconds;
    for _ in 0..rounds {
        hub.round();
        hub.obey_all();
    }
    hub.elapsed = 0;
}

/// REL-2, REL-3: a partition that leaves nothing to update lets no wave pass.
#[test]
fn a_wave_does_not_begin_while_the_partition_leaves_nothing_to_update() {
    for mode in [Mode::Divided, Mode::Duplicated] {
        let mut hub = Hub::at_rest(2, 2);
        if mode == Mode::Duplicated {
            (hub.mode, hub.spec.numbers, hub.spec.replicas) = (mode, Numbers::PerCluster, 2);
        }
        waves(&mut hub, &[0, 1]);
        hub.waves[0].soak = 60;
        hub.spec.partition = 4;
        pass(&mut hub, 3, 100);
        assert!(words(&hub.round().conditions).contains("the partition is reached"));
        hub.spec.partition = 0;
        pass(&mut hub, 3, 0);
        assert_eq!(bodies(&hub), [2, 1], "{mode:?}");
        pass(&mut hub, 4, 60);
        assert_eq!(bodies(&hub), [2, 2], "{mode:?}");
    }
}

#[test]
fn rel_3_a_lower_partition_starts_the_soak_anew() {
    let mut hub = Hub::at_rest(2, 4);
    waves(&mut hub, &[0, 1]);
    hub.waves[0].soak = 60;
    hub.spec.partition = 6;
    pass(&mut hub, 4, 0);
    pass(&mut hub, 1, 50);
    hub.spec.partition = 0;
    pass(&mut hub, 1, 20);
    pass(&mut hub, 6, 9);
    assert_eq!(bodies(&hub), [2, 1]);
    pass(&mut hub, 6, 20);
    assert_eq!(bodies(&hub), [2, 2]);
}

/// Two clusters with three pods each by numbers per cluster, one of them updated in each: through two waves, the first of
/// which soaks for a minute.
fn after_a_pod_each() -> Hub {
    let mut hub = Hub::at_rest(2, 3);
    (hub.mode, hub.spec.numbers, hub.spec.replicas) = (Mode::Duplicated, Numbers::PerCluster, 3);
    waves(&mut hub, &[0, 1]);
    hub.waves[0].soak = 60;
    hub.spec.partition = 2;
    pass(&mut hub, 4, 60);
    assert_eq!(hub.shares(|it| it.updated), [1, 1]);
    hub
}

/// With numbers per cluster every wave has had its part when the partition is lowered: the rest goes through them again.
#[test]
fn rel_2_what_a_lower_partition_makes_due_goes_through_the_waves_again_with_numbers_per_cluster() {
    let mut hub = after_a_pod_each();
    hub.spec.partition = 1;
    pass(&mut hub, 3, 0);
    assert_eq!(hub.shares(|it| it.updated), [2, 1]);
    pass(&mut hub, 3, 60);
    assert_eq!(hub.shares(|it| it.updated), [2, 2]);
    hub.spec.partition = 0;
    pass(&mut hub, 3, 0);
    assert_eq!(hub.shares(|it| it.updated), [3, 2]);
    pass(&mut hub, 6, 60);
    hub.settle();
    assert_eq!(hub.ledger.stable, Revision(2));
}

/// REL-4: clusters that have nothing due yet would else all start together when the partition is lowered.
#[test]
fn rel_4_no_more_clusters_are_admitted_than_the_partition_needs() {
    let mut hub = Hub::at_rest(3, 2);
    waves(&mut hub, &[0, 0, 0]);
    hub.waves[0].max_concurrency = Some(IntOrPercent::Int(1));
    hub.spec.partition = 5;
    pass(&mut hub, 4, 0);
    assert!(words(&hub.round().conditions).contains("the partition is reached"));
    hub.spec.partition = 0;
    hub.spec.unavailable = 6;
    pass(&mut hub, 1, 0);
    assert_eq!(bodies(&hub), [2, 1, 1]);
    pass(&mut hub, 1, 0);
    assert_eq!(bodies(&hub), [2, 2, 1]);
}

#[test]
fn a_wave_without_replicas_is_passed_without_a_report_as_rel_3_says() {
    let mut hub = Hub::at_rest(2, 2);
    hub.join();
    waves(&mut hub, &[1, 1, 0]);
    hub.waves[0].soak = 1000;
    hub.round();
    hub.round();
    assert_eq!(bodies(&hub)[..2], [2, 2]);
}

#[test]
fn a_cluster_that_joins_takes_its_place_as_rel_6_says() {
    let mut hub = Hub::at_rest(2, 2);
    waves(&mut hub, &[0, 1]);
    hub.round();
    hub.join();
    hub.clusters[2].wave = 0;
    hub.spec.replicas = 6;
    hub.round();
    hub.round();
    assert_eq!(bodies(&hub), [2, 1, 2]);
}

#[test]
fn a_failed_gate_rolls_back_whatever_the_partition_as_rel_7_says() {
    let mut hub = Hub::at_rest(2, 3);
    waves(&mut hub, &[0, 1]);
    hub.spec.partition = 5;
    hub.waves[0].gate = Gate { max_failing_pods: 0, on_failure: OnFailure::Rollback, ..Gate::default() };
    hub.round();
    hub.report(0, |it| (it.updated_available, it.available, it.failing) = (0, 2, 1));
    hub.round();
    assert_eq!((hub.ledger.target, hub.ledger.rolled_back), (Revision(1), Some(Revision(2))));
    assert_eq!((hub.share(0).body, hub.share(0).updated), (Revision(1), 3));
    hub.settle();
    assert_eq!(bodies(&hub), [1, 1]);
    // The next edit of the template ends it.
    hub.spec.target = Revision(3);
    hub.round();
    assert_eq!((hub.ledger.target, hub.ledger.rolled_back), (Revision(3), None));
}

#[test]
fn a_failed_gate_pauses_and_keeps_what_runs_as_rel_7_says() {
    let mut hub = Hub::at_rest(2, 3);
    waves(&mut hub, &[0, 1]);
    hub.waves[0].gate = Gate { max_failed: 0, ..Gate::default() };
    hub.round();
    hub.report_old(0);
    hub.elapsed = 601;
    hub.round();
    hub.elapsed = 0;
    let plan = hub.round();
    assert!(words(&plan.conditions).contains("made no progress"));
    assert_eq!(bodies(&hub), [2, 1]);
    if let Some(release) = &mut hub.ledger.release {
        assert_eq!(release.paused, Some(Paused::ClustersFailed { failed: 1 }));
        release.resume();
    }
    // Its deadline runs anew.
    hub.round();
    assert!(hub.ledger.release.as_ref().is_some_and(|it| it.paused.is_none()));
}

#[test]
fn a_newer_target_supersedes_the_release_as_rel_8_says() {
    let mut hub = Hub::at_rest(2, 2);
    waves(&mut hub, &[0, 1]);
    hub.round();
    hub.spec.target = Revision(3);
    hub.round();
    assert_eq!(hub.ledger.release.as_ref().map(|it| (it.target, it.wave)), Some((Revision(3), 0)));
}

#[test]
fn broken_pods_of_a_later_wave_hold_an_earlier_one_until_they_are_ignored_as_rel_12_says() {
    let mut hub = Hub::at_rest(2, 2);
    hub.report(1, |it| (it.available, it.updated_available) = (1, 1));
    waves(&mut hub, &[0, 1]);
    hub.round();
    hub.report_old(0);
    hub.report(1, |it| (it.available, it.updated_available) = (1, 1));
    let plan = hub.round();
    assert_eq!(hub.share(0).unavailable, 0);
    assert!(words(&plan.conditions).contains("1 by c1"));
    let name = hub.clusters[1].candidate.name.clone();
    if let Some(release) = &mut hub.ledger.release {
        release.ignored.push(name);
    }
    hub.round();
    assert_eq!(hub.share(0).unavailable, 1);
}

/// Correction of REV-13: the last wave counts too.
#[test]
fn a_release_is_not_over_before_the_soak_and_the_approval_of_its_last_wave() {
    let mut hub = Hub::at_rest(2, 3);
    hub.waves = vec![Wave { soak: 600, approval: Approval::After, ..Wave::named("canary") }];
    hub.spec.target = Revision(2);
    hub.spec.unavailable = 6;
    for _ in 0..4 {
        hub.round();
        hub.obey_all();
    }
    assert_eq!(hub.ledger.stable, Revision(1));
    hub.elapsed = 600;
    let plan = hub.round();
    assert!(words(&plan.conditions).contains("approval needed after wave canary"));
    hub.elapsed = 0;
    if let Some(release) = &mut hub.ledger.release {
        release.approve(Approved { wave: "canary".to_owned(), target: Revision(2) });
    }
    hub.settle();
    assert_eq!((hub.ledger.stable, hub.ledger.release.is_none()), (Revision(2), true));
}

/// Correction of REV-13: a gate that fails in the last wave rolls back, however many pods are updated.
#[test]
fn a_gate_that_fails_in_the_last_wave_still_rolls_back() {
    let mut hub = Hub::at_rest(2, 3);
    let gate = Gate { max_failing_pods: 0, on_failure: OnFailure::Rollback, ..Gate::default() };
    hub.waves = vec![Wave { gate, ..Wave::named("all") }];
    hub.spec.target = Revision(2);
    hub.spec.unavailable = 6;
    hub.round();
    for index in 0..2 {
        hub.report(index, |it| (it.available, it.updated_available, it.failing) = (0, 0, 3));
    }
    hub.round();
    assert_eq!((hub.ledger.stable, hub.ledger.target), (Revision(1), Revision(1)));
    assert_eq!(hub.ledger.rolled_back, Some(Revision(2)));
}

#[test]
fn a_paused_release_is_not_over_though_every_pod_is_updated() {
    let mut hub = Hub::at_rest(2, 3);
    hub.waves = vec![Wave::named("all")];
    hub.spec.target = Revision(2);
    hub.spec.unavailable = 6;
    hub.round();
    if let Some(release) = &mut hub.ledger.release {
        release.paused = Some(Paused::ByOperator);
    }
    hub.obey_all();
    hub.round();
    hub.round();
    assert_eq!(hub.ledger.stable, Revision(1));
    if let Some(release) = &mut hub.ledger.release {
        release.resume();
    }
    hub.settle();
    assert_eq!(hub.ledger.stable, Revision(2));
}

/// REL-7 without a Release: the decision is kept beside the ledger, and the operator or the next edit ends it.
#[test]
fn rel_7_a_gate_without_waves_pauses_until_it_is_resumed() {
    let mut hub = Hub::at_rest(2, 3);
    hub.rules.gate = Gate { max_failed: 0, ..Gate::default() };
    hub.spec.target = Revision(2);
    hub.round();
    hub.report_old(0);
    hub.obey(1);
    hub.elapsed = 601;
    hub.round();
    hub.elapsed = 0;
    assert_eq!(hub.ledger.paused, Some(Paused::ClustersFailed { failed: 1 }));
    let held = hub.shares(|it| it.unavailable);
    hub.report_old(0);
    let plan = hub.round();
    assert!(words(&plan.conditions).contains("1 of the clusters at work made no progress"));
    assert!(hub.shares(|it| it.unavailable).iter().zip(&held).all(|(now, before)| now <= before));
    hub.ledger.resume();
    hub.round();
    assert_eq!(hub.ledger.paused, None);
    hub.settle();
    assert_eq!(hub.ledger.stable, Revision(2));
}

/// A pause of the release stops members as a pause of the object does: what they were granted is no reason to go on.
#[test]
fn rel_7_a_pause_takes_the_shares_back_with_waves_and_without() {
    for with_waves in [false, true] {
        for by_operator in [false, true] {
            let mut hub = Hub::at_rest(2, 3);
            (hub.spec.unavailable, hub.spec.surge) = (2, 1);
            let gate = Gate { max_failing_pods: 0, ..Gate::default() };
            if with_waves {
                hub.waves = vec![Wave { gate, ..Wave::named("all") }];
            } else {
                hub.rules.gate = gate;
            }
            hub.spec.target = Revision(2);
            hub.round();
            hub.report_old(0);
            hub.report_old(1);
            hub.round();
            assert!(hub.ledger.rows.iter().any(|it| !it.share.paused));
            let fails = u32::from(!by_operator);
            for index in 0..2 {
                hub.report(index, |it| {
                    (it.updated, it.updated_available, it.at_stable) = (1, 0, 2);
                    (it.available, it.failing) = (2, fails);
                });
            }
            if by_operator {
                match &mut hub.ledger.release {
                    Some(release) => release.paused = Some(Paused::ByOperator),
                    None => hub.ledger.paused = Some(Paused::ByOperator),
                }
            }
            let plan = hub.round();
            assert!(hub.ledger.paused().is_some());
            assert!(hub.ledger.rows.iter().all(|it| it.share.paused && it.share.is_still()));
            assert!(reasons(&plan, "c1").contains(&Why::Stopped));
            // A pod the user named is replaced all the same, and nothing else is updated with its share.
            hub.clusters[0].candidate.named_for_deletion = 1;
            hub.clusters[0].names = 7;
            for index in 0..2 {
                hub.report(index, |it| {
                    (it.updated, it.updated_available, it.at_stable) = (1, 1, 2);
                });
            }
            hub.round();
            assert_eq!(hub.shares(|it| it.unavailable), [1, 0]);
            assert!(hub.share(0).paused);
            (hub.clusters[0].candidate.named_for_deletion, hub.clusters[0].names) = (0, 0);
            hub.ledger.resume();
            hub.settle();
            assert_eq!(hub.ledger.stable, Revision(2));
        }
    }
}

#[test]
fn rel_7_a_gate_without_waves_rolls_back_whatever_the_partition() {
    let mut hub = Hub::at_rest(2, 3);
    hub.rules.gate = Gate { max_failing_pods: 0, on_failure: OnFailure::Rollback, ..Gate::default() };
    hub.spec.target = Revision(2);
    hub.spec.partition = 5;
    hub.round();
    let canary = usize::from(hub.share(1).body == Revision(2));
    hub.report(canary, |it| (it.updated_available, it.available, it.failing) = (0, 2, 1));
    hub.round();
    assert_eq!((hub.ledger.target, hub.ledger.rolled_back), (Revision(1), Some(Revision(2))));
    assert_eq!(hub.share(canary).body, Revision(1));
    hub.settle();
    assert_eq!(bodies(&hub), [1, 1]);
    hub.spec.target = Revision(3);
    hub.round();
    assert_eq!((hub.ledger.target, hub.ledger.rolled_back), (Revision(3), None));
}

/// Correction of REV-13 for order Proportional: behind a gate the end asks for available pods, as a wave does.
#[test]
fn rel_7_a_failing_revision_does_not_become_stable_behind_a_gate_without_waves() {
    let mut hub = Hub::at_rest(2, 3);
    hub.rules.gate = Gate { max_failed: 0, on_failure: OnFailure::Rollback, ..Gate::default() };
    hub.spec.target = Revision(2);
    hub.spec.unavailable = 6;
    hub.round();
    for index in 0..2 {
        hub.report(index, |it| (it.available, it.updated_available) = (0, 0));
    }
    hub.round();
    assert_eq!(hub.ledger.stable, Revision(1));
    hub.elapsed = 601;
    hub.round();
    hub.elapsed = 0;
    hub.round();
    assert_eq!((hub.ledger.stable, hub.ledger.rolled_back), (Revision(1), Some(Revision(2))));
}

#[test]
fn rel_7_time_at_rest_is_no_delay_of_a_cluster() {
    let mut hub = Hub::at_rest(2, 3);
    hub.elapsed = 100_000;
    let before = hub.ledger.clone();
    assert_eq!(hub.round().ledger, before);
}

#[test]
fn rel_11_images_are_pulled_ahead_once_per_target_and_only_without_waves() {
    let mut hub = Hub::at_rest(2, 3);
    hub.pre_download = Some(PreDownload { min_updated_ready: 1 });
    hub.spec.target = Revision(2);
    hub.spec.partition = 5;
    hub.round();
    assert_eq!(hub.ledger.pre_download, None);
    hub.obey_all();
    let plan = hub.round();
    assert!(plan.decisions.iter().any(|it| it.why == Why::PreDownload(Revision(2))));
    assert_eq!(hub.ledger.pre_download, Some(Revision(2)));
    // It stays asked for, and is not asked for twice.
    assert!(hub.round().decisions.iter().all(|it| it.why != Why::PreDownload(Revision(2))));
    assert_eq!(hub.ledger.pre_download, Some(Revision(2)));
    hub.spec.target = Revision(3);
    hub.round();
    assert_eq!(hub.ledger.pre_download, None);
    hub.obey_all();
    hub.spec.partition = 0;
    hub.settle();
    assert_eq!((hub.ledger.stable, hub.ledger.pre_download), (Revision(3), None));

    let mut hub = Hub::at_rest(2, 3);
    hub.pre_download = Some(PreDownload::default());
    waves(&mut hub, &[0, 1]);
    hub.round();
    hub.obey_all();
    hub.round();
    assert_eq!(hub.ledger.pre_download, None);
}

#[test]
fn rel_11_pods_that_cannot_be_heard_are_not_counted_as_ready() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.target = Revision(2);
    hub.spec.partition = 5;
    hub.round();
    hub.obey_all();
    hub.pre_download = Some(PreDownload { min_updated_ready: 1 });
    hub.set(0, State::Offline);
    assert_eq!(hub.share(0).updated, 1);
    hub.round();
    assert_eq!(hub.ledger.pre_download, None);
    hub.set(0, State::Ready);
    hub.round();
    assert_eq!(hub.ledger.pre_download, Some(Revision(2)));
}

/// REL-3: replicas that are added are no reason to soak anew; an autoscaler would hold a release for ever.
#[test]
fn rel_3_a_scale_up_does_not_start_the_soak_anew() {
    let mut hub = Hub::at_rest(2, 4);
    waves(&mut hub, &[0, 1]);
    hub.waves[0].soak = 60;
    hub.spec.unavailable = 8;
    pass(&mut hub, 3, 0);
    pass(&mut hub, 1, 50);
    let soaked = |hub: &Hub| hub.ledger.release.as_ref().map_or(0, |it| it.soaked);
    assert_eq!(soaked(&hub), 50);
    hub.spec.replicas = 9;
    pass(&mut hub, 2, 0);
    assert_eq!(soaked(&hub), 50);
    for turn in 0..20 {
        hub.spec.replicas = 8 + turn % 2;
        pass(&mut hub, 3, 8);
    }
    assert_eq!(hub.ledger.stable, Revision(2));
}

/// REL-2, REV-7: a cluster that waits until all of it may be new can take none of the pods that are due.
#[test]
fn rel_2_a_cluster_that_cannot_seed_does_not_keep_later_waves_closed() {
    let mut hub = Hub::at_rest(2, 4);
    hub.clusters[0].seeding = Seeding::Unable;
    waves(&mut hub, &[0, 1]);
    hub.spec.partition = 7;
    pass(&mut hub, 6, 0);
    let updated = hub.shares(|it| if it.body == Revision(2) { it.updated } else { 0 });
    assert_eq!(updated, [0, 1]);
}

/// REL-6: a cluster without replicas opens no wave that has soaked.
#[test]
fn rel_6_a_cluster_that_joins_without_replicas_opens_no_wave_again() {
    let mut hub = Hub::at_rest(2, 2);
    waves(&mut hub, &[0, 1]);
    hub.waves[0].soak = 60;
    hub.spec.partition = 2;
    pass(&mut hub, 4, 60);
    let stage = |hub: &Hub| hub.ledger.release.as_ref().map(|it| it.stage);
    assert_eq!(stage(&hub), Some(Stage::Over));
    hub.join();
    hub.clusters[2].candidate.max = Some(0);
    pass(&mut hub, 2, 0);
    assert_eq!(stage(&hub), Some(Stage::Over));
}

#[test]
fn a_stored_release_without_waves_is_no_reason_to_panic() {
    let mut hub = Hub::at_rest(2, 2);
    (hub.mode, hub.spec.numbers) = (Mode::Duplicated, Numbers::PerCluster);
    waves(&mut hub, &[0, 1]);
    hub.round();
    if let Some(release) = &mut hub.ledger.release {
        release.waves.clear();
    }
    hub.settle();
    assert_eq!(bodies(&hub), [2, 2]);
}

#[test]
fn a_rollback_is_told_as_one() {
    let mut hub = Hub::at_rest(2, 3);
    waves(&mut hub, &[0, 1]);
    hub.waves[0].gate = Gate { max_failing_pods: 0, on_failure: OnFailure::Rollback, ..Gate::default() };
    hub.round();
    hub.report(0, |it| (it.updated_available, it.available, it.failing) = (0, 2, 1));
    let plan = hub.round();
    let told: String = plan.decisions.iter().map(|it| format!("{}; ", it.why)).collect();
    assert!(told.contains("rolled back") && !told.contains("superseded"), "{told}");
    assert!(!words(&plan.conditions).contains("failing"), "{:?}", plan.conditions);
}

/// A partition that is lowered while the release stands still goes through the waves as well, once it goes on.
#[test]
fn rel_2_a_partition_lowered_during_a_pause_goes_through_the_waves_with_numbers_per_cluster() {
    let mut hub = after_a_pod_each();
    if let Some(release) = &mut hub.ledger.release {
        release.paused = Some(Paused::ByOperator);
    }
    hub.spec.partition = 1;
    pass(&mut hub, 3, 0);
    assert_eq!(hub.shares(|it| it.updated), [1, 1]);
    hub.ledger.resume();
    pass(&mut hub, 3, 0);
    assert_eq!(hub.shares(|it| it.updated), [2, 1]);
    pass(&mut hub, 3, 60);
    assert_eq!(hub.shares(|it| it.updated), [2, 2]);
}
