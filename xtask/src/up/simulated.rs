//! Simulated clusters, served by this process, and the hub and the agents as processes of their own beside it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use kruise_core::{
    api::{self, image_pull_job::keys::SECRETS_NAMESPACE},
    runtime::clock::{Clock, Seed},
};
use kube::Client;
use lab::{
    control_plane,
    join::{self, Joined, Newcomer},
    pki::write_private,
    progress::Progress,
    simulated::Simulated,
};
use serde_json::{Value, json};
use sim::{World, nodes::NodeShape, serve::Served};
use tokio::signal::unix::{SignalKind, signal};

use super::{
    BINDING, MEMBERS, SAMPLES, print_hints,
    table::{self, Table},
};
use crate::agent::{self, Link, Running};

const HUB: &str = "hub";
const NODES: usize = 3;

/// How often the hub is asked for something before it counts as broken, and how far apart.
const TRIES: u32 = 300;
const BETWEEN: Duration = Duration::from_millis(100);

/// One cluster, as others find it. Fields are dropped in order: nobody is served whose name is somebody else's already.
struct Place {
    _served: Served,
    claim: Simulated,
}

/// Everything there is. Processes go first, while there is still somebody to say goodbye to.
struct Fleet {
    _processes: Vec<Running>,
    world: World,
    places: Vec<Place>,
    hub: Client,
}

/// The programs that run beside the clusters.
struct Programs {
    hub: PathBuf,
    agent: PathBuf,
}

pub(super) fn run() -> Result<()> {
    let mut progress = Progress::start();
    progress.say("building kruise-hub and kruise-agent");
    let (hub, agent) = agent::build_both()?;
    let programs = Programs { hub, agent };
    // Two providers may be in the build; one has to be named before the first connection.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // The simulation is one thread's work, whatever the number of clients.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            ended = up(&programs, Progress::start()) => ended,
            asked = until_asked() => asked,
        }
    })
}

/// Waits for Ctrl-C, or for `cluster down` of one of the clusters.
async fn until_asked() -> Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

async fn up(programs: &Programs, mut progress: Progress) -> Result<()> {
    progress.say("starting a hub and three members, simulated in this process and served over HTTPS");
    let fleet = Fleet::start(programs, &mut progress).await?;
    progress.say("all processes run");
    let kubeconfigs: Vec<_> =
        fleet.places.iter().map(|it| (it.claim.record.name.as_str(), it.claim.record.kubeconfig())).collect();
    print_hints(&kubeconfigs, &["m1 get nodes"]);
    println!(
        "The hub calls a member Ready after hearing it for half a minute; then {} are applied to it.\n",
        SAMPLES.map(|it| format!("config/{it}")).join(" and ")
    );
    fleet.keep_showing().await
}

impl Fleet {
    async fn start(programs: &Programs, progress: &mut Progress) -> Result<Self> {
        let world = World::at(Seed::from_system().draw(), Clock::system().now());
        let hub_place = Place::open(&world, HUB, &[])?;
        let mut places = vec![hub_place];
        for name in MEMBERS {
            let nodes: Vec<String> = (1..=NODES).map(|it| format!("{name}-n{it}")).collect();
            places.push(Place::open(&world, name, &nodes)?);
        }
        let hub = control_plane::client(&places[0].claim.record.kubeconfig()).await?;
        progress.say("starting kruise-hub");
        for folder in ["rbac/hub", "webhook/hub"] {
            for object in manifests(folder)? {
                join::apply(&hub, &object).await?;
            }
        }
        let mut processes = vec![places[0].start_hub(programs)?];
        for place in &places[1..] {
            progress.say(format!("joining {} and starting its kruise-agent", place.claim.record.name));
            processes.push(place.join(&places[0], programs).await?);
        }
        Ok(Self { _processes: processes, world, places, hub })
    }

    /// Shows how the fleet stands until somebody ends this.
    async fn keep_showing(&self) -> Result<()> {
        let (mut table, mut applied) = (Table::default(), false);
        loop {
            let members = self.members();
            match self.binding() {
                Some(binding) => table.show(&table::lines(&binding)),
                None => table.show(&table::waiting(&members)),
            }
            if !applied && members.len() == MEMBERS.len() && members.iter().all(|it| it.1 == "Ready") {
                // A hub that does not answer now may in a moment.
                applied = self.apply_samples().await.is_ok();
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn apply_samples(&self) -> Result<()> {
        for sample in SAMPLES {
            let mut object = read(&config(sample))?;
            object["metadata"]["namespace"] = json!("default");
            join::apply(&self.hub, &object).await?;
        }
        Ok(())
    }

    fn binding(&self) -> Option<Value> {
        let hub = self.world.cluster(HUB);
        Some(hub.server().get("fleetbindings.fleet.kruise.io", "default", BINDING)?.value())
    }

    /// The members and their states.
    fn members(&self) -> Vec<(String, String)> {
        let members = self.world.cluster(HUB).server().list("memberclusters.fleet.kruise.io");
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        members.iter().map(|it| (it.name.to_string(), text(&it.value()["status"]["state"]))).collect()
    }
}

impl Place {
    /// A cluster with our kinds, served under a name that others find.
    fn open(world: &World, name: &str, nodes: &[String]) -> Result<Self> {
        let claim = Simulated::claim(name, nodes.to_vec())?;
        let cluster = world.add_cluster(name);
        let crds = if name == HUB { api::crds() } else { api::member_crds() };
        for crd in crds {
            define(world, name, &json!(crd))?;
        }
        for kind in api::converted_crds() {
            let convert =
                |object: Value, version: &str| api::convert(object, version).map_err(|it| it.to_string());
            cluster.server().convert(&kind, Arc::new(convert));
        }
        for node in nodes {
            world.add_node(name, node, &NodeShape::default());
        }
        let served = world.serve(name)?;
        served.write_kubeconfig(&claim.record.kubeconfig())?;
        Ok(Self { _served: served, claim })
    }

    fn start_hub(&self, programs: &Programs) -> Result<Running> {
        agent::start_hub(&programs.hub, &self.claim.record.kubeconfig(), &self.claim.file("hub.log"))
    }

    /// Joins this cluster to a hub and starts its manager.
    async fn join(&self, hub: &Self, programs: &Programs) -> Result<Running> {
        let kubeconfig = self.claim.record.kubeconfig();
        let client = control_plane::client(&kubeconfig).await?;
        for name in ["kruise-system", SECRETS_NAMESPACE] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            join::apply(&client, &namespace).await?;
        }
        let name = &self.claim.record.name;
        let Joined { kubeconfig: granted, hub_uid } = hub
            .patiently(async || {
                let newcomer = Newcomer { name, kubeconfig: &kubeconfig, server: None };
                join::join_simulated(&hub.claim.record.kubeconfig(), newcomer).await
            })
            .await?;
        let link = Link { kubeconfig: self.claim.file("agent-on-hub.kubeconfig"), hub_uid };
        write_private(&link.kubeconfig, &granted.to_string())?;
        agent::start(&programs.agent, &kubeconfig, &link, &self.claim.file("agent.log"))
    }

    /// Tries until the hub's admission lets it pass; the last error if it never does.
    async fn patiently<T>(&self, mut attempt: impl AsyncFnMut() -> Result<T>) -> Result<T> {
        for _ in 1..TRIES {
            if let Ok(done) = attempt().await {
                return Ok(done);
            }
            tokio::time::sleep(BETWEEN).await;
        }
        attempt().await.with_context(|| format!("see {}", self.claim.file("hub.log").display()))
    }
}

fn define(world: &World, cluster: &str, crd: &Value) -> Result<()> {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let defined = world.write(cluster, http::Method::POST, path, crd);
    defined
        .map(drop)
        .map_err(|it| anyhow::anyhow!("{cluster} refuses {}: {}", crd["metadata"]["name"], it.message))
}

/// The objects of a folder of generated manifests, namespaces first. Folders in it are left out, as `kubectl apply` does: what is
/// in them is granted only where somebody asks for it.
fn manifests(folder: &str) -> Result<Vec<Value>> {
    let entries = fs::read_dir(config(folder))?;
    let paths: std::io::Result<Vec<PathBuf>> = entries.map(|it| Ok(it?.path())).collect();
    let files = paths?.into_iter().filter(|it| it.is_file());
    let mut objects = files.map(|it| read(&it)).collect::<Result<Vec<Value>>>()?;
    objects.sort_by_key(|it| it["kind"] != "Namespace");
    Ok(objects)
}

fn read(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("{} is no manifest", path.display()))
}

/// A file or folder of the generated and sample manifests.
fn config(name: &str) -> PathBuf {
    crate::root().join("config").join(name)
}
