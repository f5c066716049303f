//! Sends the same random requests to a real API server and to a simulated one, and prints where they differ.
//!
//! `cargo run -p sim --example conformance -- KUBECONFIG FIRST_SEED COUNT [LENGTH] [collector]`
//!
//! With `collector` the sequences are about owners and dependents, and the server must have a garbage collector and nobody else who writes.

use std::{ops::Range, process::ExitCode};

use futures::StreamExt;
use kube::{Client, Config, config::Kubeconfig};
use sim::conformance::{Difference, await_collector, hold, hold_collected, install};

/// How many sequences run side by side: most of their time is waiting for watches to end.
const AT_ONCE: usize = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Server,
    Collector,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kubeconfig, first, count, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: conformance KUBECONFIG FIRST_SEED COUNT [LENGTH] [collector]");
        return ExitCode::from(2);
    };
    let number = |text: &String| text.parse::<u64>().unwrap_or(0);
    let (first, count) = (number(first), number(count));
    let length = rest.first().map_or(40, number) as usize;
    let held = if rest.get(1).is_some_and(|it| it == "collector") { Held::Collector } else { Held::Server };

    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime can be built");
    let differing = runtime.block_on(run(kubeconfig, held, first..first + count, length));
    println!("{count} sequences of {length} requests, {differing} with differences");
    if differing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run(path: &str, held: Held, seeds: Range<u64>, length: usize) -> usize {
    let client = connect(path).await;
    install(&client).await.expect("the server answers");
    let run = std::process::id().to_string();
    if held == Held::Collector {
        let works = await_collector(&client, &run).await.expect("the server answers");
        assert!(works, "the server has no garbage collector");
    }
    let trials = futures::stream::iter(seeds)
        .map(|seed| {
            let (client, run) = (client.clone(), run.clone());
            async move {
                let differences = match held {
                    Held::Server => hold(&client, &run, seed, length).await,
                    Held::Collector => hold_collected(&client, &run, seed, length).await,
                };
                (seed, differences)
            }
        })
        .buffer_unordered(AT_ONCE);
    let mut trials = std::pin::pin!(trials);
    let mut differing = 0;
    while let Some((seed, differences)) = trials.next().await {
        let differences = differences.expect("both servers answer");
        differing += usize::from(!differences.is_empty());
        show(seed, &differences);
    }
    differing
}

/// What follows a first difference is mostly its consequence.
fn show(seed: u64, differences: &[Difference]) {
    let Some(first) = differences.first() else { return };
    for it in differences.iter().filter(|it| it.step == first.step).take(6) {
        println!(
            "seed {seed} {}\n  at {}\n  real      {}\n  simulated {}",
            it.step, it.at, it.left, it.right
        );
    }
}

async fn connect(path: &str) -> Client {
    // Harmless when it was done before; without it the first connection fails.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(path).expect("the kubeconfig can be read");
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.expect("it names a cluster");
    config.default_retry = false;
    Client::try_from(config).expect("it has usable credentials")
}
