//! What the tests share: a hub with its process, members with their agents, and a person who applies manifests.

mod copy;
pub(crate) mod jobs;
mod later;
mod pods;
mod processes;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::Method;
use hub::{control::KEY, measures::Measures, members::access, names::RevisionKey};
use k8s_openapi::ByteString;
use kruise_core::{
    admission::{Version, cloneset::default},
    api,
    runtime::{gates::Gates, webhook::Operation},
};
use serde_json::{Value, json};
use sim::{World, fleet, world::Process};

use jobs::Parallelism;
pub(crate) use later::LATE;
pub(crate) use pods::{Pod, all_pods, pods_of, present};
use processes::{agent, hub};

pub(crate) const HUB: &str = "hub";
pub(crate) const MEMBERS: [&str; 3] = ["member-1", "member-2", "member-3"];
const OWN: &str = "kruise-system";
pub(crate) const FLEET: &str = "/apis/fleet.kruise.io/v1alpha1";
pub(crate) const WEB: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/clonesets/web";

/// What a hub at rest does not write.
pub(crate) const NEVER_WRITTEN: [&str; 8] = [
    "assignments.fleet.kruise.io",
    "fleetbindings.fleet.kruise.io",
    "fleetrevisions.fleet.kruise.io",
    "memberclusters.fleet.kruise.io",
    "clonesets.apps.kruise.io",
    "imagepulljobs.apps.kruise.io",
    "configmaps",
    "secrets",
];

/// A hub, its members, and the processes of both.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) hub: Process,
    /// The name of that process, which is also its name on the network.
    pub(crate) leader: String,
    /// The processes of the members, by name.
    pub(crate) agents: BTreeMap<&'static str, Process>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) parallelism: Arc<Parallelism>,
    /// What the hub that runs now has counted.
    counted: Arc<Mutex<Measures>>,
}

/// What the agents of a stage see to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duties {
    /// CloneSets.
    Pods,
    /// Jobs that download images as well.
    Images,
}

impl Duties {
    fn gates(self) -> Gates {
        match self {
            Self::Pods => Gates::defaults(),
            // On, so that members would download ahead by themselves what the hub gives them, if they did.
            Self::Images => "ImagePullJobGate=true,PreDownloadImageForInPlaceUpdate=true".parse().unwrap(),
        }
    }
}

/// What must hold over the fleet after every write; a limit of `u64::MAX` does not.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Pods that are available at least; `u64::MAX` for no limit.
    pub(crate) available: AtomicU64,
    /// Pods there are at most.
    pub(crate) pods: AtomicU64,
    /// Pods of image `v2` there are at most.
    pub(crate) updated: AtomicU64,
}

/// How pods are named in the clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodNames {
    /// Every cluster draws names of its own.
    Own,
    /// All clusters draw the same names.
    Alike,
}

/// What differs between runs of the same test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) pods: PodNames,
    pub(crate) seed: u64,
}

/// Runs `test` with a hub and three members that are all Ready.
pub(crate) fn play<F: Future<Output = ()>>(test: impl FnOnce(Stage) -> F) {
    play_with(Setting { pods: PodNames::Own, seed: 0 }, test);
}

/// The same in this setting.
pub(crate) fn play_with<F: Future<Output = ()>>(setting: Setting, test: impl FnOnce(Stage) -> F) {
    stage(setting, Duties::Pods, test);
}

/// The same with nodes that download images.
pub(crate) fn play_images<F: Future<Output = ()>>(test: impl FnOnce(Stage) -> F) {
    play_images_with(0, test);
}

/// The same with this seed.
pub(crate) fn play_images_with<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(Stage) -> F) {
    stage(Setting { pods: PodNames::Own, seed }, Duties::Images, test);
}

fn stage<F: Future<Output = ()>>(setting: Setting, duties: Duties, test: impl FnOnce(Stage) -> F) {
    let Setting { pods, seed } = setting;
    let crds = api::crds().into_iter().map(|it| json!(it));
    let fleet = crds.fold(fleet().hub().members(3).nodes(3).seed(seed), |it, crd| it.define(crd));
    fleet.run(async |world| {
        for name in ["fleet-content", "fleet-system", "shop"] {
            namespace(&world, HUB, name);
        }
        keep_key(&world);
        let mut agents = BTreeMap::new();
        for (place, member) in (0..).zip(MEMBERS) {
            let first = if pods == PodNames::Own { place << 32 } else { 0 };
            agents.insert(member, later::enlist(&world, member, first, duties));
        }
        let parallelism = Arc::new(Parallelism::new());
        if duties == Duties::Images {
            watch_images(&world, &parallelism);
        }
        let limits = Arc::new(Limits {
            available: AtomicU64::new(u64::MAX),
            pods: AtomicU64::new(u64::MAX),
            updated: AtomicU64::new(u64::MAX),
        });
        let rule = limits.clone();
        world.invariant("the fleet's limits", move |world| rule.check(world));
        let counted = Arc::new(Mutex::new(Measures::new()));
        let shown = counted.clone();
        let leader = "hub".to_owned();
        let hub = later::lead(&world, &leader, shown);
        let stage = Stage { world, hub, leader, agents, limits, parallelism, counted };
        stage.until("all members are Ready", |it| MEMBERS.iter().all(|name| it.state(name) == "Ready")).await;
        test(stage).await;
    });
}

/// Gives every member nodes with daemons, and has their downloads counted after every write.
fn watch_images(world: &World, parallelism: &Arc<Parallelism>) {
    for member in MEMBERS {
        jobs::equip(world, member);
        let name = member.to_owned();
        world.process(&format!("daemons-of-{member}"), move |process| jobs::daemons(process, name.clone()));
    }
    let rule = parallelism.clone();
    world.invariant("downloads at a time", move |world| rule.check(world));
}

/// The name of a member's agent among processes.
pub(crate) fn agent_of(member: &str) -> String {
    format!("agent-of-{member}")
}

fn namespace(world: &World, cluster: &str, name: &str) {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    world.write(cluster, Method::POST, "/api/v1/namespaces", &body).unwrap();
}

/// The hub draws a key at its first start, and names of bodies come from it: with one of its own every run would be another.
fn keep_key(world: &World) {
    let key = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": KEY},
        "data": {"key": ByteString(vec![7; RevisionKey::BYTES])},
    });
    world.write(HUB, Method::POST, "/api/v1/namespaces/fleet-system/secrets", &key).unwrap();
}

/// What is there after a cluster has joined.
fn join(world: &World, member: &str) {
    namespace(world, member, OWN);
    for object in access::granted(member, &access::user(member, "")) {
        let (kind, metadata) = (object["kind"].as_str().unwrap(), &object["metadata"]);
        let group = match object["apiVersion"].as_str().unwrap() {
            "v1" => "/api/v1".to_owned(),
            version => format!("/apis/{version}"),
        };
        let place = metadata["namespace"].as_str().map_or_else(String::new, |it| format!("/namespaces/{it}"));
        let path = format!("{group}{place}/{}s", kind.to_lowercase());
        world.write(HUB, Method::POST, &path, &object).unwrap();
    }
    let cluster = json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "MemberCluster", "metadata": {"name": member},
        "spec": {"clusterUid": format!("uid-of-{member}"), "publicKey": "", "accepted": true},
    });
    world.write(HUB, Method::POST, &format!("{FLEET}/memberclusters"), &cluster).unwrap();
}

impl Limits {
    pub(crate) fn set(&self, available: u64, pods: u64, updated: u64) {
        self.available.store(available, Ordering::Relaxed);
        self.pods.store(pods, Ordering::Relaxed);
        self.updated.store(updated, Ordering::Relaxed);
    }

    pub(crate) fn lift(&self) {
        self.set(u64::MAX, u64::MAX, u64::MAX);
    }

    fn check(&self, world: &World) -> Result<(), String> {
        let read = |it: &AtomicU64| it.load(Ordering::Relaxed);
        let (least, most, updated) = (read(&self.available), read(&self.pods), read(&self.updated));
        if least == u64::MAX && most == u64::MAX && updated == u64::MAX {
            return Ok(());
        }
        let pods = all_pods(world);
        let available = pods.iter().filter(|it| it.is_ready).count() as u64;
        let new = pods.iter().filter(|it| it.image == "v2").count() as u64;
        match () {
            () if least != u64::MAX && available < least => {
                Err(format!("{available} pods are available, {least} must be"))
            }
            () if pods.len() as u64 > most => Err(format!("there are {} pods, {most} may be", pods.len())),
            () if new > updated => Err(format!("{new} pods are updated, {updated} may be")),
            () => Ok(()),
        }
    }
}

/// A policy that places every CloneSet of its namespace on all clusters; `change` says what else.
pub(crate) fn policy(change: impl FnOnce(&mut Value)) -> Value {
    let mut policy = json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "PlacementPolicy", "metadata": {"name": "all"},
        "spec": {"targets": [{"kind": "CloneSet", "labelSelector": {}}]},
    });
    change(&mut policy["spec"]);
    policy
}

impl Stage {
    /// The value of a metric of the hub that runs now, by its name with labels.
    pub(crate) fn measure(&self, name: &str) -> Option<f64> {
        let text = self.counted.lock().unwrap().metrics.text();
        let line = text
            .lines()
            .find_map(|it| it.strip_prefix("kruise_fleet_")?.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|it| it.parse().ok())
    }

    /// Writes a policy, whatever was there.
    pub(crate) fn place(&self, policy: &Value) {
        let folder = format!("{FLEET}/namespaces/shop/placementpolicies");
        let path = format!("{folder}/all");
        match self.read(HUB, &path) {
            None => drop(self.world.write(HUB, Method::POST, &folder, policy).unwrap()),
            Some(mut stored) => {
                stored["spec"] = policy["spec"].clone();
                self.world.write(HUB, Method::PUT, &path, &stored).unwrap();
            }
        }
    }

    /// Applies the CloneSet `web` as the hub's admission leaves it; `change` says what is special.
    pub(crate) fn apply(&self, image: &str, replicas: u32, change: impl FnOnce(&mut Value)) {
        let mut web = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]},
                },
            },
        });
        change(&mut web["spec"]);
        default(&mut web, None, Operation::Create, Version::V1Beta1, Gates::defaults());
        match self.read(HUB, WEB) {
            None => {
                let folder = WEB.trim_end_matches("/web");
                self.world.write(HUB, Method::POST, folder, &web).unwrap();
            }
            Some(mut stored) => {
                stored["spec"] = web["spec"].clone();
                self.world.write(HUB, Method::PUT, WEB, &stored).unwrap();
            }
        }
    }

    /// Sets the partition of `web`.
    pub(crate) fn set_partition(&self, partition: Value) {
        let patch = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": partition}}}});
        self.world.write(HUB, Method::PATCH, WEB, &patch).unwrap();
    }

    /// Changes the spec of a member.
    pub(crate) fn change_member(&self, member: &str, spec: &Value) {
        let path = format!("{FLEET}/memberclusters/{member}");
        self.world.write(HUB, Method::PATCH, &path, &json!({"spec": spec})).unwrap();
    }

    pub(crate) fn read(&self, cluster: &str, path: &str) -> Option<Value> {
        self.world.write(cluster, Method::GET, path, &Value::Null).ok()
    }

    /// The hub's object.
    pub(crate) fn web(&self) -> Value {
        self.read(HUB, WEB).unwrap_or_default()
    }

    /// The binding of `web`.
    pub(crate) fn binding(&self) -> Value {
        self.read(HUB, &format!("{FLEET}/namespaces/shop/fleetbindings/cloneset.web")).unwrap_or_default()
    }

    /// The Assignment of `web` for a member.
    pub(crate) fn assignment(&self, member: &str) -> Option<Value> {
        let path = format!("{FLEET}/namespaces/fleet-{member}/assignments/cloneset.shop.web");
        self.read(HUB, &path)
    }

    /// The state of a member.
    pub(crate) fn state(&self, member: &str) -> String {
        let cluster = self.read(HUB, &format!("{FLEET}/memberclusters/{member}")).unwrap_or_default();
        cluster["status"]["state"].as_str().unwrap_or_default().to_owned()
    }

    /// Replicas of the member objects, in the order of the members.
    pub(crate) fn replicas(&self) -> Vec<u64> {
        MEMBERS
            .iter()
            .map(|it| self.read(it, WEB).map_or(0, |it| it["spec"]["replicas"].as_u64().unwrap()))
            .collect()
    }

    /// The same without regard to which member has which.
    pub(crate) fn sorted_replicas(&self) -> Vec<u64> {
        let mut replicas = self.replicas();
        replicas.sort_unstable();
        replicas
    }

    /// How many pods of `image` are ready, over the fleet.
    pub(crate) fn ready_of(&self, image: &str) -> usize {
        all_pods(&self.world).iter().filter(|it| it.image == image && it.is_ready).count()
    }

    /// Waits until `web` rests: as many pods as asked for, all ready, so many of them new, and all of it acknowledged.
    pub(crate) async fn rests(&self, replicas: usize, updated: usize) {
        self.until(&format!("{replicas} pods rest, {updated} of them new"), |it| {
            let pods = all_pods(&it.world);
            let web = it.web();
            pods.len() == replicas
                && pods.iter().all(|it| it.is_ready)
                && pods.iter().filter(|it| it.image == "v2").count() == updated
                && web["status"]["observedGeneration"] == web["metadata"]["generation"]
                && web["status"]["availableReplicas"].as_u64().unwrap_or(0) == replicas as u64
        })
        .await;
    }

    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let patience = Duration::from_secs(900);
        self.world.eventually(what, patience, |_| condition(self)).await;
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        self.world.pass(Duration::from_secs(seconds)).await;
    }

    /// Resource versions of everything that a hub at rest must not write.
    pub(crate) fn versions(&self) -> Vec<String> {
        let server = self.world.cluster(HUB).server().clone();
        let versions = NEVER_WRITTEN.iter().flat_map(|kind| {
            server.list(kind).into_iter().map(move |it| {
                let meta = it.value()["metadata"].clone();
                format!("{kind} {} {}", meta["name"], meta["resourceVersion"])
            })
        });
        versions.collect()
    }
}

/// `updateStrategy.rollingUpdate` of a spec.
pub(crate) fn rolling(spec: &mut Value, fields: Value) {
    spec["updateStrategy"] = json!({"rollingUpdate": fields});
}
