//! Brings objects of the hub into the clusters of the fleet.
//!
//! One mechanism for all kinds: what differs is behind [`Kind`](crate::placement::kinds::Kind). One object is one round:
//! `observe` reads the caches, [`plan`] decides with the arithmetic of `scheduling`, `apply` saves the ledger and writes
//! Assignments in that order, [`status`] is what people see of it. [`end`] is the round of an object that is being deleted,
//! [`tombstones`] are what may outlive it, [`pods`] finds the clusters of pods to delete, [`lists`] makes jobs from lists of images,
//! [`secrets`] reads the Secrets that jobs name, `bodies` stores what clusters are to run, `sweep` removes bodies that nobody names any
//! more, `ahead` has images downloaded before an update, `tell` writes events, [`raw`] is an object as it was written, and [`term`] numbers leaderships.

pub mod end;
pub mod lists;
pub mod plan;
pub mod pods;
pub mod raw;
pub mod secrets;
pub mod status;
pub(crate) mod sweep;
pub mod term;
pub mod tombstones;

mod ahead;
mod apply;
mod bodies;
mod leave;
mod observe;
mod tell;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kruise_core::{
    api::{
        APPS_GROUP,
        fleet::{
            assignment::Assignment,
            binding::FleetBinding,
            keys,
            policy::{ClusterPlacementPolicy, PlacementPolicy},
            revision::FleetRevisionSpec,
        },
    },
    runtime::{
        access::{self, Right},
        cache::{Cache, Cached, Feed},
        client::Error as CallError,
        clock::Clock,
        controller::{self, Controller, Next, Reconcile, ReconcileError, Triggers},
        events::{Recorder, Severity},
        key::{Key, version},
    },
};
use kube::{Client, Resource, ResourceExt, core::DeserializeGuard};
use tokio::{sync::RwLock, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::{measures::Measures, members::roster::Roster, names::RevisionKey};
use lists::Lists;
use raw::Raw;
use status::figures::Figures;
use tell::Rarely;
use term::Term;

/// How many objects are seen to at once. Each waits for the API server most of the time, several times in a row.
pub const WORKERS: NonZeroUsize = NonZeroUsize::new(24).expect("twenty-four is not zero");
/// How soon an object is looked at again while something is under way that only time brings on.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// How long an object is left alone after a round. Clusters answer one by one, and every round saves the ledger of all of them.
const ROUND_REST: Duration = Duration::from_millis(50);
/// How long the status of an object rests after it was written (ST-7).
const STATUS_REST: Duration = Duration::from_secs(1);

/// A stored object that may not be readable.
pub type Guarded<K> = DeserializeGuard<K>;

/// What dispatchers of all kinds share.
#[derive(Clone)]
pub struct Shared {
    /// The hub's API server.
    pub client: Client,
    /// Policies of namespaces.
    pub policies: Cache<Guarded<PlacementPolicy>>,
    /// Policies for all namespaces.
    pub cluster_policies: Cache<Guarded<ClusterPlacementPolicy>>,
    /// Bindings.
    pub bindings: Cache<Guarded<FleetBinding>>,
    /// Assignments of all clusters.
    pub assignments: Cache<Guarded<Assignment>>,
    /// Lists of images.
    pub lists: Lists,
    /// The clusters and their states.
    pub roster: Roster,
    /// Clusters that have said, since this process started, that they do what is stored (HA-5).
    pub heard: Arc<Mutex<HashSet<String>>>,
    /// The versions in which this process wrote the statuses of bindings last: what others wrote is told by it.
    pub told: Arc<Mutex<HashMap<Key, String>>>,
    /// From which names of bodies are made.
    pub key: RevisionKey,
    /// How many bodies were removed so far. Whoever stores one and is about to name it holds this for reading.
    pub bodies: Arc<RwLock<u64>>,
    /// The number of this leadership.
    pub term: Arc<Term>,
    /// Ends this leadership when another one has written under a later number.
    pub deposed: CancellationToken,
    /// Tells people.
    pub events: Recorder,
    /// Counts.
    pub measures: Measures,
    /// Time.
    pub clock: Clock,
}

/// The rights that a dispatcher needs, besides those to its own kind.
pub fn needs() -> Vec<Right> {
    const READ: &[&str] = &["get", "list", "watch"];
    const KEPT: &[&str] = &["get", "list", "watch", "patch"];
    const KEEP: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
    const GROUP: &str = kruise_core::api::fleet::GROUP;
    vec![
        access::cluster(GROUP, "placementpolicies", READ),
        access::cluster(GROUP, "clusterplacementpolicies", READ),
        access::cluster(GROUP, "fleetbindings", KEEP),
        access::cluster(GROUP, "fleetbindings/status", &["patch"]),
        access::cluster(GROUP, "assignments", KEEP),
        // Whether an object goes because its kind does, and whether Assignments are gone because theirs is (PROTO-7). Namespaces
        // may be read anyway.
        access::cluster("apiextensions.k8s.io", "customresourcedefinitions", &["get"]).named([
            "assignments.fleet.kruise.io",
            "clonesets.apps.kruise.io",
            "imagepulljobs.apps.kruise.io",
        ]),
        access::in_namespace(keys::CONTENT_NAMESPACE, GROUP, "fleetrevisions", &["create", "get"]),
        // Those that nobody names any more.
        access::in_namespace(keys::CONTENT_NAMESPACE, GROUP, "fleetrevisions", &["list", "delete"]),
        access::cluster(APPS_GROUP, "clonesets", KEPT),
        access::cluster(APPS_GROUP, "clonesets/status", &["patch"]),
        access::cluster(APPS_GROUP, "imagepulljobs", KEPT),
        // Jobs have a time to live.
        access::cluster(APPS_GROUP, "imagepulljobs", &["delete"]),
        access::cluster(APPS_GROUP, "imagepulljobs/status", &["patch"]),
    ]
}

/// Brings objects of kind `K` into the clusters.
pub struct Dispatcher<K> {
    shared: Shared,
    objects: Cache<Raw<K>>,
    memory: Mutex<HashMap<Key, Memory>>,
}

/// What is kept of one object between rounds. Losing it costs nothing but a little time.
#[derive(Debug, Clone, Default)]
struct Memory {
    /// When the ledger was last saved, or the object first seen.
    saved: Option<Instant>,
    /// When its status was last written.
    status: Option<Instant>,
    /// What was told last.
    told: Vec<String>,
    /// What is told once a minute at most.
    rarely: Rarely,
    /// The name of the body that is known to be stored, as long as no more bodies were removed than these.
    body: Option<(String, u64)>,
    /// When that was last seen to.
    stored: Option<Instant>,
    /// A copy of the body that pods come from while a release is under way, with its name.
    stable: Option<(String, FleetRevisionSpec)>,
    /// When that one was last seen to.
    looked: Option<Instant>,
    /// What clusters are asked, and since when; nothing before it was first looked at.
    asked: Option<BTreeMap<String, Question>>,
    /// When downloads ahead of an update could not be begun or ended.
    ahead_failed: Option<Instant>,
    /// What was last seen of the Secrets that it names.
    secrets: Option<secrets::Kept>,
    /// Shares that were written and not acknowledged yet, by cluster: their number, and when.
    sent: BTreeMap<String, (u64, Instant)>,
}

/// A question that is stored for a cluster.
#[derive(Debug, Clone)]
struct Question {
    id: String,
    /// When it was first seen; nothing if that was long ago.
    since: Option<Instant>,
}

/// Why a round has failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call failed.
    #[error("a round is not carried out yet")]
    Call(#[from] CallError),
    /// Something that is needed cannot be read.
    #[error("{what} cannot be read: {fault}")]
    Unreadable {
        /// What.
        what: String,
        /// Why not.
        fault: String,
    },
    /// The binding of an object of the same name that is gone is still there.
    #[error("the binding of the object that had this name before is still there")]
    Predecessor,
    /// Another leader has written since.
    #[error("a leader of term {newer} has written; ours is {ours}")]
    Deposed {
        /// Its term.
        newer: u64,
        /// Ours.
        ours: u64,
    },
}

impl ReconcileError for Error {
    fn label(&self) -> &'static str {
        match self {
            Self::Call(error) => error.label(),
            Self::Unreadable { .. } => "decode",
            Self::Predecessor => "predecessor",
            Self::Deposed { .. } => "deposed",
        }
    }
}

/// The controller for objects of kind `K`.
pub fn controller<K>(
    shared: Shared,
    objects: Cache<Raw<K>>,
    settings: controller::Settings,
) -> Controller<Dispatcher<K>>
where
    K: Resource<DynamicType = ()> + 'static,
    Raw<K>: Cached,
{
    let triggers = Triggers::new(shared.clock.clone());
    follow(&triggers, &shared, &objects);
    let mut feeds: Vec<Arc<dyn Feed>> = vec![
        Arc::new(objects.clone()),
        Arc::new(shared.policies.clone()),
        Arc::new(shared.cluster_policies.clone()),
        Arc::new(shared.bindings.clone()),
        Arc::new(shared.assignments.clone()),
        Arc::new(shared.roster.members().clone()),
    ];
    if K::kind(&()) == lists::MADE {
        feeds.push(Arc::new(shared.lists.cache().clone()));
    }
    let dispatcher = Dispatcher { shared, objects, memory: Mutex::default() };
    Controller::new(settings, triggers, feeds, dispatcher)
}

/// Wakes the dispatcher for what changes.
fn follow<K>(triggers: &Triggers, shared: &Shared, objects: &Cache<Raw<K>>)
where
    K: Resource<DynamicType = ()> + 'static,
    Raw<K>: Cached,
{
    triggers.follow(objects, |_| true);
    let wake = triggers.clone();
    shared.assignments.on_change(move |change| {
        let assignment = change.after.as_ref().or(change.before.as_ref());
        let object = assignment.and_then(|it| it.0.as_ref().ok()).map(|it| &it.spec.object);
        if let Some(object) = object.filter(|it| it.kind == K::kind(&())) {
            wake.now(Key::new(object.namespace.as_deref().unwrap_or_default(), &object.name));
        }
    });
    let (wake, written) = (triggers.clone(), shared.told.clone());
    shared.bindings.on_change(move |change| {
        // Ours are known already. One that somebody deleted is not, nor a person's word, nor the status of another leader: if one that
        // was deposed wrote last, it would stand until something else happens.
        let before = change.before.as_ref().and_then(|it| it.0.as_ref().ok());
        let after = change.after.as_ref().and_then(|it| it.0.as_ref().ok());
        let said = |it: Option<&FleetBinding>| it.and_then(|it| it.annotations().get(keys::RECOVER).cloned());
        let is_ours = || {
            let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
            match after {
                Some(after) => written.get(&Key::of(after)).is_some_and(|it| it == version(after)),
                None => written.remove(&change.key()).is_some(),
            }
        };
        let is_told = before.map(|it| &it.status) == after.map(|it| &it.status) || is_ours();
        let is_news = change.after.is_none() || said(before) != said(after) || !is_told;
        let object = before.or(after).filter(|_| is_news).map(|it| &it.spec.object);
        if let Some(object) = object.filter(|it| it.kind == K::kind(&())) {
            wake.now(Key::new(object.namespace.as_deref().unwrap_or_default(), &object.name));
        }
    });
    let (wake, all) = (triggers.clone(), objects.clone());
    let wake_all = move || all.all().iter().for_each(|it| wake.now(Key::of(&**it)));
    let wake = wake_all.clone();
    shared.policies.on_change(move |_| wake());
    let wake = wake_all.clone();
    shared.cluster_policies.on_change(move |_| wake());
    if K::kind(&()) == lists::MADE {
        // Downloads follow the policy of their CloneSet, which its binding names.
        let (wake, all) = (triggers.clone(), objects.clone());
        shared.bindings.on_change(move |change| {
            let before = change.before.as_ref().and_then(|it| it.0.as_ref().ok());
            let after = change.after.as_ref().and_then(|it| it.0.as_ref().ok());
            let Some(uid) = ahead::placed_otherwise(before, after) else { return };
            let is_its = |it: &Raw<K>| it.labels().get(keys::DOWNLOADS_FOR) == Some(&uid);
            all.all().iter().filter(|it| is_its(it)).for_each(|it| wake.now(Key::of(&**it)));
        });
        let wake = wake_all.clone();
        shared.lists.cache().on_change(move |change| {
            if lists::is_seen_otherwise(change) {
                wake();
            }
        });
    }
    shared.roster.on_change(wake_all);
}

impl<K> Reconcile for Dispatcher<K>
where
    K: Resource<DynamicType = ()> + 'static,
    Raw<K>: Cached,
{
    type Error = Error;

    async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let Some(object) = self.objects.get(&key) else {
            self.forget(&key);
            return Ok(Next::Change);
        };
        let seen = self.observe(&object)?;
        let now = self.shared.clock.instant();
        let since = *self.memory().entry(key.clone()).or_default().saved.get_or_insert(now);
        let elapsed = u32::try_from(now.saturating_duration_since(since).as_secs()).unwrap_or(u32::MAX);
        let mut observed = seen.observed(&self.shared.key, elapsed, self.shared.clock.now());
        if seen.is_ending {
            return if seen.is_ours { self.leave(&key, &seen, &observed).await } else { Ok(Next::Change) };
        }
        if end::is_withdrawn(&observed) {
            return self.withdraw(&key, &seen, &observed).await;
        }
        if observed.policy.is_none() && observed.binding.is_none() {
            debug!("no policy matches");
            let message = "no policy matches this object; it runs nowhere";
            self.tell_once(&key, &seen, Severity::Normal, "NotPlaced", message);
            return Ok(Next::Change);
        }
        let looks = self.look_at_secrets(&key, &plan::secrets::wanted(&observed)).await;
        observed.secrets = Some(&looks);
        let begun = self.shared.clock.instant();
        let round = plan::plan(&observed);
        self.shared.measures.planned(self.shared.clock.since(begun), &round);
        if let Some(figures) = &round.standing.figures {
            self.measure(&key, figures);
        }
        self.carry_out(&key, &seen, &observed, round).await
    }

    fn exists(&self, key: &Key) -> bool {
        self.objects.get(key).is_some()
    }

    fn rest(&self, _: &Key) -> Duration {
        ROUND_REST
    }
}

impl<K> Dispatcher<K>
where
    K: Resource<DynamicType = ()> + 'static,
    Raw<K>: Cached,
{
    /// Counts what a round came to, and how long shares took that are acknowledged now.
    fn measure(&self, key: &Key, figures: &Figures) {
        let fleet = &self.shared.measures.fleet;
        fleet.follow(&self.label(key), figures);
        let mut memory = self.memory();
        let Some(Memory { sent, .. }) = memory.get_mut(key) else { return };
        sent.retain(|cluster, (seq, at)| {
            let is_done = figures.acknowledged.get(cluster).is_some_and(|it| *it >= *seq);
            if is_done {
                fleet.acknowledged(self.shared.clock.since(*at));
            }
            !is_done
        });
    }

    /// Keeps nothing about an object that is gone.
    fn forget(&self, key: &Key) {
        self.memory().remove(key);
        self.shared.measures.fleet.forget(&self.label(key));
    }

    /// What sums over all objects know an object by.
    fn label(&self, key: &Key) -> String {
        format!("{} {key}", K::kind(&()))
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<Key, Memory>> {
        // Nothing panics under this lock.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> std::fmt::Debug for Dispatcher<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatcher").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
