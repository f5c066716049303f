//! The simulation held to a real kube-apiserver that nobody else writes to: the cluster `bare` of `FLEET_KUBECONFIGS`.
//!
//! `FLEET_CASES` sets the number of sequences and `FLEET_SEED` the first, alone the only one; many more run with the
//! example `conformance`.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use futures::StreamExt;
use kube::{Client, Config, config::Kubeconfig};
use sim::conformance::{hold, install};

const SEQUENCES: u64 = 60;
const REQUESTS: usize = 60;
const AT_ONCE: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn random_requests_are_answered_as_a_real_server_answers_them() {
    let Some(path) = bare() else {
        println!("skipped: FLEET_KUBECONFIGS names no cluster `bare` (`cargo xtask cluster up NAME --bare`)");
        return;
    };
    let client = connect(&path).await;
    install(&client).await.unwrap();
    let number = |name: &str| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let named = number("FLEET_SEED");
    let first = named.unwrap_or(1);
    let count = number("FLEET_CASES").unwrap_or(if named.is_some() { 1 } else { SEQUENCES });
    let run = std::process::id().to_string();

    let trials = futures::stream::iter(first..first + count)
        .map(|seed| {
            let (client, run) = (client.clone(), run.clone());
            async move { (seed, hold(&client, &run, seed, REQUESTS).await.unwrap()) }
        })
        .buffer_unordered(AT_ONCE);
    let differing: Vec<_> = trials.filter(|it| std::future::ready(!it.1.is_empty())).collect().await;
    for (seed, differences) in &differing {
        println!("seed {seed}: {:#?}", differences[0]);
    }
    assert!(differing.is_empty(), "{} of {count} sequences were answered differently", differing.len());
}

fn bare() -> Option<String> {
    let named = std::env::var("FLEET_KUBECONFIGS").unwrap_or_default();
    let found = named.split(',').filter_map(|it| it.split_once('=')).find(|it| it.0 == "bare");
    found.map(|it| it.1.to_owned())
}

async fn connect(path: &str) -> Client {
    // Harmless when it was done before; without it the first connection fails.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}
