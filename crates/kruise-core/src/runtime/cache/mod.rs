//! Watch caches: what the API server has told us, with our own writes laid over it.
//!
//! One cache holds one kind, is fed by one watch, and is shared by every controller that reads the kind. `store` is
//! the state, `watch` feeds it, `index` finds objects by owner, [`rows`] are what it finds; [`pod`], [`claim`],
//! [`revision`] and [`node`] are light types, which keep once what many have in common ([`shared`]).

pub mod claim;
mod index;
pub mod node;
pub mod pod;
pub mod revision;
pub mod rows;
pub mod shared;
pub(crate) mod store;
mod watch;

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use futures::{FutureExt, future::BoxFuture};
use kube::{Resource, runtime::watcher::Event};
use serde::de::DeserializeOwned;
use tokio::sync;

use super::{
    clock::Clock,
    key::Key,
    metrics::Metrics,
    overlay::{Doubt, Overlay},
};
use rows::Rows;
pub use store::Change;
use store::Store;

/// How many own writes may wait for the watch before controllers pause.
pub const OVERLAY_CAPACITY: usize = 20_000;

/// A kind that can be cached.
pub trait Cached:
    Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + Sync + 'static> Cached
    for K
{
}

/// Called after each change the watch shows; must not block.
type Listener<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

/// A shared handle to the cache of one kind.
pub struct Cache<K>(Arc<Inner<K>>);

struct Inner<K> {
    name: &'static str,
    store: RwLock<Store<K>>,
    listeners: RwLock<Vec<Listener<K>>>,
    synced: sync::watch::Sender<bool>,
    clock: Clock,
    metrics: Metrics,
}

impl<K: Cached> Cache<K> {
    /// An empty cache; [`Cache::run`] fills it. `name` is its label in metrics and logs.
    pub fn new(name: &'static str, clock: Clock, metrics: Metrics) -> Self {
        Self::with_overlay(name, Overlay::new(OVERLAY_CAPACITY), clock, metrics)
    }

    fn with_overlay(name: &'static str, overlay: Overlay<K>, clock: Clock, metrics: Metrics) -> Self {
        Self(Arc::new(Inner {
            name,
            store: RwLock::new(Store::new(overlay)),
            listeners: RwLock::default(),
            synced: sync::watch::Sender::new(false),
            clock,
            metrics,
        }))
    }

    /// Calls `listener` after each change that the watch shows. Controllers turn changes into triggers here.
    pub fn on_change(&self, listener: impl Fn(&Change<K>) + Send + Sync + 'static) {
        self.0.listeners.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(listener));
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.read().get(key)
    }

    /// What the object with this UID controls, by key.
    pub fn owned_by(&self, owner: &str) -> Vec<Arc<K>> {
        self.rows_of(owner).iter().cloned().collect()
    }

    /// What the object with this UID controls, for whoever looks at all of it often.
    pub fn rows_of(&self, owner: &str) -> Rows<K> {
        self.read().owned_by(owner)
    }

    /// Everything in `namespace`, by key.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let rows = self.read().in_namespace(namespace);
        rows.iter().cloned().collect()
    }

    /// What nobody controls in `namespace`, by key.
    pub fn orphans_in(&self, namespace: &str) -> Vec<Arc<K>> {
        let rows = self.read().orphans_in(namespace);
        rows.iter().cloned().collect()
    }

    /// Everything, in no order.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.read().all()
    }

    /// Writes on behalf of `owner` whose outcome is unknown. The remedy is to do the same again, under the same name.
    pub fn doubts_of(&self, owner: &str) -> Vec<Doubt> {
        self.read().overlay().doubts_of(owner)
    }

    /// How many own writes the watch still has to show.
    pub fn unseen_writes(&self) -> usize {
        self.read().overlay().len()
    }

    /// Records the answer to a create, an update, or a deletion that takes its time.
    pub fn wrote(&self, mut object: K) -> Arc<K> {
        trim(&mut object);
        let object = Arc::new(object);
        let mut store = self.write();
        store.wrote(object.clone(), self.0.clock.instant());
        self.count(&store);
        object
    }

    /// Records what a look at the server has found, which the watch may show much later.
    pub fn found(&self, mut object: K) {
        trim(&mut object);
        let mut store = self.write();
        store.found(Arc::new(object), self.0.clock.instant());
        self.count(&store);
    }

    /// Records that the object with this UID does not exist any more.
    pub fn deleted(&self, key: &Key, uid: &str) {
        let mut store = self.write();
        store.deleted(key, uid, self.0.clock.instant());
        self.count(&store);
    }

    /// Records a write without an answer.
    pub fn doubted(&self, doubt: Doubt) {
        let mut store = self.write();
        store.doubted(doubt, self.0.clock.instant());
        self.count(&store);
    }

    /// Takes in what the watch says. Public for whoever feeds a cache without [`Cache::run`].
    pub fn watched(&self, mut event: Event<K>) {
        if let Event::Apply(it) | Event::InitApply(it) | Event::Delete(it) = &mut event {
            trim(it);
        }
        let is_complete = matches!(event, Event::InitDone);
        let mut store = self.write();
        let changes = store.watched(event);
        self.count(&store);
        drop(store);
        if is_complete {
            self.0.synced.send_replace(true);
        }
        self.tell(&changes);
    }

    /// Tells the listeners, with no lock on the store held: they read it.
    fn tell(&self, changes: &[Change<K>]) {
        let listeners = self.0.listeners.read().unwrap_or_else(PoisonError::into_inner);
        for change in changes {
            for listener in &*listeners {
                listener(change);
            }
        }
    }

    fn count(&self, store: &Store<K>) {
        self.0.metrics.own_writes(self.0.name, store.overlay().len());
    }

    fn read(&self) -> RwLockReadGuard<'_, Store<K>> {
        // A panic under this lock is a bug in `Store`, which tests cover; going on beats stopping every controller.
        self.0.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Store<K>> {
        self.0.store.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cache").field(&self.0.name).finish()
    }
}

/// What a controller has to know about a cache that it reads, whatever its kind.
pub trait Feed: Send + Sync {
    /// The cache's name.
    fn name(&self) -> &'static str;

    /// Whether the first list is complete.
    fn is_synced(&self) -> bool;

    /// Ends when the first list is complete.
    fn synced(&self) -> BoxFuture<'static, ()>;

    /// Whether so many own writes are unseen that nothing should be written now.
    fn is_behind(&self) -> bool;
}

impl<K: Cached> Feed for Cache<K> {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn is_synced(&self) -> bool {
        *self.0.synced.borrow()
    }

    fn synced(&self) -> BoxFuture<'static, ()> {
        let inner = self.0.clone();
        async move {
            // The sender lives in `inner`, so the wait cannot fail.
            let _ = inner.synced.subscribe().wait_for(|it| *it).await;
        }
        .boxed()
    }

    fn is_behind(&self) -> bool {
        self.read().overlay().is_full()
    }
}

/// Drops what no controller reads and every object carries.
fn trim<K: Resource>(object: &mut K) {
    let meta = object.meta_mut();
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

#[cfg(test)]
mod tests;
