//! Lost nodes: what the node controller does when a kubelet falls silent.

use std::{sync::Arc, time::Duration};

use http::Method;
use serde_json::{Value, json};

use super::kubelet;
use crate::{
    server::object::set,
    world::{Member, Shared, lock},
};

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

pub(super) fn lose(world: &Arc<Shared>, member: &Arc<Member>, name: &str) {
    let silence = {
        let mut nodes = lock(&member.nodes);
        let silence = nodes.behaviour.node_silence;
        let Some(entry) = nodes.entries.get_mut(name) else { return };
        entry.lost = true;
        silence
    };
    let name = name.to_owned();
    world.later(member, silence, move |world, member| declare(world, member, &name));
}

pub(super) fn return_(world: &Arc<Shared>, member: &Arc<Member>, name: &str) {
    let uids: Vec<Box<str>> = {
        let mut nodes = lock(&member.nodes);
        let Some(entry) = nodes.entries.get_mut(name) else { return };
        entry.lost = false;
        nodes.runs.iter().filter(|(_, it)| it.node == name).map(|(uid, _)| uid.clone()).collect()
    };
    write_node(member, name, true);
    world.settle(member);
    for uid in uids {
        kubelet::wake(world, member, &uid, Duration::from_millis(500));
    }
}

fn is_lost(member: &Member, name: &str) -> bool {
    lock(&member.nodes).entries.get(name).is_some_and(|it| it.lost)
}

/// The node was silent for too long: it is marked, its pods are not ready, and later they are evicted.
fn declare(world: &Arc<Shared>, member: &Arc<Member>, name: &str) {
    if !is_lost(member, name) {
        return;
    }
    write_node(member, name, false);
    let server = member.server();
    let now = crate::time::seconds(server.clock().now());
    for (path, mut pod) in pods_on(member, name) {
        let conditions = pod["status"]["conditions"].as_array_mut().into_iter().flatten();
        for condition in conditions.filter(|it| it["type"] == "Ready" && it["status"] == "True") {
            condition["status"] = json!("False");
            condition["lastTransitionTime"] = json!(now);
        }
        let _ = server.write(Method::PUT, &format!("{path}/status"), &pod);

        let patience = patience(&pod);
        let Some(patience) = patience else { continue };
        let (name, uid) = (name.to_owned(), pod["metadata"]["uid"].clone());
        world.later(member, patience, move |_, member| {
            if is_lost(member, &name) {
                let options = json!({"preconditions": {"uid": uid}});
                let _ = member.server().write(Method::DELETE, &path, &options);
            }
        });
    }
}

/// How long a pod tolerates an unreachable node; `None` for ever.
fn patience(pod: &Value) -> Option<Duration> {
    let tolerations = pod["spec"]["tolerations"].as_array().into_iter().flatten();
    let fitting = tolerations.into_iter().find(|it| {
        let any = |member: &str| it[member].as_str().is_none_or(str::is_empty);
        (it["key"] == UNREACHABLE || any("key")) && (it["effect"] == "NoExecute" || any("effect"))
    });
    match fitting {
        None => Some(Duration::ZERO),
        Some(it) => it["tolerationSeconds"].as_u64().map(Duration::from_secs),
    }
}

fn pods_on(member: &Member, node: &str) -> Vec<(String, Value)> {
    let pods = member.server().list("pods");
    let pods = pods.iter().map(|it| it.value()).filter(|it| it["spec"]["nodeName"] == node);
    pods.map(|pod| {
        let text = |name: &str| pod["metadata"][name].as_str().unwrap_or_default().to_owned();
        (format!("/api/v1/namespaces/{}/pods/{}", text("namespace"), text("name")), pod)
    })
    .collect()
}

fn write_node(member: &Member, name: &str, ready: bool) {
    let server = member.server();
    let Some(stored) = server.get("nodes", "", name) else { return };
    let now = crate::time::seconds(server.clock().now());
    let mut node = stored.value();
    let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.retain(|it| it["key"] != UNREACHABLE);
    if !ready {
        for effect in ["NoSchedule", "NoExecute"] {
            taints.push(json!({"key": UNREACHABLE, "effect": effect, "timeAdded": now}));
        }
    }
    set(&mut node, &["spec", "taints"], json!(taints));
    let condition = if ready {
        json!({"type": "Ready", "status": "True", "reason": "KubeletReady",
               "message": "kubelet is posting ready status",
               "lastHeartbeatTime": now, "lastTransitionTime": now})
    } else {
        json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
               "message": "Kubelet stopped posting node status.",
               "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    set(&mut node, &["status", "conditions"], json!([condition]));
    let _ = server.write(Method::PUT, &format!("/api/v1/nodes/{name}"), &node);
    if let Some(stored) = server.get("nodes", "", name) {
        let mut fresh = stored.value();
        fresh["status"] = node["status"].clone();
        let _ = server.write(Method::PUT, &format!("/api/v1/nodes/{name}/status"), &fresh);
    }
}
