//! What the tests share.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use axum::http::{Method, Request};
use k8s_openapi::api::core::v1::Pod;
use kruise_core::{
    backoff::Doubling,
    runtime::{
        access::Right,
        cache::{Cache, pod::PodLite},
        client::{self, Options},
        clock::Clock,
        controller::Settings,
        metrics::Metrics,
        throttle::Throttle,
    },
};
use kube::{Api, Client, Resource, client::Body};
use serde_json::Value;
use sim::{World, faults::LinkService, world::Process};
use tokio_util::sync::CancellationToken;
use tower::Service;

pub(crate) const CLUSTER: &str = "member-1";
/// The process that the controller under test runs in.
pub(crate) const AGENT: &str = "agent";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// What a controller is built from.
pub(crate) struct Parts {
    pub(crate) client: Client,
    pub(crate) pods: Cache<PodLite>,
    pub(crate) settings: Settings,
    pub(crate) token: CancellationToken,
}

/// Runs one controller with its cache of pods, for ever.
pub(crate) async fn run<F: Future<Output = ()>>(
    client: Client,
    clock: Clock,
    name: &'static str,
    controller: impl FnOnce(Parts) -> F,
) {
    let (metrics, token) = (Metrics::default(), CancellationToken::new());
    let pods = Cache::new("pods", clock.clone(), metrics.clone());
    let workers = 3.try_into().unwrap();
    let settings = Settings { name, workers, backoff: Doubling::default(), clock, metrics };
    let parts = Parts { client: client.clone(), pods: pods.clone(), settings, token: token.clone() };
    let feed = pods.run(client.clone(), Api::all(client), client::watch(), token);
    tokio::join!(feed, controller(parts));
}

/// Starts `controller` as a process that can be killed.
pub(crate) fn start_agent<F>(
    world: &World,
    controller: impl Fn(Client, Clock) -> F + Send + Sync + 'static,
) -> Process
where
    F: Future<Output = ()> + Send + 'static,
{
    world.process(AGENT, move |it| controller(it.client(CLUSTER), clock(it.world())))
}

/// Kills `agent` at rest: it comes back and has nothing to write.
pub(crate) async fn restart_at_rest(world: &World, agent: &Process) {
    let at_rest = world.cluster(CLUSTER).server().version();
    agent.crash();
    world.pass(secs(600)).await;
    assert_eq!(world.cluster(CLUSTER).server().version(), at_rest, "a restart at rest writes nothing");
}

pub(crate) fn clock(world: &World) -> Clock {
    Clock::following(world.now())
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Reads past the network.
pub(crate) fn read(world: &World, path: &str) -> Option<Value> {
    world.write(CLUSTER, Method::GET, path, &Value::Null).ok()
}

/// Writes past the network.
pub(crate) fn write(world: &World, method: Method, path: &str, body: &Value) -> Value {
    world.write(CLUSTER, method, path, body).unwrap()
}

/// What was asked of an API server, as roles say it: `patch pods/status`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked(Arc<Mutex<BTreeSet<String>>>);

impl Asked {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().cloned().collect()
    }

    /// A client whose requests are noted here.
    pub(crate) fn client(&self, world: &World) -> Client {
        let options = Options {
            user_agent: "test".to_owned(),
            metrics: Metrics::default(),
            throttle: Throttle::default(),
            clock: clock(world),
        };
        client::over(Noting { inner: world.service("controller", CLUSTER), asked: self.clone() }, &options)
    }
}

/// `rights` in the same words.
pub(crate) fn listed(rights: &[Right]) -> Vec<String> {
    let lines = rights.iter().flat_map(|it| it.verbs.iter().map(|verb| format!("{verb} {}", it.resource)));
    lines.collect::<BTreeSet<_>>().into_iter().collect()
}

struct Noting {
    inner: LinkService,
    asked: Asked,
}

impl Service<Request<Body>> for Noting {
    type Response = <LinkService as Service<Request<Body>>>::Response;
    type Error = <LinkService as Service<Request<Body>>>::Error;
    type Future = <LinkService as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.asked.0.lock().unwrap().insert(in_words(&request));
        self.inner.call(request)
    }
}

fn in_words(request: &Request<Body>) -> String {
    let path = request.uri().path();
    // `/api/v1/namespaces/NS/RESOURCE/NAME/PART`; these controllers stay in the core group.
    let parts: Vec<_> = path.trim_start_matches("/api/v1/").split('/').filter(|it| !it.is_empty()).collect();
    let parts = if parts[0] == "namespaces" && parts.len() > 2 { &parts[2..] } else { &parts[..] };
    let resource = parts.get(2).map_or(parts[0].to_owned(), |it| format!("{}/{it}", parts[0]));
    let is_watch = request.uri().query().is_some_and(|it| it.contains("watch=true"));
    let verb = match (request.method(), parts.len()) {
        (&Method::GET, 1) if is_watch => "watch",
        (&Method::GET, 1) => "list",
        (&Method::GET, _) => "get",
        (&Method::POST, _) => "create",
        (&Method::PATCH, _) => "patch",
        (&Method::PUT, _) => "update",
        (&Method::DELETE, _) => "delete",
        (other, _) => panic!("no role has a word for {other}"),
    };
    assert!(path.contains(&*Pod::api_version(&())), "{path}");
    format!("{verb} {resource}")
}
