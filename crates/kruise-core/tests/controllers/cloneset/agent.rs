//! The controller under test, as the agent runs it: with its caches, with the controller that opens readiness gates, and
//! in pairs under one lease.

use std::sync::{Arc, Mutex};

use axum::{
    body::Body as AxumBody,
    http::{Method, Request, Response, StatusCode},
};
use http_body_util::BodyExt;
use kruise_core::{
    backoff::Doubling,
    controllers::{
        cloneset::{self, Caches, Context, Writers, plan},
        pod_readiness,
    },
    runtime::{
        cache::{Cache, Cached},
        client::{self, Options},
        clock::{Clock, Seed},
        controller::Settings,
        events::Sink,
        executor::Executor,
        gates::Gates,
        leader::{Election, LEASE_NAME, Timings},
        metrics::Metrics,
        throttle::Throttle,
    },
};
use kube::{Api, Client, client::Body};
use serde_json::{Value, json};
use sim::{
    World,
    faults::{Link, LinkService},
    world::{Process, ProcessContext},
};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, ServiceExt, service_fn};

use crate::kit::{AGENT, CLUSTER, clock};

/// What is wrong with the controller under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    /// The answers to its own writes go into caches that nobody reads, as if there were no overlay.
    ForgetsWrites,
    /// It takes every failed write for one that was refused.
    BelievesFailures,
    /// It deletes pods whatever has become of them since it looked.
    BelievesWatches,
}

/// The processes that run it.
#[derive(Debug)]
pub(super) struct Agents(Vec<(String, Process)>);

impl Agents {
    /// Starts `count` of them; more than one share a lease.
    pub(super) fn start(world: &World, flaw: Flaw, count: u64) -> (Self, Eyes) {
        let eyes = Eyes::default();
        let start = |number: u64| {
            let name = format!("{AGENT}-{number}");
            let (eyes, own) = (eyes.clone(), name.clone());
            let life = move |context: ProcessContext| {
                let life = Life::new(&context, &own, flaw, eyes.clone());
                async move {
                    match count {
                        1 => life.work().await,
                        _ => life.work_if_elected().await,
                    }
                }
            };
            (name.clone(), world.process(&name, life))
        };
        (Self((1..=count).map(start).collect()), eyes)
    }

    /// Whether a writer of this name is one of them.
    pub(super) fn are(writer: &str) -> bool {
        writer.strip_prefix(AGENT).is_some_and(|it| it.starts_with('-'))
    }

    /// Kills each right after its `k`-th write from now.
    pub(super) fn crash_after_writes(&self, k: u64) {
        self.0.iter().for_each(|it| it.1.crash_after_writes(k));
    }

    pub(super) fn crash(&self) {
        self.0.iter().for_each(|it| it.1.crash());
    }

    pub(super) fn writes(&self) -> u64 {
        self.0.iter().map(|it| it.1.writes()).sum()
    }

    pub(super) fn starts(&self) -> u64 {
        self.0.iter().map(|it| it.1.starts()).sum()
    }

    /// Their ways to the API server.
    pub(super) fn links(&self, world: &World) -> Vec<Arc<Link>> {
        self.0.iter().map(|it| world.link(&it.0, CLUSTER)).collect()
    }
}

/// What the one that acts can know: its caches.
#[derive(Debug, Clone, Default)]
pub(super) struct Eyes(Arc<Mutex<Seat>>);

#[derive(Debug, Default)]
struct Seat {
    taken: Option<(String, Caches)>,
    last: String,
    handovers: u64,
}

impl Eyes {
    /// Asks the caches; nothing while nobody acts.
    pub(super) fn look<T>(&self, ask: impl FnOnce(&Caches) -> Option<T>) -> Option<T> {
        self.0.lock().unwrap().taken.as_ref().and_then(|it| ask(&it.1))
    }

    /// How often another one took over.
    pub(super) fn handovers(&self) -> u64 {
        self.0.lock().unwrap().handovers
    }

    fn open(&self, name: &str, caches: Caches) -> Closing {
        let mut seat = self.0.lock().unwrap();
        seat.handovers += u64::from(!seat.last.is_empty() && seat.last != name);
        name.clone_into(&mut seat.last);
        seat.taken = Some((name.to_owned(), caches));
        Closing(self.clone(), name.to_owned())
    }
}

/// Closes the eyes when a life ends, however it ends.
struct Closing(Eyes, String);

impl Drop for Closing {
    fn drop(&mut self) {
        let mut seat = self.0.0.lock().unwrap();
        seat.taken.take_if(|it| it.0 == self.1);
    }
}

/// One life of the process.
struct Life {
    name: String,
    identity: String,
    client: Client,
    clock: Clock,
    metrics: Metrics,
    throttle: Throttle,
    seed: Seed,
    flaw: Flaw,
    eyes: Eyes,
}

impl Life {
    fn new(context: &ProcessContext, name: &str, flaw: Flaw, eyes: Eyes) -> Self {
        let world = context.world();
        let (clock, metrics, throttle) = (clock(world), Metrics::default(), Throttle::default());
        let options = Options {
            user_agent: name.to_owned(),
            metrics: metrics.clone(),
            throttle: throttle.clone(),
            clock: clock.clone(),
        };
        let service = context.service(CLUSTER);
        let client = match flaw {
            Flaw::BelievesFailures => client::over(service_fn(move |it| deny(service.clone(), it)), &options),
            Flaw::BelievesWatches => {
                client::over(service_fn(move |it| forget_version(service.clone(), it)), &options)
            }
            Flaw::None | Flaw::ForgetsWrites => client::over(service, &options),
        };
        // Names must differ from life to life, and be the same in a replay.
        let draw = sim::seed::Seed::new(world.seed()).of(name).at(context.incarnation);
        let identity = format!("{name}-{}", context.incarnation);
        let (name, seed) = (name.to_owned(), Seed::from_number(draw.bits()));
        Self { name, identity, client, clock, metrics, throttle, seed, flaw, eyes }
    }

    async fn work_if_elected(self) {
        let (client, clock, metrics) = (self.client.clone(), self.clock.clone(), self.metrics.clone());
        let lease = ("default", LEASE_NAME);
        let election =
            Election::new(client, lease, &self.identity, Timings::default(), clock, metrics).unwrap();
        election.lead(&CancellationToken::new(), |_| self.work()).await;
    }

    async fn work(self) {
        let token = CancellationToken::new();
        let caches = self.caches();
        let written = match self.flaw {
            Flaw::ForgetsWrites => self.caches(),
            Flaw::None | Flaw::BelievesFailures | Flaw::BelievesWatches => caches.clone(),
        };
        let _closing = self.eyes.open(&self.name, caches.clone());
        let Self { client, clock, metrics, throttle, seed, .. } = self;
        // Events are not what is under test: they are recorded, and nobody writes them.
        let sink = Sink::new(client.clone(), clock.clone(), metrics.clone());
        let context = Context {
            writers: Writers::new(&client, &written),
            caches: caches.clone(),
            executor: Executor { limit: 8.try_into().unwrap(), throttle, clock: clock.clone() },
            recorder: sink.recorder(cloneset::NAME),
            clock: clock.clone(),
            seed,
            options: plan::Options::of(&Gates::defaults(), false, false),
            opened: Arc::default(),
        };
        let settings = |name| Settings {
            name,
            workers: cloneset::WORKERS,
            backoff: Doubling::default(),
            clock: clock.clone(),
            metrics: metrics.clone(),
        };
        let clonesets = cloneset::controller(context, settings(cloneset::NAME));
        let gates = pod_readiness::controller(client.clone(), &caches.pods, settings(pod_readiness::NAME));
        let Caches { clonesets: sets, pods, claims, revisions, nodes, jobs } = &caches;
        tokio::join!(
            feed(sets, &client, &token),
            feed(pods, &client, &token),
            feed(claims, &client, &token),
            feed(revisions, &client, &token),
            feed(nodes, &client, &token),
            feed(jobs, &client, &token),
            clonesets.run(token.clone()),
            gates.run(token.clone()),
        );
        drop(sink);
    }

    fn caches(&self) -> Caches {
        Caches {
            clonesets: self.cache("clonesets"),
            pods: self.cache("pods"),
            claims: self.cache("claims"),
            revisions: self.cache("revisions"),
            nodes: self.cache("nodes"),
            jobs: self.cache("imagepulljobs"),
        }
    }

    fn cache<K: Cached>(&self, name: &'static str) -> Cache<K> {
        Cache::new(name, self.clock.clone(), self.metrics.clone())
    }
}

async fn feed<K: Cached>(cache: &Cache<K>, client: &Client, token: &CancellationToken) {
    cache.run(client.clone(), Api::all(client.clone()), client::watch(), token.clone()).await;
}

/// A way to the API server that calls every write refused that failed, also where it took effect.
async fn deny(server: LinkService, request: Request<Body>) -> Result<Response<AxumBody>, BoxError> {
    let is_read = request.method() == Method::GET;
    match server.oneshot(request).await {
        Ok(it) if is_read || !it.status().is_server_error() => Ok(it.map(AxumBody::new)),
        Err(error) if is_read => Err(error),
        _ => {
            let body = json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403});
            let body = AxumBody::from(body.to_string());
            Ok(Response::builder().status(StatusCode::FORBIDDEN).body(body)?)
        }
    }
}

/// A way to the API server that forgets which version of an object was to be deleted.
async fn forget_version(server: LinkService, request: Request<Body>) -> Result<Response<AxumBody>, BoxError> {
    let (parts, body) = request.into_parts();
    let mut sent = body.collect().await?.to_bytes().to_vec();
    if parts.method == Method::DELETE
        && let Ok(mut options) = serde_json::from_slice::<Value>(&sent)
        && let Some(conditions) = options["preconditions"].as_object_mut()
    {
        conditions.remove("resourceVersion");
        sent = serde_json::to_vec(&options)?;
    }
    let answer = server.oneshot(Request::from_parts(parts, Body::from(sent))).await?;
    Ok(answer.map(AxumBody::new))
}
