//! The numbers of jobs that download images.

use kruise_core::api::fleet::PullSlice;
use serde_json::{Map, Value, json};

/// Stands for no node at all. An empty list of names would stand for every node.
const NOWHERE: &str = "none.fleet.kruise.io";

/// Writes one cluster's share into `spec`.
pub(super) fn write(spec: &mut Map<String, Value>, slice: &PullSlice) {
    let PullSlice { parallelism, active_deadline_seconds, nodes } = slice;
    spec.insert("parallelism".to_owned(), (*parallelism).into());
    let policy = spec.entry("completionPolicy").or_insert_with(|| json!({}));
    if let Some(policy) = policy.as_object_mut() {
        // IPJ-2: the hub removes members' copies once it has their last status.
        policy.remove("ttlSecondsAfterFinished");
        // IPJ-3: seconds count from the start on the hub.
        match active_deadline_seconds {
            Some(seconds) => policy.insert("activeDeadlineSeconds".to_owned(), (*seconds).into()),
            None => policy.remove("activeDeadlineSeconds"),
        };
    }
    if let Some(nodes) = nodes {
        let names = if nodes.is_empty() { vec![NOWHERE.to_owned()] } else { nodes.clone() };
        spec.insert("selector".to_owned(), json!({"names": names}));
    }
}
