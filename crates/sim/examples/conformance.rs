//! Sends the same random requests to a real API server and to a simulated one, and prints where they differ.
//!
//! `cargo run -p sim --example conformance -- KUBECONFIG FIRST_SEED COUNT [LENGTH]`

use std::process::ExitCode;

use kube::{Client, Config, config::Kubeconfig};
use sim::{
    conformance::{Observation, compare, observe, prepare, sequence},
    fleet,
    seed::Seed,
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kubeconfig, first, count, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: conformance KUBECONFIG FIRST_SEED COUNT [LENGTH]");
        return ExitCode::from(2);
    };
    let number = |text: &String| text.parse::<u64>().unwrap_or(0);
    let (first, count) = (number(first), number(count));
    let length = rest.first().map_or(40, number) as usize;

    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime can be built");
    let real = runtime.block_on(observe_real(kubeconfig, first, count, length));
    let mut differing = 0;
    for (seed, left) in real {
        let right = observe_simulated(seed, length);
        let differences = compare(&left, &right);
        differing += usize::from(!differences.is_empty());
        // What follows a first difference is mostly its consequence.
        let first = differences.first().map(|it| it.step.clone());
        for it in differences.iter().filter(|it| Some(&it.step) == first.as_ref()).take(6) {
            println!(
                "seed {seed} {}\n  at {}\n  real      {}\n  simulated {}",
                it.step, it.at, it.left, it.right
            );
        }
    }
    println!("{count} sequences of {length} requests, {differing} with differences");
    if differing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn observe_real(path: &str, first: u64, count: u64, length: usize) -> Vec<(u64, Vec<Observation>)> {
    let kubeconfig = Kubeconfig::read_from(path).expect("the kubeconfig can be read");
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.expect("it names a cluster");
    config.default_retry = false;
    let client = Client::try_from(config).expect("it has usable credentials");
    let definition = serde_json::to_vec(&prepare()).expect("it is JSON");
    let request = http::Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        .header("content-type", "application/json")
        .body(kube::client::Body::from(definition))
        .expect("a constant request is valid");
    client.send(request).await.expect("the server answers");
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;

    let run = |seed: u64| {
        let client = client.clone();
        async move {
            let namespace = format!("conf-{}-{seed}", std::process::id());
            let steps = sequence(Seed::new(seed).of("conformance"), length);
            let observed = observe(&client, &namespace, &steps).await.expect("the server answers");
            (seed, observed)
        }
    };
    use futures::StreamExt;
    futures::stream::iter(first..first + count).map(run).buffer_unordered(8).collect().await
}

fn observe_simulated(seed: u64, length: usize) -> Vec<Observation> {
    fleet().nodes(0).seed(seed).define(prepare()).run(async |world| {
        let steps = sequence(Seed::new(seed).of("conformance"), length);
        let client = world.client("conformance", "member-1");
        observe(&client, &format!("conf-{seed}"), &steps).await.expect("the simulation answers")
    })
}
