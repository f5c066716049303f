//! Jobs that download images: nodes with daemons that take their time, and a person who applies a job.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use http::Method;
use jiff::{SignedDuration, Timestamp};
use kruise_core::{
    controllers::image_pull_job,
    runtime::{
        cache::Cache,
        clock::Clock,
        controller::{Controller, Reconcile, Settings},
    },
};
use kube::Client;
use serde_json::{Value, json};
use sim::{World, world::ProcessContext};
use tokio_util::sync::CancellationToken;

use super::{
    FLEET, HUB, MEMBERS, Stage,
    processes::{cache, feed},
};

pub(crate) const JOB: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/imagepulljobs/warm";
const NODE_IMAGES: &str = "/apis/apps.kruise.io/v1beta1/nodeimages";
/// Where daemons read pull secrets.
pub(crate) const DAEMONS: &str = "kruise-daemon-config";
/// Nodes of each member.
pub(crate) const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
/// How long a daemon takes for an image; one that is called `stuck` never comes, and `missing` fails.
const PULL: SignedDuration = SignedDuration::from_secs(7);

/// The controller of jobs in a member, with what feeds it.
pub(super) async fn controller(
    client: &Client,
    caches: image_pull_job::Caches,
    settings: Settings,
    stop: &CancellationToken,
) {
    let controller: Controller<_> = built(client, &caches, settings);
    tokio::join!(
        feed(&caches.node_images, client, stop),
        feed(&caches.secrets, client, stop),
        controller.run(stop.clone()),
    );
}

fn built(
    client: &Client,
    caches: &image_pull_job::Caches,
    settings: Settings,
) -> Controller<impl Reconcile + use<>> {
    image_pull_job::controller(client.clone(), caches, image_pull_job::Settings::default(), settings)
}

pub(super) fn caches(
    jobs: &Cache<kruise_core::api::image_pull_job::v1beta1::ImagePullJob>,
    pods: &Cache<kruise_core::runtime::cache::pod::PodLite>,
    clock: &Clock,
) -> image_pull_job::Caches {
    image_pull_job::Caches {
        jobs: jobs.clone(),
        node_images: cache("nodeimages", clock),
        pods: pods.clone(),
        secrets: cache("secrets", clock),
    }
}

/// Gives a member a NodeImage for each of its nodes, and a place for pull secrets that they may read.
pub(super) fn equip(world: &World, member: &str) {
    super::namespace(world, member, DAEMONS);
    for node in NODES {
        let body = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": {"name": node}, "spec": {},
        });
        world.write(member, Method::POST, NODE_IMAGES, &body).unwrap();
    }
}

/// The daemons of a member's nodes.
pub(super) async fn daemons(process: ProcessContext, member: String) {
    let mut since: BTreeMap<String, Timestamp> = BTreeMap::new();
    loop {
        let now = process.world().now();
        for it in pulls(process.world(), &member) {
            let known = format!("{} {} {}", it.node, it.image, it.version);
            let begun = *since.entry(known).or_insert(now);
            if !it.is_over && it.image != "stuck" && now.duration_since(begun) >= PULL {
                it.end(process.world(), &member);
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// A download that a node was told of.
#[derive(Debug)]
struct Pull {
    node: String,
    image: String,
    tag: String,
    version: u64,
    is_over: bool,
}

impl Pull {
    fn end(&self, world: &World, member: &str) {
        let phase = if self.image == "missing" { "Failed" } else { "Succeeded" };
        let tag = json!({"tag": self.tag, "phase": phase, "version": self.version});
        let status = json!({"status": {"desired": 1, "imageStatuses": {&self.image: {"tags": [tag]}}}});
        let path = format!("{NODE_IMAGES}/{}/status", self.node);
        world.write(member, Method::PATCH, &path, &status).unwrap();
    }
}

fn pulls(world: &World, member: &str) -> Vec<Pull> {
    let mut pulls = Vec::new();
    for stored in world.cluster(member).server().list("nodeimages.apps.kruise.io") {
        let node = stored.value();
        for (image, wanted) in node["spec"]["images"].as_object().into_iter().flatten() {
            let reported = &node["status"]["imageStatuses"][image]["tags"];
            for tag in wanted["tags"].as_array().into_iter().flatten() {
                let version = tag["version"].as_u64().unwrap_or_default();
                let is_over = reported.as_array().into_iter().flatten().any(|it| {
                    it["tag"] == tag["tag"]
                        && it["version"].as_u64().unwrap_or_default() == version
                        && (it["phase"] == "Succeeded" || it["phase"] == "Failed")
                });
                pulls.push(Pull {
                    node: node["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                    image: image.clone(),
                    tag: tag["tag"].as_str().unwrap_or_default().to_owned(),
                    version,
                    is_over,
                });
            }
        }
    }
    pulls
}

/// How many nodes of a member download at this moment.
pub(crate) fn pulling(world: &World, member: &str) -> u64 {
    pulls(world, member).iter().filter(|it| !it.is_over).count() as u64
}

/// How many nodes of a member are done.
pub(crate) fn served(world: &World, member: &str) -> usize {
    pulls(world, member).iter().filter(|it| it.is_over).count()
}

/// How many downloads there may be over the fleet, and the most that were seen.
#[derive(Debug)]
pub(crate) struct Parallelism {
    pub(crate) limit: AtomicU64,
    pub(crate) most: AtomicU64,
}

impl Parallelism {
    pub(super) fn new() -> Self {
        Self { limit: AtomicU64::new(u64::MAX), most: AtomicU64::new(0) }
    }

    pub(super) fn check(&self, world: &World) -> Result<(), String> {
        let now: Vec<u64> = MEMBERS.iter().map(|it| pulling(world, it)).collect();
        let (sum, limit) = (now.iter().sum(), self.limit.load(Ordering::Relaxed));
        self.most.fetch_max(sum, Ordering::Relaxed);
        if sum > limit { Err(format!("{now:?} nodes download at a time, {limit} may")) } else { Ok(()) }
    }
}

/// A policy that places every job of its namespace on all clusters.
pub(crate) fn policy(change: impl FnOnce(&mut Value)) -> Value {
    super::policy(|it| {
        it["targets"] = json!([{"kind": "ImagePullJob", "labelSelector": {}}]);
        change(it);
    })
}

impl Stage {
    /// Applies the job `warm`; `change` says what is special.
    pub(crate) fn pull(&self, image: &str, parallelism: u32, change: impl FnOnce(&mut Value)) {
        self.parallelism.limit.store(parallelism.into(), Ordering::Relaxed);
        let mut spec = json!({
            "image": format!("{image}:1"), "parallelism": parallelism, "completionPolicy": {"type": "Always"},
        });
        change(&mut spec);
        match self.read(HUB, JOB) {
            None => {
                let job = json!({
                    "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
                    "metadata": {"name": "warm", "namespace": "shop"}, "spec": spec,
                });
                self.world.write(HUB, Method::POST, JOB.trim_end_matches("/warm"), &job).unwrap();
            }
            Some(mut stored) => {
                stored["spec"] = spec;
                self.world.write(HUB, Method::PUT, JOB, &stored).unwrap();
            }
        }
    }

    /// The hub's job.
    pub(crate) fn job(&self) -> Value {
        self.read(HUB, JOB).unwrap_or_default()
    }

    /// Its status.
    pub(crate) fn job_status(&self) -> Value {
        self.job()["status"].clone()
    }

    /// The binding of the job.
    pub(crate) fn job_binding(&self) -> Value {
        self.read(HUB, &format!("{FLEET}/namespaces/shop/fleetbindings/imagepulljob.warm"))
            .unwrap_or_default()
    }

    /// How many downloads run at this moment, by member.
    pub(crate) fn pulling(&self) -> Vec<u64> {
        MEMBERS.iter().map(|it| pulling(&self.world, it)).collect()
    }

    /// Waits until the job is over with so many nodes served.
    pub(crate) async fn pulled(&self, succeeded: u64) {
        self.until(&format!("the job is over with {succeeded} nodes served"), |it| {
            let status = it.job_status();
            status["completionTime"].is_string() && status["succeeded"] == succeeded
        })
        .await;
    }
}
