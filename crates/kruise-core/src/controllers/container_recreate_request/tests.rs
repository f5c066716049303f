//! Every rule of the plan, on values.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::plan::{Action, Plan, messages, plan, unfinished};
use crate::{
    api::container_recreate_request::v1beta1::ContainerRecreateRequest, runtime::cache::pod::PodLite,
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A request made at 1000 seconds, with `change` merged into it.
fn request(change: Value) -> ContainerRecreateRequest {
    changed(&[change])
}

/// The same with several changes, one after the other.
fn changed(changes: &[Value]) -> ContainerRecreateRequest {
    let mut it = json!({
        "metadata": {
            "name": "r", "namespace": "n", "creationTimestamp": at(1000).to_string(),
            "labels": {"crr.apps.kruise.io/pod-uid": "u", "crr.apps.kruise.io/node-name": "n1", "crr.apps.kruise.io/active": "true"},
        },
        "spec": {"podName": "web", "containers": [{"name": "app"}, {"name": "log"}]},
    });
    for change in changes {
        json_patch::merge(&mut it, change);
    }
    serde_json::from_value(it).unwrap()
}

fn pod(change: Value) -> PodLite {
    let mut it = json!({
        "metadata": {"name": "web", "namespace": "n", "uid": "u"},
        "spec": {"readinessGates": [{"conditionType": "KruisePodReady"}]},
        "status": {"conditions": [{"type": "KruisePodReady", "status": "True"}]},
    });
    json_patch::merge(&mut it, &change);
    serde_json::from_value(it).unwrap()
}

fn complete(message: &'static str) -> Plan {
    Plan { actions: vec![Action::Complete { message }], look_again_in: None }
}

fn seconds(it: u64) -> Option<Duration> {
    Some(Duration::from_secs(it))
}

#[test]
fn a_pod_that_is_gone_ends_the_request() {
    let it = request(json!({}));
    assert_eq!(plan(&it, None, at(1001)), complete(messages::POD_GONE));
    let another = pod(json!({"metadata": {"uid": "v"}}));
    assert_eq!(plan(&it, Some(&another), at(1001)), complete(messages::POD_GONE));
    let deleted = pod(json!({"metadata": {"deletionTimestamp": at(1000).to_string()}}));
    assert_eq!(plan(&it, Some(&deleted), at(1001)), complete(messages::POD_GONE));
}

#[test]
fn a_silent_daemon_is_waited_for_one_minute() {
    let it = request(json!({}));
    assert_eq!(
        plan(&it, Some(&pod(json!({}))), at(1020)),
        Plan { actions: vec![], look_again_in: seconds(40) }
    );
    assert_eq!(plan(&it, Some(&pod(json!({}))), at(1060)), complete(messages::NO_RESPONSE));
    let waits = request(json!({"status": {"phase": "Pending"}}));
    assert_eq!(plan(&waits, Some(&pod(json!({}))), at(9999)), Plan::default(), "it has answered");
}

#[test]
fn the_deadline_counts_from_the_creation() {
    let it = request(json!({"spec": {"activeDeadlineSeconds": 10}, "status": {"phase": "Pending"}}));
    assert_eq!(
        plan(&it, Some(&pod(json!({}))), at(1004)),
        Plan { actions: vec![], look_again_in: seconds(6) }
    );
    assert_eq!(plan(&it, Some(&pod(json!({}))), at(1010)), complete(messages::DEADLINE));
}

#[test]
fn what_a_request_leaves_undone_is_known_by_name() {
    let with = |states: Value| request(json!({"status": {"containerRecreateStates": states}}));
    assert_eq!(
        unfinished(&request(json!({})), messages::DEADLINE),
        ["app", "log"],
        "no node has said anything"
    );
    let midway = with(json!([{"name": "app", "phase": "Succeeded"}, {"name": "log", "phase": "Recreating"}]));
    assert_eq!(unfinished(&midway, messages::DEADLINE), ["log"]);
    let over = with(json!([{"name": "app", "phase": "Succeeded"}, {"name": "log", "phase": "Failed"}]));
    assert!(unfinished(&over, messages::DEADLINE).is_empty());
}

fn started(second: i64, ready: bool) -> Value {
    json!({"status": {"containerStatuses": [
        {"name": "app", "containerID": "containerd://2", "restartCount": 1, "ready": ready, "state": {"running": {"startedAt": at(second).to_string()}}},
        {"name": "log", "containerID": "containerd://9", "restartCount": 0, "ready": true, "state": {"running": {"startedAt": at(500).to_string()}}},
        {"name": "other", "state": {"running": {"startedAt": at(2000).to_string()}}},
    ]}})
}

#[test]
fn the_node_is_shown_containers_started_since_the_request() {
    let it = request(json!({"status": {"phase": "Recreating"}}));
    let got = plan(&it, Some(&pod(started(1000, true))), at(1005));
    let Action::WriteSnapshot(snapshot) = &got.actions[0] else { panic!("{got:?}") };
    assert_eq!(snapshot.len(), 1, "started in the very second of the request counts");
    assert_eq!((snapshot[0].name.as_str(), snapshot[0].restart_count, snapshot[0].ready), ("app", 1, true));
    assert_eq!(snapshot[0].container_id, "containerd://2");
    assert_eq!(got.look_again_in, seconds(3));
    assert!(plan(&it, Some(&pod(started(999, true))), at(1005)).actions.is_empty());
}

#[test]
fn an_equal_or_empty_snapshot_is_not_written() {
    let shown = json!([{"name": "app", "ready": true, "restartCount": 1, "containerID": "containerd://2"}]);
    let it = request(json!({"status": {"phase": "Recreating", "containerStatusSnapshot": shown}}));
    assert!(plan(&it, Some(&pod(started(1001, true))), at(1005)).actions.is_empty());
    assert!(plan(&it, Some(&pod(json!({}))), at(1005)).actions.is_empty(), "an empty one says nothing new");
    assert_eq!(plan(&it, Some(&pod(started(1001, false))), at(1005)).actions.len(), 1);
}

fn with_grace(change: Value) -> ContainerRecreateRequest {
    let grace =
        json!({"spec": {"strategy": {"unreadyGracePeriodSeconds": 5}}, "status": {"phase": "Recreating"}});
    changed(&[grace, change])
}

#[test]
fn the_pod_leaves_rotation_and_the_moment_is_written_down_last() {
    let got = plan(&with_grace(json!({})), Some(&pod(json!({}))), at(1005));
    let [Action::SetFinalizers(finalizers), Action::PatchPod(patch), Action::WriteConditions(conditions)] =
        got.actions.as_slice()
    else {
        panic!("{got:?}")
    };
    assert_eq!(finalizers, &["crr.apps.kruise.io/unready-acquired"]);
    let message = &patch.body["status"]["conditions"][0]["message"];
    assert_eq!(message, r#"[{"userAgent":"ContainerRecreateRequest","key":"n/r"}]"#);
    assert_eq!((conditions[0].type_.as_str(), conditions[0].status.as_str()), ("PreRecreateGrace", "True"));
    assert_eq!(conditions[0].last_transition_time.0, at(1005));
}

#[test]
fn the_moment_never_moves_and_a_false_condition_is_none() {
    let condition = |status: &str| {
        let it = json!({"type": "PreRecreateGrace", "status": status, "lastTransitionTime": at(1001).to_string(), "reason": "r", "message": "m"});
        let metadata = json!({"finalizers": ["crr.apps.kruise.io/unready-acquired"]});
        with_grace(json!({"metadata": metadata, "status": {"conditions": [it]}}))
    };
    assert!(plan(&condition("True"), Some(&pod(json!({}))), at(1016)).actions.is_empty());
    assert_eq!(
        plan(&condition("False"), Some(&pod(json!({}))), at(1016)).actions.len(),
        2,
        "mark and condition"
    );
}

#[test]
fn the_moment_is_written_before_what_is_not_bound_to_a_version() {
    let mut shown = started(1001, true);
    shown["status"]["conditions"] = json!([]);
    let got = plan(&with_grace(json!({})), Some(&pod(shown)), at(1005));
    let [.., Action::WriteConditions(_), Action::WriteSnapshot(_)] = got.actions.as_slice() else {
        panic!("{got:?}")
    };
}

#[test]
fn a_pod_without_the_gate_stays_in_rotation_and_the_grace_period_runs_all_the_same() {
    let got = plan(&with_grace(json!({})), Some(&pod(json!({"spec": {"readinessGates": []}}))), at(1005));
    assert!(matches!(got.actions.as_slice(), [Action::WriteConditions(_)]), "{got:?}");
}

fn held() -> PodLite {
    let message =
        r#"[{"userAgent":"ContainerRecreateRequest","key":"n/r"},{"userAgent":"Lifecycle","key":"x"}]"#;
    let condition = json!({"type": "KruisePodReady", "status": "False", "message": message});
    pod(json!({"status": {"conditions": [condition]}}))
}

fn over(change: Value) -> ContainerRecreateRequest {
    let over = json!({
        "metadata": {"finalizers": ["crr.apps.kruise.io/unready-acquired", "other"]},
        "status": {"phase": "Completed", "completionTime": at(1100).to_string()},
    });
    changed(&[over, change])
}

#[test]
fn at_the_end_the_pod_returns_to_rotation_and_the_node_forgets_the_request() {
    let got = plan(&over(json!({})), Some(&held()), at(1101));
    let [Action::PatchPod(patch), Action::SetFinalizers(left), Action::DropActive] = got.actions.as_slice()
    else {
        panic!("{got:?}")
    };
    let condition = &patch.body["status"]["conditions"][0];
    assert_eq!(condition["message"], r#"[{"userAgent":"Lifecycle","key":"x"}]"#, "reasons of others stay");
    assert_eq!(condition["status"], "False");
    assert_eq!(left, &["other"]);
    let tidy =
        over(json!({"metadata": {"finalizers": ["other"], "labels": {"crr.apps.kruise.io/active": null}}}));
    assert_eq!(plan(&tidy, Some(&held()), at(1101)), Plan::default());
}

#[test]
fn a_successor_of_the_pod_is_left_alone_and_the_finalizer_goes() {
    let mut successor = held();
    successor.metadata.uid = Some("v".into());
    for pod in [None, Some(&successor)] {
        let got = plan(&over(json!({})), pod, at(1101));
        assert!(matches!(got.actions.as_slice(), [Action::SetFinalizers(_), Action::DropActive]), "{got:?}");
    }
}

#[test]
fn a_deleted_request_only_tidies_up() {
    let it = over(
        json!({"metadata": {"deletionTimestamp": at(1100).to_string()}, "spec": {"ttlSecondsAfterFinished": 0}}),
    );
    let got = plan(&it, Some(&held()), at(1101));
    assert!(matches!(got.actions.as_slice(), [Action::PatchPod(_), Action::SetFinalizers(_)]), "{got:?}");
    let running = request(json!({"metadata": {"deletionTimestamp": at(1100).to_string()}}));
    assert_eq!(plan(&running, None, at(1101)), Plan::default());
}

#[test]
fn a_finished_request_goes_when_its_time_is_up() {
    let it = over(json!({
        "metadata": {"finalizers": null, "labels": {"crr.apps.kruise.io/active": null}},
        "spec": {"ttlSecondsAfterFinished": 3},
    }));
    assert_eq!(plan(&it, None, at(1101)), Plan { actions: vec![], look_again_in: seconds(2) });
    assert_eq!(plan(&it, None, at(1103)).actions, [Action::Delete]);
}

#[test]
fn a_request_that_admission_has_not_seen_is_filled_in() {
    let it = request(json!({"metadata": {"labels": null}}));
    assert_eq!(plan(&it, Some(&pod(json!({}))), at(1001)).actions, [Action::Fill]);
}

/// Sidecars of a job are stopped for good: that is no failure, and nothing to wait for until the pod goes.
#[test]
fn a_pod_that_has_ended_ends_the_request_once_its_containers_have() {
    let it = request(json!({"status": {"phase": "Recreating"}}));
    let ended = |phase: &str, log: Value| {
        let statuses =
            json!([{"name": "app", "state": {"terminated": {"exitCode": 0}}}, {"name": "log", "state": log}]);
        pod(json!({"status": {"phase": phase, "containerStatuses": statuses}}))
    };
    let stopped = json!({"terminated": {"exitCode": 143}});
    for phase in ["Succeeded", "Failed"] {
        let got = plan(&it, Some(&ended(phase, stopped.clone())), at(1005));
        assert_eq!(got, complete(messages::POD_ENDED));
    }
    assert_eq!(unfinished(&it, messages::POD_ENDED), ["app", "log"], "a person asked for a restart");
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u", "controller": true});
    let own = request(json!({"metadata": {"ownerReferences": [owner]}, "status": {"phase": "Recreating"}}));
    assert!(unfinished(&own, messages::POD_ENDED).is_empty());
    assert_eq!(unfinished(&own, messages::POD_GONE), ["app", "log"]);
    for going in [ended("Succeeded", json!({"running": {}})), ended("Running", stopped)] {
        assert!(plan(&it, Some(&going), at(1005)).actions.is_empty());
    }
}
