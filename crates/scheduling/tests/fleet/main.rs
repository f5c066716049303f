//! A model of the whole fleet, run through thousands of random schedules of edits and faults.
//!
//! `FLEET_SEED=17 cargo test -p scheduling --test fleet` replays one seed, `FLEET_CASES=100000` runs more of them,
//! `FLEET_TRACE=1` prints every step.

mod check;
mod dice;
mod edit;
mod fleet;
mod member;
mod rest;
mod run;
mod setting;

use run::run;
use setting::{Theme, setting};

/// How many cases a property runs: its own number, or what the environment says.
fn cases(default: u64) -> u64 {
    std::env::var("FLEET_CASES").ok().and_then(|it| it.parse().ok()).unwrap_or(default)
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    match std::env::var("FLEET_SEED").ok().and_then(|it| it.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..cases(default),
    }
}

/// Runs a theme through its seeds and tells every seed that broke a promise.
fn run_all(theme: Theme, default: u64) {
    let broken: Vec<(u64, String)> = seeds(default)
        .filter_map(|seed| run(seed, &setting(seed, theme)).err().map(|why| (seed, why.0)))
        .collect();
    for (seed, why) in broken.iter().take(5) {
        println!("FLEET_SEED={seed}: {why}");
    }
    let seeds: Vec<u64> = broken.iter().map(|it| it.0).take(50).collect();
    assert!(broken.is_empty(), "{} runs broke a promise: {seeds:?}", broken.len());
}

#[test]
fn budget_never_exceeded() {
    run_all(Theme::Mixed, 20_000);
}

#[test]
fn canary_never_overshoots() {
    run_all(Theme::Canary, 10_000);
}

#[test]
fn seed_new_cluster() {
    run_all(Theme::Joining, 10_000);
}

#[test]
fn return_no_dip() {
    run_all(Theme::Failover, 10_000);
}

#[test]
fn ack_required() {
    run_all(Theme::Waves, 10_000);
}

#[test]
fn budget_progress() {
    run_all(Theme::Calm, 10_000);
}
