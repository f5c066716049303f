//! What controllers and admission share.

use std::{fmt, num::NonZeroUsize};

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::NamespaceResourceScope;
use kruise_core::{
    backoff::Doubling,
    runtime::{
        cache::{Cache, Cached, pod::PodLite},
        client,
        clock::Clock,
        controller,
        events::Recorder,
        gates::Gates,
        metrics::Metrics,
    },
};
use kube::{Api, Client, Resource};
use tokio_util::sync::CancellationToken;

use super::settings;

/// What controllers and admission are made from.
#[derive(Clone)]
pub struct Context {
    /// The cluster.
    pub client: Client,
    /// What is known about it.
    pub caches: Caches,
    /// Tells people.
    pub events: Recorder,
    /// Which optional behaviour is on.
    pub gates: Gates,
    /// How CloneSets are handled.
    pub cloneset: settings::CloneSet,
    /// Time.
    pub clock: Clock,
    /// Where things are counted.
    pub metrics: Metrics,
}

impl Context {
    /// How the controller `name` runs, with at most `workers` objects at once.
    pub fn controller(&self, name: &'static str, workers: NonZeroUsize) -> controller::Settings {
        controller::Settings {
            name,
            workers,
            backoff: Doubling::default(),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("gates", &self.gates)
            .field("caches", &self.caches)
            .finish_non_exhaustive()
    }
}

/// One cache per kind, shared by everybody who reads the kind. They are fed on every replica, so that a new leader
/// starts at once and admission can read them.
#[derive(Debug, Clone)]
pub struct Caches {
    /// Pods.
    pub pods: Cache<PodLite>,
}

impl Caches {
    pub(super) fn new(clock: &Clock, metrics: &Metrics) -> Self {
        Self { pods: Cache::new("pods", clock.clone(), metrics.clone()) }
    }

    /// What keeps the caches fed from `namespace`, or from everywhere, until `token` is cancelled.
    pub(super) fn feeds(
        &self,
        client: &Client,
        namespace: Option<&str>,
        token: &CancellationToken,
    ) -> Vec<BoxFuture<'static, ()>> {
        // Without `..`, so that no cache is forgotten: one that is not fed holds up its controllers for ever.
        let Self { pods } = self;
        vec![feed(pods, client, namespace, token)]
    }
}

fn feed<K: Cached + Resource<Scope = NamespaceResourceScope>>(
    cache: &Cache<K>,
    client: &Client,
    namespace: Option<&str>,
    token: &CancellationToken,
) -> BoxFuture<'static, ()> {
    let api = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let (cache, client, token) = (cache.clone(), client.clone(), token.clone());
    async move { cache.run(client, api, client::watch(), token).await }.boxed()
}
