//! Feeding a cache: list, watch, recover, and look up what the watch does not clear up.

use std::{pin::pin, time::Duration};

use futures::{Stream, StreamExt};
use kube::{
    Api, Client,
    api::GetParams,
    core::{DeserializeGuard, Request},
    runtime::watcher::{self, InitialListStrategy, ListSemantic, watcher},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{Cache, Cached};
use crate::{
    backoff::Doubling,
    runtime::{
        client::{ANSWER_TIMEOUT, call},
        key::Key,
        overlay::Ticket,
    },
};

/// How long after a broken watch the next one is tried.
const RETRY: Doubling = Doubling { first: Duration::from_millis(800), ceiling: Duration::from_secs(30) };

/// An own write that the watch has not shown after this long is looked up. Longer than the API server works on a
/// request, so that a create in doubt which is not found by then is known not to have happened.
pub(super) const LOOK_UP_AFTER: Duration = Duration::from_secs(120);

/// A deletion that the watch never mentions is forgotten after this long.
const FORGET_GONE_AFTER: Duration = Duration::from_secs(3600);

/// How often to see whether something has to be looked up.
const LOOK_UP_EVERY: Duration = Duration::from_secs(30);

/// At most this many look-ups in one go.
const LOOK_UPS: usize = 100;

/// What a watcher tells.
type Watched<T> = Result<watcher::Event<T>, watcher::Error>;

impl<K: Cached> Cache<K> {
    /// Keeps the cache fed from `api` until `token` is cancelled. Run it once per cache.
    ///
    /// Lists are consistent reads whatever `config` says: the overlay relies on a list containing what was written
    /// before it began.
    pub async fn run(&self, client: Client, api: Api<K>, config: watcher::Config, token: CancellationToken) {
        let config = consistent(config);
        self.feed(client, move || watcher(api.clone(), config.clone()), Some, token).await;
    }

    /// Like [`Cache::run`], for kinds whose objects may not be readable: one that is not is logged, and what was known
    /// of it stays, so that it does not stop the others.
    pub async fn run_guarded(
        &self,
        client: Client,
        api: Api<DeserializeGuard<K>>,
        config: watcher::Config,
        token: CancellationToken,
    ) {
        let config = consistent(config);
        let readable = |event| self.readable(event);
        self.feed(client, move || watcher(api.clone(), config.clone()), readable, token).await;
    }

    async fn feed<T, S: Stream<Item = Watched<T>>>(
        &self,
        client: Client,
        watch: impl Fn() -> S,
        read: impl Fn(watcher::Event<T>) -> Option<watcher::Event<K>>,
        token: CancellationToken,
    ) {
        tokio::select! {
            biased;
            () = token.cancelled() => {}
            _ = async { tokio::join!(self.follow(watch, read), self.heal(client)) } => {}
        }
    }

    /// What an event says, as far as its object can be read.
    fn readable(&self, event: watcher::Event<DeserializeGuard<K>>) -> Option<watcher::Event<K>> {
        Some(match event {
            watcher::Event::Apply(it) => watcher::Event::Apply(self.read_or_keep(it)?),
            watcher::Event::Delete(it) => watcher::Event::Delete(self.read_or_keep(it)?),
            watcher::Event::Init => watcher::Event::Init,
            watcher::Event::InitApply(it) => watcher::Event::InitApply(self.read_or_keep(it)?),
            watcher::Event::InitDone => watcher::Event::InitDone,
        })
    }

    /// The object; one that cannot be read is what it was when it could.
    fn read_or_keep(&self, object: DeserializeGuard<K>) -> Option<K> {
        let key = Key::of(&object);
        object.0.map_or_else(
            |invalid| {
                warn!(error = %invalid, cache = self.0.name, %key, "an object cannot be read");
                self.get(&key).map(|it| K::clone(&it))
            },
            Some,
        )
    }

    /// Follows one watcher after another, for ever.
    async fn follow<T, S: Stream<Item = Watched<T>>>(
        &self,
        watch: impl Fn() -> S,
        read: impl Fn(watcher::Event<T>) -> Option<watcher::Event<K>>,
    ) {
        let mut failures = 0_u32;
        loop {
            let mut events = pin!(watch());
            let mut is_listing = false;
            loop {
                // A watch may be silent for as long as it likes: kube's watcher notices when it is dead. A list that
                // stands still would go unnoticed.
                let next = events.next();
                let next = match is_listing {
                    true => tokio::time::timeout(ANSWER_TIMEOUT * 2, next).await,
                    false => Ok(next.await),
                };
                match next {
                    Ok(Some(Ok(event))) => {
                        match event {
                            watcher::Event::Init => is_listing = true,
                            // An answer that begins and breaks off again is no success: only a complete list is.
                            watcher::Event::InitDone => (is_listing, failures) = (false, 0),
                            watcher::Event::Apply(_) | watcher::Event::Delete(_) => failures = 0,
                            watcher::Event::InitApply(_) => {}
                        }
                        if let Some(event) = read(event) {
                            self.watched(event);
                        }
                    }
                    Ok(Some(Err(error))) => {
                        failures = failures.saturating_add(1);
                        self.note(&error);
                        tokio::time::sleep(RETRY.delay(failures)).await;
                        if is_expired(&error) {
                            break;
                        }
                    }
                    Ok(None) => break,
                    Err(_) => {
                        self.0.metrics.watch_failed(self.0.name);
                        warn!(cache = self.0.name, "a list did not go on; beginning anew");
                        break;
                    }
                }
            }
        }
    }

    fn note(&self, error: &watcher::Error) {
        self.0.metrics.watch_failed(self.0.name);
        warn!(error = error as &dyn std::error::Error, cache = self.0.name, "watch broke; trying again");
    }

    /// Looks up own writes that the watch does not show, for ever.
    async fn heal(&self, client: Client) {
        loop {
            tokio::time::sleep(LOOK_UP_EVERY).await;
            self.write().expire(FORGET_GONE_AFTER, self.0.clock.instant());
            let overdue = self.read().overdue(LOOK_UP_AFTER, self.0.clock.instant());
            for ticket in overdue.iter().take(LOOK_UPS) {
                self.look_up(&client, ticket).await;
            }
        }
    }

    async fn look_up(&self, client: &Client, ticket: &Ticket) {
        let namespace = Some(&*ticket.key.namespace).filter(|it| !it.is_empty());
        let request = Request::new(K::url_path(&(), namespace)).get(&ticket.key.name, &GetParams::default());
        let found = match request {
            Ok(request) => call("look up own write", client.request::<K>(request)).await,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                return debug!(error, key = %ticket.key, "an own write cannot be looked up");
            }
        };
        let found = match found {
            Ok(mut object) => {
                super::trim(&mut object);
                Some(object.into())
            }
            Err(error) if error.code() == Some(404) => None,
            Err(error) => {
                return debug!(label = error.label(), key = %ticket.key, "look-up failed; trying later");
            }
        };
        let mut store = self.write();
        let change = store.looked_up(ticket, found, self.0.clock.instant());
        self.count(&store);
        drop(store);
        self.tell(change.as_slice());
    }
}

fn consistent(config: watcher::Config) -> watcher::Config {
    let mut config = config.list_semantic(ListSemantic::MostRecent);
    config.initial_list_strategy = InitialListStrategy::ListWatch;
    config
}

/// Whether the server has forgotten the version we want to go on from. kube's watcher would ask for it for ever when
/// that is the answer to opening the watch (it handles the error event only).
fn is_expired(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 410,
        _ => false,
    }
}
