//! Random stories of users, faults and crashes, with the fleet's promises checked after every single write.
//!
//! `FLEET_SEED=17` replays one seed, `FLEET_CASES=2000` runs more of them (never fewer than the test's own number),
//! `FLEET_FIRST=1000` others.

mod bounds;
mod pulls;
mod story;

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use story::{Ledger, Tally, drain_a_silent_member, tell};

/// How many seeds run unless more are asked for.
const SEEDS: u64 = 24;

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|it| it.parse().ok())
}

fn seeds() -> Range<u64> {
    if let Some(seed) = asked("FLEET_SEED") {
        return seed..seed + 1;
    }
    let first = asked("FLEET_FIRST").unwrap_or(0);
    first..first + SEEDS.max(asked("FLEET_CASES").unwrap_or(0))
}

/// What a story came to, or what was broken in it.
fn caught<T>(story: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(story)).map_err(|why| {
        let text = why.downcast_ref::<String>().cloned();
        text.or_else(|| why.downcast_ref::<&str>().map(|it| (*it).to_owned())).unwrap_or_default()
    })
}

/// Runs each seed, as many at a time as there are processors.
fn in_parallel(seeds: Range<u64>) -> Vec<(u64, Result<Tally, String>)> {
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let outcome = caught(|| tell(seed));
            found.lock().unwrap().push((seed, outcome));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    found.into_inner().unwrap()
}

/// Section 25, items 8, 9, 11, 14 and 15, with what was promised for the partition on top.
#[test]
fn budget_never_exceeded_and_every_story_ends_exact_whatever_goes_wrong() {
    let (mut sum, mut broken, mut runs) = (Tally::default(), Vec::new(), 0);
    for (seed, outcome) in in_parallel(seeds()) {
        runs += 1;
        match outcome {
            Ok(tally) => sum.add(&tally),
            Err(why) => broken.push((seed, why)),
        }
    }
    for (seed, why) in &broken {
        println!("FLEET_SEED={seed}: {why}");
    }
    println!("{runs} runs, {} broken: {sum:?}", broken.len());
    assert!(broken.is_empty(), "{} of {runs} runs broke a promise", broken.len());
    assert!(sum.is_full() || runs < SEEDS, "something was not tested: {sum:?}");
}

/// The rules have teeth: a hub that counts what it granted last, and not what members may still be doing, is caught.
#[test]
fn a_ledger_without_exposure_is_caught() {
    caught(|| drain_a_silent_member(Ledger::Kept)).unwrap();
    let why = caught(|| drain_a_silent_member(Ledger::ForgetsExposure)).unwrap_err();
    assert!(why.contains("the fleet's bounds") && why.contains("there are 8 pods"), "{why}");
}
