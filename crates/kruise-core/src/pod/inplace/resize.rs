//! Cpu and memory of running containers.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::state::Resources;
use crate::{
    quantity,
    runtime::cache::pod::{ContainerLite, PodLite},
};

/// The resources that can change under a running container.
pub(super) const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// Whether an API server of this version (`gitVersion`) has `pods/resize`: from 1.32 on. Words behind the numbers do
/// not matter (`v1.32+gke.1`); what is no version has none.
pub fn server_resizes(git_version: &str) -> bool {
    let mut parts = git_version.strip_prefix('v').unwrap_or(git_version).splitn(3, '.').map(|it| {
        let end = it.find(|it: char| !it.is_ascii_digit()).unwrap_or(it.len());
        it[..end].parse::<u64>().ok()
    });
    let mut number = || parts.next().flatten();
    match (number(), number(), number()) {
        (Some(major), Some(minor), Some(_)) => (major, minor) >= (1, 32),
        _ => false,
    }
}

/// Whether kubelet reports for every container exactly the resources that it should have.
pub fn is_resized(pod: &PodLite) -> bool {
    let (containers, statuses) = (&pod.spec.containers, &pod.status.container_statuses);
    containers.len() == statuses.len()
        && containers.iter().all(|container| {
            statuses.iter().find(|it| it.name == container.name).is_some_and(|status| {
                status.resources.is_object()
                    && ["limits", "requests"]
                        .iter()
                        .all(|it| is_same_list(&container.resources[it], &status.resources[it]))
            })
        })
}

/// Whether giving these resources to a container restarts it.
pub(super) fn restarts(container: &ContainerLite, wanted: &Resources) -> bool {
    container.resize_policy.as_array().into_iter().flatten().any(|it| {
        it["restartPolicy"] == "RestartContainer"
            && it["resourceName"].as_str().is_some_and(|name| {
                RESIZABLE.contains(&name)
                    && (wanted.limits.contains_key(name) || wanted.requests.contains_key(name))
            })
    })
}

/// What must be patched for a container to have these resources; `None` if it has them.
pub(super) fn differing(container: &ContainerLite, wanted: &Resources) -> Option<Value> {
    let mut lists = Map::new();
    for (name, list) in [("limits", &wanted.limits), ("requests", &wanted.requests)] {
        let changed: Map<String, Value> = list
            .iter()
            .filter(|(key, _)| RESIZABLE.contains(&key.as_str()))
            .filter(|(key, value)| !is_same(&container.resources[name][key.as_str()], &json!(value)))
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        if !changed.is_empty() {
            lists.insert(name.into(), changed.into());
        }
    }
    (!lists.is_empty()).then_some(lists.into())
}

/// Reads a quantity that stands in a template, where plain numbers are allowed too.
pub(super) fn quantity_text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    quantity::nano(&text).map(|_| text)
}

/// How kubelet ranks a pod when resources run short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Qos {
    BestEffort,
    Burstable,
    Guaranteed,
}

/// The class of the pods of a template. A request that is not given is what the API server makes of it: the limit.
pub(super) fn qos(pod_spec: &Value) -> Qos {
    let mut requests: BTreeMap<&str, i128> = BTreeMap::new();
    let mut limits: BTreeMap<&str, i128> = BTreeMap::new();
    let mut every_container_is_limited = true;
    let containers =
        ["containers", "initContainers"].into_iter().filter_map(|it| pod_spec[it].as_array()).flatten();
    for container in containers {
        for name in RESIZABLE {
            let amount = |list: &str| {
                let text = quantity_text(&container["resources"][list][name])?;
                quantity::nano(&text)
            };
            let limit = amount("limits").filter(|it| *it > 0);
            let request = amount("requests").or(limit).filter(|it| *it > 0);
            match limit {
                Some(limit) => *limits.entry(name).or_default() += limit,
                None => every_container_is_limited = false,
            }
            if let Some(request) = request {
                *requests.entry(name).or_default() += request;
            }
        }
    }
    if requests.is_empty() && limits.is_empty() {
        Qos::BestEffort
    } else if every_container_is_limited && requests == limits {
        Qos::Guaranteed
    } else {
        Qos::Burstable
    }
}

fn is_same_list(a: &Value, b: &Value) -> bool {
    let none = Map::new();
    let (a, b) = (a.as_object().unwrap_or(&none), b.as_object().unwrap_or(&none));
    a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|it| is_same(value, it)))
}

fn is_same(a: &Value, b: &Value) -> bool {
    let amount = |it: &Value| quantity_text(it).and_then(|it| quantity::nano(&it));
    a == b || (amount(a).is_some() && amount(a) == amount(b))
}
