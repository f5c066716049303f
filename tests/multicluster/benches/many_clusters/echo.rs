//! Clusters without anything in them: they renew their Leases and acknowledge what they are given, in the words of an agent.
//!
//! An echo has every pod ready at once and says so in one report, where an agent sends a few. It is no process, and its
//! requests do not pass the network: what is measured is the hub.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use http::Method;
use hub::{members::access::LEASE, names::cluster_namespace};
use kruise_core::{
    api::fleet::{
        Counts, Slice,
        assignment::{Assignment, AssignmentStatus, ShareState},
    },
    runtime::clock::Clock,
};
use kube::{
    Api, ResourceExt,
    runtime::watcher::{self, Event, watcher},
};
use member_agent::link::report::{Applied, Facts, Sender, Verdict, report};
use serde_json::json;
use sim::World;
use tokio::time::Instant;

use crate::hall::{FLEET, HUB};

/// How often each Lease is renewed.
const EVERY: Duration = Duration::from_secs(10);

/// All echoes, and what they have seen.
#[derive(Clone)]
pub(crate) struct Echoes {
    world: World,
    /// The namespace of the cluster that has an agent.
    but: String,
    seen: Arc<Mutex<HashMap<String, Seen>>>,
}

/// What was seen of one object.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Clusters that it was assigned to.
    pub(crate) clusters: usize,
    /// When the last of them got its Assignment.
    pub(crate) last: Instant,
}

impl Echoes {
    /// Echoes in all clusters but one.
    pub(crate) fn new(world: &World, but: &str) -> Self {
        let but = cluster_namespace(but);
        Self { world: world.clone(), but, seen: Arc::default() }
    }

    /// What was seen of an object.
    pub(crate) fn seen(&self, object: &str) -> Option<Seen> {
        self.lock().get(object).cloned()
    }

    /// Renews the Leases of `clusters` for ever, evenly over time.
    pub(crate) async fn beat(self, clusters: Vec<String>) {
        let clock = Clock::system();
        let mut ticks = tokio::time::interval(EVERY / u32::try_from(clusters.len()).unwrap_or(1).max(1));
        for cluster in clusters.iter().cycle() {
            ticks.tick().await;
            let path = format!(
                "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{LEASE}",
                cluster_namespace(cluster)
            );
            // Times of Leases have six digits after the point, always.
            let now = clock.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
            self.write(&path, &json!({"spec": {"holderIdentity": "echo", "renewTime": now}}));
        }
    }

    /// Acknowledges every plan, for ever.
    pub(crate) async fn answer(self) {
        let api: Api<Assignment> = Api::all(self.world.client("echoes", HUB));
        let mut events = watcher(api, watcher::Config::default()).boxed();
        let mut known = HashMap::new();
        while let Some(event) = events.next().await {
            let Ok(Event::Apply(assignment) | Event::InitApply(assignment)) = event else { continue };
            self.hear(&assignment, &mut known);
        }
    }

    fn hear(&self, assignment: &Assignment, known: &mut HashMap<String, u64>) {
        let (namespace, name) = (assignment.namespace().unwrap_or_default(), assignment.name_any());
        let spec = &assignment.spec;
        if known.insert(format!("{namespace}/{name}"), spec.seq).is_none() {
            let now = Instant::now();
            let mut seen = self.lock();
            let seen = seen.entry(spec.object.name.clone()).or_insert(Seen { clusters: 0, last: now });
            (seen.clusters, seen.last) = (seen.clusters + 1, now);
        }
        let is_told = assignment
            .status
            .as_ref()
            .is_some_and(|it| (it.applied_term, it.applied_seq) >= (spec.term, spec.seq));
        if is_told || namespace == self.but {
            return;
        }
        let path = format!("{FLEET}/namespaces/{namespace}/assignments/{name}/status");
        self.write(&path, &json!({"status": acknowledged(assignment)}));
    }

    fn write(&self, path: &str, patch: &serde_json::Value) {
        if let Err(failure) = self.world.write(HUB, Method::PATCH, path, patch) {
            eprintln!("{path}: {}", failure.message);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an agent says when everything of a plan is there.
fn acknowledged(assignment: &Assignment) -> AssignmentStatus {
    let plan = assignment.spec.clone();
    let counts = match &plan.slice {
        Some(Slice::CloneSet(it)) => Counts {
            replicas: it.replicas,
            ready: it.replicas,
            available: it.replicas,
            updated: it.updated,
            updated_ready: it.updated,
            updated_available: it.updated,
            stable: it.replicas,
            ..Counts::default()
        },
        _ => Counts::default(),
    };
    let generation = i64::try_from(plan.seq).unwrap_or(i64::MAX);
    let sender = Sender { incarnation: 1, report: plan.seq, known_epoch: plan.epoch };
    let applied = Applied { plan, generation, observed_generation: generation };
    let verdict = Verdict { state: ShareState::Settled, reason: "Applied", message: String::new() };
    let facts = Facts { counts, ..Facts::default() };
    report(sender, Some(&applied), facts, verdict, assignment.status.as_ref(), Clock::system().now())
}
