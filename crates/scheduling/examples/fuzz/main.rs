//! Feeds hostile bytes to every entry point and checks what must hold.
//!
//! `cargo run --release -p scheduling --example fuzz -- --seconds 600 --target all --seed 1`
//!
//! A target decodes the bytes as it likes and panics when a promise is broken; the seed and iteration are printed, so
//! that a failure replays. New entry points get a line in `TARGETS`.

mod targets;

use std::{
    env,
    panic::{self, AssertUnwindSafe},
    process::ExitCode,
    time::{Duration, Instant},
};

use targets::{Bytes, TARGETS, Target};

/// Iterations between two looks at the clock.
const BATCH: u64 = 64;

fn main() -> ExitCode {
    let argument = |name: &str| env::args().skip_while(|it| it != name).nth(1);
    let number = |name: &str, default| argument(name).and_then(|it| it.parse().ok()).unwrap_or(default);
    let (seconds, seed, from) = (number("--seconds", 10), number("--seed", 1), number("--from", 0));
    let wanted = argument("--target").unwrap_or_else(|| "all".to_owned());
    let chosen: Vec<&Target> = TARGETS.iter().filter(|it| wanted == "all" || wanted == it.name).collect();
    if chosen.is_empty() {
        eprintln!("no such target: {wanted}");
        return ExitCode::FAILURE;
    }

    let each = Duration::from_secs(seconds) / chosen.len() as u32;
    for target in chosen {
        match run(target, seed, from, each) {
            Ok(iterations) => println!("{:<12} {iterations} iterations, seed {seed}", target.name),
            Err(at) => {
                println!("{:<12} failed: --target {0} --seed {seed} --from {at}", target.name);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Runs one target for a while and returns how often, or the iteration that failed.
#[expect(clippy::disallowed_methods, reason = "a fuzzer runs for a given time")]
fn run(target: &Target, seed: u64, from: u64, time: Duration) -> Result<u64, u64> {
    let end = Instant::now() + time;
    let mut iteration = from;
    while Instant::now() < end {
        for _ in 0..BATCH {
            let mut bytes = Bytes::new(seed, iteration);
            if panic::catch_unwind(AssertUnwindSafe(|| (target.run)(&mut bytes))).is_err() {
                return Err(iteration);
            }
            iteration += 1;
        }
    }
    Ok(iteration - from)
}
