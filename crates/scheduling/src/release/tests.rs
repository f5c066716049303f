use super::*;
use crate::numbers::Percent;

/// Clusters of one wave, admitted and done with two updated pods each.
fn done(wave: usize) -> ClusterView<'static> {
    ClusterView {
        name: "c",
        wave,
        order: 0,
        admitted: true,
        busy_for: 0,
        heard: true,
        may_be_passed_over: false,
        due: Some(2),
        granted: 2,
        added: 0,
        is_empty: false,
        updated_available: Some(2),
        failing: 0,
    }
}

fn busy(wave: usize) -> ClusterView<'static> {
    ClusterView { updated_available: Some(1), ..done(wave) }
}

fn to_come(name: &'static str, order: i64, wave: usize) -> ClusterView<'static> {
    ClusterView { name, order, admitted: false, due: None, granted: 0, updated_available: None, ..done(wave) }
}

fn view<'a>(clusters: &'a [ClusterView<'a>], elapsed: u32) -> View<'a> {
    View { clusters, wants_more_clusters: true, pre_pull: None, progress_deadline: 600, elapsed }
}

fn two_waves() -> Release {
    Release::begin(Revision(2), &[Wave::named("canary"), Wave::named("rest")])
}

/// A release whose first wave has begun.
fn rolling(change: impl Fn(&mut Release)) -> Release {
    let mut release = two_waves();
    release.stage = Stage::Rolling;
    change(&mut release);
    release
}

#[test]
fn a_release_keeps_the_waves_it_began_with_as_rel_1_says() {
    let mut policy = vec![Wave::named("canary"), Wave::named("rest")];
    let release = Release::begin(Revision(2), &policy);
    policy.pop();
    assert_eq!(release.waves.len(), 2);
}

#[test]
fn a_cluster_is_done_only_by_an_acknowledged_report_as_rel_3_says() {
    assert!(done(0).is_done());
    assert!(!ClusterView { updated_available: None, ..done(0) }.is_done());
    assert!(!ClusterView { updated_available: Some(1), ..done(0) }.is_done());
    assert!(!ClusterView { granted: 1, ..done(0) }.is_done());
    assert!(!ClusterView { failing: 1, ..done(0) }.is_done());
    assert!(ClusterView { due: Some(0), granted: 0, updated_available: None, ..done(0) }.is_done());
    assert!(!ClusterView { due: Some(0), updated_available: None, ..done(0) }.is_done());
    assert!(!ClusterView { due: None, ..done(0) }.is_done());
}

#[test]
fn soak_is_counted_in_elapsed_seconds_and_survives_a_restart_as_rel_3_says() {
    let clusters = [done(0), to_come("b", 0, 1)];
    let mut step = next(&rolling(|it| it.waves[0].soak = 60), &view(&clusters, 0));
    assert_eq!(step.held, Some(Held::Soak(60)));
    assert!(step.decisions.contains(&Decision::WaveSoaking("canary".to_owned())));
    step = next(&step.release, &view(&clusters, 40));
    assert_eq!(step.held, Some(Held::Soak(20)));
    // A hub that starts anew finds the seconds saved, and none pass meanwhile.
    step = next(&step.release, &view(&clusters, 0));
    assert_eq!(step.held, Some(Held::Soak(20)));
    step = next(&step.release, &view(&clusters, 20));
    assert_eq!((step.release.wave, step.admit), (1, vec![1]));
}

#[test]
fn soak_starts_anew_when_more_pods_become_due() {
    let clusters = [done(0)];
    let mut step = next(&rolling(|it| it.waves[0].soak = 60), &view(&clusters, 0));
    step = next(&step.release, &view(&clusters, 50));
    let more = [ClusterView { due: Some(3), ..done(0) }];
    step = next(&step.release, &view(&more, 50));
    assert_eq!((step.release.stage, step.release.soaked), (Stage::Rolling, 0));
}

#[test]
fn so_many_clusters_at_a_time_by_order_then_name_as_rel_4_says() {
    let one = |it: &mut Release| it.waves[0].max_concurrency = Some(IntOrPercent::Int(1));
    let clusters = [to_come("b", 1, 0), to_come("c", 0, 0), to_come("a", 1, 0)];
    assert_eq!(next(&rolling(one), &view(&clusters, 0)).admit, [1]);
    let clusters = [to_come("b", 1, 0), done(0), to_come("a", 1, 0)];
    assert_eq!(next(&rolling(one), &view(&clusters, 0)).admit, [2]);
    let clusters = [to_come("b", 1, 0), busy(0), to_come("a", 1, 0)];
    assert!(next(&rolling(one), &view(&clusters, 0)).admit.is_empty());
    let half =
        |it: &mut Release| it.waves[0].max_concurrency = Some(IntOrPercent::Percent(Percent::whole(50)));
    let clusters = [to_come("a", 0, 0), to_come("b", 0, 0), to_come("c", 0, 0)];
    assert_eq!(next(&rolling(half), &view(&clusters, 0)).admit, [0]);
}

#[test]
fn approvals_are_bound_to_wave_and_revision_as_rel_5_says() {
    let mut release = two_waves();
    release.waves[0].approval = Approval::Before;
    release.waves[0].name = "canary".to_owned();
    let clusters = [to_come("a", 0, 0)];
    let needed = Held::ApprovalNeeded { wave: "canary".to_owned(), when: Approval::Before };
    assert_eq!(next(&release, &view(&clusters, 0)).held, Some(needed.clone()));
    release.approve(Approved { wave: "canary".to_owned(), target: Revision(1) });
    release.approve(Approved { wave: "rest".to_owned(), target: Revision(2) });
    assert_eq!(next(&release, &view(&clusters, 0)).held, Some(needed));
    release.approve(Approved { wave: "canary".to_owned(), target: Revision(2) });
    assert_eq!(next(&release, &view(&clusters, 0)).admit, [0]);

    let after = rolling(|it| it.waves[0].approval = Approval::After);
    let clusters = [done(0), to_come("b", 0, 1)];
    let step = next(&after, &view(&clusters, 0));
    assert_eq!(step.held.map(|it| it.to_string()), Some("approval needed after wave canary".to_owned()));
    assert_eq!(step.release.wave, 0);
}

#[test]
fn a_cluster_that_matches_no_wave_belongs_to_the_last_as_rel_6_says() {
    let clusters = [done(0), to_come("b", 0, 9)];
    assert_eq!(next(&rolling(|_| ()), &view(&clusters, 0)).admit, [1]);
}

#[test]
fn a_gate_fails_by_clusters_past_the_deadline_or_by_failing_pods_as_rel_7_says() {
    let strict = |it: &mut Release| {
        it.waves[0].gate = Gate { max_failed: 0, max_failing_pods: 1, on_failure: OnFailure::Rollback };
    };
    let late = [ClusterView { busy_for: 601, ..busy(0) }];
    let step = next(&rolling(strict), &view(&late, 0));
    assert!(step.roll_back);
    assert_eq!(step.release.paused, Some(Paused::ClustersFailed { failed: 1 }));
    let in_time = [ClusterView { busy_for: 600, ..busy(0) }];
    assert!(!next(&rolling(strict), &view(&in_time, 0)).roll_back);
    let failing = [ClusterView { failing: 2, ..busy(0) }];
    assert_eq!(
        next(&rolling(strict), &view(&failing, 0)).release.paused,
        Some(Paused::PodsFailing { failing: 2 })
    );
}

#[test]
fn images_are_pulled_during_the_soak_before_and_hold_the_next_wave_as_rel_9_says() {
    let release = rolling(|it| {
        it.waves[0].soak = 10;
        it.waves[1].pre_pull = Some(PrePull { threshold: 90, timeout: 600 });
    });
    let clusters = [done(0), to_come("b", 0, 1)];
    let mut step = next(&release, &view(&clusters, 0));
    assert!(step.decisions.contains(&Decision::PrePull("rest".to_owned())));
    let pulled = |pulled, elapsed| View {
        pre_pull: Some(PrePullView { pulled, nodes: 10 }),
        ..view(&clusters, elapsed)
    };
    step = next(&step.release, &pulled(8, 10));
    assert_eq!(step.held, Some(Held::PrePulling("rest".to_owned())));
    assert_eq!(next(&step.release, &pulled(9, 0)).admit, [1]);
    step = next(&step.release, &pulled(8, 600));
    step = next(&step.release, &pulled(8, 0));
    assert!(step.decisions.contains(&Decision::PrePullTimedOut("rest".to_owned())));
}

#[test]
fn a_cluster_that_is_not_heard_is_waited_for_or_passed_over_as_rel_10_says() {
    let away = ClusterView { heard: false, ..busy(0) };
    let clusters = [away, to_come("b", 0, 1)];
    assert_eq!(next(&rolling(|_| ()), &view(&clusters, 0)).release.wave, 0);
    let trusted = [ClusterView { may_be_passed_over: true, ..away }, to_come("b", 0, 1)];
    assert_eq!(next(&rolling(|_| ()), &view(&trusted, 0)).release.wave, 1);
    // Past the deadline it counts as failed all the same.
    let strict = rolling(|it| it.waves[0].gate.max_failed = 0);
    let late = [ClusterView { busy_for: 601, ..trusted[0] }, to_come("b", 0, 1)];
    assert_eq!(next(&strict, &view(&late, 0)).release.paused, Some(Paused::ClustersFailed { failed: 1 }));
}

#[test]
fn a_paused_release_admits_nobody() {
    let release = rolling(|it| it.paused = Some(Paused::ByOperator));
    let clusters = [to_come("a", 0, 0)];
    let step = next(&release, &view(&clusters, 1000));
    assert_eq!((step.admit, step.release), (vec![], release));
}
