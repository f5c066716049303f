//! CloneSets on a simulated cluster that goes wrong in every way it can.
//!
//! `FLEET_SEED=17` replays one seed, `FLEET_CASES=5000` runs more of them (never fewer than a test's own number),
//! `FLEET_FIRST=1000` others, `FLEET_QUICK_CASES=20` so few that only a developer is served. `FLEET_LOG=9000` shows more of
//! what led to a broken promise.

mod agent;
mod ledger;
mod objects;
mod plain;
mod rest;
mod run;
mod setting;

use std::{
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use agent::Flaw;
use ledger::Tally;
use run::Outcome;

/// How many seeds run unless more are asked for.
const SEEDS: u64 = 40;

/// Runs of each flawed controller that go together.
const FLAWED: usize = 24;

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|it| it.parse().ok())
}

/// How many lines of the log belong to a broken promise.
fn shown() -> usize {
    asked("FLEET_LOG").map_or(60, |it| usize::try_from(it).unwrap_or(usize::MAX))
}

fn seeds(default: u64) -> Range<u64> {
    match asked("FLEET_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = asked("FLEET_FIRST").unwrap_or(0);
            let more = default.max(asked("FLEET_CASES").unwrap_or(0));
            first..first + asked("FLEET_QUICK_CASES").unwrap_or(more)
        }
    }
}

/// Runs each number, as many at a time as there are processors.
fn in_parallel<T: Send>(numbers: Range<u64>, run: impl Fn(u64) -> T + Sync) -> Vec<(u64, T)> {
    let next = AtomicU64::new(numbers.start);
    let found = Mutex::new(Vec::new());
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                return;
            }
            let outcome = run(number);
            found.lock().unwrap().push((number, outcome));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut found = found.into_inner().unwrap();
    found.sort_by_key(|it| it.0);
    found
}

/// What the runs of all seeds came to: those that broke a promise, and how, and the sum of the others.
#[derive(Debug, Default)]
struct Summary {
    runs: usize,
    broken: Vec<(u64, String)>,
    tally: Tally,
    /// Lives of the controller beyond the first of each run.
    restarts: u64,
    handovers: u64,
    writes: u64,
}

fn run_all(seeds: Range<u64>, flaw: Flaw) -> Summary {
    let mut sum = Summary::default();
    for (seed, outcome) in in_parallel(seeds, |it| run::run(it, flaw)) {
        sum.runs += 1;
        match outcome {
            Ok(Outcome { tally, starts, handovers, writes }) => {
                sum.tally.add(tally);
                sum.restarts += starts - 1;
                sum.handovers += handovers;
                sum.writes += writes;
            }
            Err(why) => sum.broken.push((seed, why)),
        }
    }
    sum
}

#[test]
fn no_pod_is_made_twice_or_lost_and_no_budget_broken_whatever_goes_wrong() {
    let sum = run_all(seeds(SEEDS), Flaw::None);
    for (seed, why) in &sum.broken {
        println!("FLEET_SEED={seed}: {why}");
    }
    let Summary { runs, broken, tally, restarts, handovers, writes } = sum;
    println!("{runs} runs, {writes} writes, {restarts} restarts, {handovers} handovers, {tally:?}");
    let numbers: Vec<u64> = broken.iter().map(|it| it.0).collect();
    assert!(numbers.is_empty(), "{} runs broke a promise: {numbers:?}", numbers.len());
    let is_tested = tally.is_full() && restarts > 0 && handovers > 0;
    assert!(is_tested || runs < 20, "something was not tested");
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    for seed in [1, 2] {
        let again = in_parallel(0..2, |_| run::run(seed, Flaw::None));
        assert_eq!(again[0].1, again[1].1, "FLEET_SEED={seed}");
    }
}

/// The rules have teeth: they catch controllers that forget what they did, or do not doubt what they were told.
#[test]
fn flawed_controllers_are_caught() {
    for flaw in [Flaw::ForgetsWrites, Flaw::BelievesFailures] {
        assert!(catches(flaw, "pods are alive"), "{flaw:?} makes too many pods, and nobody noticed");
    }
    let flaw = Flaw::BelievesWatches;
    assert!(catches(flaw, "was just taken down"), "{flaw:?} takes too many pods down, and nobody noticed");
}

/// Whether a run of a flawed controller breaks the promise with this word. Some promises are broken rarely.
fn catches(flaw: Flaw, word: &str) -> bool {
    let most = 10 * FLAWED;
    (0..most).step_by(FLAWED).any(|start| {
        let (start, end) = (start as u64, (start + FLAWED) as u64);
        let broken = run_all(start..end, flaw).broken;
        let caught = broken.iter().filter(|it| it.1.contains(word)).count();
        println!("{flaw:?}: {} of {FLAWED} runs broke a promise, {caught} of them: {word}", broken.len());
        caught > 0
    })
}
