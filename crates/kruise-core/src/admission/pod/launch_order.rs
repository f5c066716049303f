//! Stage 4: containers that are to start one after the other wait for their turn (spec/admission.md 8).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Setting, items, list};
use crate::pod::launch::{ORDER, ORDERED, PRIORITY, barrier_name, waiting_entry};

/// The longest name of a ConfigMap.
const NAME_LIMIT: usize = 253;
/// As much of `generateName` as the API server uses, so that our names look like its own.
const GENERATED_PREFIX: usize = 58;
/// The letters and digits of generated names: none that spell words or look alike.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;

/// Gives every container its key, if they have an order at all.
pub(super) fn apply(pod: &mut Value, setting: &Setting) -> Result<Vec<String>, String> {
    let mut warnings = Vec::new();
    let Some(priorities) = priorities(pod, &mut warnings)? else { return Ok(warnings) };
    let Some(name) = name(pod, setting.seed) else { return Ok(warnings) };
    let barrier = barrier_name(&name);
    if barrier.len() > NAME_LIMIT {
        return Err(format!(
            "pod name {name:?} is too long for a launch order: its barrier {barrier:?} would have more than {NAME_LIMIT} characters"
        ));
    }
    if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("name".to_owned(), name.into());
    }
    let containers = pod.pointer_mut("/spec/containers").and_then(Value::as_array_mut);
    for (container, priority) in containers.into_iter().flatten().zip(priorities) {
        if let Some(env) = list(container, "env") {
            env.push(waiting_entry(&barrier, priority));
        }
    }
    Ok(warnings)
}

/// The priority of each container, or none if there is no order among them.
fn priorities(pod: &Value, warnings: &mut Vec<String>) -> Result<Option<Vec<i64>>, String> {
    let containers = items(pod, "/spec/containers");
    for container in items(pod, "/spec/initContainers").iter().filter(|it| states_priority(it)) {
        let name = &container["name"];
        warnings
            .push(format!("{PRIORITY} of init container {name} has no effect: only containers are ordered"));
    }
    let order = pod["metadata"]["annotations"].get(ORDER).and_then(Value::as_str);
    if let Some(other) = order.filter(|it| *it != ORDERED) {
        warnings.push(format!("annotation {ORDER}={other:?} has no effect: only {ORDERED:?} has a meaning"));
    }
    if containers.len() < 2 {
        return Ok(None);
    }
    if order == Some(ORDERED) {
        for container in containers.iter().filter(|it| states_priority(it)) {
            let name = &container["name"];
            warnings.push(format!("{PRIORITY} of container {name} has no effect beside {ORDER}={ORDERED}"));
        }
        return Ok(Some((0..).map(|it: i64| -it).take(containers.len()).collect()));
    }
    let stated: Vec<i64> = containers.iter().map(stated).collect::<Result<_, _>>()?;
    let distinct: BTreeSet<_> = stated.iter().collect();
    Ok((distinct.len() > 1).then_some(stated))
}

fn states_priority(container: &Value) -> bool {
    items(container, "/env").iter().any(|it| it["name"] == PRIORITY)
}

/// The priority that a container states; the last entry counts, as for the container itself.
fn stated(container: &Value) -> Result<i64, String> {
    let Some(entry) = items(container, "/env").iter().rev().find(|it| it["name"] == PRIORITY) else {
        return Ok(0);
    };
    let value = entry["value"].as_str().unwrap_or_default();
    value.parse().map_err(|_| {
        let name = &container["name"];
        format!("{PRIORITY} of container {name} must be a plain whole number, and is {value:?}")
    })
}

/// The pod's name, made here if the API server was to make it: the barrier is named after it. None if there is neither
/// name nor prefix; the API server refuses such a pod.
fn name(pod: &Value, seed: u64) -> Option<String> {
    let text = |key: &str| pod["metadata"].get(key).and_then(Value::as_str).filter(|it| !it.is_empty());
    if let Some(name) = text("name") {
        return Some(name.to_owned());
    }
    let mut name: String = text("generateName")?.chars().take(GENERATED_PREFIX).collect();
    let mut rest = seed;
    for _ in 0..SUFFIX {
        let letters = ALPHABET.len() as u64;
        name.push(char::from(ALPHABET[(rest % letters) as usize]));
        rest /= letters;
    }
    Some(name)
}
