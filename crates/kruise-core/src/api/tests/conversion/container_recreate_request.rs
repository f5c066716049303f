use super::*;
use crate::api::container_recreate_request::keys;

fn spec() -> BoxedStrategy<Value> {
    one_of([json!({"podName": "p", "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]})])
}

fn nothing() -> BoxedStrategy<Value> {
    some_of(vec![])
}

fn alpha() -> BoxedStrategy<Value> {
    let statuses = [
        r#"[{"name":"c","ready":true,"restartCount":1,"containerID":"docker://1"}]"#,
        r#" [ {"name":"c","ready":false,"restartCount":1} ]"#,
        "[]",
        "broken",
        "",
    ];
    let times =
        ["2024-01-02T03:04:05Z", "2024-01-02T05:04:05+02:00", "2024-01-02T03:04:05.6Z", "yesterday", ""];
    let annotations = some_of(vec![
        ("note", one_of([json!("x")])),
        (keys::SYNC_CONTAINER_STATUSES, one_of(statuses.map(Value::from))),
        (keys::UNREADY_ACQUIRED, one_of(times.map(Value::from))),
    ]);
    let status = one_of([json!({}), json!({"phase": "Recreating"})]);
    object(APPS_V1ALPHA1, "ContainerRecreateRequest", nothing(), annotations, spec(), status)
}

fn beta() -> BoxedStrategy<Value> {
    let grace = |status: &str, time: &str| {
        json!({"type": "PreRecreateGrace", "status": status, "reason": "PreRecreateGrace", "message": "own words",
            "lastTransitionTime": time})
    };
    let other = json!({"type": "Other", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": "2024-01-02T03:04:05Z"});
    let status = some_of(vec![
        ("message", one_of([json!("m")])),
        (
            "containerStatusSnapshot",
            one_of([
                json!([]),
                json!([{"name": "c", "ready": true, "restartCount": 2, "containerID": "x", "newer": 1}]),
            ]),
        ),
        (
            "conditions",
            one_of([
                json!([]),
                json!([grace("True", "2024-01-02T03:04:05Z")]),
                json!([other, grace("False", "2024-01-02T03:04:05Z")]),
                json!([other, grace("True", "2024-01-02T03:04:05Z")]),
            ]),
        ),
    ])
    .prop_map(|mut it| {
        it["phase"] = json!("Recreating");
        it
    });
    let annotations = some_of(vec![(keys::UNREADY_ACQUIRED, one_of([json!("2020-01-01T00:00:00Z")]))]);
    object(APPS_V1BETA1, "ContainerRecreateRequest", nothing(), annotations, spec(), status.boxed())
}

proptest! {
    #[test]
    fn a_v1alpha1_request_comes_back_from_v1beta1_as_it_was(object in alpha()) {
        prop_assert_eq!(there_and_back(&object), object);
    }

    #[test]
    fn a_v1beta1_request_comes_back_from_v1alpha1_as_it_was(object in beta()) {
        prop_assert_eq!(there_and_back(&object), object);
    }
}

#[test]
fn annotations_of_v1alpha1_are_parts_of_the_status_in_v1beta1() {
    let snapshot = json!([{"name": "c", "ready": true, "restartCount": 1, "containerID": "docker://1"}]);
    let text = r#"[{"name":"c","ready":true,"restartCount":1,"containerID":"docker://1"}]"#;
    let alpha = json!({"apiVersion": APPS_V1ALPHA1, "kind": "ContainerRecreateRequest",
        "spec": {"podName": "p", "containers": []}, "status": {"phase": "Recreating"},
        "metadata": {"name": "r", "annotations": {
            keys::SYNC_CONTAINER_STATUSES: text, keys::UNREADY_ACQUIRED: "2024-01-02T03:04:05Z"}}});
    let beta = to_beta(&alpha);
    assert_eq!(beta["metadata"], json!({"name": "r"}));
    assert_eq!(beta["status"]["containerStatusSnapshot"], snapshot);
    let condition = &beta["status"]["conditions"][0];
    assert_eq!(condition["type"], "PreRecreateGrace");
    assert_eq!(condition["lastTransitionTime"], "2024-01-02T03:04:05Z");
    assert_eq!(to_alpha(&beta), alpha);
}

#[test]
fn newer_facts_in_v1beta1_win_over_an_old_annotation() {
    let alpha = json!({"apiVersion": APPS_V1ALPHA1, "kind": "ContainerRecreateRequest",
        "spec": {"podName": "p", "containers": []}, "status": {"phase": "Recreating"},
        "metadata": {"name": "r", "annotations": {keys::SYNC_CONTAINER_STATUSES: "broken"}}});
    let mut beta = to_beta(&alpha);
    assert_eq!(to_alpha(&beta), alpha);
    beta["status"]["containerStatusSnapshot"] = json!([{"name": "c", "ready": true, "restartCount": 1}]);
    assert_eq!(
        to_alpha(&beta)["metadata"]["annotations"],
        json!({keys::SYNC_CONTAINER_STATUSES: r#"[{"name":"c","ready":true,"restartCount":1}]"#})
    );
}
