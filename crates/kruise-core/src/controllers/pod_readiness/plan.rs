//! Whether a pod waits for its first condition.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use crate::{
    api::common::keys::CONDITION_KRUISE_POD_READY as KRUISE_POD_READY,
    pod::patch::{Part, Pin, PodPatch},
    runtime::cache::pod::PodLite,
};

/// The condition that `pod` waits for, if nobody has set it yet.
pub fn plan(pod: &PodLite, now: Timestamp) -> Option<PodPatch> {
    let waits = pod.spec.readiness_gates.iter().any(|it| it.condition_type == KRUISE_POD_READY);
    let is_set = pod.status.conditions.iter().any(|it| it.kind == KRUISE_POD_READY);
    if !waits || is_set || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let condition = json!({ "type": KRUISE_POD_READY, "status": "True", "lastTransitionTime": Time(now) });
    Some(PodPatch {
        part: Part::Status,
        // Somebody may be closing the gate at this very moment: theirs must not be overwritten.
        pin: Pin::Version,
        body: json!({ "status": { "conditions": [condition] } }),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn planned(pod: Value) -> Option<PodPatch> {
        let pod: PodLite = serde_json::from_value(pod).unwrap();
        plan(&pod, "2026-01-02T03:04:05Z".parse().unwrap())
    }

    fn gate() -> Value {
        json!({ "readinessGates": [{ "conditionType": "Other" }, { "conditionType": "KruisePodReady" }] })
    }

    #[test]
    fn a_pod_with_the_gate_and_without_the_condition_gets_it() {
        let others = json!({ "conditions": [{ "type": "Ready", "status": "False" }] });
        let patch =
            planned(json!({ "metadata": { "name": "a" }, "spec": gate(), "status": others })).unwrap();
        assert_eq!((patch.part, patch.pin), (Part::Status, Pin::Version));
        let condition = json!({
            "type": "KruisePodReady", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z",
        });
        assert_eq!(patch.body, json!({ "status": { "conditions": [condition] } }));
    }

    #[test]
    fn a_condition_that_is_there_is_left_as_it_is() {
        for status in ["True", "False", ""] {
            let there = json!({ "conditions": [{ "type": "KruisePodReady", "status": status }] });
            assert_eq!(planned(json!({ "metadata": {}, "spec": gate(), "status": there })), None);
        }
    }

    #[test]
    fn pods_without_the_gate_and_pods_that_go_are_left_alone() {
        assert_eq!(planned(json!({ "metadata": {}, "spec": {} })), None);
        let going = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
        assert_eq!(planned(json!({ "metadata": going, "spec": gate() })), None);
    }
}
