//! The scheduler: which node a pod goes to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use http::Method;
use serde_json::{Value, json};

use super::{
    Nodes,
    behaviour::milli,
    runtime::Act,
    spread::{Place, Spread},
};
use crate::{
    server::{
        Cluster,
        object::{Key, Stored, is_deleting},
    },
    world::{Member, Shared, lock},
};

/// What the scheduler knows of a node.
#[derive(Debug, Default)]
pub(super) struct NodeEntry {
    pub(super) number: u32,
    /// How many pods it ever took; for their addresses.
    pub(super) admitted: u32,
    /// Its kubelet is silent.
    pub(super) lost: bool,
    /// The images it has, by full reference.
    pub(super) images: BTreeSet<String>,
    /// How many images its runtime was asked to pull.
    pub(super) pulls: u64,
    /// What its runtime was asked to do to containers.
    pub(super) acts: Vec<Act>,
    labels: BTreeMap<String, String>,
    taints: Vec<Value>,
    closed: bool,
    room: Request,
    used: Request,
}

/// What a pod asks for, and what a node has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Request {
    cpu: i64,
    memory: i64,
    pods: i64,
}

impl NodeEntry {
    pub(super) fn read(&mut self, node: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
        self.labels = labels.map(|(key, value)| (key.clone(), text(value))).collect();
        self.taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True");
        self.closed = node["spec"]["unschedulable"] == true || !ready;
        let amount = |name: &str| milli(&text(&node["status"]["allocatable"][name])).unwrap_or(0);
        self.room = Request { cpu: amount("cpu"), memory: amount("memory"), pods: amount("pods") / 1000 };
    }

    pub(super) fn take(&mut self, request: &Request) {
        self.used.cpu += request.cpu;
        self.used.memory += request.memory;
        self.used.pods += request.pods;
    }

    pub(super) fn give_back(&mut self, request: &Request) {
        self.used.cpu -= request.cpu;
        self.used.memory -= request.memory;
        self.used.pods -= request.pods;
    }

    fn fits(&self, request: &Request) -> bool {
        self.used.cpu + request.cpu <= self.room.cpu
            && self.used.memory + request.memory <= self.room.memory
            && self.used.pods + request.pods <= self.room.pods
    }

    /// How full the node would be, in thousandths.
    fn fullness(&self, request: &Request) -> i64 {
        let share = |used: i64, room: i64| if room == 0 { 1000 } else { used * 1000 / room };
        share(self.used.cpu + request.cpu, self.room.cpu)
            .max(share(self.used.memory + request.memory, self.room.memory))
            .max(share(self.used.pods + request.pods, self.room.pods))
    }
}

/// What a pod asks for: the greater of its init containers and the sum of the others.
pub(super) fn request_of(pod: &Value) -> Request {
    let read = |container: &Value, name: &str| {
        let text = container["resources"]["requests"][name].as_str().unwrap_or_default();
        milli(text).unwrap_or(0)
    };
    let total = |name: &str| {
        let sum: i64 =
            pod["spec"]["containers"].as_array().into_iter().flatten().map(|it| read(it, name)).sum();
        let init =
            pod["spec"]["initContainers"].as_array().into_iter().flatten().map(|it| read(it, name)).max();
        sum.max(init.unwrap_or(0))
    };
    Request { cpu: total("cpu"), memory: total("memory"), pods: 1 }
}

/// Tries every pod that found no place before.
pub(super) fn try_waiting(world: &Arc<Shared>, member: &Arc<Member>) {
    let waiting: Vec<String> = lock(&member.nodes).waiting.iter().cloned().collect();
    try_again(world, member, waiting);
}

/// Tries the pods again that found no place because they are to be spread.
pub(super) fn try_spreading(world: &Arc<Shared>, member: &Arc<Member>) {
    let spreading = std::mem::take(&mut lock(&member.nodes).spreading);
    try_again(world, member, spreading);
}

fn try_again(world: &Arc<Shared>, member: &Arc<Member>, keys: impl IntoIterator<Item = String>) {
    let delay = std::time::Duration::from_millis(10);
    for key in keys {
        world.later(member, delay, move |world, member| place(world, member, &key));
    }
}

/// Places one pod, or says why it cannot be placed.
pub(super) fn place(world: &Arc<Shared>, member: &Arc<Member>, key: &str) {
    let server = member.server();
    let key_parts = Key::from_text(key);
    let (namespace, name) = key_parts.parts();
    let mut nodes = lock(&member.nodes);
    if !nodes.waiting.contains(key) {
        return;
    }
    let Some(stored) = server.get("pods", namespace, name) else {
        nodes.waiting.remove(key);
        return;
    };
    let pod = stored.value();
    let placed = pod["spec"]["nodeName"].as_str().is_some_and(|it| !it.is_empty());
    if placed || !pod["metadata"]["deletionTimestamp"].is_null() {
        nodes.waiting.remove(key);
        return;
    }
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let spread = Spread::of(&pod);
    let neighbours = match &spread {
        Some(_) => neighbours(server, namespace),
        None => Vec::new(),
    };
    let choose = || nodes.choose(&pod, &stored.uid, spread.as_ref(), &neighbours);
    let choice = missing_claim(server, &pod).map_or_else(choose, Err);
    match choice {
        Ok(node) => {
            nodes.waiting.remove(key);
            drop(nodes);
            world.write_log(format_args!("{} scheduler binds {key} to {node}", server.name()));
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            let _ = server.write(Method::POST, &format!("{path}/binding"), &binding);
        }
        Err(reason) => {
            if spread.is_some() {
                nodes.spreading.insert(key.to_owned());
            }
            drop(nodes);
            let now = crate::time::seconds(server.clock().now());
            say_unschedulable(server, &path, &pod, &reason, &now);
        }
    }
}

/// The pods of a namespace that count for spreading: those that are not on their way out.
fn neighbours(server: &Cluster, namespace: &str) -> Vec<Arc<Stored>> {
    let mut pods = server.list("pods");
    pods.retain(|it| *it.namespace == *namespace && !is_deleting(&it.value()));
    pods
}

fn missing_claim(server: &Cluster, pod: &Value) -> Option<String> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let claims = volumes.into_iter().filter_map(|it| it["persistentVolumeClaim"]["claimName"].as_str());
    let missing =
        claims.into_iter().find(|it| server.get("persistentvolumeclaims", namespace, it).is_none())?;
    Some(format!("persistentvolumeclaim {missing:?} not found"))
}

fn say_unschedulable(server: &Cluster, path: &str, pod: &Value, reason: &str, now: &str) {
    let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let same = conditions.iter().any(|it| it["type"] == "PodScheduled" && it["message"] == reason);
    if same {
        return;
    }
    conditions.retain(|it| it["type"] != "PodScheduled");
    conditions.push(json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": reason,
        "lastProbeTime": null, "lastTransitionTime": now,
    }));
    let patch = json!({"status": {"conditions": conditions}});
    let _ = server.write(Method::PATCH, &format!("{path}/status"), &patch);
}

impl Nodes {
    /// The emptiest node that takes the pod, of those where it lies most evenly; the seed settles ties.
    fn choose(
        &self,
        pod: &Value,
        uid: &str,
        spread: Option<&Spread>,
        neighbours: &[Arc<Stored>],
    ) -> Result<String, String> {
        let request = request_of(pod);
        let draw = self.seed.of("tie").of(uid);
        let places = spread.map(|_| self.places(pod, neighbours)).unwrap_or_default();
        let even = spread.map(|it| it.allowed(&places));
        let (mut refused, mut full, mut uneven) = (0, 0, 0);
        let mut candidates = vec![false; self.entries.len()];
        for (index, (name, entry)) in self.entries.iter().enumerate() {
            if entry.closed || !selected(pod, name, entry) || !tolerated(pod, entry) {
                refused += 1;
            } else if !entry.fits(&request) {
                full += 1;
            } else if even.as_ref().is_some_and(|it| !it[index]) {
                uneven += 1;
            } else {
                candidates[index] = true;
            }
        }
        let unevenness = spread.map(|it| it.unevenness(&places, &candidates));
        let open = self.entries.iter().enumerate().filter(|(index, _)| candidates[*index]);
        let best = open.min_by_key(|(index, (name, entry))| {
            let uneven = unevenness.as_ref().map_or(0, |it| it[*index]);
            (uneven, entry.fullness(&request), draw.of(name).bits())
        });
        best.map(|(_, (name, _))| name.clone()).ok_or_else(|| {
            let all = self.entries.len();
            let spread = match uneven {
                0 => String::new(),
                uneven => format!("{uneven} node(s) didn't match pod topology spread constraints, "),
            };
            format!(
                "0/{all} nodes are available: {spread}{full} Insufficient resources, {refused} node(s) didn't match the \
                 pod's node selector, affinity or tolerations."
            )
        })
    }

    /// The nodes as the constraints of a pod see them, in the order of their names.
    fn places<'a>(&'a self, pod: &Value, neighbours: &'a [Arc<Stored>]) -> Vec<Place<'a>> {
        let on = |name: &str| {
            let here = |it: &&Arc<Stored>| self.runs.get(&it.uid).is_some_and(|run| run.node == name);
            neighbours.iter().filter(here).map(|it| &*it.labels).collect()
        };
        let place = |(name, entry): (&'a String, &'a NodeEntry)| Place {
            labels: &entry.labels,
            is_selected: selected(pod, name, entry),
            is_tolerated: tolerated(pod, entry),
            pods: on(name),
        };
        self.entries.iter().map(place).collect()
    }
}

fn selected(pod: &Value, name: &str, entry: &NodeEntry) -> bool {
    let wanted = pod["spec"]["nodeSelector"].as_object().into_iter().flatten();
    let by_label = wanted.into_iter().all(|(key, value)| {
        value.as_str().is_some_and(|it| entry.labels.get(key).is_some_and(|label| label == it))
    });
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let Some(terms) = required["nodeSelectorTerms"].as_array() else { return by_label };
    by_label
        && terms.iter().any(|term| {
            let labels = term["matchExpressions"].as_array().into_iter().flatten();
            let fields = term["matchFields"].as_array().into_iter().flatten();
            labels.into_iter().all(|it| {
                let key = it["key"].as_str().unwrap_or_default();
                expression_holds(it, entry.labels.get(key).map(String::as_str))
            }) && fields.into_iter().all(|it| expression_holds(it, Some(name)))
        })
}

fn expression_holds(expression: &Value, value: Option<&str>) -> bool {
    let listed = value.is_some_and(|value| {
        expression["values"].as_array().into_iter().flatten().any(|it| it.as_str() == Some(value))
    });
    match expression["operator"].as_str() {
        Some("In") => listed,
        Some("NotIn") => !listed,
        Some("Exists") => value.is_some(),
        Some("DoesNotExist") => value.is_none(),
        _ => false,
    }
}

fn tolerated(pod: &Value, entry: &NodeEntry) -> bool {
    let tolerations = || pod["spec"]["tolerations"].as_array().into_iter().flatten();
    let hard = entry.taints.iter().filter(|it| it["effect"] != "PreferNoSchedule");
    hard.into_iter().all(|taint| {
        tolerations().any(|it| {
            let any = |member: &str| it[member].as_str().is_none_or(str::is_empty);
            let key = any("key") || it["key"] == taint["key"];
            let effect = any("effect") || it["effect"] == taint["effect"];
            let value = it["operator"] == "Exists"
                || it["value"].as_str().unwrap_or_default() == taint["value"].as_str().unwrap_or_default();
            key && effect && value
        })
    })
}
