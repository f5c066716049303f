//! The processes: a hub that is alone, and agents with their controllers and their links.

use std::{sync::Arc, time::Duration};

use hub::{
    control::{self, Parts},
    measures::Measures,
    members::account::Credentials,
};
use kruise_core::{
    backoff::Doubling,
    controllers::{cloneset, image_pull_job},
    runtime::{
        cache::{Cache, Cached},
        client::{self, Options},
        clock::{Clock, Seed},
        controller::Settings,
        events,
        executor::Executor,
        metrics::Metrics,
        throttle::Throttle,
    },
};
use kube::{Api, Client};
use member_agent::link::{self, hub::Hub, member::Member, store::Store};
use sim::world::ProcessContext;
use tokio_util::sync::CancellationToken;

use super::{Duties, HUB, OWN, agent_of, jobs};

/// One life of the hub, without an election: it is alone.
pub(super) async fn hub(process: ProcessContext, measures: Measures) {
    let clock = Clock::following(process.world().now());
    let options = Options {
        user_agent: "hub".into(),
        metrics: measures.metrics.clone(),
        throttle: Throttle::default(),
        clock: clock.clone(),
    };
    let client = client::over(process.service(HUB), &options);
    // Events are told by a client of their own: they are no writes of the hub that a crash could fall between.
    let sink =
        events::Sink::new(process.world().client("hub-events", HUB), clock.clone(), measures.metrics.clone());
    let parts = Parts {
        client,
        namespace: "fleet-system".into(),
        events: sink.recorder("kruise-hub"),
        measures,
        clock,
        rules: Vec::new(),
        credentials: Credentials::default(),
    };
    let stop = CancellationToken::new();
    let told = stop.clone();
    let leading = async {
        // A leader that cannot begin ends, and is started again.
        let _ = control::run(parts, stop.clone()).await;
        stop.cancel();
    };
    tokio::join!(leading, sink.run(told));
}

/// One life of an agent: the CloneSet controller and the link. Names of pods are drawn from `first` and its life's number.
pub(super) async fn agent(process: ProcessContext, name: String, first: u64, duties: Duties) {
    let clock = Clock::following(process.world().now());
    let (metrics, stop) = (Metrics::default(), CancellationToken::new());
    let options = Options {
        user_agent: "agent".into(),
        metrics: metrics.clone(),
        throttle: Throttle::default(),
        clock: clock.clone(),
    };
    let hub = client::over(process.world().service(&agent_of(&name), HUB), &options);
    // With its deadlines: an answer that never comes must not hold a watch up for ever.
    let client = client::over(process.service(&name), &options);
    let caches = cloneset::Caches {
        clonesets: cache("clonesets", &clock),
        pods: cache("pods", &clock),
        claims: cache("claims", &clock),
        revisions: cache("revisions", &clock),
        nodes: cache("nodes", &clock),
        jobs: cache("jobs", &clock),
    };
    let sink = events::Sink::new(client.clone(), clock.clone(), metrics.clone());
    let settings = |name| Settings {
        name,
        workers: cloneset::WORKERS,
        backoff: Doubling::default(),
        clock: clock.clone(),
        metrics: metrics.clone(),
    };
    let context = cloneset::Context {
        writers: cloneset::Writers::new(&client, &caches),
        caches: caches.clone(),
        executor: Executor {
            limit: 10.try_into().unwrap(),
            throttle: Throttle::default(),
            clock: clock.clone(),
        },
        recorder: sink.recorder(cloneset::NAME),
        clock: clock.clone(),
        seed: Seed::from_number(first + process.incarnation),
        options: cloneset::plan::Options::of(&duties.gates(), false, true),
        opened: Arc::default(),
    };
    let parts = link::Parts {
        settings: link::Settings {
            hub_uid: "the-hub".into(),
            cluster: name.clone(),
            identity: format!("agent-{}", process.incarnation),
            // Each is the only agent of its cluster: nobody led before it.
            lease: Duration::ZERO,
            longest_write: Duration::ZERO,
        },
        hub: Hub::new(hub, &format!("fleet-{name}"), &clock, &metrics),
        member: Member {
            client: client.clone(),
            clonesets: caches.clonesets.clone(),
            pods: caches.pods.clone(),
            nodes: Some(caches.nodes.clone()),
            revisions: caches.revisions.clone(),
            jobs: caches.jobs.clone(),
        },
        store: Store::new(client.clone(), OWN),
        events: sink.recorder(link::NAME),
        gates: duties.gates(),
        chance: Seed::from_number(process.incarnation),
        controller: settings(link::NAME),
    };
    let job_caches = jobs::caches(&caches.jobs, &caches.pods, &clock);
    let images = async {
        if duties == Duties::Images {
            jobs::controller(&client, job_caches, settings(image_pull_job::NAME), &stop).await;
        }
    };
    tokio::join!(
        images,
        feed(&caches.clonesets, &client, &stop),
        feed(&caches.pods, &client, &stop),
        feed(&caches.claims, &client, &stop),
        feed(&caches.revisions, &client, &stop),
        feed(&caches.nodes, &client, &stop),
        feed(&caches.jobs, &client, &stop),
        sink.run(stop.clone()),
        cloneset::controller(context, settings(cloneset::NAME)).run(stop.clone()),
        link::run(parts, stop.clone()),
    );
}

pub(super) fn cache<K: Cached>(name: &'static str, clock: &Clock) -> Cache<K> {
    Cache::new(name, clock.clone(), Metrics::default())
}

pub(super) async fn feed<K: Cached>(cache: &Cache<K>, client: &Client, stop: &CancellationToken) {
    cache.run(client.clone(), Api::all(client.clone()), client::watch(), stop.clone()).await;
}
