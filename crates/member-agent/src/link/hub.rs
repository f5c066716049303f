//! The hub, as far as an agent sees it: Assignments in its own namespace, FleetRevisions by exact name, and the status of its
//! own Assignments (PROTO-1, SEC-1).

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use dashmap::DashMap;
use k8s_openapi::api::coordination::v1::Lease;
use kruise_core::{
    api::fleet::{
        assignment::{Assignment, AssignmentStatus, RevisionRef},
        keys,
        member_cluster::MemberCluster,
        revision::FleetRevision,
        told,
    },
    runtime::{
        cache::{Cache, Feed},
        client::{self, Error, call},
        clock::Clock,
        key::uid,
        metrics::Metrics,
    },
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams},
    core::DeserializeGuard,
};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::standing::Standings;

/// What the hub was told last, by Assignment: its UID, and the plan that was said to be applied.
type Told = Arc<DashMap<String, (String, u64, u64)>>;

/// An Assignment as it is cached. One that cannot be read does not stop the others.
pub type Stored = DeserializeGuard<Assignment>;

/// The hub.
#[derive(Clone)]
pub struct Hub {
    client: Client,
    namespace: String,
    /// The Assignments of this cluster.
    pub assignments: Cache<Stored>,
    /// What it thinks of us, by its answers about what is ours.
    pub standings: Standings,
    told: Told,
    /// The newest version that an answer had.
    newest: Arc<AtomicU64>,
    /// Asks for all Assignments anew.
    again: Arc<Notify>,
    /// How often it was heard again after it had not been.
    returns: Arc<watch::Sender<u64>>,
}

impl Hub {
    /// The hub behind `client`, with this cluster's `namespace` there.
    pub fn new(client: Client, namespace: &str, clock: &Clock, metrics: &Metrics) -> Self {
        let assignments = Cache::new("assignments", clock.clone(), metrics.clone());
        Self {
            client,
            namespace: namespace.to_owned(),
            assignments,
            standings: Standings::default(),
            told: Told::default(),
            newest: Arc::default(),
            again: Arc::default(),
            returns: Arc::default(),
        }
    }

    /// The same, telling others what it thinks of us.
    #[must_use]
    pub fn telling(self, standings: Standings) -> Self {
        Self { standings, ..self }
    }

    /// This cluster's namespace on the hub.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Keeps the Assignments up to date until `stop` is cancelled: one watch, in one namespace.
    pub async fn follow(&self, stop: CancellationToken) {
        loop {
            let api = Api::namespaced(self.client.clone(), &self.namespace);
            let following = self.assignments.run(self.client.clone(), api, client::watch(), stop.clone());
            tokio::select! {
                biased;
                () = following => return,
                () = self.again.notified() => {}
            }
        }
    }

    /// Takes the version of what the hub has just stored for us. One that is lower than an earlier one comes from a hub that
    /// was restored from an older copy: a watch that goes on from before would not show what is there now.
    pub(super) fn stored(&self, version: &str) {
        let Ok(version) = version.parse::<u64>() else { return };
        if self.newest.swap(version, Ordering::Relaxed) > version {
            warn!("the hub has gone back in time: it seems to be restored from an older copy");
            self.again.notify_one();
        }
    }

    /// It is heard again. What could not be said to it is said now, and not when a long wait is over: before it takes this cluster
    /// for one that reports, it should know what has become of its pods (ST-1).
    pub(super) fn has_returned(&self) {
        self.returns.send_modify(|it| *it += 1);
    }

    /// How often it was heard again, and word of the next time.
    pub(super) fn returns(&self) -> watch::Receiver<u64> {
        self.returns.subscribe()
    }

    /// Notes what the hub was told last about an Assignment.
    pub(super) fn has_told(&self, assignment: &Assignment, status: &AssignmentStatus) {
        let name = assignment.metadata.name.clone().unwrap_or_default();
        self.told.insert(name, (uid(assignment).to_owned(), status.applied_term, status.applied_seq));
    }

    /// What the hub was told about all Assignments that it shows, in one word; nothing as long as it was not.
    pub(super) fn told(&self) -> Option<String> {
        let shown = self.assignments.is_synced().then(|| self.assignments.all())?;
        // What is not there any more is not told any more.
        let names: HashSet<&str> = shown.iter().filter_map(|it| it.meta().name.as_deref()).collect();
        self.told.retain(|name, _| names.contains(name.as_str()));
        let readable = shown.iter().filter_map(|it| it.0.as_ref().ok());
        let told = readable.map(|it| {
            let name = it.metadata.name.as_deref().unwrap_or_default();
            let (of, term, seq) = self.told.get(name).map(|it| it.clone())?;
            (of == uid(it)).then_some((name, term, seq))
        });
        Some(told::digest(told.collect::<Option<Vec<_>>>()?))
    }

    /// The body of a revision; nothing if the hub does not have it, or has it in a form that is not for us.
    pub async fn body(&self, revision: &RevisionRef) -> Result<Option<Value>, Error> {
        let namespace = revision.namespace.as_deref().unwrap_or(keys::CONTENT_NAMESPACE);
        let api: Api<FleetRevision> = Api::namespaced(self.client.clone(), namespace);
        match call("read a fleet revision", api.get(&revision.name)).await {
            Ok(found) if found.spec.hash == revision.hash => Ok(found.spec.body),
            Ok(_) => Ok(None),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the status of exactly this Assignment, as a whole.
    pub async fn tell(&self, assignment: &Assignment, status: &AssignmentStatus) -> Result<(), Error> {
        let api: Api<Assignment> = Api::namespaced(self.client.clone(), &self.namespace);
        let name = assignment.metadata.name.as_deref().unwrap_or_default();
        // A merge would keep counts that have become zero, which are not sent.
        let steps = json!([
            {"op": "test", "path": "/metadata/uid", "value": uid(assignment)},
            {"op": "add", "path": "/status", "value": status},
        ]);
        let steps = serde_json::from_value(steps).expect("these are steps of a JSON patch");
        let patch: Patch<()> = Patch::Json(steps);
        let told = call("report to the hub", api.patch_status(name, &PatchParams::default(), &patch)).await;
        self.standings.hear(&told);
        told.map(drop)
    }

    /// What the hub knows of this cluster; nothing if it does not.
    pub async fn cluster(&self, name: &str) -> Result<Option<MemberCluster>, Error> {
        let api: Api<MemberCluster> = Api::all(self.client.clone());
        call("read what the hub knows of us", api.get_opt(name)).await
    }

    /// Tells the hub what this cluster is.
    pub async fn introduce(&self, name: &str, status: &Value) -> Result<(), Error> {
        let api: Api<MemberCluster> = Api::all(self.client.clone());
        let (params, patch) = (PatchParams::default(), Patch::Merge(json!({"status": status})));
        call("tell the hub what this cluster is", api.patch_status(name, &params, &patch)).await.map(drop)
    }

    /// The Leases of this cluster's namespace.
    pub fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}
