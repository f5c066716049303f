//! ContainerRecreateRequests: what admission fills in from the pod, and what it refuses.
//!
//! A request names containers; everything the node needs to act on it (where the pod is, which containers are meant,
//! what runs before they stop) is written into it here, once, and never changes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client};
use serde_json::{Map, Value, json};

use super::of_our_kind;
use crate::{
    api::{common::keys::VIRTUAL_KUBELET, container_recreate_request::keys},
    runtime::{
        client::{Error, call},
        gates::{Gate, Gates},
        webhook::{AdmissionRequest, Denial, Operation, Registration, Verdict, registration::Phase},
    },
};

/// Where requests are changed and checked.
pub const MUTATE: &str = "/mutate-apps-kruise-io-containerrecreaterequest";

/// Which requests the API server sends here.
pub const REGISTRATIONS: &[Registration] = &[of_our_kind(
    "mcontainerrecreaterequest.kb.io",
    Phase::Mutating,
    MUTATE,
    &["containerrecreaterequests"],
)];

/// The shortest deadline; anything less would pass before a node has looked.
const SHORTEST_DEADLINE: i64 = 3;

/// Condition of pods whose sidecars were stopped because the job is done.
pub const SIDECAR_TERMINATED: &str = "SidecarTerminated";

/// The pod and the node that a new request is about, as the API server shows them.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// The pod that the request names.
    pub pod: Option<Value>,
    /// The node that the pod runs on.
    pub node: Option<Value>,
}

impl World {
    /// Reads the pod and its node: whole, as hooks and ports are not in any cache.
    pub async fn read(client: &Client, namespace: &str, pod: &str) -> Result<Self, Error> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let pod = call("get pod of recreate request", pods.get_opt(pod)).await?;
        let name = pod.as_ref().and_then(|it| it.spec.as_ref()?.node_name.clone()).unwrap_or_default();
        let node = match name.as_str() {
            "" => None,
            name => {
                let nodes: Api<Node> = Api::all(client.clone());
                call("get node of recreate request", nodes.get_opt(name)).await?
            }
        };
        Ok(Self { pod: pod.map(|it| json!(it)), node: node.map(|it| json!(it)) })
    }
}

/// Reviews a request, with what the API server shows about its pod.
pub async fn review(request: &AdmissionRequest, client: &Client, gates: Gates) -> Verdict {
    let world = match pod_of(request).filter(|_| gates.is_on(Gate::KruiseDaemon)) {
        Some((namespace, pod)) => World::read(client, namespace, pod).await,
        None => Ok(World::default()),
    };
    match world {
        Ok(world) => mutating(request, &world, gates),
        Err(error) => Verdict::denied(500, error.to_string()),
    }
}

/// Reviews a request. `world` is read before, for a new one: the pod that [`pod_of`] names, and its node.
pub fn mutating(request: &AdmissionRequest, world: &World, gates: Gates) -> Verdict {
    match (&request.object, &request.old_object) {
        (Some(object), Some(old)) if request.operation == Operation::Update => update(object, old, gates),
        (Some(object), _) if request.operation == Operation::Create => create(object, world, gates),
        _ => Verdict::allow(),
    }
}

/// The namespace and name of the pod that a new request is about.
pub fn pod_of(request: &AdmissionRequest) -> Option<(&str, &str)> {
    let name = request.object.as_ref()?.pointer("/spec/podName")?.as_str().filter(|it| !it.is_empty())?;
    Some((request.namespace.as_deref()?, name)).filter(|_| request.operation == Operation::Create)
}

/// Reviews the creation of a request.
pub fn create(object: &Value, world: &World, gates: Gates) -> Verdict {
    if !gates.is_on(Gate::KruiseDaemon) {
        return gate_is_off();
    }
    match fill(object, world) {
        Ok(filled) => Verdict::patched(filled),
        Err(denial) => Verdict::Denied(denial),
    }
}

/// Reviews a change of a request: what it asks for, and of whom, never changes.
pub fn update(object: &Value, old: &Value, gates: Gates) -> Verdict {
    if !gates.is_on(Gate::KruiseDaemon) {
        return gate_is_off();
    }
    // It was made where there was no admission: the controller fills it in now, in one write.
    if label(old, keys::POD_UID).is_none() {
        return Verdict::allow();
    }
    if object.get("spec") != old.get("spec") {
        return Verdict::denied(403, "spec of ContainerRecreateRequest is immutable");
    }
    for key in [keys::POD_UID, keys::NODE_NAME] {
        if label(object, key) != label(old, key) {
            return Verdict::denied(403, format!("label {key} is immutable"));
        }
    }
    let annotation =
        |it: &Value| it["metadata"]["annotations"][keys::UNREADY_ACQUIRED].as_str().map(str::to_owned);
    if annotation(old).is_some() && annotation(object) != annotation(old) {
        return Verdict::denied(403, format!("annotation {} is immutable", keys::UNREADY_ACQUIRED));
    }
    Verdict::allow()
}

/// The request with everything filled in that the node needs, or why it cannot be.
pub fn fill(object: &Value, world: &World) -> Result<Value, Denial> {
    let mut filled = object.clone();
    let pod_name = filled["spec"]["podName"].as_str().unwrap_or_default().to_owned();
    if pod_name.is_empty() {
        return Err(bad("podName can not be empty"));
    }
    check_numbers(&mut filled)?;
    let Some(pod) = &world.pod else { return Err(bad(format!("no found Pod named {pod_name}"))) };
    if !is_active(pod) && !has_condition(pod, SIDECAR_TERMINATED) {
        return Err(bad("not allowed to recreate containers in an inactive Pod"));
    }
    let node_name = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if node_name.is_empty() {
        return Err(bad("not allowed to recreate containers in a pending Pod"));
    }
    let Some(node) = &world.node else { return Err(bad(format!("no found Node named {node_name}"))) };

    let labels = object_at(&mut filled, &["metadata", "labels"]);
    labels.insert(keys::ACTIVE.into(), json!("true"));
    labels.insert(keys::NODE_NAME.into(), json!(node_name));
    labels.insert(keys::POD_UID.into(), pod["metadata"]["uid"].clone());
    if label(node, "type").as_deref() == Some(VIRTUAL_KUBELET) {
        labels.insert("type".into(), json!(VIRTUAL_KUBELET));
    }
    let strategy = object_at(&mut filled, &["spec", "strategy"]);
    if strategy.get("terminationGracePeriodSeconds").is_none_or(Value::is_null)
        && let Some(seconds) = pod["spec"]["terminationGracePeriodSeconds"].as_i64()
    {
        strategy.insert("terminationGracePeriodSeconds".into(), json!(seconds));
    }
    fill_containers(&mut filled, pod)?;
    Ok(filled)
}

fn check_numbers(request: &mut Value) -> Result<(), Denial> {
    if request["spec"]["containers"].as_array().is_none_or(Vec::is_empty) {
        return Err(bad("containers list can not be null"));
    }
    if request["spec"]["activeDeadlineSeconds"].as_i64().is_some_and(|it| it < SHORTEST_DEADLINE) {
        return Err(bad(format!("activeDeadlineSeconds can not be less than {SHORTEST_DEADLINE}")));
    }
    let strategy = object_at(request, &["spec", "strategy"]);
    for field in ["terminationGracePeriodSeconds", "unreadyGracePeriodSeconds"] {
        if strategy.get(field).and_then(Value::as_i64).is_some_and(|it| it < 0) {
            return Err(bad(format!("{field} can not be less than 0")));
        }
    }
    match strategy.get("failurePolicy").and_then(Value::as_str).unwrap_or_default() {
        "" => drop(strategy.insert("failurePolicy".into(), json!("Fail"))),
        "Fail" | "Ignore" => {}
        other => return Err(bad(format!("unknown failurePolicy {other}"))),
    }
    Ok(())
}

fn fill_containers(request: &mut Value, pod: &Value) -> Result<(), Denial> {
    let mut seen = BTreeSet::new();
    let containers = request["spec"]["containers"].as_array_mut().into_iter().flatten();
    for wanted in containers {
        let name = wanted["name"].as_str().unwrap_or_default().to_owned();
        if !seen.insert(name.clone()) {
            return Err(bad(format!("duplicated container name {name}")));
        }
        let is_set = |field: &str| wanted.get(field).is_some_and(|it| !it.is_null() && *it != json!([]));
        if ["preStop", "ports", "statusContext"].into_iter().any(is_set) {
            return Err(bad(format!(
                "container {name}: preStop, ports and statusContext are filled in and can not be set"
            )));
        }
        let Some(spec) = named(pod, "/spec", ["containers", "initContainers"], &name) else {
            return Err(bad(format!("container {name} not found in Pod")));
        };
        let statuses = ["containerStatuses", "initContainerStatuses"];
        let status = named(pod, "/status", statuses, &name);
        let id = status.and_then(|it| it["containerID"].as_str()).unwrap_or_default();
        let (Some(status), false) = (status, id.is_empty()) else {
            return Err(bad(format!("not found {name} containerID in Pod Status")));
        };
        wanted["statusContext"] =
            json!({"containerID": id, "restartCount": status["restartCount"].as_i64().unwrap_or(0)});
        let hook = &spec["lifecycle"]["preStop"];
        let kept: Map<String, Value> = ["exec", "httpGet", "tcpSocket"]
            .into_iter()
            .filter(|it| !hook[*it].is_null())
            .map(|it| (it.to_owned(), hook[it].clone()))
            .collect();
        if kept.contains_key("httpGet") && !spec["ports"].is_null() {
            wanted["ports"] = spec["ports"].clone();
        }
        if !kept.is_empty() {
            wanted["preStop"] = Value::Object(kept);
        }
    }
    Ok(())
}

/// The entry of this name in the first of two lists that has one. Sidecars may be among the init containers.
fn named<'a>(pod: &'a Value, part: &str, lists: [&str; 2], name: &str) -> Option<&'a Value> {
    let part = pod.pointer(part)?;
    let all = lists.into_iter().filter_map(|it| part.get(it)?.as_array()).flatten();
    all.into_iter().find(|it| it["name"] == name)
}

fn is_active(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    !matches!(phase, "Succeeded" | "Failed") && pod["metadata"]["deletionTimestamp"].is_null()
}

fn has_condition(pod: &Value, kind: &str) -> bool {
    pod["status"]["conditions"].as_array().into_iter().flatten().any(|it| it["type"] == kind)
}

fn label(object: &Value, key: &str) -> Option<String> {
    object.pointer("/metadata/labels")?.get(key)?.as_str().map(str::to_owned)
}

/// The object below `path`, made where it is missing or of another form.
fn object_at<'a>(root: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    static FORM: &str = "it was made an object just before";
    let mut at = root;
    for part in path {
        if !at.is_object() {
            *at = json!({});
        }
        at = at.as_object_mut().expect(FORM).entry(*part).or_insert(Value::Null);
    }
    if !at.is_object() {
        *at = json!({});
    }
    at.as_object_mut().expect(FORM)
}

fn bad(message: impl Into<String>) -> Denial {
    Denial { code: 400, message: message.into(), causes: Vec::new(), warnings: Vec::new() }
}

fn gate_is_off() -> Verdict {
    Verdict::denied(403, "feature-gate KruiseDaemon is not enabled (chart value featureGates)")
}

#[cfg(test)]
mod tests;
