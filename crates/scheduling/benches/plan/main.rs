//! What a plan costs: by clusters and replicas, and for many objects after the loss of a cluster.
//!
//! Prints the median time of several runs, and instructions where valgrind is installed: times compare machines,
//! instructions compare versions.

mod rounds;

use std::{
    cell::RefCell,
    collections::HashSet,
    env,
    hint::black_box,
    process::Command,
    time::{Duration, Instant},
};

use scheduling::{
    names::{ClusterName, GroupName},
    numbers::{IntOrPercent, Percent},
    partition,
    rank::rank,
    split::{Candidate, Goal, Mode, Request, Spread, State, WhenUnsatisfiable, plan},
};

use rounds::Hub;

/// What is measured: planning, with the input made beforehand.
type Run = Box<dyn Fn() -> u64>;

/// What is done to a hub at rest before it is measured.
type Stage = fn(Hub) -> Hub;

/// One line of the table.
struct Case {
    name: String,
    runs: usize,
    /// Makes the input.
    prepare: Box<dyn Fn() -> Run>,
}

impl Case {
    fn new<R: Fn() -> u64 + 'static>(name: String, runs: usize, prepare: impl Fn() -> R + 'static) -> Self {
        Self { name, runs, prepare: Box::new(move || Box::new(prepare())) }
    }
}

/// Runs of a case that takes long, whose instructions are not counted.
const FEW: usize = 5;
/// Runs of any other.
const MANY: usize = 31;

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let cases = cases();
    if let Some(place) = arguments.iter().position(|it| it == "--once") {
        let case = cases.iter().find(|it| Some(&it.name) == arguments.get(place + 1));
        let run = case.map(|it| (it.prepare)());
        // The input is made either way: only the difference between one run and none is the plan itself.
        if let (Some(run), false) = (run, arguments.iter().any(|it| it == "--idle")) {
            black_box(run());
        }
        return;
    }

    let has_valgrind = Command::new("valgrind").arg("--version").output().is_ok();
    println!("{:<52} {:>12} {:>16}", "case", "median", "instructions");
    for case in &cases {
        // Under valgrind everything takes fifty times as long.
        let count = if has_valgrind && case.runs > FEW { instructions(&case.name) } else { None };
        let count = count.map_or_else(|| "-".to_owned(), |it| it.to_string());
        println!("{:<52} {:>12} {:>16}", case.name, format!("{:.1?}", median(case)), count);
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn median(case: &Case) -> Duration {
    let run = (case.prepare)();
    let mut times: Vec<Duration> = (0..case.runs)
        .map(|_| {
            let start = Instant::now();
            black_box(run());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// Instructions of one run, counted by callgrind in a process of its own.
fn instructions(name: &str) -> Option<u64> {
    let count = |extra: &[&str]| {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(env::current_exe().ok()?)
            .args(["--once", name])
            .args(extra)
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = text.lines().find(|it| it.contains("Collected"))?;
        line.rsplit(' ').next()?.parse::<u64>().ok()
    };
    Some(count(&[])?.saturating_sub(count(&["--idle"])?))
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for clusters in [10, 100, 1_000, 5_000] {
        for replicas in [1_000, 10_000, 100_000, 1_000_000] {
            cases.push(Case::new(format!("split {clusters} clusters, N = {replicas}"), MANY, move || {
                let request = fleet(clusters, replicas, "object");
                move || placed(&request)
            }));
        }
    }
    let changes = [
        ("grown from 900000", grow as fn(&mut Request)),
        ("rebalance", rebalance),
        ("aggregated", aggregate),
        ("spread", |it| spread(it, 20, 8)),
        ("spread over 1000 groups", |it| spread(it, 1_000, 1)),
    ];
    for (name, change) in changes {
        cases.push(Case::new(format!("split 1000 clusters, N = 1000000, {name}"), MANY, move || {
            let mut request = fleet(1_000, 1_000_000, "object");
            change(&mut request);
            move || placed(&request)
        }));
    }
    for clusters in [10, 100, 1_000, 5_000] {
        cases.push(Case::new(format!("partition {clusters} clusters, N = 1000000"), MANY, move || {
            let request = release(clusters);
            move || partition::plan(&request).map_or(0, |it| it.rows.len() as u64)
        }));
    }
    for (objects, runs) in [(1, MANY), (10_000, FEW)] {
        cases.push(Case::new(
            format!("re-plan {objects} objects, one cluster of 1000 lost"),
            runs,
            move || {
                let requests: Vec<Request> = (0..objects).map(after_loss).collect();
                move || requests.iter().map(placed).sum()
            },
        ));
    }
    // 10,000 such objects do not fit into memory at a time: a hundred of them are planned again and again.
    for (objects, times, runs) in [(1, 1, MANY), (100, 100, FEW)] {
        let name = format!("re-plan {} objects on all of 1000, one lost", objects * times);
        cases.push(Case::new(name, runs, move || {
            let at_rest = |object: u32| {
                let mut request = fleet(1_000, 10_000, &format!("object-{object}"));
                carry_out(&mut request);
                request.clusters[0].state = State::Lost;
                request
            };
            let requests: Vec<Request> = (0..objects).map(at_rest).collect();
            move || (0..times).flat_map(|_| &requests).map(placed).sum()
        }));
    }
    cases.extend(round_cases());
    cases
}

fn round_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let stages: [(&str, Stage); 3] =
        [("at rest", |it| it), ("in a release", Hub::releasing), ("one lost", Hub::after_loss)];
    for clusters in [10, 100, 1_000, 5_000] {
        for (name, stage) in stages {
            let name = format!("round {clusters} clusters, N = 1000000, {name}");
            cases.push(Case::new(name, MANY, move || {
                let hub = stage(Hub::at_rest(clusters, 1_000_000, "object"));
                move || hub.planned()
            }));
        }
    }
    cases
}

fn placed(request: &Request) -> u64 {
    plan(request).map_or(0, |it| it.rows.iter().map(|it| u64::from(it.replicas)).sum())
}

/// Clusters of different weights with bounds, nothing running yet.
fn fleet(clusters: u32, replicas: u32, uid: &str) -> Request {
    let even = (replicas / clusters).max(1);
    let clusters = (0..clusters).map(|it| candidate(it, even, uid)).collect();
    Request { replicas, clusters, ..Request::default() }
}

fn candidate(number: u32, even: u32, uid: &str) -> Candidate {
    let name = format!("cluster-{number:04}");
    Candidate {
        weight: 1 + number * 7 % 100,
        min: number % 2,
        max: number.is_multiple_of(3).then_some(even * 4),
        fit: number.is_multiple_of(5).then_some(even * 3),
        ..Candidate::new(shared(&name), rank(uid, &name))
    }
}

/// The name of a cluster, once for all objects, as the record of a member is.
fn shared(name: &str) -> ClusterName {
    thread_local!(static NAMES: RefCell<HashSet<ClusterName>> = RefCell::default());
    NAMES.with_borrow_mut(|names| {
        if !names.contains(name) {
            names.insert(ClusterName::from(name));
        }
        names.get(name).cloned().unwrap_or_else(|| ClusterName::from(name))
    })
}

/// A fleet at rest that is scaled by a ninth.
fn grow(request: &mut Request) {
    let replicas = request.replicas;
    request.replicas = replicas / 10 * 9;
    carry_out(request);
    request.replicas = replicas;
}

fn carry_out(request: &mut Request) {
    let Ok(answer) = plan(request) else { return };
    request.clusters.iter_mut().zip(answer.rows).for_each(|(it, row)| it.current = row.replicas);
}

fn rebalance(request: &mut Request) {
    request.goal = Goal::Rebalance;
}

fn aggregate(request: &mut Request) {
    request.mode = Mode::Aggregated;
}

fn spread(request: &mut Request, groups: usize, percent: u32) {
    for (index, it) in request.clusters.iter_mut().enumerate() {
        it.groups = vec![Some(GroupName::from(format!("region-{}", index % groups)))];
    }
    request.spread = vec![Spread {
        key: "region".into(),
        min_groups: 3,
        max_groups: Some(groups as u32 / 4 * 3),
        max_share: Some(Percent::whole(percent)),
        when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
    }];
}

fn release(clusters: u32) -> partition::Request {
    let cluster = |it: u32| {
        let name = format!("cluster-{it:04}");
        let rank = rank("object", &name);
        partition::Cluster { wave: it % 4, ..partition::Cluster::new(name, rank, 1_000_000 / clusters) }
    };
    let clusters: Vec<partition::Cluster> = (0..clusters).map(cluster).collect();
    let population = clusters.iter().map(|it| u64::from(it.replicas)).sum();
    let value = Some(IntOrPercent::Percent(Percent::whole(37)));
    partition::Request { population, partition: value, clusters, ..partition::Request::default() }
}

/// An object at rest on 100 of 1,000 clusters, the first of which is lost.
fn after_loss(object: u32) -> Request {
    let uid = format!("object-{object}");
    let others = (1..100).map(|it| 1 + (it * 10 + object) % 999);
    let clusters = std::iter::once(0).chain(others).map(|it| candidate(it, 10, &uid)).collect();
    let mut request = Request { replicas: 1_000, clusters, ..Request::default() };
    carry_out(&mut request);
    request.clusters[0].state = State::Lost;
    request
}
