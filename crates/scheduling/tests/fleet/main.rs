//! A model of the whole fleet, run through thousands of random schedules of edits and faults.
//!
//! `FLEET_SEED=17 cargo test -p scheduling --test fleet` replays one seed, `FLEET_CASES=100000` runs more of them,
//! `FLEET_TRACE=1` prints every step.

mod check;
mod dice;
mod fleet;
mod member;
mod run;

use run::{run, setting};

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

#[test]
fn budget_never_exceeded() {
    let mut broken = Vec::new();
    for seed in seeds(20_000) {
        if let Err(why) = run(seed, &setting(seed)) {
            broken.push((seed, why.0));
        }
    }
    for (seed, why) in broken.iter().take(5) {
        println!("FLEET_SEED={seed}: {why}");
    }
    assert!(
        broken.is_empty(),
        "{} runs broke a promise: {:?}",
        broken.len(),
        broken.iter().map(|it| it.0).take(50).collect::<Vec<_>>()
    );
}
