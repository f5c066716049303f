//! What one pass over a CloneSet of many pods costs after one of them has changed, and what its pods weigh in the cache.

use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};

use jiff::Timestamp;
use kruise_core::{
    api::cloneset::v1beta1::CloneSet,
    controllers::cloneset::{
        plan::{self, Doubts, Options, Version, World, limits::Limits},
        sights::Kept,
        status::{self, Counted, Names},
    },
    runtime::{
        cache::{Cache, pod::PodLite},
        clock::Clock,
        metrics::Metrics,
    },
};
use kube::{core::Selector, runtime::watcher::Event};
use serde_json::{Value, json};
use tokio::time::Instant;

const PASSES: u32 = 100;

fn main() {
    println!(
        "| pods | take in us | read cache us | look and plan us | status us | whole pass us | cache KiB/pod |"
    );
    println!("|---|---|---|---|---|---|---|");
    for pods in [1_000, 3_000, 10_000, 30_000] {
        row(pods);
    }
}

fn row(count: usize) {
    let now: Timestamp = "2026-01-15T12:00:00Z".parse().expect("a time");
    let before = memory();
    let cache: Cache<PodLite> = Cache::new("pods", Clock::system(), Metrics::default());
    cache.watched(Event::Init);
    for index in 0..count {
        let pod: PodLite = serde_json::from_value(pod(index)).expect("a pod");
        cache.watched(Event::InitApply(pod));
    }
    cache.watched(Event::InitDone);
    let weight = (memory() - before) / count as f64;

    let cloneset = cloneset(count);
    let version = Version {
        name: "many-5d8f".to_owned(),
        data: json!({"spec": {"template": cloneset.spec.template}}),
        claims_hash: None,
        claim_templates: Vec::new(),
    };
    let history = [Arc::new(version.clone())];
    let kept = Kept::default();
    let selector = Selector::try_from(cloneset.spec.selector.clone()).expect("a selector");
    kept.look("u", &cloneset.spec.selector, &selector, cache.rows_of("u"));
    let (mut taking, mut reading) = (Duration::ZERO, Duration::ZERO);
    let (mut planning, mut telling) = (Duration::ZERO, Duration::ZERO);
    for pass in 0..PASSES {
        // One pod has changed since the last pass.
        let changed = serde_json::from_value(pod(pass as usize * 37 % count)).expect("a pod");
        let start = Instant::now();
        cache.watched(Event::Apply(changed));
        taking += start.elapsed();
        let start = Instant::now();
        let sights = kept.look("u", &cloneset.spec.selector, &selector, cache.rows_of("u"));
        let active: Vec<_> = sights.active().collect();
        reading += start.elapsed();
        let world = World {
            cloneset: &cloneset,
            active: &active,
            inactive: &[],
            claims: &[],
            update: &version,
            current: &version,
            history: &history,
            occupied: &Default::default(),
            doubts: &Doubts::default(),
            nodes: &BTreeMap::new(),
            options: Options { env_from_metadata: true, ..Options::default() },
            now,
        };
        let start = Instant::now();
        let limits = Limits::of(&cloneset.spec);
        let facts = plan::facts(&world, &limits);
        let plan = plan::plan(&world, &limits, &facts, &mut || 0);
        assert!(plan.is_empty(), "these pods are at rest");
        planning += start.elapsed();
        let start = Instant::now();
        let counted = facts.iter().map(|it| Counted {
            is_updated: it.is_updated,
            is_ready: it.is_ready,
            is_available: it.is_available,
        });
        let names = Names { update: &version.name, current: &version.name, collision_count: 0 };
        let report = status::report(&cloneset, &limits, names, counted, now);
        assert_eq!(report.status.available_replicas as usize, count);
        telling += start.elapsed();
    }
    let each = |it: Duration| it.as_secs_f64() * 1e6 / f64::from(PASSES);
    println!(
        "| {count} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {weight:.1} |",
        each(taking),
        each(reading),
        each(planning),
        each(telling),
        each(taking + reading + planning + telling)
    );
}

fn cloneset(replicas: usize) -> CloneSet {
    serde_json::from_value(json!({
        "metadata": {"name": "many", "namespace": "ns", "uid": "u", "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "many"}},
            "updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible"}},
            "template": {"metadata": {"labels": {"app": "many"}}, "spec": {"containers": [{"name": "main", "image": "i:2"}]}},
        },
    }))
    .expect("a CloneSet")
}

/// A pod as an API server sends it after an update in place.
fn pod(index: usize) -> Value {
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-15T11:00:00Z"});
    json!({
        "metadata": {
            "name": format!("many-{index:05}"), "namespace": "ns", "uid": format!("0000-{index}"),
            "resourceVersion": index.to_string(), "creationTimestamp": "2026-01-15T11:00:00Z",
            "labels": {
                "app": "many", "controller-revision-hash": "many-5d8f", "pod-template-hash": "5d8f",
                "apps.kruise.io/cloneset-instance-id": format!("{index:05}"), "lifecycle.apps.kruise.io/state": "Normal",
            },
            "annotations": {
                "lifecycle.apps.kruise.io/timestamp": "2026-01-15T11:00:00Z",
                "apps.kruise.io/inplace-update-state": "{\"revision\":\"many-5d8f\",\"updateTimestamp\":\"2026-01-15T11:00:00Z\",\"lastContainerStatuses\":{\"main\":{\"imageID\":\"sha256:1\"}},\"updateImages\":true,\"containerBatchesRecord\":[{\"timestamp\":\"2026-01-15T11:00:00Z\",\"containers\":[\"main\"]}]}",
            },
            "ownerReferences": [{
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "many", "uid": "u", "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "nodeName": format!("node-{}", index % 50),
            "containers": [{"name": "main", "image": "i:2", "resources": {}}],
            "readinessGates": [{"conditionType": "InPlaceUpdateReady"}, {"conditionType": "KruisePodReady"}],
            "volumes": [{"name": "token", "projected": {}}],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.1", "qosClass": "BestEffort", "startTime": "2026-01-15T11:00:00Z",
            "conditions": [
                condition("InPlaceUpdateReady"), condition("KruisePodReady"), condition("Initialized"), condition("Ready"),
                condition("ContainersReady"), condition("PodScheduled"),
            ],
            "containerStatuses": [{
                "name": "main", "image": "i:2", "imageID": "sha256:2", "containerID": format!("containerd://{index:064}"),
                "ready": true, "started": true, "restartCount": 1, "state": {"running": {"startedAt": "2026-01-15T11:00:00Z"}},
            }],
        },
    })
}

/// KiB of this process in memory.
fn memory() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
    line.and_then(|it| it.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}
