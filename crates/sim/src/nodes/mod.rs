//! Nodes: a scheduler that places pods and kubelets that run them.

mod behaviour;
mod containers;
mod kubelet;
mod loss;
pub mod runtime;
mod scheduler;
mod spread;
mod status;
mod supply;
mod volumes;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use http::Method;
use serde_json::{Value, json};

pub use behaviour::{Behaviour, ImageBehaviour, NodeShape};

use self::{kubelet::PodRun, runtime::Programs, scheduler::NodeEntry};
use crate::{
    seed::Seed,
    server::store::{Change, Happened},
    world::{Member, Shared, World, lock},
};

/// The nodes of one cluster.
#[derive(Debug)]
pub struct Nodes {
    seed: Seed,
    behaviour: Behaviour,
    entries: BTreeMap<String, NodeEntry>,
    /// Pods with a node, by uid.
    runs: BTreeMap<Box<str>, PodRun>,
    /// Pods without one, by `namespace/name`.
    waiting: BTreeSet<String>,
    /// Those of them that another pod's arrival may help, because they are to be spread.
    spreading: BTreeSet<String>,
    /// What commands do in containers.
    programs: Programs,
}

impl Nodes {
    pub(crate) fn new(seed: Seed, behaviour: Behaviour) -> Self {
        let seed = seed.of("nodes");
        Self {
            seed,
            behaviour,
            entries: BTreeMap::new(),
            runs: BTreeMap::new(),
            waiting: BTreeSet::new(),
            spreading: BTreeSet::new(),
            programs: Programs::default(),
        }
    }

    /// Looks at one write and plans what scheduler and kubelets do about it.
    pub(crate) fn react(world: &Arc<Shared>, member: &Arc<Member>, change: &Change) {
        match &*change.table {
            "pods" => Self::react_to_pod(world, member, change),
            "nodes" => Self::react_to_node(world, member, change),
            "persistentvolumeclaims" => volumes::react(world, member, change),
            _ => {}
        }
    }

    fn react_to_pod(world: &Arc<Shared>, member: &Arc<Member>, change: &Change) {
        let pod = &change.object;
        let mut nodes = lock(&member.nodes);
        if nodes.entries.is_empty() {
            return;
        }
        if change.happened == Happened::Deleted {
            nodes.waiting.remove(pod.key().as_str());
            nodes.forget(&pod.uid, world.clock.elapsed());
            drop(nodes);
            scheduler::try_waiting(world, member);
            return;
        }
        if nodes.runs.contains_key(&pod.uid) {
            let notice = nodes.behaviour.notice;
            let delay = nodes.seed.of("notice").at(pod.version).between(notice.0, notice.1);
            drop(nodes);
            kubelet::wake(world, member, &pod.uid, delay);
            return;
        }
        let value = pod.value();
        match value["spec"]["nodeName"].as_str().filter(|it| !it.is_empty()) {
            Some(node) => {
                nodes.waiting.remove(pod.key().as_str());
                let known = nodes.admit(node, pod, &value);
                let notice = nodes.behaviour.notice;
                let delay = nodes.seed.of("notice").at(pod.version).between(notice.0, notice.1);
                drop(nodes);
                if known {
                    kubelet::wake(world, member, &pod.uid, delay);
                    scheduler::try_spreading(world, member);
                }
            }
            None => {
                let ours = value["spec"]["schedulerName"] == "default-scheduler";
                let gated = value["spec"]["schedulingGates"].as_array().is_some_and(|it| !it.is_empty());
                if !ours || gated || !value["metadata"]["deletionTimestamp"].is_null() {
                    return;
                }
                let key = pod.key().as_str().to_owned();
                if nodes.waiting.insert(key.clone()) {
                    let schedule = nodes.behaviour.schedule;
                    let delay = nodes.seed.of("schedule").at(pod.version).between(schedule.0, schedule.1);
                    drop(nodes);
                    world.later(member, delay, move |world, member| scheduler::place(world, member, &key));
                }
            }
        }
    }

    fn react_to_node(world: &Arc<Shared>, member: &Arc<Member>, change: &Change) {
        let mut nodes = lock(&member.nodes);
        let name = change.object.name.to_string();
        if change.happened == Happened::Deleted {
            nodes.entries.remove(&name);
            return;
        }
        let value = change.object.value();
        nodes.entries.entry(name).or_default().read(&value);
        drop(nodes);
        scheduler::try_waiting(world, member);
    }

    /// Takes a placed pod in; false when its node does not exist.
    fn admit(&mut self, node: &str, pod: &crate::server::object::Stored, value: &Value) -> bool {
        let Some(entry) = self.entries.get_mut(node) else { return false };
        let request = scheduler::request_of(value);
        entry.take(&request);
        let address =
            format!("10.{}.{}.{}", entry.number / 250, entry.number % 250, 2 + entry.admitted % 250);
        entry.admitted += 1;
        self.runs.insert(pod.uid.clone(), PodRun::new(pod, node, address, request));
        true
    }

    fn forget(&mut self, uid: &str, now: Duration) {
        let Some(mut run) = self.runs.remove(uid) else { return };
        for container in run.init.iter_mut().chain(&mut run.containers) {
            container.give_up(now);
        }
        if let Some(entry) = self.entries.get_mut(&run.node) {
            entry.give_back(&run.request);
        }
    }
}

impl World {
    /// Adds a node to a cluster.
    pub fn add_node(&self, cluster: &str, name: &str, shape: &NodeShape) {
        let member = self.cluster(cluster);
        let number = {
            let mut nodes = lock(&member.nodes);
            let number = nodes.entries.len() as u32 + 1;
            nodes.entries.entry(name.to_owned()).or_default().number = number;
            number
        };
        let now = crate::time::seconds(member.server().clock().now());
        let node = node_object(name, number, shape, &now);
        let created = self.write(cluster, Method::POST, "/api/v1/nodes", &node);
        assert!(created.is_ok(), "the node was refused: {created:?}");
    }

    /// Silences a node: its kubelet does nothing until [`Self::return_node`].
    pub fn lose_node(&self, cluster: &str, name: &str) {
        self.shared.write_log(format_args!("{cluster} node {name} is lost"));
        loss::lose(&self.shared, &self.cluster(cluster), name);
    }

    /// Brings a lost node back; its pods still run.
    pub fn return_node(&self, cluster: &str, name: &str) {
        self.shared.write_log(format_args!("{cluster} node {name} is back"));
        loss::return_(&self.shared, &self.cluster(cluster), name);
    }

    /// Makes a container of a pod exit, as a fault or the end of its work would.
    pub fn exit_container(&self, cluster: &str, pod: &str, container: &str, code: i32) {
        kubelet::exit(&self.shared, &self.cluster(cluster), pod, container, code);
    }

    /// Makes a container's readiness probe succeed or fail from now on.
    pub fn set_container_ready(&self, cluster: &str, pod: &str, container: &str, ready: bool) {
        kubelet::set_ready(&self.shared, &self.cluster(cluster), pod, container, ready);
    }

    /// Changes how an image behaves from its next start on.
    pub fn set_image(&self, cluster: &str, image: &str, behaviour: ImageBehaviour) {
        let member = self.cluster(cluster);
        lock(&member.nodes).behaviour.images.insert(image.to_owned(), behaviour);
    }
}

fn node_object(name: &str, number: u32, shape: &NodeShape, now: &str) -> Value {
    let mut labels = json!({
        "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
    });
    for (key, value) in &shape.labels {
        labels[key] = json!(value);
    }
    let resources = json!({"cpu": shape.cpu, "memory": shape.memory, "pods": shape.pods.to_string()});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"podCIDR": format!("10.{}.{}.0/24", number / 250, number % 250)},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [
                {"type": "InternalIP", "address": host_address(number)},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady",
                "message": "kubelet is posting ready status",
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            }],
            "nodeInfo": {
                "kubeletVersion": "v1.34.4", "containerRuntimeVersion": "containerd://2.0.0",
                "operatingSystem": "linux", "architecture": "amd64", "kernelVersion": "6.1.0",
                "osImage": "Simulated Linux", "kubeProxyVersion": "", "bootID": "", "machineID": "",
                "systemUUID": "",
            },
        },
    })
}

fn host_address(number: u32) -> String {
    format!("192.168.{}.{}", number / 250, number % 250 + 1)
}

/// The next moment something is due.
type Due = Option<Duration>;

fn sooner(one: Due, other: Due) -> Due {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
