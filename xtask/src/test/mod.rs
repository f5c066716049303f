//! `cargo xtask test`: the rings of tests, from plain values to real nodes.
//!
//! | ring | what runs |
//! | --- | --- |
//! | form | format, lints, documentation, generated files, licences |
//! | values | plans, arithmetic, properties, simulated clusters |
//! | servers | real API servers with fake nodes |
//! | nodes | real kubelets and containerd |
//!
//! A ring the machine cannot do is skipped by name and with the reason, and its tests are counted as skipped.

mod fleet;
mod form;
mod tally;

use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;
use lab::progress::Progress;

use fleet::Fleet;
use tally::Tally;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only these rings, in their own order
    #[arg(long = "ring", value_enum, value_delimiter = ',')]
    rings: Vec<Ring>,
    /// Cases of every property test, where its own number is not higher
    #[arg(long)]
    cases: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Ring {
    /// Format, lints, documentation, generated files, licences
    Form,
    /// Plans, arithmetic, properties, simulated clusters
    Values,
    /// Real API servers with fake nodes
    Servers,
    /// Real kubelets and containerd
    Nodes,
}

/// What came of one ring.
#[derive(Debug)]
struct Outcome {
    ring: Ring,
    tally: Tally,
    took: Duration,
    skipped_because: Option<String>,
}

/// The test programs that need clusters, by ring; every other test is of the ring of values.
const SERVER_TESTS: [&str; 9] = [
    "servers",
    "agents",
    "clonesets",
    "joining",
    "clusters",
    "charts",
    "kubectl",
    "kubectl_fleet",
    "conformance",
];
const NODE_TESTS: [&str; 4] = ["nodes", "duties", "clonesets_on_nodes", "real_nodes"];

/// Those on a hub and three members that nothing else has used: they take away what others would miss.
const FLEET_TESTS: [&str; 1] = ["fleets"];

/// Those on a hub and two members with a real node each.
const FLEET_NODE_TESTS: [&str; 1] = ["fleets_on_nodes"];

/// Test programs whose tests mostly wait, and wait side by side: as many at once, whatever the number of CPUs.
const WAITING: [(&str, usize); 3] = [("clonesets", 8), ("clonesets_on_nodes", 4), ("fleets", 16)];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    std::env::set_current_dir(crate::root())?;
    let wanted = |ring: &Ring| arguments.rings.is_empty() || arguments.rings.contains(ring);
    let mut outcomes = Vec::new();
    for ring in Ring::value_variants().iter().copied().filter(wanted) {
        let progress = Progress::start();
        eprintln!("\n=== ring {}", format!("{ring:?}").to_lowercase());
        // A ring that cannot even start is a failure of that ring; what the others have shown still counts.
        let (tally, skipped_because) = run_ring(ring, arguments).unwrap_or_else(|error| {
            eprintln!("{error:#}");
            (Tally::one(&format!("{error:#}"), false), None)
        });
        outcomes.push(Outcome { ring, tally, took: progress.elapsed(), skipped_because });
    }
    report(&outcomes)
}

fn run_ring(ring: Ring, arguments: &Arguments) -> Result<(Tally, Option<String>)> {
    match ring {
        Ring::Form => Ok((form::check(), None)),
        Ring::Values => {
            let needs_no_cluster = |it: &&str| {
                let others =
                    SERVER_TESTS.iter().chain(&NODE_TESTS).chain(&FLEET_TESTS).chain(&FLEET_NODE_TESTS);
                others.into_iter().all(|other| other != it)
            };
            let all = tally::all_programs()?;
            let tests: Vec<&str> = all.iter().map(String::as_str).filter(needs_no_cluster).collect();
            let units = ["--lib", "--bins"];
            let mut tally =
                tally::cargo_test(arguments.cases, &[&tally::programs(&tests)[..], &units].concat())?;
            tally += tally::cargo_test(arguments.cases, &["--workspace", "--doc"])?;
            Ok((tally, None))
        }
        Ring::Servers => match fleet::why_no_servers() {
            Some(reason) => Ok((skipped(&[&SERVER_TESTS[..], &FLEET_TESTS].concat())?, Some(reason))),
            None => {
                let mut tally = on_clusters(Fleet::servers, &SERVER_TESTS, arguments)?;
                tally += on_clusters(Fleet::whole, &FLEET_TESTS, arguments)?;
                Ok((tally, None))
            }
        },
        Ring::Nodes => match fleet::why_no_nodes() {
            Some(reason) => Ok((skipped(&[&NODE_TESTS[..], &FLEET_NODE_TESTS].concat())?, Some(reason))),
            None => {
                let mut tally = on_clusters(Fleet::nodes, &NODE_TESTS, arguments)?;
                tally += on_clusters(Fleet::whole_on_nodes, &FLEET_NODE_TESTS, arguments)?;
                Ok((tally, None))
            }
        },
    }
}

fn skipped(tests: &[&str]) -> Result<Tally> {
    Ok(Tally { skipped: tally::count(tests)?, ..Tally::default() })
}

fn on_clusters(
    start: fn(&mut Progress) -> Result<Fleet>,
    tests: &[&str],
    arguments: &Arguments,
) -> Result<Tally> {
    let mut progress = Progress::start();
    // Built before the clusters start: a compiler and three control planes at once are too much for small machines.
    tally::build(tests)?;
    let fleet = start(&mut progress)?;
    let mut tally = Tally::default();
    for test in tests {
        let mut cargo = tally::cargo(arguments.cases);
        cargo.arg("test").args(tally::programs(&[test])).envs(fleet.variables()?);
        if let Some((_, threads)) = WAITING.iter().find(|it| it.0 == *test) {
            cargo.env("RUST_TEST_THREADS", threads.to_string());
        }
        tally += tally::run(cargo)?;
    }
    Ok(tally)
}

fn report(outcomes: &[Outcome]) -> Result<()> {
    println!();
    for Outcome { ring, tally, took, skipped_because } in outcomes {
        let name = format!("{ring:?}").to_lowercase();
        println!("ring {name:<8} {:>7.1}s  {tally}", took.as_secs_f64());
        if let Some(reason) = skipped_because {
            println!("  skipped: {reason}");
        }
        for failure in &tally.failures {
            println!("  FAILED: {failure}");
        }
    }
    let mut total = Tally::default();
    for outcome in outcomes {
        total += outcome.tally.clone();
    }
    println!("{total}");
    if total.failed > 0 {
        bail!("{} failed", total.failed);
    }
    Ok(())
}
