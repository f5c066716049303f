//! A model of the whole fleet, run through thousands of random schedules of edits and faults.
//!
//! `FLEET_SEED=17 cargo test -p scheduling --test fleet` replays one seed, `FLEET_CASES=100000` runs more of them (never
//! fewer than a test's own number), `FLEET_QUICK_CASES=300` runs so few that only a developer is served, `FLEET_TRACE=1`
//! prints every step.

mod arithmetic;
mod check;
mod dice;
mod each;
mod edit;
mod fleet;
mod member;
mod operator;
mod pod;
mod progress;
mod pulls;
mod rest;
mod run;
mod setting;
mod sidecar;
mod waves;

use scheduling::{round::Numbers, split::Mode};

use fleet::{Broken, Forgotten, Variant};
use run::{run, run_turned};
use setting::{Setting, Theme, per_cluster_setting, plain_setting, setting};

/// How many cases a property runs: its own number or a larger one, unless a developer asks for a quick look.
fn cases(default: u64) -> u64 {
    let asked = |name: &str| std::env::var(name).ok().and_then(|it| it.parse().ok());
    cases_of(default, asked("FLEET_CASES"), asked("FLEET_QUICK_CASES"))
}

fn cases_of(default: u64, asked: Option<u64>, quick: Option<u64>) -> u64 {
    quick.unwrap_or(default.max(asked.unwrap_or(0)))
}

#[test]
fn the_number_of_cases_is_lowered_only_on_purpose() {
    assert_eq!(cases_of(10, None, None), 10);
    assert_eq!(cases_of(10, Some(3), None), 10);
    assert_eq!(cases_of(10, Some(30), None), 30);
    assert_eq!(cases_of(10, Some(30), Some(2)), 2);
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    match std::env::var("FLEET_SEED").ok().and_then(|it| it.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..cases(default),
    }
}

/// One run in twenty is of a fleet of 10 to 50 clusters, and every mode, waves with images pulled ahead and agents that
/// cannot seed come up.
#[test]
fn settings_cover_large_fleets_and_every_mode() {
    let settings: Vec<Setting> = (0..10_000).map(|it| setting(it, Theme::Mixed)).collect();
    let share = |of: &dyn Fn(&Setting) -> bool| settings.iter().filter(|it| of(it)).count();
    assert!(share(&|it| (10..=50).contains(&it.clusters)) >= 500);
    assert!(share(&|it| it.clusters >= 20) >= 20);
    assert!(share(&|it| it.mode == Mode::Duplicated) >= 500);
    assert!(share(&|it| it.mode == Mode::Aggregated) >= 500);
    assert!(share(&|it| it.spec.numbers == Numbers::PerCluster) >= 300);
    assert!(share(&|it| it.some_cannot_seed) >= 500);
    assert!(share(&|it| it.waves.iter().any(|it| it.pre_pull.is_some())) >= 500);
}

/// Runs every seed and tells those that broke a promise.
fn run_all(default: u64, run: impl Fn(u64) -> Result<(), Broken>) {
    let broken: Vec<(u64, String)> =
        seeds(default).filter_map(|seed| run(seed).err().map(|why| (seed, why.0))).collect();
    for (seed, why) in &broken {
        println!("FLEET_SEED={seed}: {why}");
    }
    let seeds: Vec<u64> = broken.iter().map(|it| it.0).collect();
    assert!(seeds.is_empty(), "{} runs broke a promise: {seeds:?}", seeds.len());
}

fn run_theme(theme: Theme, default: u64) {
    run_all(default, |seed| run(seed, &setting(seed, theme)));
}

/// BUD-1 to BUD-12, MOVE-1 to MOVE-7, REV-6 to REV-15, REL-1 to REL-12, FO-1 to FO-9 under every fault.
#[test]
fn budget_never_exceeded() {
    run_theme(Theme::Mixed, 20_000);
}

/// REV-5, REV-9, REV-11, REV-14: partitions in the middle of moves.
#[test]
fn canary_never_overshoots() {
    run_theme(Theme::Canary, 10_000);
}

/// REV-7, FO-8: clusters that join or take over in the middle of a release.
#[test]
fn seed_new_cluster() {
    run_theme(Theme::Joining, 10_000);
}

/// FO-2, FO-5, FO-6, FO-9: clusters that are lost, replaced and return.
#[test]
fn return_no_dip() {
    run_theme(Theme::Failover, 10_000);
}

/// PROTO-4, PROTO-10, REL-3: a gate opens on nothing older than its plan.
#[test]
fn ack_required() {
    run_theme(Theme::Waves, 10_000);
}

/// BUD-4, BUD-5, BUD-7, REV-10, REV-15, REL-10: every release ends.
#[test]
fn budget_progress() {
    run_theme(Theme::Calm, 10_000);
    run_all(10_000, progress::run_with_a_link_down);
}

/// The order in which the clusters are listed changes no round, whatever state the fleet is in.
#[test]
fn round_permutation_invariant() {
    run_all(10_000, |seed| run_turned(seed, &setting(seed, Theme::Mixed)));
}

/// SPLIT-6, `fleet.kruise.io/numbers: PerCluster`: partition and budgets hold in every cluster for itself.
#[test]
fn per_cluster_numbers_hold_in_every_cluster() {
    run_all(10_000, |seed| run(seed, &per_cluster_setting(seed)));
}

/// IPJ-1 to IPJ-5 under the same faults.
#[test]
fn ipj_parallelism_cap() {
    run_all(10_000, |seed| pulls::run(seed, pulls::Fault::None));
}

/// SC-1 to SC-7 under the same faults.
#[test]
fn sidecar_exact_at_rest() {
    run_all(10_000, |seed| sidecar::run(seed, sidecar::Ledgers::Keep));
}

/// Seeds that broke a promise once, in the settings they broke it in.
fn holds(theme: Theme, seeds: &[u64]) {
    for &seed in seeds {
        if let Err(why) = run(seed, &plain_setting(seed, theme)) {
            panic!("FLEET_SEED={seed}: {}", why.0);
        }
    }
}

/// A recreate that was superseded beside a named pod: a marked pod that is down has to count against deletes.
#[test]
fn a_marked_pod_that_is_down_counts_against_the_next_delete() {
    holds(Theme::Mixed, &[7341, 10480, 19228]);
}

/// InPlaceOnly members need a share before they shrink, and keep it until the pods are gone.
#[test]
fn members_without_surge_shrink_by_a_share() {
    holds(Theme::Mixed, &[3219, 3793]);
    holds(Theme::Calm, &[1019]);
}

/// Last words of the old epoch, after the operator vouched for it that nothing runs.
#[test]
fn late_reports_of_a_stopped_cluster_are_no_contradiction() {
    holds(Theme::Failover, &[1290, 1656, 1796]);
    holds(Theme::Canary, &[4249]);
}

/// A target goes back to stable and returns, and a withheld cluster still has pods of it.
#[test]
fn pods_of_a_target_that_came_back_are_counted_where_it_is_withheld() {
    holds(Theme::Mixed, &[18073]);
    holds(Theme::Calm, &[6402]);
}

/// A growing replica of a superseded revision that never starts, and a partition that has no unit left for it.
#[test]
fn a_broken_old_pod_gets_a_unit_of_its_own_when_the_budget_is_held() {
    holds(Theme::Mixed, &[3654]);
    holds(Theme::Calm, &[7992]);
}

/// Growth is taken back beside a replica that failed, or that a share has taken down.
#[test]
fn growth_that_is_taken_back_hides_no_pod_that_is_down() {
    holds(Theme::Canary, &[2724]);
    holds(Theme::Joining, &[2370]);
}

/// A share that lay idle, and pods that broke under it later.
#[test]
fn an_idle_share_does_not_lock_its_cluster_out() {
    holds(Theme::Canary, &[5161, 5654, 5754]);
    holds(Theme::Joining, &[5490]);
}

/// Every cluster of a duplicated object is lost or leaves: nobody is to run anything, and the partition holds.
#[test]
fn a_population_of_nobody_does_not_lift_the_partition() {
    let broken: Vec<Broken> = [(Theme::Mixed, 8372), (Theme::Waves, 9657)]
        .into_iter()
        .filter_map(|(theme, seed)| run(seed, &setting(seed, theme)).err())
        .collect();
    assert!(broken.is_empty(), "{broken:?}");
    let turned = run_turned(7268, &setting(7268, Theme::Mixed));
    assert!(turned.is_ok(), "{turned:?}");
}

/// Runs a fleet whose ledger forgets what a shrink leaves behind, and counts what the checks say to it.
fn caught(column: Forgotten, word: &str) -> usize {
    (0..400)
        .filter_map(|seed| {
            let variant = Variant::Forgets(column);
            run(seed, &Setting { variant, ..setting(seed, Theme::Mixed) }).err()
        })
        .filter(|why| why.0.contains(word))
        .count()
}

#[test]
fn a_share_used_before_its_acknowledgement_is_caught() {
    assert!(caught(Forgotten::Unavailable, "taken down") > 0);
}

#[test]
fn replicas_used_before_their_acknowledgement_are_caught() {
    assert!(caught(Forgotten::Replicas, "alive") > 0);
}

#[test]
fn updated_pods_used_before_their_acknowledgement_are_caught() {
    assert!(caught(Forgotten::Updated, "updated") > 0);
}

#[test]
fn surge_used_before_its_acknowledgement_is_caught() {
    assert!(caught(Forgotten::Surge, "alive") > 0);
}

/// The first round of a target must be seen as well as any later one.
#[test]
fn a_first_round_that_updates_everything_is_caught() {
    let variant = Variant::Floods;
    let caught = (0..400)
        .filter_map(|seed| run(seed, &Setting { variant, ..setting(seed, Theme::Canary) }).err())
        .filter(|why| why.0.contains("updated"))
        .count();
    assert!(caught > 0);
}

/// What the checks of one theme say to a fleet with a rule put out of order.
fn is_caught(variant: Variant, theme: Theme, runs: u64, word: &str) -> bool {
    (0..runs)
        .filter_map(|seed| run(seed, &Setting { variant, ..setting(seed, theme) }).err())
        .any(|why| why.0.contains(word))
}

/// What `ack_required` looks for.
#[test]
fn a_gate_that_opens_on_an_old_report_is_caught() {
    assert!(is_caught(Variant::TakesAnyReport, Theme::Waves, 400, "a gate opened"));
}

#[test]
fn a_wave_that_does_not_soak_is_caught() {
    assert!(is_caught(Variant::SkipsSoak, Theme::Waves, 400, "soaked for"));
}

/// What `seed_new_cluster` looks for.
#[test]
fn a_cluster_that_is_not_seeded_is_caught() {
    assert!(is_caught(Variant::NeverSeeds, Theme::Joining, 400, "updated"));
}

/// What `return_no_dip` looks for.
#[test]
fn pods_of_a_returned_cluster_that_are_counted_on_too_early_are_caught() {
    assert!(is_caught(Variant::TrustsReturned, Theme::Failover, 2_000, "availability"));
}

/// What `budget_progress` looks for.
#[test]
fn a_share_that_never_comes_back_is_caught() {
    assert!(is_caught(Variant::Hoards, Theme::Calm, 20, "no rest"));
}

/// What `sidecar_exact_at_rest` looks for besides.
#[test]
fn a_share_of_a_sidecar_used_before_its_acknowledgement_is_caught() {
    let caught = (0..400).filter_map(|seed| sidecar::run(seed, sidecar::Ledgers::Forget).err());
    assert!(caught.into_iter().any(|why| why.0.contains("taken down")));
}

/// Every cluster is given what the whole fleet could have, as if the numbers were to be added up.
#[test]
fn numbers_of_all_clusters_given_to_each_are_caught() {
    let caught = |word: &str| {
        let variant = Variant::Pools;
        (0..400)
            .filter_map(|seed| run(seed, &Setting { variant, ..per_cluster_setting(seed) }).err())
            .any(|why| why.0.contains(word))
    };
    assert!(caught("taken down"));
    assert!(caught("alive"));
}

#[test]
fn a_first_round_that_updates_everything_is_caught_in_every_cluster() {
    let variant = Variant::Floods;
    let caught = (0..400)
        .filter_map(|seed| run(seed, &Setting { variant, ..per_cluster_setting(seed) }).err())
        .any(|why| why.0.contains("updated"));
    assert!(caught);
}

/// What the checks say to a job with a rule put out of order.
fn pulls_caught(fault: pulls::Fault, word: &str) -> bool {
    (0..400).filter_map(|seed| pulls::run(seed, fault).err()).any(|why| why.0.contains(word))
}

#[test]
fn pulls_used_before_their_acknowledgement_are_caught() {
    assert!(pulls_caught(pulls::Fault::ForgetsExposure, "pulls at a time"));
}

#[test]
fn slots_of_an_offline_cluster_that_are_used_elsewhere_are_caught() {
    assert!(pulls_caught(pulls::Fault::FreesOffline, "pulls at a time"));
}

#[test]
fn a_copy_that_is_removed_before_its_end_is_stored_is_caught() {
    assert!(pulls_caught(pulls::Fault::RemovesUnfinished, "removed as"));
}

#[test]
fn a_late_cluster_that_gets_the_whole_deadline_is_caught() {
    assert!(pulls_caught(pulls::Fault::GivesFullTime, "runs until"));
}

#[test]
fn a_job_that_never_ends_and_is_ended_is_caught() {
    assert!(pulls_caught(pulls::Fault::EndsNever, "pulls never end"));
}
