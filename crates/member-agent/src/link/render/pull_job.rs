//! The numbers of jobs that download images.

use kruise_core::api::fleet::PullSlice;
use serde_json::{Map, Value, json};

/// Stands for no node at all. An empty list of names would stand for every node.
const NOWHERE: &str = "none.fleet.kruise.io";

/// Seconds of one attempt where the job does not say.
const TIMEOUT: u64 = 600;

/// Leaves a copy that has begun the time that it was given. A plan that comes late counts from when it was written, and the copy
/// from when it began: it would count the same seconds twice, and would be over while its nodes still download.
pub(in crate::link) fn keep_time(body: &mut Value, member: &Value) {
    const DEADLINE: &str = "/spec/completionPolicy/activeDeadlineSeconds";
    if member.pointer("/status/startTime").is_none_or(Value::is_null) {
        return;
    }
    let Some(given) = member.pointer(DEADLINE).and_then(Value::as_u64) else { return };
    match body.pointer_mut(DEADLINE) {
        // One second is what is left when there is none (IPJ-3).
        Some(told) if told.as_u64().is_some_and(|it| it > 1 && it < given) => *told = given.into(),
        _ => {}
    }
}

/// Writes one cluster's share into `spec`.
pub(super) fn write(spec: &mut Map<String, Value>, slice: &PullSlice) {
    let PullSlice { parallelism, active_deadline_seconds, nodes } = slice;
    spec.insert("parallelism".to_owned(), (*parallelism).into());
    // A member refuses a deadline of nothing, and one that is shorter than an attempt.
    let deadline = active_deadline_seconds.map(|it| u64::from(it.max(1)));
    let policy = spec.entry("completionPolicy").or_insert_with(|| json!({}));
    if let Some(policy) = policy.as_object_mut() {
        // IPJ-2: the hub removes members' copies once it has their last status.
        policy.remove("ttlSecondsAfterFinished");
        // IPJ-3: seconds count from the start on the hub.
        match deadline {
            Some(seconds) => policy.insert("activeDeadlineSeconds".to_owned(), seconds.into()),
            None => policy.remove("activeDeadlineSeconds"),
        };
    }
    let attempt = spec.get("pullPolicy").and_then(|it| it.get("timeoutSeconds")).and_then(Value::as_u64);
    if let Some(seconds) = deadline.filter(|it| *it < attempt.unwrap_or(TIMEOUT)) {
        let policy = spec.entry("pullPolicy").or_insert_with(|| json!({}));
        if let Some(policy) = policy.as_object_mut() {
            policy.insert("timeoutSeconds".to_owned(), seconds.into());
        }
    }
    if let Some(nodes) = nodes {
        let names = if nodes.is_empty() { vec![NOWHERE.to_owned()] } else { nodes.clone() };
        spec.insert("selector".to_owned(), json!({"names": names}));
    }
}
