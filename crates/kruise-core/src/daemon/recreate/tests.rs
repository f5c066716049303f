//! Every rule of the plan, on values.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::plan::{Act, Choice, Step, before_looking, choose, killed, pass, states};
use crate::{
    api::container_recreate_request::v1beta1::{
        ContainerRecreateRequest, ContainerRecreateState, RecreatePhase,
    },
    daemon::cri::{Container, ContainerState},
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn request(strategy: Value, status: Value) -> ContainerRecreateRequest {
    let container = |name: &str| {
        let id = format!("containerd://old-{name}");
        json!({"name": name, "statusContext": {"containerID": id, "restartCount": 0}})
    };
    serde_json::from_value(json!({
        "metadata": {"name": "r", "namespace": "n", "creationTimestamp": "1970-01-01T00:00:00Z"},
        "spec": {"podName": "web", "containers": [container("app"), container("log")], "strategy": strategy},
        "status": status,
    }))
    .unwrap()
}

fn running(name: &str, id: &str, restarts: i32) -> Container {
    Container {
        id: id.into(),
        sandbox_id: "box".into(),
        name: name.into(),
        state: ContainerState::Running,
        created_at: at(100 + i64::from(restarts)),
        started_at: Some(at(100)),
        hash: 0,
        restart_count: restarts,
        labels: Default::default(),
        annotations: Default::default(),
    }
}

fn exited(name: &str, id: &str) -> Container {
    Container { state: ContainerState::Exited, ..running(name, id, 0) }
}

fn of(states: &[ContainerRecreateState]) -> Vec<(RecreatePhase, bool)> {
    states.iter().map(|it| (it.phase, it.is_killed)).collect()
}

use RecreatePhase::{Failed, Pending, Recreating, Succeeded};

/// The states of `app` alone, with this strategy, status and runtime, at 200 seconds.
fn app(strategy: Value, status: Value, containers: &[Container]) -> (RecreatePhase, bool) {
    of(&states(&request(strategy, status), containers, &BTreeSet::new(), "containerd", at(200)))[0]
}

fn recreating(app: Value) -> Value {
    json!({"phase": "Recreating", "containerRecreateStates": [app]})
}

#[test]
fn one_request_is_picked_and_the_others_wait() {
    let named = |name: &str, second: i64, status: Value| -> ContainerRecreateRequest {
        serde_json::from_value(json!({
            "metadata": {"name": name, "creationTimestamp": at(second).to_string()},
            "spec": {"podName": "web", "containers": []}, "status": status,
        }))
        .unwrap()
    };
    let done = named("done", 1, json!({"phase": "Completed", "completionTime": at(5).to_string()}));
    let old = named("old", 2, Value::Null);
    let young = named("young", 3, Value::Null);
    let waits = named("waits", 4, json!({"phase": "Pending"}));
    let begun = named("begun", 9, json!({"phase": "Recreating"}));
    let pick = |all: &[&ContainerRecreateRequest]| choose(all);
    assert_eq!(pick(&[&young, &old, &done]), Some(Choice { picked: 1, wait: vec![0] }));
    assert_eq!(pick(&[&old, &waits]), Some(Choice { picked: 1, wait: vec![0] }));
    assert_eq!(pick(&[&old, &waits, &begun]), Some(Choice { picked: 2, wait: vec![0] }));
    assert_eq!(pick(&[&done]), None);
    let mut deleted = begun.clone();
    deleted.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(9)));
    assert_eq!(pick(&[&deleted, &waits]), Some(Choice { picked: 1, wait: vec![] }));
}

#[test]
fn the_work_begins_with_writing_down_that_it_does() {
    for status in [Value::Null, json!({"phase": "Pending"}), json!({"phase": ""})] {
        assert_eq!(before_looking(&request(json!({}), status), &["containerd"], at(9)), Step::Begin);
    }
    let begun = request(json!({}), json!({"phase": "Recreating"}));
    assert_eq!(before_looking(&begun, &["containerd"], at(9)), Step::Look("containerd".into()));
}

#[test]
fn traffic_drains_from_when_the_controller_said_so() {
    let with = |status: &str| {
        let condition = json!({
            "type": "PreRecreateGrace", "status": status, "lastTransitionTime": at(100).to_string(),
            "reason": "r", "message": "m",
        });
        request(
            json!({"unreadyGracePeriodSeconds": 5}),
            json!({"phase": "Recreating", "conditions": [condition]}),
        )
    };
    let none = request(json!({"unreadyGracePeriodSeconds": 5}), json!({"phase": "Recreating"}));
    assert_eq!(before_looking(&none, &["containerd"], at(1_000)), Step::Drain(None));
    assert_eq!(before_looking(&with("False"), &["containerd"], at(1_000)), Step::Drain(None));
    let wait = Duration::from_millis(3_100);
    assert_eq!(before_looking(&with("True"), &["containerd"], at(102)), Step::Drain(Some(wait)));
    assert_eq!(before_looking(&with("True"), &["containerd"], at(105)), Step::Look("containerd".into()));
}

#[test]
fn a_request_for_another_or_for_no_runtime_ends_with_the_reason() {
    let message = |request: &ContainerRecreateRequest, runtimes: &[&str]| match before_looking(
        request,
        runtimes,
        at(9),
    ) {
        Step::Complete(message) => message,
        other => panic!("{other:?}"),
    };
    let mut it = request(json!({}), json!({"phase": "Recreating"}));
    assert!(
        message(&it, &["cri-o"])
            .starts_with("failed to find runtime service: there is no runtime containerd")
    );
    it.spec.containers[1].status_context.as_mut().unwrap().container_id = "docker://x".into();
    assert!(message(&it, &["containerd"]).contains("containerd and docker"));
    it.spec.containers[1].status_context = None;
    assert!(message(&it, &["containerd"]).contains("container log has no usable containerID"));
}

#[test]
fn an_old_container_is_pending_and_an_exited_one_on_its_way() {
    assert_eq!(app(json!({}), Value::Null, &[running("app", "old-app", 0)]), (Pending, false));
    assert_eq!(app(json!({}), Value::Null, &[]), (Pending, false));
    assert_eq!(app(json!({}), Value::Null, &[exited("app", "old-app")]), (Recreating, false));
    let missing = states(&request(json!({}), Value::Null), &[], &BTreeSet::new(), "containerd", at(9));
    assert_eq!(missing[0].message, "not found container on Node");
}

#[test]
fn a_new_container_succeeds_when_the_api_server_shows_that_very_one_as_ready() {
    let new = [running("app", "new", 1)];
    let status = |id: &str, ready: bool| {
        json!({"phase": "Recreating", "containerStatusSnapshot": [
            {"name": "app", "ready": ready, "restartCount": 1, "containerID": id},
        ]})
    };
    assert_eq!(app(json!({}), Value::Null, &new), (Recreating, false));
    assert_eq!(app(json!({}), status("containerd://new", false), &new), (Recreating, false));
    assert_eq!(app(json!({}), status("containerd://old-app", true), &new), (Recreating, false));
    assert_eq!(app(json!({}), status("containerd://new", true), &new), (Succeeded, false));
    // Up for exactly 100 s: strictly longer is asked.
    let least =
        |seconds: i32| app(json!({"minStartedSeconds": seconds}), status("containerd://new", true), &new);
    assert_eq!((least(100).0, least(99).0), (Recreating, Succeeded));
}

#[test]
fn the_same_container_restarted_counts_as_another_one() {
    assert_eq!(app(json!({}), Value::Null, &[running("app", "old-app", 1)]).0, Recreating);
}

#[test]
fn force_recreates_also_what_was_replaced_since_but_only_once() {
    let new = [running("app", "new", 1)];
    let force = json!({"forceRecreate": true});
    assert_eq!(app(force.clone(), Value::Null, &new), (Pending, false));
    let killed = recreating(json!({"name": "app", "phase": "Recreating", "isKilled": true}));
    assert_eq!(app(force.clone(), killed, &new), (Recreating, true));
    let (unwritten, stopped) = (request(force, Value::Null), BTreeSet::from(["app".to_owned()]));
    let it = states(&unwritten, &new, &stopped, "containerd", at(200));
    assert_eq!(of(&it)[0], (Recreating, true), "also where the status does not say so yet");
}

#[test]
fn what_is_over_stays_as_it_is() {
    for phase in ["Failed", "Succeeded"] {
        let before = recreating(json!({"name": "app", "phase": phase, "message": "m", "isKilled": true}));
        let it = states(&request(json!({}), before), &[], &BTreeSet::new(), "containerd", at(9)).remove(0);
        assert_eq!((it.message.as_str(), it.is_killed), ("m", true));
        assert_ne!(it.phase, Pending);
    }
}

fn state(name: &str, phase: RecreatePhase, is_killed: bool) -> ContainerRecreateState {
    ContainerRecreateState { name: name.into(), phase, message: String::new(), is_killed }
}

fn both() -> [Container; 2] {
    [running("app", "old-app", 0), running("log", "old-log", 0)]
}

#[test]
fn one_container_is_stopped_in_each_pass() {
    let request = request(json!({}), json!({"phase": "Recreating"}));
    let (_, act) = pass(&request, vec![state("app", Pending, false), state("log", Pending, false)], &both());
    assert_eq!(act, Act::Kill(0));
    let (states, goes_on) =
        killed(&request, vec![state("app", Pending, false), state("log", Pending, false)], 0, Ok(()));
    assert_eq!((of(&states), goes_on), (vec![(Recreating, true), (Pending, false)], false));
    let (_, act) = pass(&request, states, &both());
    assert_eq!(act, Act::Kill(1), "unordered, the next one follows at once");
}

#[test]
fn in_order_the_next_waits_for_the_one_before() {
    let known = json!({"phase": "Recreating", "containerRecreateStates": [
        {"name": "app", "phase": "Recreating", "isKilled": true}, {"name": "log", "phase": "Pending"},
    ]});
    let request = request(json!({"orderedRecreate": true}), known);
    let (states, act) =
        pass(&request, vec![state("app", Recreating, true), state("log", Pending, false)], &both());
    assert_eq!((act, states[1].phase), (Act::Wait(None), Pending));
    let (_, act) = pass(&request, vec![state("app", Succeeded, true), state("log", Pending, false)], &both());
    assert_eq!(act, Act::Kill(1));
}

#[test]
fn a_container_found_on_its_way_counts_as_stopped() {
    let request = request(json!({}), json!({"phase": "Recreating"}));
    let (states, act) =
        pass(&request, vec![state("app", Recreating, false), state("log", Succeeded, true)], &both());
    assert_eq!((of(&states)[0], act), ((Recreating, true), Act::Write));
}

#[test]
fn a_missing_container_ends_the_pass_without_a_busy_loop() {
    let known = json!({"phase": "Recreating", "containerRecreateStates": [
        {"name": "app", "phase": "Pending"}, {"name": "log", "phase": "Pending"},
    ]});
    let pending = vec![state("app", Pending, false), state("log", Pending, false)];
    let (_, act) = pass(&request(json!({}), known), pending, &[running("log", "old-log", 0)]);
    assert_eq!(act, Act::Wait(None));
}

#[test]
fn a_failure_ends_the_request_or_only_that_container() {
    let failed = || Err("no".to_owned());
    for (policy, goes_on, next) in [("Fail", false, Act::Complete), ("Ignore", true, Act::Kill(1))] {
        let request = request(json!({"failurePolicy": policy}), json!({"phase": "Recreating"}));
        let before = vec![state("app", Pending, false), state("log", Pending, false)];
        let (states, on) = killed(&request, before, 0, failed());
        assert_eq!((states[0].phase, states[0].message.as_str()), (Failed, "kill container error: no"));
        assert_eq!(on, goes_on, "{policy}");
        assert_eq!(pass(&request, states, &both()).1, next, "{policy}");
    }
}

#[test]
fn the_request_is_complete_when_every_container_is_over() {
    let known = json!({"phase": "Recreating", "containerRecreateStates": [
        {"name": "app", "phase": "Succeeded", "isKilled": true}, {"name": "log", "phase": "Failed", "message": ""},
    ]});
    let it = request(json!({"failurePolicy": "Ignore"}), known);
    let over = vec![state("app", Succeeded, true), state("log", Failed, false)];
    assert_eq!(pass(&it, over, &both()).1, Act::Complete);
}

#[test]
fn waiting_for_the_least_uptime_looks_again_by_itself() {
    let known = json!({"phase": "Recreating", "containerRecreateStates": [
        {"name": "app", "phase": "Recreating", "isKilled": true}, {"name": "log", "phase": "Succeeded", "isKilled": true},
    ]});
    let it = request(json!({"minStartedSeconds": 5}), known);
    let (_, act) = pass(&it, vec![state("app", Recreating, true), state("log", Succeeded, true)], &both());
    assert_eq!(act, Act::Wait(Some(Duration::from_secs(5))));
}
