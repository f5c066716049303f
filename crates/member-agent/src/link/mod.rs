//! The link to a hub: plans in, reports out. The hub is only ever asked; no port is opened here.
//!
//! Decisions are values, made by pure functions: [`judge`] which plan counts and what it asks for, [`render`] what the member
//! object looks like, [`seed`] which revision has to be known before, [`secrets`] what becomes of a job's pull secrets, [`room`] how many more pods this cluster has room for,
//! [`report`] what the hub is told and when. Around them:
//! [`store`] is what outlives a restart, [`hub`] and [`member`] are the two API servers, [`lease`] is the heartbeat,
//! [`cluster`] is what this cluster says about itself, and `reconcile` and `carry` are the pass over one Assignment.
//! [`credential`] is how the cluster joins and stays known; [`standing`] is what the hub thinks of it.

pub mod cluster;
pub mod credential;
pub mod hub;
pub mod judge;
pub mod lease;
pub mod marks;
pub mod member;
pub mod render;
pub mod report;
pub mod room;
pub mod secrets;
pub mod seed;
pub mod standing;
pub mod store;

mod bring;
mod carry;
mod reconcile;
mod release;

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dashmap::DashMap;
use kruise_core::{
    api::fleet::{FederatedObject, GROUP, assignment::Assignment},
    runtime::{
        access::Right,
        cache::Feed,
        clock::{Clock, Seed as Chance},
        controller::{self, Controller, Triggers},
        events::Recorder,
        gates::Gates,
        key::Key,
    },
};
use kube::Resource;
use tokio::{
    sync::{OnceCell, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use credential::{
    keeper::{Joined, Keeper},
    teller::{Notice, Teller, reasons},
};
use hub::Hub;
use member::Member;
use reconcile::Memory;
use room::Room;
use store::Store;

/// The link's name in logs, metrics and events.
pub const NAME: &str = "fleet-agent";
/// The Lease on the hub by which an agent shows that it is there.
pub const LEASE: &str = "agent";
/// How many Assignments are seen to at once. Each waits for the hub and for this cluster most of the time, several times in a row.
pub const WORKERS: NonZeroUsize = NonZeroUsize::new(16).expect("sixteen is not zero");

/// How long to wait before kept plans are read again, if they could not be.
const LOAD_AGAIN: Duration = Duration::from_secs(2);
/// How long a link that starts waits for the hub's word before it acts: it may have lost its rights meanwhile (JOIN-5), and a
/// hub that is away holds nothing up (PROTO-6).
const FIRST_WORD: Duration = Duration::from_secs(5);

/// The rights it needs in the member.
pub fn needs() -> Vec<Right> {
    [member::needs(), store::needs(), credential::needs()].concat()
}

/// What a link is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// UID of the hub.
    pub hub_uid: String,
    /// The name of this cluster in the fleet.
    pub cluster: String,
    /// Who we are, for people who look at the Lease.
    pub identity: String,
    /// How long the leader before us may believe to lead; none if this process is alone.
    pub lease: Duration,
    /// How long its last write may take.
    pub longest_write: Duration,
}

/// What a link is made from.
#[derive(Debug)]
pub struct Parts {
    /// What it is told.
    pub settings: Settings,
    /// The hub.
    pub hub: Hub,
    /// The cluster.
    pub member: Member,
    /// What it keeps.
    pub store: Store,
    /// Tells people.
    pub events: Recorder,
    /// Which optional behaviour is on.
    pub gates: Gates,
    /// Chance, for the heartbeat.
    pub chance: Chance,
    /// How its controller runs.
    pub controller: controller::Settings,
}

/// The link: carries out Assignments.
#[derive(Debug)]
pub struct Link {
    settings: Settings,
    hub: Hub,
    member: Member,
    room: Room,
    store: Store,
    events: Recorder,
    gates: Gates,
    clock: Clock,
    /// Since when this process leads.
    since: Instant,
    newest_epoch: AtomicU64,
    incarnation: OnceCell<u64>,
    reports: AtomicU64,
    memory: Mutex<HashMap<String, Memory>>,
    /// Which Assignment an object belongs to, by its kind and key.
    held: Arc<DashMap<(String, Key), Key>>,
}

/// Runs the link of a cluster that joins by itself: as soon as it has a credential, and with what `begin` makes of that.
pub async fn join(keeper: Keeper, begin: impl FnOnce(Joined) -> Parts, stop: CancellationToken) {
    let (hand_over, joined) = oneshot::channel();
    let keeping = stop.run_until_cancelled(keeper.run(hand_over));
    let linking = async {
        if let Some(Ok(joined)) = stop.run_until_cancelled(joined).await {
            run(begin(joined), stop.clone()).await;
        }
    };
    tokio::join!(keeping, linking);
}

/// Runs the link until `stop` is cancelled and what is under way has ended. The hub may be away for all of it.
pub async fn run(parts: Parts, stop: CancellationToken) {
    let Parts { settings, hub, member, store, events, gates, chance, controller } = parts;
    let (clock, since) = (controller.clock.clone(), controller.clock.instant());
    let Some(kept) = stop.run_until_cancelled(load(&store)).await else { return };
    let first_word = tokio::time::timeout(FIRST_WORD, lease::once(&hub, &settings.identity, &clock));
    if stop.run_until_cancelled(first_word).await.is_none() {
        return;
    }
    let triggers = Triggers::new(clock.clone());
    let held: Arc<DashMap<(String, Key), Key>> = Arc::default();
    follow(&triggers, &hub, &member, &held);
    for name in kept {
        triggers.now(Key::new(hub.namespace(), &name));
    }
    // Not the hub's: a hub that is away holds nothing up (PROTO-6).
    let mut feeds: Vec<Arc<dyn Feed>> = vec![
        Arc::new(member.clonesets.clone()),
        Arc::new(member.pods.clone()),
        Arc::new(member.revisions.clone()),
        Arc::new(member.jobs.clone()),
    ];
    feeds.extend(member.nodes.iter().map(|it| Arc::new(it.clone()) as Arc<dyn Feed>));
    let room = Room::new(&member.pods, member.nodes.as_ref());
    let (reminding, reminded) = (room.clone(), triggers.clone());
    let (heart, identity) = (hub.clone(), settings.identity.clone());
    let watching = Watching {
        hub: hub.clone(),
        store: store.clone(),
        teller: Teller::new(events.clone(), store.namespace()),
        triggers: triggers.clone(),
    };
    let welcoming = welcome(hub.clone(), store.clone(), triggers.clone());
    let (own, name) = (member.clone(), settings.cluster.clone());
    let newest_epoch = AtomicU64::new(store.epoch());
    let link = Link {
        settings,
        hub: hub.clone(),
        member,
        room,
        store,
        events,
        gates,
        clock: clock.clone(),
        since,
        newest_epoch,
        incarnation: OnceCell::new(),
        reports: AtomicU64::new(0),
        memory: Mutex::default(),
        held,
    };
    let working = Controller::new(controller, triggers, feeds, link).run(stop.clone());
    let beating = stop.run_until_cancelled(lease::renew(&heart, &identity, &clock, &chance));
    let watching = stop.run_until_cancelled(watching.run());
    let introducing = stop.run_until_cancelled(cluster::introduce(&heart, &own, &name, gates));
    let reminding = stop.run_until_cancelled(reminding.remind(&reminded));
    let welcoming = stop.run_until_cancelled(welcoming);
    tokio::join!(hub.follow(stop.clone()), beating, watching, welcoming, introducing, reminding, working);
}

/// Says when our rights are gone, and wakes everything when they are back.
struct Watching {
    hub: Hub,
    store: Store,
    teller: Teller,
    triggers: Triggers,
}

impl Watching {
    async fn run(mut self) {
        let mut standing = self.hub.standings.subscribe();
        loop {
            let _ = standing.wait_for(|it| !it.lets_act()).await;
            let message = "the hub has taken the rights of this cluster away: what runs here goes on, and nothing of the fleet is \
                           applied or deleted until it is accepted again (`kubectl fleet revoke --undo`)";
            self.teller.tell(Notice::bad(reasons::REVOKED, message));
            let _ = standing.wait_for(|it| it.lets_act()).await;
            self.teller.tell(Notice::good(reasons::ACCEPTED, "the hub has accepted this cluster again"));
            wake_all(&self.hub, &self.store, &self.triggers);
        }
    }
}

fn wake_all(hub: &Hub, store: &Store, triggers: &Triggers) {
    let assignments = hub.assignments.all();
    let offered = assignments.iter().filter_map(|it| it.meta().name.clone());
    for name in store.names().into_iter().chain(offered) {
        triggers.now(Key::new(hub.namespace(), &name));
    }
}

/// Wakes everything when a hub that was away is heard again.
async fn welcome(hub: Hub, store: Store, triggers: Triggers) {
    let mut returns = hub.returns();
    while returns.changed().await.is_ok() {
        wake_all(&hub, &store, &triggers);
    }
}

/// Reads what is kept, however long it takes: without it a plan that is older than ours could not be told.
async fn load(store: &Store) -> Vec<String> {
    loop {
        match store.load().await {
            Ok(names) => return names,
            Err(error) => warn!(error = &error as &dyn std::error::Error, "kept plans cannot be read yet"),
        }
        tokio::time::sleep(LOAD_AGAIN).await;
    }
}

/// Wakes the link for what changes on either side.
fn follow(triggers: &Triggers, hub: &Hub, member: &Member, held: &Arc<DashMap<(String, Key), Key>>) {
    let wake = triggers.clone();
    hub.assignments.on_change(move |change| wake.now(change.key()));
    let (wake, index) = (triggers.clone(), held.clone());
    let wake_holder = move |kind: &str, object: Key| {
        let holder = index.get(&(kind.to_owned(), object)).map(|it| it.clone());
        holder.into_iter().for_each(|it| wake.now(it));
    };
    let wake = wake_holder.clone();
    member.clonesets.on_change(move |change| wake("CloneSet", change.key()));
    let wake = wake_holder.clone();
    member.jobs.on_change(move |change| wake("ImagePullJob", change.key()));
    let wake = wake_holder.clone();
    member.pods.on_change(move |change| {
        let pod = change.after.as_ref().or(change.before.as_ref());
        pod.and_then(|it| holder(&**it)).into_iter().for_each(|it| wake("CloneSet", it));
    });
    member.revisions.on_change(move |change| {
        let revision = change.after.as_ref().or(change.before.as_ref());
        revision.and_then(|it| holder(&**it)).into_iter().for_each(|it| wake_holder("CloneSet", it));
    });
}

/// The CloneSet that controls an object.
fn holder<K: Resource>(object: &K) -> Option<Key> {
    let owners = object.meta().owner_references.iter().flatten();
    let owner = owners.into_iter().find(|it| it.controller == Some(true) && it.kind == "CloneSet")?;
    Some(Key::new(object.meta().namespace.as_deref().unwrap_or_default(), &owner.name))
}

impl Link {
    /// The newest epoch that any plan of this cluster was for.
    fn epoch(&self, offered: Option<&Assignment>) -> u64 {
        let offered = offered.map_or(0, |it| it.spec.epoch);
        self.newest_epoch.fetch_max(offered, Ordering::Relaxed).max(offered)
    }

    /// Remembers which Assignment an object belongs to.
    fn index(&self, assignment: &str, object: &FederatedObject) {
        let (kind, key) = (object.kind.clone(), member::key(object));
        self.held.insert((kind, key), Key::new(self.hub.namespace(), assignment));
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<String, Memory>> {
        // Nothing panics under this lock.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an annotation is one of the fleet's own.
pub(crate) fn is_ours(key: &str) -> bool {
    key.split_once('/').is_some_and(|it| it.0 == GROUP)
}
