//! The controller of CloneSets inside the test's own process, so that it can be stopped dead between two writes. It
//! works as in `kruise-agent manager`, with its own caches in every life, and without admission.

use std::sync::Arc;

use anyhow::Result;
use kruise_core::{
    backoff::Doubling,
    controllers::cloneset::{self, Caches, Context, Writers, plan},
    runtime::{
        cache::{Cache, Cached},
        client::{self, Options},
        clock::{Clock, Seed},
        controller::Settings,
        events::Sink,
        executor::Executor,
        gates::Gates,
        metrics::Metrics,
        throttle::Throttle,
    },
};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use crate::rough::Road;

/// How many writes are under way at once.
const AT_ONCE: usize = 8;

/// Lives until the road says that it is dead. Everything it had under way is dropped where it stands.
pub async fn live(road: Road, seed: u64) -> Result<()> {
    let dead = road.dead.clone();
    tokio::select! {
        () = dead.cancelled() => Ok(()),
        result = work(road, seed) => result,
    }
}

async fn work(road: Road, seed: u64) -> Result<()> {
    let (clock, metrics, throttle) = (Clock::system(), Metrics::default(), Throttle::default());
    let options = Options {
        user_agent: "rough-life".to_owned(),
        metrics: metrics.clone(),
        throttle: throttle.clone(),
        clock: clock.clone(),
    };
    let client = client::over(road, &options);
    let caches = caches(&clock, &metrics);
    // What is told to people is not what is under test: it is recorded, and nobody writes it.
    let sink = Sink::new(client.clone(), clock.clone(), metrics.clone());
    let context = Context {
        writers: Writers::new(&client, &caches),
        caches: caches.clone(),
        executor: Executor { limit: AT_ONCE.try_into()?, throttle, clock: clock.clone() },
        recorder: sink.recorder(cloneset::NAME),
        clock: clock.clone(),
        seed: Seed::from_number(seed),
        options: plan::Options::of(&Gates::defaults(), false, false),
        opened: Arc::default(),
    };
    let settings = Settings {
        name: cloneset::NAME,
        workers: cloneset::WORKERS,
        backoff: Doubling::default(),
        clock,
        metrics,
    };
    let controller = cloneset::controller(context, settings);
    let token = CancellationToken::new();
    let Caches { clonesets, pods, claims, revisions, nodes, jobs } = &caches;
    tokio::join!(
        feed(clonesets, &client, &token),
        feed(pods, &client, &token),
        feed(claims, &client, &token),
        feed(revisions, &client, &token),
        feed(nodes, &client, &token),
        feed(jobs, &client, &token),
        controller.run(token.clone()),
    );
    drop(sink);
    Ok(())
}

fn caches(clock: &Clock, metrics: &Metrics) -> Caches {
    fn cache<K: Cached>(name: &'static str, clock: &Clock, metrics: &Metrics) -> Cache<K> {
        Cache::new(name, clock.clone(), metrics.clone())
    }
    Caches {
        clonesets: cache("clonesets", clock, metrics),
        pods: cache("pods", clock, metrics),
        claims: cache("claims", clock, metrics),
        revisions: cache("revisions", clock, metrics),
        nodes: cache("nodes", clock, metrics),
        jobs: cache("imagepulljobs", clock, metrics),
    }
}

async fn feed<K: Cached>(cache: &Cache<K>, client: &Client, token: &CancellationToken) {
    cache.run(client.clone(), Api::all(client.clone()), client::watch(), token.clone()).await;
}
