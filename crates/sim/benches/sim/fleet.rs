//! A fleet of many clusters in which every pod starts: real time and memory.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::PostParams};
use serde::Deserialize;
use sim::{fleet, server::Cluster};
use tokio::task::JoinSet;

use crate::{memory, pod, start};

const NODES: usize = 10;
const PODS: usize = 100;
const MIB: f64 = 1024.0 * 1024.0;

pub(crate) fn head() {
    println!(
        "\n| clusters of {NODES} nodes | pods | made s | pods created s | all run s | virtual s | memory MiB | most MiB | events logged |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
}

pub(crate) fn run(clusters: usize) {
    let begun = start();
    let plan = fleet().members(clusters).nodes(NODES).seed(1);
    plan.run(async |world| {
        let made = begun.elapsed();
        let virtual_start = world.now();
        let mut writers = JoinSet::new();
        for member in world.clusters() {
            writers.spawn(fill(world.client("bench", member.server().name())));
        }
        writers.join_all().await;
        let created = begun.elapsed();
        let mut waiting = world.clusters();
        while !waiting.is_empty() {
            world.pass(Duration::from_secs(1)).await;
            waiting.retain(|it| running(it.server()) < PODS);
        }
        let (whole, passed) = (begun.elapsed(), world.now().duration_since(virtual_start));
        let (events, _) = world.log().fingerprint();
        println!(
            "| {clusters} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} | {events} |",
            clusters * PODS,
            made.as_secs_f64(),
            created.as_secs_f64(),
            whole.as_secs_f64(),
            passed.as_secs_f64(),
            memory("VmRSS:") / MIB,
            memory("VmHWM:") / MIB,
        );
    });
}

async fn fill(client: Client) {
    let api: Api<Pod> = Api::default_namespaced(client);
    for index in 0..PODS {
        let made = api.create(&PostParams::default(), &pod(&format!("web-{index:05}"))).await;
        made.expect("the pod is created");
    }
}

/// How many pods of a cluster run.
pub(crate) fn running(server: &Cluster) -> usize {
    #[derive(Deserialize)]
    struct Phased {
        status: Phase,
    }
    #[derive(Deserialize)]
    struct Phase {
        phase: String,
    }
    let pods = server.list("pods");
    let phases = pods.iter().filter_map(|it| it.read::<Phased>().ok());
    phases.filter(|it| it.status.phase == "Running").count()
}
