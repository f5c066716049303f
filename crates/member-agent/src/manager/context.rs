//! What controllers and admission share.

use std::{fmt, num::NonZeroUsize};

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::{NamespaceResourceScope, api::core::v1::Secret};
use kruise_core::{
    api::{
        cloneset::v1beta1::CloneSet, container_recreate_request::v1beta1::ContainerRecreateRequest,
        image_list_pull_job::v1beta1::ImageListPullJob, image_pull_job::v1beta1::ImagePullJob,
        node_image::v1beta1::NodeImage,
    },
    backoff::Doubling,
    runtime::{
        cache::{Cache, Cached, claim::ClaimLite, node::NodeLite, pod::PodLite, revision::RevisionLite},
        client,
        clock::Clock,
        controller,
        events::Recorder,
        executor::Executor,
        gates::{Gate, Gates},
        metrics::Metrics,
    },
};
use kube::{
    Api, Client, Resource,
    core::{DeserializeGuard, PartialObjectMeta},
};
use tokio_util::sync::CancellationToken;

use super::settings;

/// What controllers and admission are made from.
#[derive(Clone)]
pub struct Context {
    /// The cluster.
    pub client: Client,
    /// What is known about it.
    pub caches: Caches,
    /// The only namespace that is watched; all if there is none.
    pub namespace: Option<String>,
    /// Tells people.
    pub events: Recorder,
    /// Which optional behaviour is on.
    pub gates: Gates,
    /// How CloneSets are handled.
    pub cloneset: settings::CloneSet,
    /// How the cluster's side of node duties is done.
    pub nodes: settings::NodeDuties,
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
    /// The only namespace whose secrets are watched. Jobs name secrets anywhere; without jobs there are only copies.
    pub(super) fn secrets_in(&self) -> Option<&str> {
        let only = &self.nodes.jobs.secrets_namespace;
        (!self.gates.is_on(Gate::ImagePullJob)).then_some(only.as_str())
    }

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
    pub image_pull_jobs: Cache<ImagePullJob>,
    /// Lists of them.
    pub image_list_pull_jobs: Cache<ImageListPullJob>,
    /// What nodes should have, and have.
    pub node_images: Cache<NodeImage>,
    /// Requests to restart containers.
    pub recreate_requests: Cache<ContainerRecreateRequest>,
    /// Names and annotations of secrets; what they hold is not asked for.
    pub secrets: Cache<PartialObjectMeta<Secret>>,
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
            image_list_pull_jobs: cache("imagelistpulljobs", clock, metrics),
            node_images: cache("nodeimages", clock, metrics),
            recreate_requests: cache("containerrecreaterequests", clock, metrics),
            secrets: cache("secrets", clock, metrics),
        }
    }

    /// What keeps the caches fed until `token` is cancelled. What nobody reads with these gates is left alone.
    pub(super) fn feeds(&self, context: &Context, token: &CancellationToken) -> Vec<BoxFuture<'static, ()>> {
        let (client, gates) = (&context.client, context.gates);
        // Without `..`, so that no cache is forgotten: one that is not fed holds up its controllers for ever.
        let Self {
            pods,
            claims,
            revisions,
            nodes,
            clonesets,
            image_pull_jobs,
            image_list_pull_jobs,
            node_images,
            recreate_requests,
            secrets,
        } = self;
        let source = Source { client, namespace: context.namespace.as_deref(), token };
        let mut feeds = vec![
            source.feed(pods),
            source.feed(claims),
            source.feed(revisions),
            source.feed(clonesets),
            source.guarded(image_pull_jobs, source.api()),
            source.run(nodes, Api::all(client.clone())),
        ];
        if gates.is_on(Gate::KruiseDaemon) {
            feeds.push(source.guarded(node_images, Api::all(client.clone())));
            feeds.push(source.guarded(recreate_requests, source.api()));
            feeds.push(source.names(secrets, context.secrets_in()));
        }
        if gates.is_on(Gate::ImagePullJob) {
            feeds.push(source.guarded(image_list_pull_jobs, source.api()));
        }
        feeds
    }
}

/// Where caches are fed from.
struct Source<'a> {
    client: &'a Client,
    namespace: Option<&'a str>,
    token: &'a CancellationToken,
}

impl Source<'_> {
    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        match self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    fn feed<K: Cached + Resource<Scope = NamespaceResourceScope>>(
        &self,
        cache: &Cache<K>,
    ) -> BoxFuture<'static, ()> {
        self.run(cache, self.api())
    }

    fn run<K: Cached>(&self, cache: &Cache<K>, api: Api<K>) -> BoxFuture<'static, ()> {
        let (cache, client, token) = (cache.clone(), self.client.clone(), self.token.clone());
        async move { cache.run(client, api, client::watch(), token).await }.boxed()
    }

    fn guarded<K: Cached>(&self, cache: &Cache<K>, api: Api<DeserializeGuard<K>>) -> BoxFuture<'static, ()> {
        let (cache, client, token) = (cache.clone(), self.client.clone(), self.token.clone());
        async move { cache.run_guarded(client, api, client::watch(), token).await }.boxed()
    }

    /// Secrets are not bound to the namespace that is watched: copies for daemons are in one of their own.
    fn names(
        &self,
        secrets: &Cache<PartialObjectMeta<Secret>>,
        only: Option<&str>,
    ) -> BoxFuture<'static, ()> {
        // Of this type only metadata is ever asked for.
        let api = match only {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        self.run(secrets, api)
    }
}
