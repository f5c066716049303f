//! What simulated clusters cost: requests a second, bytes for each object, and a fleet of a thousand of them.
//!
//! Every part runs in a process of its own, so that none is measured with the memory of another.

mod fleet;
mod memory;
mod requests;

use std::{
    env, fs,
    process::Command,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// Clusters of the fleet, unless `BENCH_CLUSTERS` says otherwise.
const CLUSTERS: usize = 1_000;

fn main() {
    let part = env::var("BENCH_PART").unwrap_or_default();
    match part.as_str() {
        "" => all(),
        "requests" => requests::run(),
        "fleet" => fleet::run(clusters()),
        case => assert!(memory::run(case), "there is no part {case}"),
    }
}

fn all() {
    requests::head();
    part("requests");
    memory::head();
    memory::CASES.into_iter().for_each(part);
    fleet::head();
    part("fleet");
    println!();
}

fn part(name: &str) {
    let program = env::current_exe().expect("this program has a file");
    let status = Command::new(program).env("BENCH_PART", name).status().expect("it can be started again");
    assert!(status.success(), "the part {name} failed");
}

fn clusters() -> usize {
    env::var("BENCH_CLUSTERS").ok().and_then(|it| it.parse().ok()).unwrap_or(CLUSTERS)
}

/// Real time, which passes while a paused clock stands still.
#[expect(clippy::disallowed_methods, reason = "what is measured is the real time that virtual time costs")]
fn start() -> Instant {
    Instant::now()
}

/// How many a second.
fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// Memory of this process in bytes, by the name of a line of its status.
fn memory(what: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|it| it.strip_prefix(what)).expect("a line about memory");
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
    kib * 1024.0
}

/// A pod such as people have.
fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": "web", "tier": "front"}},
        "spec": {"containers": [{
            "name": "main", "image": "registry.example.com/web:1.27", "ports": [{"containerPort": 8080}],
            "env": [{"name": "MODE", "value": "fast"}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        }]},
    }))
    .expect("a pod")
}
