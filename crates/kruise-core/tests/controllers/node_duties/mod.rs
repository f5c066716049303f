//! Controllers of node duties: what they write stays right on a bad network.

mod daemons;
mod lists;
mod node_images;
mod recreate;
mod terminator;

use kruise_core::{
    backoff::Doubling,
    runtime::{
        cache::{Cache, Cached},
        client,
        clock::Clock,
        controller::Settings,
        metrics::Metrics,
    },
};
use kube::{Api, Client};
use serde_json::json;
use sim::{faults::Weather, fleet, world::FleetBuilder};
use tokio_util::sync::CancellationToken;

/// A world with one node in which the kinds of node duties are known.
fn cluster(seed: u64, weather: Weather) -> FleetBuilder {
    knowing(&["imagepulljobs", "imagelistpulljobs", "containerrecreaterequests"], seed, weather)
}

fn knowing(kinds: &[&str], seed: u64, weather: Weather) -> FleetBuilder {
    let known: Vec<String> = kinds.iter().map(|it| format!("{it}.apps.kruise.io")).collect();
    let crds = kruise_core::api::crds::crds().into_iter();
    let crds =
        crds.filter(|it| it.metadata.name.as_deref().is_some_and(|it| known.iter().any(|known| known == it)));
    let fleet = fleet().nodes(1).weather(weather).seed(seed);
    crds.fold(fleet, |fleet, it| fleet.define(json!(it)))
}

fn settings(name: &'static str, clock: &Clock) -> Settings {
    let workers = 3.try_into().unwrap();
    Settings {
        name,
        workers,
        backoff: Doubling::default(),
        clock: clock.clone(),
        metrics: Metrics::default(),
    }
}

fn cache<K: Cached>(name: &'static str, clock: &Clock) -> Cache<K> {
    Cache::new(name, clock.clone(), Metrics::default())
}

async fn feed<K: Cached>(cache: &Cache<K>, client: &Client) {
    cache.run(client.clone(), Api::all(client.clone()), client::watch(), CancellationToken::new()).await;
}
