//! What becomes of new pods.

use serde_json::json;

use super::*;
use crate::{pod::launch, runtime::gates::Gate};

fn request(pod: Value) -> AdmissionRequest {
    serde_json::from_value(json!({
        "uid": "1", "operation": "CREATE", "namespace": "default", "object": pod,
        "kind": { "group": "", "version": "v1", "kind": "Pod" },
        "resource": { "group": "", "version": "v1", "resource": "pods" },
    }))
    .unwrap()
}

fn review(pod: Value) -> Verdict {
    mutate(&request(pod), Gates::defaults(), 7)
}

fn changed(pod: Value) -> Value {
    match review(pod) {
        Verdict::Patched { object, .. } => object,
        other => panic!("not changed: {other:?}"),
    }
}

fn warnings(pod: Value) -> Vec<String> {
    match review(pod) {
        Verdict::Patched { warnings, .. } | Verdict::Allowed { warnings } => warnings,
        other => panic!("not let in: {other:?}"),
    }
}

fn container(name: &str, priority: Option<&str>) -> Value {
    let env: Vec<_> =
        priority.into_iter().map(|it| json!({ "name": launch::PRIORITY, "value": it })).collect();
    json!({ "name": name, "image": "i", "env": env })
}

fn pod(containers: &[Value]) -> Value {
    json!({ "metadata": { "name": "fake" }, "spec": { "containers": containers } })
}

fn ordered(containers: &[Value]) -> Value {
    let mut pod = pod(containers);
    pod["metadata"]["annotations"] = json!({ (launch::ORDER): "Ordered" });
    pod
}

/// The keys that the containers wait for; the entry must be the last one.
fn keys(pod: &Value) -> Vec<String> {
    let last =
        |it: &Value| it["env"].as_array().unwrap().last().unwrap()["valueFrom"]["configMapKeyRef"].clone();
    let references: Vec<Value> = items(pod, "/spec/containers").iter().map(last).collect();
    let barrier = launch::barrier_name(pod["metadata"]["name"].as_str().unwrap());
    assert!(references.iter().all(|it| it["name"] == barrier.as_str()), "{references:?}");
    references.iter().map(|it| it["key"].as_str().unwrap().to_owned()).collect()
}

fn owned_by(api_version: &str, controls: bool) -> Value {
    let owner = json!({
        "apiVersion": api_version, "kind": "CloneSet", "name": "o", "uid": "2", "controller": controls,
    });
    let mut pod = pod(&[container("a", None)]);
    pod["metadata"]["ownerReferences"] = json!([owner]);
    pod
}

#[test]
fn pods_of_our_kinds_get_the_readiness_gate_once() {
    let with_gate = changed(owned_by("apps.kruise.io/v1alpha1", true));
    assert_eq!(with_gate["spec"]["readinessGates"], json!([{ "conditionType": "KruisePodReady" }]));
    assert_eq!(review(with_gate), Verdict::allow());
    assert_eq!(review(owned_by("apps.kruise.io/v1beta1", false)), Verdict::allow());
    assert_eq!(review(owned_by("apps/v1", true)), Verdict::allow());
    assert_eq!(review(owned_by("v1", true)), Verdict::allow());
}

#[test]
fn with_the_feature_gate_every_pod_gets_it_beside_its_own() {
    let gates = Gates::defaults().with(Gate::KruisePodReadiness, true);
    let mut pod = pod(&[container("a", None)]);
    pod["spec"]["readinessGates"] = json!([{ "conditionType": "mine" }]);
    let Verdict::Patched { object, .. } = mutate(&request(pod), gates, 7) else { panic!("not changed") };
    let wanted = json!([{ "conditionType": "mine" }, { "conditionType": "KruisePodReady" }]);
    assert_eq!(object["spec"]["readinessGates"], wanted);
}

#[test]
fn containers_without_an_order_are_untouched() {
    assert_eq!(review(pod(&[container("a", None), container("b", None)])), Verdict::allow());
    assert_eq!(review(pod(&[container("a", Some("0")), container("b", None)])), Verdict::allow());
    assert_eq!(review(pod(&[container("a", Some("4")), container("b", Some("4"))])), Verdict::allow());
    assert_eq!(review(pod(&[container("a", Some("4"))])), Verdict::allow());
    assert_eq!(review(ordered(&[container("a", None)])), Verdict::allow());
}

#[test]
fn an_ordered_pod_starts_its_containers_as_listed() {
    let it = changed(ordered(&["a", "b", "c"].map(|it| container(it, None))));
    assert_eq!(keys(&it), ["p_0", "p_-1", "p_-2"]);
    assert_eq!(it["metadata"]["name"], "fake");
}

#[test]
fn stated_priorities_give_every_container_a_key_as_its_last_entry() {
    let it = changed(pod(&[container("main", None), container("c2", Some("10"))]));
    assert_eq!(keys(&it), ["p_0", "p_10"]);
    let mut twice = container("c2", Some("10"));
    twice["env"].as_array_mut().unwrap().push(json!({ "name": launch::PRIORITY, "value": "-3" }));
    assert_eq!(keys(&changed(pod(&[container("main", None), twice]))), ["p_0", "p_-3"]);
}

#[test]
fn a_container_without_environment_gets_one() {
    let bare = json!({ "name": "bare", "image": "i" });
    assert_eq!(keys(&changed(pod(&[bare, container("c2", Some("1"))]))), ["p_0", "p_1"]);
}

#[test]
fn a_pod_without_a_name_is_named_here_because_the_barrier_is_named_after_it() {
    let prefix = "x".repeat(70);
    for (generate, kept) in [("web-", "web-"), (prefix.as_str(), &prefix[..58])] {
        let mut it = ordered(&["a", "b"].map(|it| container(it, None)));
        it["metadata"] = json!({ "generateName": generate, "annotations": it["metadata"]["annotations"] });
        let it = changed(it);
        let name = it["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with(kept) && name.len() == kept.len() + 5, "{name}");
        assert_eq!(keys(&it).len(), 2);
    }
}

#[test]
fn a_priority_that_is_no_number_is_refused_with_the_name_of_the_container() {
    for entry in
        [json!({ "value": "high" }), json!({ "value": "" }), json!({ "valueFrom": { "fieldRef": {} } })]
    {
        let mut bad = container("c2", Some("1"));
        bad["env"] = json!([{ "name": launch::PRIORITY }]);
        bad["env"][0].as_object_mut().unwrap().extend(entry.as_object().unwrap().clone());
        let Verdict::Denied(denial) = review(pod(&[container("main", None), bad])) else { panic!("let in") };
        assert_eq!(denial.code, 500);
        assert!(denial.message.contains("container \"c2\""), "{}", denial.message);
    }
}

#[test]
fn a_name_too_long_for_a_barrier_is_refused() {
    let mut it = ordered(&["a", "b"].map(|it| container(it, None)));
    it["metadata"]["name"] = json!("x".repeat(246));
    let Verdict::Denied(denial) = review(it) else { panic!("let in") };
    assert!(denial.message.contains("too long"), "{}", denial.message);
}

#[test]
fn what_cannot_take_effect_is_let_in_with_a_warning() {
    let mut unknown = pod(&[container("a", None), container("b", None)]);
    unknown["metadata"]["annotations"] = json!({ (launch::ORDER): "Sorted" });
    assert_eq!(
        warnings(unknown),
        [
            "annotation apps.kruise.io/container-launch-priority=\"Sorted\" has no effect: only \"Ordered\" has a meaning"
        ]
    );
    let both = ordered(&[container("a", Some("1")), container("b", None)]);
    assert_eq!(
        warnings(both),
        [
            "KRUISE_CONTAINER_PRIORITY of container \"a\" has no effect beside apps.kruise.io/container-launch-priority=Ordered"
        ]
    );
    let mut init = pod(&[container("a", None)]);
    init["spec"]["initContainers"] = json!([container("i", Some("1"))]);
    assert_eq!(
        warnings(init),
        ["KRUISE_CONTAINER_PRIORITY of init container \"i\" has no effect: only containers are ordered"]
    );
}

#[test]
fn anything_but_a_new_pod_is_let_in_as_it_is() {
    let pod = owned_by("apps.kruise.io/v1beta1", true);
    let mut update = request(pod.clone());
    update.operation = Operation::Update;
    let mut eviction = request(pod);
    eviction.sub_resource = Some("eviction".to_owned());
    for it in [update, eviction] {
        assert_eq!(mutate(&it, Gates::defaults(), 7), Verdict::allow());
    }
}

#[test]
fn malformed_pods_never_panic() {
    let gates = Gates::defaults().with(Gate::KruisePodReadiness, true);
    for pod in [
        json!(null),
        json!([]),
        json!("pod"),
        json!({ "metadata": [], "spec": "x" }),
        json!({ "metadata": { "annotations": 3 }, "spec": { "containers": {}, "readinessGates": 3 } }),
        json!({ "metadata": { "annotations": { (launch::ORDER): "Ordered" }, "name": "a" },
                "spec": { "containers": [1, "x", { "env": 3 }, { "env": [null, 4] }] } }),
        json!({ "metadata": { "name": 5, "ownerReferences": [4, { "controller": true }] }, "spec": null }),
    ] {
        mutate(&request(pod), gates, 7);
    }
}
