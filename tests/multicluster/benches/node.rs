//! What a daemon costs with many pods and images, and how long an image takes to reach every node.
//!
//! `cargo xtask bench node` starts a cluster of real nodes and one fake node. The 250 pods are objects of the API server
//! on the fake node, where nothing runs: no node of a small machine holds that many. A daemon for the fake node downloads its
//! 50 images through the runtime of a real one. Downloads are timed on the real nodes, beside the same download asked of
//! each runtime directly: no daemon can be faster than that.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use kruise_core::{
    api::{
        cloneset::v1beta1::CloneSet, image_pull_job::v1beta1::ImagePullJob, node_image::v1beta1::NodeImage,
    },
    daemon::{
        cri::{Images, Pull, client::Client as Runtime},
        metrics::DaemonMetrics,
    },
    runtime::clock::Clock,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use multicluster::{
    Cluster, cluster,
    cost::Process,
    duties::{Duties, Place},
    registry::Registry,
};
use serde_json::{Value, json};
use tokio::time::Instant;

const PODS: i32 = 250;
const IMAGES: usize = 50;
const ROUNDS: usize = 7;

/// How often the state is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long a daemon at rest is watched.
const REST: Duration = Duration::from_secs(30);
/// Between rounds: a daemon saves up the right to five status reports, one in two seconds.
const PAUSE: Duration = Duration::from_secs(10);
/// Beyond this something is broken.
const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::main]
async fn main() -> Result<()> {
    let cluster = cluster("bench");
    let client = cluster.client().await?;
    let namespace = cluster.namespace("bench").await?;
    let duties = Duties::of(&cluster).await?;
    let folders: Vec<_> = duties.places.iter().map(|it| it.folder.clone()).collect();
    let registry = Registry::start(&folders).await?;
    pulls(&client, &namespace, &duties.places, &registry).await?;
    costs(&cluster, &client, &namespace, &duties, &registry).await
}

/// Times jobs beside downloads without them.
async fn pulls(client: &Client, namespace: &str, places: &[Place], registry: &Registry) -> Result<()> {
    let jobs: Api<ImagePullJob> = Api::namespaced(client.clone(), namespace);
    let runtimes = try_join_all(places.iter().map(|it| async {
        let socket = it.folder.join("containerd.sock");
        Runtime::connect(&socket, Clock::system(), DaemonMetrics::new()).await
    }))
    .await?;
    let (mut bare, mut with_job) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let start = Instant::now();
        let image = registry.image(&format!("open/bare-{round}"), "1");
        try_join_all(runtimes.iter().map(|it| it.pull(pull(&image)))).await?;
        bare.push(start.elapsed());

        let start = Instant::now();
        let (name, image) = (format!("round-{round}"), registry.image(&format!("open/job-{round}"), "1"));
        jobs.create(&PostParams::default(), &job(&name, &image, places)?).await?;
        until(async || {
            let status = jobs.get_status(&name).await?.status.unwrap_or_default();
            ensure!(status.failed == 0, "{status:?}");
            Ok(usize::try_from(status.succeeded)? == places.len())
        })
        .await?;
        with_job.push(start.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    let (bare, with_job) = (Times::of(bare), Times::of(with_job));
    println!("| one layer to {} nodes at once, {ROUNDS} rounds | median ms | slowest ms |", places.len());
    println!("|---|---|---|");
    println!("| CRI alone | {:.0} | {:.0} |", bare.median, bare.slowest);
    println!("| ImagePullJob, created to all succeeded | {:.0} | {:.0} |", with_job.median, with_job.slowest);
    println!("| aim: 1.3 times CRI alone and 200 ms | {:.0} | |", 1.3 * bare.median + 200.0);
    println!();
    Ok(())
}

/// What one daemon costs with nothing to do, with many pods, and with many images.
async fn costs(
    cluster: &Cluster,
    client: &Client,
    namespace: &str,
    duties: &Duties,
    registry: &Registry,
) -> Result<()> {
    let place = duties.places.first().context("there is a real node")?;
    let fake = cluster.kubectl(&["get", "nodes", "--output=name"])?;
    let is_fake = |it: &&str| duties.places.iter().all(|place| place.name != **it);
    let fake = fake.lines().filter_map(|it| it.strip_prefix("node/")).find(is_fake);
    let fake = fake.context("there is a fake node")?.to_owned();
    duties.start_daemon_as(&fake, place)?;
    let node = Place { name: fake, folder: place.folder.clone() };
    let daemon = Process(duties.daemon_id(&node)?);
    println!("| daemon with | memory MiB | most MiB | CPU s to get there | CPU at rest |");
    println!("|---|---|---|---|---|");
    let node_images: Api<NodeImage> = Api::all(client.clone());
    until(async || Ok(node_images.get(&node.name).await?.status.is_some())).await?;
    row(&daemon, "nothing", 0.0).await?;

    let before = daemon.cpu()?;
    let sets: Api<CloneSet> = Api::namespaced(client.clone(), namespace);
    sets.create(&PostParams::default(), &workload(&node.name)?).await?;
    until(async || Ok(json!(sets.get_status("many").await?.status)["readyReplicas"] == PODS)).await?;
    row(&daemon, &format!("{PODS} pods of two containers"), before).await?;

    let before = daemon.cpu()?;
    let images: serde_json::Map<String, Value> = (0..IMAGES)
        .map(|it| {
            let policy = json!({"timeoutSeconds": 60, "backoffLimit": 1, "ttlSecondsAfterFinished": 3000});
            let tag = json!({"tag": "1", "imagePullPolicy": "IfNotPresent", "pullPolicy": policy});
            (format!("{}/open/many-{it}", registry.host), json!({"tags": [tag]}))
        })
        .collect();
    let patch = Patch::Merge(json!({"spec": {"images": images}}));
    node_images.patch(&node.name, &PatchParams::default(), &patch).await?;
    until(async || {
        let status = node_images.get(&node.name).await?.status.unwrap_or_default();
        Ok(usize::try_from(status.succeeded)? == IMAGES)
    })
    .await?;
    row(&daemon, &format!("{IMAGES} images besides, all downloaded"), before).await?;
    let refused = duties.refused().await?;
    ensure!(refused.is_empty(), "{refused:?}");
    Ok(())
}

fn pull(image: &str) -> Pull {
    let (labels, annotations) = Default::default();
    Pull { image: image.to_owned(), credential: None, labels, annotations, timeout: PATIENCE }
}

fn job(name: &str, image: &str, places: &[Place]) -> Result<ImagePullJob> {
    let names: Vec<_> = places.iter().map(|it| it.name.as_str()).collect();
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "metadata": {"name": name},
        "spec": {
            "image": image, "parallelism": names.len(), "selector": {"names": names},
            "completionPolicy": {"type": "Always"},
        },
    }))?)
}

/// Pods as users have them: two containers, some environment, a volume.
fn workload(node: &str) -> Result<CloneSet> {
    let env: Vec<Value> =
        (0..10).map(|it| json!({"name": format!("SETTING_{it}"), "value": "some value"})).collect();
    let mounts = json!([{"name": "scratch", "mountPath": "/scratch"}]);
    let container =
        |name: &str| json!({"name": name, "image": "lab/web:1", "env": env, "volumeMounts": mounts});
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "many"},
        "spec": {
            "replicas": PODS,
            "selector": {"matchLabels": {"app": "many"}},
            "template": {
                "metadata": {"labels": {"app": "many", "tier": "bench"}, "annotations": {"note": "a few words"}},
                "spec": {
                    "nodeName": node,
                    "containers": [container("main"), container("side")],
                    "volumes": [{"name": "scratch", "emptyDir": {}}],
                },
            },
        },
    }))?)
}

async fn until(mut is_there: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !is_there().await? {
        ensure!(start.elapsed() < PATIENCE, "nothing happens any more");
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Milliseconds.
struct Times {
    median: f64,
    slowest: f64,
}

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |index: usize| times.get(index).map_or(0.0, |it| it.as_secs_f64() * 1000.0);
        Self { median: at(times.len() / 2), slowest: at(times.len().saturating_sub(1)) }
    }
}

/// Waits a while and prints one row: what there is now, and what it took since `before`.
async fn row(process: &Process, what: &str, before: f64) -> Result<()> {
    let spent = process.cpu()? - before;
    tokio::time::sleep(REST).await;
    let at_rest = (process.cpu()? - before - spent) / REST.as_secs_f64();
    let (now, most) = (process.memory("VmRSS:")?, process.memory("VmHWM:")?);
    println!("| {what} | {now:.1} | {most:.1} | {spent:.2} | {:.2}% |", at_rest * 100.0);
    Ok(())
}
