//! The numbers of jobs that download images.

use kruise_core::api::fleet::PullSlice;
use serde_json::{Map, Value, json};

/// Stands for no node at all. An empty list of names would stand for every node.
const NOWHERE: &str = "none.fleet.kruise.io";

/// Seconds of one attempt where the job does not say.
const TIMEOUT: u64 = 600;

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
