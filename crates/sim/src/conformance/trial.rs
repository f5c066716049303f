//! One sequence, on a real server and in a simulation.

use std::time::Duration;

use http::Request;
use kube::{Client, client::Body};

use super::{Difference, Observation, compare, observe, prepare, sequence};
use crate::{
    fleet,
    seed::Seed,
    server::{Controllers, Settings},
};

/// How often, and how far apart, a real server is asked for the custom kind before it counts as broken.
const TRIES: u32 = 600;
const BETWEEN: Duration = Duration::from_millis(100);

const WIDGETS: &str = "/apis/conformance.example.com/v1/widgets";

/// Installs the custom kind on a real server and waits until it is served.
pub async fn install(client: &Client) -> Result<(), kube::Error> {
    let definition = prepare().to_string().into_bytes();
    let request = Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Body::from(definition))
        .map_err(kube::Error::HttpError)?;
    // A definition that is already there is as good.
    client.send(request).await?;
    for _ in 0..TRIES {
        let request = Request::get(WIDGETS).body(Body::empty()).map_err(kube::Error::HttpError)?;
        if client.send(request).await?.status().is_success() {
            break;
        }
        tokio::time::sleep(BETWEEN).await;
    }
    // One answer means one handler; it may take a moment until schemas are known everywhere in the server.
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(())
}

/// Runs the sequence of a seed on both, and returns what differs. `run` makes namespaces of this run unique.
pub async fn hold(
    client: &Client,
    run: &str,
    seed: u64,
    length: usize,
) -> Result<Vec<Difference>, kube::Error> {
    let steps = sequence(Seed::new(seed).of("conformance"), length);
    let real = observe(client, &format!("conf-{run}-{seed}"), &steps).await?;
    // A world runs in a runtime of its own, on a thread that belongs to no other.
    let simulated = tokio::task::spawn_blocking(move || simulate(seed, length)).await;
    Ok(compare(&real, &simulated.expect("a simulated run does not panic")?))
}

fn simulate(seed: u64, length: usize) -> Result<Vec<Observation>, kube::Error> {
    let settings = Settings { controllers: Controllers::Absent, ..Settings::default() };
    fleet().nodes(0).seed(seed).settings(settings).define(prepare()).run(async |world| {
        let steps = sequence(Seed::new(seed).of("conformance"), length);
        let client = world.client("conformance", "member-1");
        observe(&client, &format!("conf-{seed}"), &steps).await
    })
}
