//! Lifecycle hooks as a CloneSet uses them (cloneset.md 10, 17.5, 17.8).

use serde_json::{Value, json};

use super::Village;
use crate::{
    controllers::cloneset::plan::Action,
    pod::patch::{self, Part},
};

const BLOCK: &str = "example.io/block";

fn village(hook: &str, mark: bool) -> Village {
    let mut village = Village::new(json!({
        "replicas": 4,
        "lifecycle": {hook: {"labelsHandler": {BLOCK: "true"}, "markPodNotReady": mark}},
        "template": {"metadata": {"labels": {BLOCK: "true"}}},
        "updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible"}},
    }));
    village.settle();
    village.log.clear();
    village
}

fn in_state(village: &Village, state: &str) -> Vec<String> {
    village.names().into_iter().filter(|it| village.state(it) == state).collect()
}

#[test]
fn a_pod_waits_before_its_deletion_and_goes_when_let_go() {
    let mut village = village("preDelete", false);
    village.change(json!({"replicas": 3}));
    village.settle();
    let waiting = in_state(&village, "PreparingDelete");
    assert_eq!((waiting.len(), village.pods.len()), (1, 4));
    village.image("web:2");
    village.settle();
    assert_eq!(
        village.pods[&waiting[0]]["spec"]["containers"][0]["image"], "web:1",
        "it is not updated any more"
    );
    village.label(&waiting[0], BLOCK, Value::Null);
    village.settle();
    assert_eq!(village.pods.len(), 3);
    assert!(!village.pods.contains_key(&waiting[0]));
}

/// Found by the simulation: a pod that was down when it was looked at had become available.
#[test]
fn a_pod_that_is_down_is_held_back_only_if_it_still_is() {
    for is_down in [true, false] {
        let mut village = village("preDelete", false);
        let name = village.names().remove(0);
        village.broken.extend(is_down.then(|| name.clone()));
        village.tick();
        village.label(&name, "apps.kruise.io/specified-delete", json!("true"));
        let plan = village.plan();
        let [Action::Change(change)] = plan.scale.as_slice() else { panic!("{plan:?}") };
        let expected = if is_down { patch::Pin::Version } else { patch::Pin::Uid };
        assert!(change.patches.iter().all(|it| it.pin == expected), "{change:?}");
    }
}

/// Found by the simulation: the pods that were let go of kept others from being added, which came first.
#[test]
fn a_pod_that_was_let_go_of_goes_though_no_other_may_be_added() {
    let mut village = village("preDelete", true);
    village.change(json!({"replicas": 3}));
    village.settle();
    let waiting = in_state(&village, "PreparingDelete");
    village.change(json!({"replicas": 5, "scaleStrategy": {"maxUnavailable": 1}}));
    village.settle();
    assert_eq!((village.pods.len(), waiting.len()), (4, 1), "the one that waits counts as down");
    village.label(&waiting[0], BLOCK, Value::Null);
    village.settle();
    assert_eq!((village.available(), village.pods.contains_key(&waiting[0])), (5, false));
}

#[test]
fn a_deletion_is_taken_back_unless_the_pod_was_marked_not_ready() {
    for mark in [false, true] {
        let mut village = village("preDelete", mark);
        village.change(json!({"replicas": 3}));
        village.settle();
        let waiting = in_state(&village, "PreparingDelete");
        assert_eq!(waiting.len(), 1);
        village.change(json!({"replicas": 4}));
        village.settle();
        if mark {
            assert_eq!(village.state(&waiting[0]), "PreparingDelete");
        } else {
            assert_eq!(village.state(&waiting[0]), "Normal");
            assert!(!village.log.iter().any(|it| it.starts_with("create")), "no new pod is made");
        }
    }
}

#[test]
fn a_named_pod_in_preparation_is_not_taken_back() {
    let mut village = village("preDelete", false);
    let name = village.names()[0].clone();
    village.label(&name, "apps.kruise.io/specified-delete", json!("true"));
    village.settle();
    assert_eq!((village.state(&name), village.pods.len()), ("PreparingDelete", 4));
    village.options.exclude_preparing_delete = true;
    village.settle();
    assert_eq!(village.pods.len(), 5, "others are started for it at once where that is asked for");
}

#[test]
fn an_in_place_update_waits_for_its_hook_before_and_after() {
    let mut village = village("inPlaceUpdate", false);
    village.image("web:2");
    village.settle();
    let waiting = in_state(&village, "PreparingUpdate");
    assert_eq!(waiting.len(), 1, "20% of 4");
    let name = waiting[0].clone();
    assert_eq!(village.pods[&name]["spec"]["containers"][0]["image"], "web:1");
    village.label(&name, BLOCK, Value::Null);
    village.settle();
    assert_eq!((village.state(&name), village.count("web-r2")), ("Updated", 1));
    assert_eq!(village.pods[&name]["spec"]["containers"][0]["image"], "web:2");
    village.label(&name, BLOCK, json!("true"));
    village.pass(usize::MAX);
    assert_eq!(village.state(&name), "Normal");
}

#[test]
fn going_back_while_a_pod_waits_for_its_update_lets_it_go() {
    let mut village = village("inPlaceUpdate", true);
    village.image("web:2");
    village.settle();
    let name = in_state(&village, "PreparingUpdate")[0].clone();
    village.image("web:1");
    village.settle();
    assert_eq!(village.state(&name), "Normal", "openkruise/kruise#1156");
    assert_eq!(village.available(), 4, "and nothing keeps it out of rotation");
}

#[test]
fn a_pod_becomes_normal_only_with_its_pre_normal_hook() {
    let mut village = Village::new(json!({
        "replicas": 1, "lifecycle": {"preNormal": {"finalizersHandler": ["example.io/ok"]}},
    }));
    for _ in 0..5 {
        village.pass(usize::MAX);
        village.tick();
    }
    let name = village.names()[0].clone();
    assert_eq!((village.state(&name), village.available()), ("PreparingNormal", 0));
    village.patch(&name, Part::Main, &json!({"metadata": {"finalizers": ["example.io/ok"]}}));
    village.settle();
    assert_eq!((village.state(&name), village.available()), ("Normal", 1));
    village.pods.get_mut(&name).unwrap()["metadata"]["finalizers"] = json!([]);
    village.settle();
    assert_eq!(village.state(&name), "Normal");
}

#[test]
fn pods_are_taken_back_through_their_hook() {
    let mut village = Village::new(json!({
        "replicas": 4,
        "lifecycle": {"inPlaceUpdate": {"labelsHandler": {BLOCK: "true"}}},
        "template": {"metadata": {"labels": {BLOCK: "true"}}},
        "updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 4}},
    }));
    village.options.partition_rollback = true;
    village.settle();
    let operate = |village: &mut Village| {
        for _ in 0..40 {
            village.pass(usize::MAX);
            village.tick();
            for name in village.names() {
                match village.state(&name) {
                    "PreparingUpdate" => village.label(&name, BLOCK, Value::Null),
                    "Updated" => village.label(&name, BLOCK, json!("true")),
                    _ => {}
                }
            }
        }
        village.settle();
    };
    village.change(json!({"updateStrategy": {"rollingUpdate": {"partition": 1}}}));
    village.image("web:2");
    operate(&mut village);
    assert_eq!(village.count("web-r2"), 3);
    village.change(json!({"updateStrategy": {"rollingUpdate": {"partition": 3}}}));
    operate(&mut village);
    assert_eq!((village.count("web-r2"), village.count("web-r1")), (1, 3));
    assert_eq!(in_state(&village, "Normal").len(), 4);
}

#[test]
fn what_a_broken_off_step_has_left_behind_is_taken_back() {
    let mut village = village("inPlaceUpdate", true);
    let name = village.names()[0].clone();
    village.pods.get_mut(&name).unwrap()["spec"]["readinessGates"] =
        json!([{"conditionType": "InPlaceUpdateReady"}, {"conditionType": "KruisePodReady"}]);
    let message = r#"[{"userAgent":"Lifecycle","key":"preUpdateHook"}]"#;
    let condition = json!({"type": "KruisePodReady", "status": "False", "message": message});
    village.patch(&name, Part::Status, &json!({"status": {"conditions": [condition]}}));
    village.tick();
    assert_eq!(village.available(), 3);
    village.settle();
    assert_eq!(village.available(), 4);
}

/// Four writes a pod were more than half of what the API server had to do for a large CloneSet.
#[test]
fn all_that_is_to_be_said_on_a_new_pod_is_one_request() {
    let gate = json!([{"conditionType": "KruisePodReady"}]);
    let template = json!({"spec": {"readinessGates": gate}});
    let mut village = Village::new(json!({"replicas": 1, "template": template}));
    village.pass(usize::MAX);
    assert!(village.plan().is_empty(), "nothing before the pod has its node");
    village.tick();
    let plan = village.plan();
    let [Action::Change(change)] = plan.refresh.as_slice() else { panic!("{plan:?}") };
    let [patch] = patch::merged(&change.patches).try_into().unwrap();
    assert_eq!(patch.part, Part::Status);
    assert_eq!(patch.body["metadata"]["labels"]["lifecycle.apps.kruise.io/state"], "Normal");
    let conditions = patch.body["status"]["conditions"].as_array().unwrap();
    let kinds: Vec<_> = conditions.iter().map(|it| (&it["type"], &it["status"])).collect();
    assert_eq!(
        kinds,
        [(&json!("InPlaceUpdateReady"), &json!("True")), (&json!("KruisePodReady"), &json!("True"))]
    );
    village.settle();
    assert_eq!(village.available(), 1);
}
