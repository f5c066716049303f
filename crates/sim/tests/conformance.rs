//! The simulation held to a real kube-apiserver that nobody else writes to, the cluster `bare` of `FLEET_KUBECONFIGS`, and to a real
//! garbage collector, that of the cluster `collector`.
//!
//! `FLEET_CASES` sets the number of sequences and `FLEET_SEED` the first, alone the only one; many more run with the
//! example `conformance`.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use futures::StreamExt;
use kube::{Client, Config, config::Kubeconfig};
use sim::conformance::{Difference, await_collector, hold, hold_collected, install};

const SEQUENCES: u64 = 60;
const REQUESTS: usize = 60;
const AT_ONCE: usize = 12;

/// After each request of a family the collector is waited for, so that they are fewer and shorter.
const FAMILIES: u64 = 24;
const FAMILY_REQUESTS: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn random_requests_are_answered_as_a_real_server_answers_them() {
    let Some(client) = connect("bare").await else {
        println!("skipped: FLEET_KUBECONFIGS names no cluster `bare` (`cargo xtask cluster up NAME --bare`)");
        return;
    };
    install(&client).await.unwrap();
    let run = std::process::id().to_string();
    let trial = async |seed| hold(&client, &run, seed, REQUESTS).await.unwrap();
    let (count, differing) = differing(SEQUENCES, trial).await;
    assert_eq!(differing, 0, "so many of {count} sequences were answered differently");
}

#[tokio::test(flavor = "multi_thread")]
async fn dependents_are_collected_as_a_real_collector_collects_them() {
    let Some(client) = connect("collector").await else {
        println!(
            "skipped: FLEET_KUBECONFIGS names no cluster `collector` (`cluster up NAME --bare --collector`)"
        );
        return;
    };
    install(&client).await.unwrap();
    let run = std::process::id().to_string();
    assert!(await_collector(&client, &run).await.unwrap(), "there is a collector, and it knows widgets");
    let trial = async |seed| hold_collected(&client, &run, seed, FAMILY_REQUESTS).await.unwrap();
    let (count, differing) = differing(FAMILIES, trial).await;
    assert_eq!(differing, 0, "so many of {count} families ended differently");
}

/// Runs as many trials as the environment says, and returns how many those were and how many had differences.
async fn differing(usual: u64, trial: impl AsyncFn(u64) -> Vec<Difference>) -> (u64, usize) {
    let number = |name: &str| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let named = number("FLEET_SEED");
    let first = named.unwrap_or(1);
    let count = number("FLEET_CASES").unwrap_or(if named.is_some() { 1 } else { usual });
    let trial = &trial;
    let trials = futures::stream::iter(first..first + count)
        .map(async |seed| (seed, trial(seed).await))
        .buffer_unordered(AT_ONCE);
    let differing: Vec<_> = trials.filter(|it| std::future::ready(!it.1.is_empty())).collect().await;
    for (seed, differences) in &differing {
        println!("seed {seed}: {:#?}", differences[0]);
    }
    (count, differing.len())
}

/// A client of a cluster that `FLEET_KUBECONFIGS` names.
async fn connect(cluster: &str) -> Option<Client> {
    let named = std::env::var("FLEET_KUBECONFIGS").unwrap_or_default();
    let path = named.split(',').filter_map(|it| it.split_once('=')).find(|it| it.0 == cluster)?.1;
    // Harmless when it was done before; without it the first connection fails.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    config.default_retry = false;
    Some(Client::try_from(config).unwrap())
}
