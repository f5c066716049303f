//! Node daemons in simulated clusters: the real loops over simulated runtimes and registries, and the controllers that
//! tell them what to do.

mod adapter;
mod crashes;
mod jobs;
mod requests;
mod weather;

use std::{collections::BTreeMap, sync::Arc};

use axum::http::Method;
use kruise_core::{
    admission,
    api::image_pull_job::keys::SECRETS_NAMESPACE,
    controllers::{
        container_recreate_request as requests_controller, image_pull_job, node_image, pod_readiness,
    },
    daemon::{Parts, Runtimes, Settings, cri::Runtime, health::Health, metrics::DaemonMetrics},
    runtime::{
        clock::{Clock, Seed},
        events::Sink,
        metrics::Metrics,
        webhook::Operation,
    },
};
use kube::Client;
use serde_json::{Value, json};
use sim::{
    World,
    faults::Weather,
    nodes::runtime::Act,
    world::{FleetBuilder, Process, ProcessContext},
};
use tokio_util::sync::CancellationToken;

use self::adapter::Node;
use super::{cache, feed, knowing, settings};
use crate::kit::*;

const NODES: usize = 3;
const JOBS: &str = "/apis/apps.kruise.io/v1beta1/namespaces/default/imagepulljobs";
const NODE_IMAGES: &str = "/apis/apps.kruise.io/v1beta1/nodeimages";
const REQUESTS: &str = "/apis/apps.kruise.io/v1beta1/namespaces/default/containerrecreaterequests";

/// A world with three nodes in which a manager and a daemon on each node find their kinds.
fn cluster(seed: u64, weather: Weather) -> FleetBuilder {
    let kinds = ["imagepulljobs", "nodeimages", "containerrecreaterequests", "nodepodprobes"];
    knowing(&kinds, seed, weather).nodes(NODES)
}

/// The processes of a cluster.
struct Crew {
    manager: Process,
    daemons: Vec<Process>,
}

/// Starts them, and waits until nodes can be told what to download.
async fn start(world: &World) -> Crew {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SECRETS_NAMESPACE}});
    write(world, Method::POST, "/api/v1/namespaces", &namespace);
    let manager = start_agent(world, manage);
    let daemons = (1..=NODES).map(|it| start_daemon(world, &format!("node-{it}"))).collect();
    world
        .eventually("every node has its NodeImage", secs(300), |it| {
            read(it, NODE_IMAGES).is_some_and(|it| it["items"].as_array().is_some_and(|it| it.len() == NODES))
        })
        .await;
    Crew { manager, daemons }
}

async fn manage(client: Client, clock: Clock) {
    let caches = node_image::Caches {
        nodes: cache("nodes", &clock),
        node_images: cache("nodeimages", &clock),
        jobs: cache("jobs", &clock),
        secrets: cache("secrets", &clock),
        jobs_in: None,
        secrets_in: None,
    };
    let node_image::Caches { nodes, node_images, jobs, secrets, .. } = caches.clone();
    let (pods, requests) = (cache("pods", &clock), cache("requests", &clock));
    let job_caches = image_pull_job::Caches {
        jobs: jobs.clone(),
        node_images: node_images.clone(),
        pods: pods.clone(),
        secrets: secrets.clone(),
    };
    let sink = Sink::new(client.clone(), clock.clone(), Metrics::default());
    let recorder = || sink.recorder("manager");
    let of = |name| settings(name, &clock);
    let (delay, own) = (node_image::CREATION_DELAY, image_pull_job::Settings::default());
    let token = CancellationToken::new();
    let (its, at) = (&token, || client.clone());
    tokio::join!(
        feed(&nodes, &client),
        feed(&node_images, &client),
        feed(&jobs, &client),
        feed(&secrets, &client),
        feed(&pods, &client),
        feed(&requests, &client),
        node_image::controller(at(), &caches, recorder(), delay, of(node_image::NAME)).run(its.clone()),
        image_pull_job::controller(at(), &job_caches, own, of(image_pull_job::NAME)).run(its.clone()),
        pod_readiness::controller(at(), &pods, of(pod_readiness::NAME)).run(its.clone()),
        requests_controller::controller(at(), &requests, &pods, recorder(), of(requests_controller::NAME))
            .run(its.clone()),
        sink.run(its.clone()),
    );
}

fn daemon_of(node: &str) -> String {
    format!("daemon-{node}")
}

fn start_daemon(world: &World, node: &str) -> Process {
    let name = node.to_owned();
    world.process(&daemon_of(node), move |it| daemon(it, name.clone()))
}

async fn daemon(process: ProcessContext, node: String) {
    let token = CancellationToken::new();
    // Downloads and hooks are tasks of their own: they die with the process.
    let _life = token.clone().drop_guard();
    let (world, clock) = (process.world(), clock(process.world()));
    let runtime = Arc::new(Node { runtime: world.runtime(CLUSTER, &node), life: token.clone() });
    let runtimes = Runtimes {
        by_name: BTreeMap::from([("containerd".to_owned(), runtime.clone() as Arc<dyn Runtime>)]),
        first: runtime.clone(),
        images: runtime,
    };
    let parts = Parts {
        settings: Settings { address: None, ..Settings::new(node) },
        client: process.client(CLUSTER),
        clock,
        metrics: Metrics::default(),
        counted: DaemonMetrics::new(),
        health: Health::default(),
        seed: Seed::from_number(world.seed()),
    };
    parts.work(runtimes, &token).await;
}

/// Makes a job, as admission lets it pass.
fn make_job(world: &World, name: &str, image: &str, more: Value) {
    let mut job = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "metadata": {"name": name},
        "spec": {"image": image},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        job["spec"][field] = value.clone();
    }
    admission::image_pull_job::mutate(&mut job, Operation::Create);
    assert!(admission::image_pull_job::validate(&job, None).is_empty());
    write(world, Method::POST, JOBS, &job);
}

/// The status of a job that is over.
async fn end_of_job(world: &World, name: &str, deadline: u64) -> Value {
    let status = |it: &World| read(it, &format!("{JOBS}/{name}")).unwrap_or_default()["status"].clone();
    let what = format!("the job {name} is over");
    world.eventually(&what, secs(deadline), |it| !status(it)["completionTime"].is_null()).await;
    status(world)
}

fn counts(status: &Value) -> (i64, i64) {
    let number = |field: &str| status[field].as_i64().unwrap_or_default();
    (number("succeeded"), number("failed"))
}

/// A pod with two containers and our readiness gate that runs; `app` has a hook of three seconds.
async fn run_pod(world: &World) -> Value {
    let hook = json!({"preStop": {"exec": {"command": ["sleep", "3"]}}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {
            "readinessGates": [{"conditionType": "KruisePodReady"}],
            "containers": [
                {"name": "app", "image": "app:1", "lifecycle": hook}, {"name": "log", "image": "log:1"},
            ],
        },
    });
    write(world, Method::POST, PODS, &pod);
    world.eventually("the pod runs", secs(600), |it| is_ready(&the_pod(it))).await;
    the_pod(world)
}

fn the_pod(world: &World) -> Value {
    read(world, &format!("{PODS}/web")).unwrap_or_default()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
}

fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let all = pod["status"]["containerStatuses"].as_array().unwrap();
    all.iter().find(|it| it["name"] == name).unwrap()
}

/// Asks for a new `app`, as admission fills the request in.
fn ask_for_recreate(world: &World, more: Value) {
    let pod = the_pod(world);
    let node = pod["spec"]["nodeName"].as_str().unwrap();
    let node = read(world, &format!("/api/v1/nodes/{node}"));
    let mut request = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest", "metadata": {"name": "r"},
        "spec": {"podName": "web", "containers": [{"name": "app"}]},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        request["spec"][field] = value.clone();
    }
    let about = admission::container_recreate_request::World { pod: Some(pod), node };
    let filled = admission::container_recreate_request::fill(&request, &about);
    write(world, Method::POST, REQUESTS, &filled.unwrap_or_else(|it| panic!("{}", it.message)));
}

fn the_request(world: &World) -> Value {
    read(world, &format!("{REQUESTS}/r")).unwrap_or_default()
}

async fn end_of_request(world: &World, deadline: u64) -> Value {
    world
        .eventually("the request is over", secs(deadline), |it| {
            !the_request(it)["status"]["completionTime"].is_null()
        })
        .await;
    the_request(world)["status"].clone()
}

/// What was done to the containers of the pod through its node's runtime.
fn acts(world: &World) -> Vec<Act> {
    let node = the_pod(world)["spec"]["nodeName"].as_str().unwrap().to_owned();
    world.runtime(CLUSTER, &node).acts()
}
