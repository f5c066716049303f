//! What controllers and admission share.

use std::{fmt, num::NonZeroUsize};

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::NamespaceResourceScope;
use kruise_core::{
    api::{cloneset::v1beta1::CloneSet, image_pull_job::v1beta1::ImagePullJob},
    backoff::Doubling,
    runtime::{
        cache::{Cache, Cached, claim::ClaimLite, node::NodeLite, pod::PodLite, revision::RevisionLite},
        client,
        clock::Clock,
        controller,
        events::Recorder,
        executor::Executor,
        gates::Gates,
        metrics::Metrics,
    },
};
use kube::{Api, Client, Resource, core::DeserializeGuard};
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
    /// Carries out many writes at once.
    pub executor: Executor,
    /// Whether the API server has `pods/resize`.
    pub server_resizes: bool,
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
    /// Volume claims.
    pub claims: Cache<ClaimLite>,
    /// History of templates.
    pub revisions: Cache<RevisionLite>,
    /// Nodes.
    pub nodes: Cache<NodeLite>,
    /// CloneSets.
    pub clonesets: Cache<DeserializeGuard<CloneSet>>,
    /// Image pull jobs.
    pub image_pull_jobs: Cache<DeserializeGuard<ImagePullJob>>,
}

impl Caches {
    pub(super) fn new(clock: &Clock, metrics: &Metrics) -> Self {
        fn cache<K: Cached>(name: &'static str, clock: &Clock, metrics: &Metrics) -> Cache<K> {
            Cache::new(name, clock.clone(), metrics.clone())
        }
        Self {
            pods: cache("pods", clock, metrics),
            claims: cache("claims", clock, metrics),
            revisions: cache("revisions", clock, metrics),
            nodes: cache("nodes", clock, metrics),
            clonesets: cache("clonesets", clock, metrics),
            image_pull_jobs: cache("imagepulljobs", clock, metrics),
        }
    }

    /// What keeps the caches fed from `namespace`, or from everywhere, until `token` is cancelled.
    pub(super) fn feeds(
        &self,
        client: &Client,
        namespace: Option<&str>,
        token: &CancellationToken,
    ) -> Vec<BoxFuture<'static, ()>> {
        // Without `..`, so that no cache is forgotten: one that is not fed holds up its controllers for ever.
        let Self { pods, claims, revisions, nodes, clonesets, image_pull_jobs } = self;
        vec![
            feed(pods, client, namespace, token),
            feed(claims, client, namespace, token),
            feed(revisions, client, namespace, token),
            feed(clonesets, client, namespace, token),
            feed(image_pull_jobs, client, namespace, token),
            run(nodes, client, Api::all(client.clone()), token),
        ]
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
    run(cache, client, api, token)
}

fn run<K: Cached>(
    cache: &Cache<K>,
    client: &Client,
    api: Api<K>,
    token: &CancellationToken,
) -> BoxFuture<'static, ()> {
    let (cache, client, token) = (cache.clone(), client.clone(), token.clone());
    async move { cache.run(client, api, client::watch(), token).await }.boxed()
}
