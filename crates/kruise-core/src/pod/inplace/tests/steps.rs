//! Beginning an update and carrying it on.

use std::time::Duration;

use serde_json::json;

use super::support::{
    GRACE, STATE, at, begin, condition, container, image, images, pod, read, run, send, started, state, time,
};
use crate::pod::{
    inplace::{
        Context, Hold, Refresh, UpdateSpec, UpdateState, is_complete, is_in_grace, may_update, refresh,
    },
    patch::{Part, Pin},
};

#[test]
fn an_update_takes_the_pod_out_of_rotation_and_then_changes_it_in_one_patch() {
    let mut pod = pod(vec![container("c1", "foo:1"), container("c2", "bar:1")]);
    let patches = begin(&pod, &images(&[("c1", "foo:2")]), &at(0));
    assert_eq!(
        patches.iter().map(|it| (it.part, it.pin)).collect::<Vec<_>>(),
        [(Part::Status, Pin::Version), (Part::Main, Pin::Version)]
    );
    send(&mut pod, &patches);

    let drained = condition(&pod, "InPlaceUpdateReady");
    assert_eq!((&drained["status"], &drained["reason"]), (&json!("False"), &json!("StartInPlaceUpdate")));
    assert_eq!(condition(&pod, "Ready")["status"], "False");
    assert_eq!(condition(&pod, "Ready")["reason"], "ReadinessGatesNotReady");
    assert_eq!((image(&pod, "c1"), image(&pod, "c2")), ("foo:2".into(), "bar:1".into()));
    let labels = &pod["metadata"]["labels"];
    assert_eq!(labels["controller-revision-hash"], "set-new");
    assert_eq!(labels["pod-template-hash"], "new");
    assert_eq!(labels["lifecycle.apps.kruise.io/state"], "Updating");
    assert_eq!(labels["app"], "x");
    assert_eq!(pod["metadata"]["annotations"]["lifecycle.apps.kruise.io/timestamp"], time(0));
    assert_eq!(
        pod["metadata"]["annotations"][STATE],
        concat!(
            r#"{"revision":"set-new","updateTimestamp":"2026-03-01T10:00:00Z","#,
            r#""lastContainerStatuses":{"c1":{"imageID":"id:foo:1"}},"updateImages":true,"#,
            r#""containerBatchesRecord":[{"timestamp":"2026-03-01T10:00:00Z","containers":["c1"]}]}"#
        )
    );
}

#[test]
fn the_drain_is_written_even_if_the_cache_says_it_is_done_kruise_2276() {
    let mut pod = pod(vec![container("c1", "foo:1")]);
    started(&mut pod, &images(&[("c1", "foo:2")]));
    let again = begin(&pod, &images(&[("c1", "foo:3")]), &at(1));
    assert_eq!(again[0].part, Part::Status);
    assert_eq!(again[0].body["status"]["conditions"][0]["status"], "False");
    // And should the cache be wrong about anything, nothing at all is accepted.
    assert!(again.iter().all(|it| it.pin == Pin::Version));
}

#[test]
fn a_pod_without_the_gate_changes_without_a_condition() {
    let mut pod = pod(vec![container("c1", "foo:1")]);
    pod["spec"]["readinessGates"] = json!([]);
    let patches = begin(&pod, &images(&[("c1", "foo:2")]), &at(0));
    assert_eq!(patches.iter().map(|it| it.part).collect::<Vec<_>>(), [Part::Main]);
}

#[test]
fn only_the_fields_that_change_are_ever_sent_kruise_1683() {
    let pod = pod(vec![container("c1", "foo:1"), container("c2", "bar:1")]);
    let patches = begin(&pod, &images(&[("c1", "foo:2")]), &at(0));
    assert_eq!(patches[1].body["spec"], json!({"containers": [{"name": "c1", "image": "foo:2"}]}));
}

#[test]
fn metadata_lands_with_the_images_and_cannot_overwrite_our_marks() {
    let mut pod = pod(vec![container("c1", "foo:1")]);
    let mut spec = images(&[("c1", "foo:2")]);
    spec.meta_data_patch = Some(json!({"metadata": {
        "labels": {"k": "v", "app": null, "controller-revision-hash": "no"},
        "annotations": {"a": "b"},
        "finalizers": ["mine"],
    }}));
    started(&mut pod, &spec);
    assert_eq!(pod["metadata"]["labels"]["k"], "v");
    assert!(pod["metadata"]["labels"].get("app").is_none());
    assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], "set-new");
    assert_eq!(pod["metadata"]["annotations"]["a"], "b");
    assert_eq!(pod["metadata"]["annotations"]["keep"], "me");
    assert_eq!(pod["metadata"]["finalizers"], json!(["other", "mine"]));
}

#[test]
fn a_pod_without_the_gate_or_with_everything_said_is_not_written() {
    let mut pod = pod(vec![container("c1", "foo:1")]);
    assert_eq!(refresh(&read(&pod), &at(0)), Refresh::default());
    pod["status"]["conditions"] = json!([]);
    pod["spec"]["readinessGates"] = json!([]);
    assert_eq!(refresh(&read(&pod), &at(0)), Refresh::default());
}

#[test]
fn a_new_pod_gets_its_first_condition() {
    let mut pod = pod(vec![container("c1", "foo:1")]);
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    let patches = refresh(&read(&pod), &at(0)).patches;
    send(&mut pod, &patches);
    assert_eq!(condition(&pod, "InPlaceUpdateReady")["status"], "True");
    assert_eq!(condition(&pod, "Ready")["status"], "False", "Ready is kubelet's");
    assert_eq!(refresh(&read(&pod), &at(1)), Refresh::default());
}

#[test]
fn a_pod_returns_to_rotation_when_its_containers_are_there() {
    let mut pod = pod(vec![container("c1", "foo:1")]);
    started(&mut pod, &images(&[("c1", "foo:2")]));
    let waiting = refresh(&read(&pod), &at(1));
    assert_eq!(waiting, Refresh { hold: Some(Hold::Containers), ..Refresh::default() });
    run(&mut pod, 0);
    let patches = refresh(&read(&pod), &at(2)).patches;
    send(&mut pod, &patches);
    let returned = condition(&pod, "InPlaceUpdateReady");
    assert_eq!(
        returned,
        json!({"type": "InPlaceUpdateReady", "status": "True", "lastTransitionTime": time(2)})
    );
    assert_eq!(condition(&pod, "Ready")["status"], "False", "Ready is kubelet's");
}

#[test]
fn the_return_to_rotation_holds_only_for_the_pod_that_was_looked_at_kruise_2274() {
    let mut pod = pod(vec![container("c1", "foo:1")]);
    started(&mut pod, &images(&[("c1", "foo:2")]));
    run(&mut pod, 0);
    let patches = refresh(&read(&pod), &at(2)).patches;
    assert_eq!(
        patches.iter().map(|it| (it.part, it.pin)).collect::<Vec<_>>(),
        [(Part::Status, Pin::Version)]
    );
}

#[test]
fn a_condition_with_an_old_reason_is_said_again() {
    let mut pod = pod(vec![container("c1", "foo:1")]);
    pod["status"]["conditions"][2]["reason"] = json!("StartInPlaceUpdate");
    assert_eq!(refresh(&read(&pod), &at(0)).patches.len(), 1);
    pod["status"]["conditions"][2]["reason"] = json!("");
    assert_eq!(refresh(&read(&pod), &at(0)).patches.len(), 0);
}

#[test]
fn a_grace_period_leaves_the_containers_alone_until_it_ends() {
    let mut pod = pod(vec![container("c1", "foo1")]);
    let spec = UpdateSpec { grace_seconds: 3630, ..images(&[("c1", "foo2")]) };
    started(&mut pod, &spec);
    assert_eq!(image(&pod, "c1"), "foo1");
    assert_eq!(
        pod["metadata"]["annotations"][GRACE],
        r#"{"revision":"set-new","containerImages":{"c1":"foo2"},"graceSeconds":3630}"#
    );
    assert_eq!(
        pod["metadata"]["annotations"][STATE],
        r#"{"revision":"set-new","updateTimestamp":"2026-03-01T10:00:00Z","lastContainerStatuses":null,"updateImages":true}"#
    );
    assert_eq!(condition(&pod, "InPlaceUpdateReady")["status"], "False");
    assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], "set-new");
    assert!(is_in_grace(&read(&pod)) && !may_update(&read(&pod)) && !is_complete(&read(&pod), &at(9999)));

    let early = refresh(&read(&pod), &at(10));
    assert_eq!((early.patches.len(), early.look_again), (0, Some(Duration::from_secs(3620))));
    assert_eq!(early.hold, Some(Hold::Grace));

    let patches = refresh(&read(&pod), &at(3630)).patches;
    send(&mut pod, &patches);
    assert_eq!(image(&pod, "c1"), "foo2");
    assert!(pod["metadata"]["annotations"].get(GRACE).is_none());
    assert_eq!(state(&pod).last_container_statuses.unwrap()["c1"].image_id, "id:foo1");
    assert_eq!(state(&pod).update_timestamp, Some(at(0).now));
    assert_eq!(state(&pod).container_batches_record[0].timestamp, Some(at(3630).now));
    assert!(may_update(&read(&pod)));
}

#[test]
fn what_is_left_of_a_grace_period_is_rounded_up_to_seconds() {
    let mut pod = pod(vec![container("c1", "foo1")]);
    started(&mut pod, &UpdateSpec { grace_seconds: 30, ..images(&[("c1", "foo2")]) });
    let ctx = Context { now: "2026-03-01T10:00:10.25Z".parse().unwrap(), ..at(0) };
    assert_eq!(refresh(&read(&pod), &ctx).look_again, Some(Duration::from_secs(20)));
}

#[test]
fn a_waiting_update_of_another_revision_is_dropped() {
    let mut pod = pod(vec![container("c1", "foo1")]);
    started(&mut pod, &UpdateSpec { grace_seconds: 30, ..images(&[("c1", "foo2")]) });
    pod["metadata"]["labels"]["controller-revision-hash"] = json!("set-newer");
    let patches = refresh(&read(&pod), &at(5)).patches;
    assert_eq!(patches[0].body, json!({"metadata": {"annotations": {GRACE: null}}}));
    send(&mut pod, &patches);
    assert_eq!(image(&pod, "c1"), "foo1");
}

#[test]
fn a_pod_may_carry_its_revision_with_or_without_the_name_in_front() {
    let mut pod = pod(vec![container("c1", "foo1")]);
    started(&mut pod, &UpdateSpec { grace_seconds: 5, ..images(&[("c1", "foo2")]) });
    pod["metadata"]["labels"]["controller-revision-hash"] = json!("new");
    let patches = refresh(&read(&pod), &at(10)).patches;
    send(&mut pod, &patches);
    assert_eq!(image(&pod, "c1"), "foo2");
}

#[test]
fn old_spellings_are_read_and_taken_away() {
    let mut pod = pod(vec![container("c1", "foo1")]);
    started(&mut pod, &UpdateSpec { grace_seconds: 5, ..images(&[("c1", "foo2")]) });
    let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
    for key in [STATE, GRACE] {
        let value = annotations.remove(key).unwrap();
        annotations.insert(key.replace("apps.kruise.io/", ""), value);
    }
    assert!(is_in_grace(&read(&pod)));
    let patches = refresh(&read(&pod), &at(10)).patches;
    send(&mut pod, &patches);
    assert_eq!(image(&pod, "c1"), "foo2");
    let left: Vec<&String> = pod["metadata"]["annotations"].as_object().unwrap().keys().collect();
    assert_eq!(left, [STATE, "keep", "lifecycle.apps.kruise.io/timestamp"]);
}

#[test]
fn annotations_that_cannot_be_read_stop_the_update_and_nothing_else() {
    let mut broken = pod(vec![container("c1", "foo1")]);
    broken["metadata"]["annotations"][STATE] = json!("{");
    assert_eq!(refresh(&read(&broken), &at(0)).hold, Some(Hold::Unreadable));
    assert!(!is_complete(&read(&broken), &at(0)));
    let mut stateless = pod(vec![container("c1", "foo1")]);
    stateless["metadata"]["annotations"][GRACE] = json!(r#"{"revision":"set-old"}"#);
    assert_eq!(refresh(&read(&stateless), &at(0)).hold, Some(Hold::GraceWithoutState));
    stateless["metadata"]["annotations"][GRACE] = json!(r#"{"revision":"r","metaDataPatch":"bm8="}"#);
    assert_eq!(refresh(&read(&stateless), &at(0)).hold, Some(Hold::Unreadable));
    // Emptied by hand: no grace period, for all who ask.
    stateless["metadata"]["annotations"][GRACE] = json!("");
    assert!(!is_in_grace(&read(&stateless)) && is_complete(&read(&stateless), &at(0)));
}

#[test]
fn pods_in_grace_or_about_to_go_are_not_updated_unless_the_last_update_is_over() {
    let labelled = |state: &str, grace: &str| {
        read(&json!({"metadata": {
            "labels": {"lifecycle.apps.kruise.io/state": state}, "annotations": {GRACE: grace},
        }}))
    };
    for (state, grace, may) in [
        ("Normal", "", true),
        ("Normal", "{}", false),
        ("Updating", "{}", false),
        ("Updated", "{}", true),
        ("PreparingDelete", "", false),
        ("Odd", "", true),
    ] {
        assert_eq!(may_update(&labelled(state, grace)), may, "{state} {grace}");
    }
}

#[test]
fn states_are_read_as_upstream_writes_them() {
    let text =
        r#"{"revision":"r","updateTimestamp":null,"lastContainerStatuses":null,"nextContainerImages":null}"#;
    let state: UpdateState = serde_json::from_str(text).unwrap();
    assert_eq!((state.update_timestamp, state.has_next()), (None, false));
    assert_eq!(state.to_text(), r#"{"revision":"r","updateTimestamp":null,"lastContainerStatuses":null}"#);
    assert_eq!(serde_json::from_str::<UpdateState>("{}").unwrap(), UpdateState::default());
}
