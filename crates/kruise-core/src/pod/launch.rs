//! In which order the containers of a pod start (spec/admission.md 8).
//!
//! Each container waits for a key of the pod's *barrier*, a ConfigMap: while the key is missing, kubelet cannot build the
//! container's environment and tries again. Admission gives every container its key, a controller adds the keys from the
//! highest priority to the lowest.

use serde_json::{Value, json};

/// Variable by which a container states its priority, and the one that makes it wait for its key.
pub use crate::api::common::keys::{ENV_CONTAINER_BARRIER as BARRIER, ENV_CONTAINER_PRIORITY as PRIORITY};

/// Annotation that asks for an order: [`ORDERED`] is the only value with a meaning.
pub const ORDER: &str = "apps.kruise.io/container-launch-priority";
/// Value of [`ORDER`]: containers start in the order in which they are listed.
pub const ORDERED: &str = "Ordered";
/// Annotation, `true` once the last key has been added.
pub const COMPLETED: &str = "apps.kruise.io/container-launch-priority-completed";

/// What keys begin with.
const KEY_PREFIX: &str = "p_";

/// The name of the barrier of `pod`.
pub fn barrier_name(pod: &str) -> String {
    format!("{pod}-barrier")
}

/// The key that containers of this priority wait for.
pub fn key(priority: i64) -> String {
    format!("{KEY_PREFIX}{priority}")
}

/// The priority behind a key.
pub fn priority_of_key(key: &str) -> Option<i64> {
    key.strip_prefix(KEY_PREFIX)?.parse().ok()
}

/// The entry of a container's environment that makes it wait.
pub fn waiting_entry(barrier: &str, priority: i64) -> Value {
    json!({ "name": BARRIER, "valueFrom": { "configMapKeyRef": { "name": barrier, "key": key(priority) } } })
}

/// The priority that a container with this environment waits for at `barrier`.
pub fn waits_for(env: &[Value], barrier: &str) -> Option<i64> {
    env.iter().filter(|it| it["name"] == BARRIER).find_map(|it| {
        let reference = &it["valueFrom"]["configMapKeyRef"];
        priority_of_key(reference["key"].as_str().filter(|_| reference["name"] == barrier)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_admission_writes_is_what_the_controller_reads() {
        for priority in [0, 10, -2, i64::MIN] {
            let env = [json!({ "name": "A", "value": "1" }), waiting_entry("web-barrier", priority)];
            assert_eq!(waits_for(&env, "web-barrier"), Some(priority));
            assert_eq!(waits_for(&env, "other-barrier"), None);
        }
        assert_eq!(key(-1), "p_-1");
        assert_eq!(barrier_name("fake"), "fake-barrier");
    }

    #[test]
    fn an_entry_of_another_form_is_not_taken_for_ours() {
        for entry in [
            json!({ "name": BARRIER, "value": "p_1" }),
            json!({ "name": BARRIER, "valueFrom": { "configMapKeyRef": { "name": "b", "key": "q_1" } } }),
            json!({ "name": BARRIER, "valueFrom": { "configMapKeyRef": { "name": "b", "key": 7 } } }),
            json!(null),
        ] {
            assert_eq!(waits_for(&[entry], "b"), None);
        }
    }
}
