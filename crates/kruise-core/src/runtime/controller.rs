//! The controller loop: takes objects from the queue, reconciles each one at a time, and waits longer after failures.
//!
//! ```text
//! caches --on_change--> Triggers --> queue --> reconcile (at most `workers` at once) --> again after, or on failure
//! ```

use std::{
    fmt,
    num::NonZeroUsize,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{FutureExt, StreamExt, future, stream::FuturesUnordered};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error, info, info_span, warn};

use super::{
    cache::{Cache, Cached, Feed},
    clock::{Clock, later},
    key::Key,
    metrics::Metrics,
    queue::Queue,
};
use crate::backoff::{Doubling, Failures};

/// How long to wait when a cache is too far behind our own writes.
const BEHIND: Duration = Duration::from_secs(1);

/// For at most this long after a failure changes do not wake an object up.
const FLOOR: Duration = Duration::from_secs(1);

/// When to look at an object again after a reconcile that worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    Change,
    /// After this long at the latest.
    After(Duration),
}

/// An error of a reconcile.
pub trait ReconcileError: std::error::Error + 'static {
    /// A fixed word for metrics.
    fn label(&self) -> &'static str;

    /// When to try again at the latest, whatever the back-off says: something else is due by then.
    fn at_latest(&self) -> Option<Duration> {
        None
    }
}

impl ReconcileError for super::client::Error {
    fn label(&self) -> &'static str {
        super::client::Error::label(self)
    }
}

/// What one controller does.
pub trait Reconcile: Send + Sync {
    /// Why it can fail.
    type Error: ReconcileError + Send;

    /// Brings one object to where it should be. The object may be gone: then only what is kept about it is forgotten.
    fn reconcile(&self, key: Key) -> impl Future<Output = Result<Next, Self::Error>> + Send;

    /// Whether the object still exists. What the loop keeps about one that does not is forgotten.
    fn exists(&self, key: &Key) -> bool;

    /// How long the object is left alone after a reconcile that worked. Changes that come meanwhile are seen to at once
    /// afterwards: a look at a large object costs the same for one of them and for a hundred.
    fn rest(&self, _key: &Key) -> Duration {
        Duration::ZERO
    }
}

/// Wakes a controller up. Cheap to clone; handed to whoever hears of changes.
#[derive(Clone)]
pub struct Triggers(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue<Key>>,
    changed: Notify,
    clock: Clock,
}

impl Triggers {
    /// Triggers for a controller that is yet to be built.
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Shared { queue: Mutex::new(Queue::new()), changed: Notify::new(), clock }))
    }

    /// Something about `key` has changed.
    pub fn now(&self, key: Key) {
        self.queue().add(key);
        self.0.changed.notify_one();
    }

    /// Look at `key` after `delay` at the latest.
    pub fn after(&self, key: Key, delay: Duration) {
        let at = later(self.0.clock.instant(), delay);
        self.queue().add_at(key, at);
        self.0.changed.notify_one();
    }

    /// Wakes the controller for every object of `cache` that `concerns` it: those that are there now, and each one that
    /// changes from now on. For controllers whose own objects these are; deleted ones need no wake-up.
    pub fn follow<K: Cached>(
        &self,
        cache: &Cache<K>,
        concerns: impl Fn(&K) -> bool + Clone + Send + Sync + 'static,
    ) {
        let (triggers, changed) = (self.clone(), concerns.clone());
        cache.on_change(move |change| {
            if let Some(object) = change.after.as_ref().filter(|it| changed(it)) {
                triggers.now(Key::of(&**object));
            }
        });
        for object in cache.all().iter().filter(|it| concerns(it)) {
            self.now(Key::of(&**object));
        }
    }

    /// Wakes the controller for every object of `cache`: those that are there now, which is all of them on a replica that
    /// takes over, and each one that changes or goes from now on.
    pub fn follow_all<K: Cached>(&self, cache: &Cache<K>) {
        let triggers = self.clone();
        cache.on_change(move |change| triggers.now(change.key()));
        for object in cache.all() {
            self.now(Key::of(&*object));
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue<Key>> {
        // The queue's operations do not panic half-way; a poisoned lock would stop the controller for nothing.
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Triggers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Triggers").field("waiting", &self.queue().depth()).finish()
    }
}

/// How a controller runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its name in logs and metrics.
    pub name: &'static str,
    /// How many objects are reconciled at once.
    pub workers: NonZeroUsize,
    /// How long an object waits after failures.
    pub backoff: Doubling,
    /// Time.
    pub clock: Clock,
    /// Where reconciles are counted.
    pub metrics: Metrics,
}

/// One controller: settings, what wakes it up, what it reads, what it does.
pub struct Controller<R> {
    settings: Settings,
    triggers: Triggers,
    feeds: Vec<Arc<dyn Feed>>,
    reconciler: R,
    failures: Failures<Key>,
}

impl<R: Reconcile> Controller<R> {
    /// A controller that reads `feeds`: it starts when every one of them is complete, or a restart would create
    /// everything twice.
    pub fn new(settings: Settings, triggers: Triggers, feeds: Vec<Arc<dyn Feed>>, reconciler: R) -> Self {
        let failures = Failures::new(settings.backoff);
        Self { settings, triggers, feeds, reconciler, failures }
    }

    /// Runs until `token` is cancelled and the reconciles under way have ended.
    ///
    /// Dropping the future instead stops them where they are.
    pub async fn run(self, token: CancellationToken) {
        let name = self.settings.name;
        let synced = future::join_all(self.feeds.iter().map(|it| it.synced()));
        if token.run_until_cancelled(synced).await.is_none() {
            return;
        }
        info!(controller = name, "caches are complete, starting");
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < self.settings.workers.get()
                && !token.is_cancelled()
                && let Some(key) = self.next()
            {
                under_way.push(self.run_one(key));
            }
            let due = self.triggers.queue().next_due();
            let due = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = token.cancelled() => break,
                Some(()) = under_way.next(), if !under_way.is_empty() => {}
                () = self.triggers.0.changed.notified() => {}
                () = due, if under_way.len() < self.settings.workers.get() => {}
            }
        }
        while under_way.next().await.is_some() {}
        info!(controller = name, "stopped");
    }

    fn next(&self) -> Option<Key> {
        let mut queue = self.triggers.queue();
        let key = queue.take(self.settings.clock.instant());
        self.settings.metrics.queue_depth(self.settings.name, queue.depth());
        key
    }

    async fn run_one(&self, key: Key) {
        let Settings { name, clock, metrics, .. } = &self.settings;
        if let Some(feed) = self.feeds.iter().find(|it| it.is_behind()) {
            warn!(controller = name, cache = feed.name(), "cache is too far behind our own writes; pausing");
            return self.end(&key, Some(BEHIND));
        }
        let begun = clock.instant();
        let span = info_span!("reconcile", controller = name, object = %key);
        let reconcile = AssertUnwindSafe(self.reconciler.reconcile(key.clone()).instrument(span.clone()));
        let result = reconcile.catch_unwind().await;
        let took = clock.since(begun);
        let again = match result {
            Ok(Ok(next)) => {
                metrics.reconciled(name, took);
                self.failures.forget(&key);
                self.let_rest(&key);
                match next {
                    Next::After(delay) if self.reconciler.exists(&key) => Some(delay),
                    Next::After(_) | Next::Change => None,
                }
            }
            Ok(Err(error)) => {
                let wait = self.failed(&key, error.label(), took);
                let wait = error.at_latest().map_or(wait, |it| wait.min(it));
                let _guard = span.enter();
                warn!(
                    error = &error as &dyn std::error::Error,
                    label = error.label(),
                    ?wait,
                    "reconcile failed"
                );
                Some(wait)
            }
            // One object that trips over a bug must not stop the others.
            Err(_) => {
                let wait = self.failed(&key, "panic", took);
                let _guard = span.enter();
                error!(?wait, "reconcile panicked; this is a bug");
                Some(wait)
            }
        };
        self.end(&key, again);
    }

    fn let_rest(&self, key: &Key) {
        let rest = self.reconciler.rest(key);
        if !rest.is_zero() {
            self.triggers.queue().hold(key.clone(), later(self.settings.clock.instant(), rest));
        }
    }

    fn failed(&self, key: &Key, label: &'static str, took: Duration) -> Duration {
        self.settings.metrics.reconcile_failed(self.settings.name, label, took);
        let now = self.settings.clock.instant();
        let wait = self.failures.record(key.clone(), now);
        self.triggers.queue().hold(key.clone(), later(now, wait.min(FLOOR)));
        wait
    }

    /// Ends the reconcile of `key` and arranges for the next one.
    fn end(&self, key: &Key, again: Option<Duration>) {
        let now = self.settings.clock.instant();
        let exists = self.reconciler.exists(key);
        let mut queue = self.triggers.queue();
        if let Some(delay) = again {
            queue.add_at(key.clone(), later(now, delay));
        }
        // An object that is gone and reconciled well leaves nothing behind. One that fails is tried on: its reconcile may
        // have to clean up.
        if !exists && again.is_none() {
            self.failures.forget(key);
            queue.forget(key);
        }
        queue.done(key);
        self.settings.metrics.queue_depth(self.settings.name, queue.depth());
    }
}

impl<R> fmt::Debug for Controller<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("name", &self.settings.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
