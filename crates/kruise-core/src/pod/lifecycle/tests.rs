use super::*;

fn now() -> Timestamp {
    "2026-03-01T10:00:00Z".parse().unwrap()
}

fn pod(state: &str) -> PodLite {
    let labels = if state.is_empty() { json!({}) } else { json!({keys::LIFECYCLE_STATE: state}) };
    read(json!({"metadata": {"name": "a", "labels": labels}}))
}

fn read(pod: Value) -> PodLite {
    serde_json::from_value(pod).unwrap()
}

fn hook(labels: &[(&str, &str)], finalizers: &[&str]) -> LifecycleHook {
    LifecycleHook {
        labels_handler: labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        finalizers_handler: finalizers.iter().map(|it| (*it).into()).collect(),
        mark_pod_not_ready: false,
    }
}

fn update_hook(hook: LifecycleHook) -> Lifecycle {
    Lifecycle { in_place_update: Some(hook), ..Lifecycle::default() }
}

/// A pod with our readiness gate and these keys of the lifecycle in its condition.
fn marked(state: &str, reasons: &[&str]) -> PodLite {
    let keys: Vec<Key> = reasons.iter().map(|it| Key::new("Lifecycle", *it)).collect();
    read(json!({
        "metadata": {"name": "a", "labels": {keys::LIFECYCLE_STATE: state}},
        "spec": {"readinessGates": [{"conditionType": "KruisePodReady"}]},
        "status": {"conditions": [{
            "type": "KruisePodReady",
            "status": if reasons.is_empty() { "True" } else { "False" },
            "message": serde_json::to_string(&keys).unwrap(),
        }]},
    }))
}

fn parts(patches: &[PodPatch]) -> Vec<Part> {
    patches.iter().map(|it| it.part).collect()
}

#[test]
fn states_are_read_as_they_are_written_and_strange_words_do_no_harm() {
    for state in State::ALL {
        assert_eq!(State::parse(state.as_str()), Some(state));
        assert_eq!(State::of(&pod(state.as_str())), Some(state));
    }
    assert_eq!(State::of(&pod("")), Some(State::Normal));
    assert_eq!(State::of(&pod("Sleeping")), None);
    assert_eq!(next(&pod("Sleeping"), None, true, true), None);
}

#[test]
fn a_pod_is_hooked_by_any_part_and_fully_hooked_by_all() {
    let carrier = read(json!({"metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x", "y"]}}));
    let cases = [
        (None, false, false),
        (Some(hook(&[], &[])), false, true),
        (Some(hook(&[("a", "1")], &[])), true, true),
        (Some(hook(&[("a", "2")], &[])), false, false),
        (Some(hook(&[("a", "1"), ("c", "1")], &[])), true, false),
        (Some(hook(&[], &["x"])), true, true),
        (Some(hook(&[], &["x", "z"])), true, false),
        (Some(hook(&[], &["z"])), false, false),
        (Some(hook(&[("a", "2")], &["x"])), true, false),
        (Some(hook(&[("a", "1"), ("b", "2")], &["x", "y"])), true, true),
    ];
    for (hook, any, all) in cases {
        assert_eq!(is_hooked(hook.as_ref(), &carrier), any, "{hook:?}");
        assert_eq!(is_fully_hooked(hook.as_ref(), &carrier), all, "{hook:?}");
    }
    assert!(!is_hooked(Some(&hook(&[("a", "1")], &["x"])), &PodLite::default()));
    assert!(!is_fully_hooked(Some(&hook(&[("a", "1")], &["x"])), &PodLite::default()));
}

#[test]
fn a_new_pod_is_normal_once_it_has_a_node_kruise_1485() {
    let mut pod = pod("PreparingNormal");
    assert_eq!(next(&pod, None, true, true), None);
    pod.spec.node_name = Some("n1".into());
    assert_eq!(next(&pod, None, true, true), Some(State::Normal));
    assert_eq!(next(&pod, Some(&Lifecycle::default()), true, true), Some(State::Normal));
}

#[test]
fn a_new_pod_waits_for_every_part_of_its_pre_normal_hook_and_for_nothing_else() {
    let lifecycle = Lifecycle { pre_normal: Some(hook(&[("a", "1")], &["x"])), ..Lifecycle::default() };
    let mut pod = read(json!({
        "metadata": {"labels": {keys::LIFECYCLE_STATE: "PreparingNormal", "a": "1"}}, "spec": {"nodeName": "n"},
    }));
    assert_eq!(next(&pod, Some(&lifecycle), true, true), None);
    pod.metadata.finalizers = Some(vec!["x".into()]);
    pod.spec.node_name = None;
    assert_eq!(next(&pod, Some(&lifecycle), true, true), Some(State::Normal));
}

#[test]
fn a_rollback_while_the_update_is_prepared_sets_the_pod_free_kruise_1156() {
    let with_hook = update_hook(hook(&[("a", "1")], &[]));
    let unhooked = pod("PreparingUpdate");
    assert_eq!(next(&unhooked, Some(&with_hook), false, true), None);
    assert_eq!(next(&unhooked, Some(&with_hook), true, false), Some(State::Updated));
    assert_eq!(next(&unhooked, None, true, false), Some(State::Normal));
    let hooked = read(json!({"metadata": {"labels": {keys::LIFECYCLE_STATE: "PreparingUpdate", "a": "1"}}}));
    assert_eq!(next(&hooked, Some(&with_hook), true, false), Some(State::Normal));
}

#[test]
fn an_updating_pod_goes_on_when_its_containers_are_there() {
    let with_hook = update_hook(hook(&[("a", "1")], &[]));
    let pod = pod("Updating");
    assert_eq!(next(&pod, Some(&with_hook), true, false), None);
    assert_eq!(next(&pod, Some(&with_hook), true, true), Some(State::Updated));
    assert_eq!(next(&pod, None, true, true), Some(State::Normal));
    // A lifecycle without this hook: Updated for one look, then Normal.
    assert_eq!(next(&pod, Some(&Lifecycle::default()), true, true), Some(State::Updated));
}

#[test]
fn an_updated_pod_waits_for_all_handlers_not_for_any_kruise_528() {
    let with_hook = update_hook(hook(&[("a", "1")], &["x"]));
    let half = read(json!({"metadata": {"labels": {keys::LIFECYCLE_STATE: "Updated", "a": "1"}}}));
    assert_eq!(next(&half, Some(&with_hook), true, true), None);
    let mut all = half.clone();
    all.metadata.finalizers = Some(vec!["x".into()]);
    assert_eq!(next(&all, Some(&with_hook), true, true), Some(State::Normal));
    assert_eq!(next(&half, None, true, true), Some(State::Normal));
    assert_eq!(next(&half, Some(&Lifecycle::default()), true, true), Some(State::Normal));
}

#[test]
fn normal_and_leaving_pods_go_nowhere_by_themselves() {
    for state in ["", "Normal", "PreparingDelete"] {
        assert_eq!(next(&pod(state), None, true, true), None);
    }
}

#[test]
fn a_move_writes_state_and_time_in_one_patch_and_the_same_state_nothing() {
    let patches = enter(&pod("PreparingNormal"), State::Normal, Marking::Leave, now());
    assert_eq!(
        patches,
        [PodPatch {
            part: Part::Main,
            pin: Pin::Uid,
            body: json!({"metadata": {
                "labels": {"lifecycle.apps.kruise.io/state": "Normal"},
                "annotations": {"lifecycle.apps.kruise.io/timestamp": "2026-03-01T10:00:00Z"},
            }}),
        }]
    );
    assert_eq!(enter(&pod("Normal"), State::Normal, Marking::NotReady, now()), []);
    assert_eq!(enter(&marked("PreparingDelete", &[]), State::PreparingDelete, Marking::NotReady, now()), []);
}

#[test]
fn conclusions_about_an_update_hold_only_for_the_version_they_were_drawn_from() {
    for (from, to, pin) in [
        ("Updating", State::Normal, Pin::Version),
        ("Updating", State::Updated, Pin::Version),
        ("Updated", State::Normal, Pin::Version),
        ("Normal", State::PreparingUpdate, Pin::Version),
        ("Normal", State::PreparingDelete, Pin::Uid),
    ] {
        assert_eq!(enter(&pod(from), to, Marking::Leave, now())[0].pin, pin, "{from} -> {to:?}");
    }
}

#[test]
fn a_pod_is_taken_out_of_rotation_before_it_is_held() {
    for (state, reason) in
        [(State::PreparingDelete, "preDeleteHook"), (State::PreparingUpdate, "preUpdateHook")]
    {
        let patches = enter(&marked("Normal", &[]), state, Marking::NotReady, now());
        assert_eq!(parts(&patches), [Part::Status, Part::Main]);
        let message = patches[0].body["status"]["conditions"][0]["message"].as_str().unwrap().to_owned();
        assert_eq!(message, format!(r#"[{{"userAgent":"Lifecycle","key":"{reason}"}}]"#));
        assert_eq!(parts(&enter(&marked("Normal", &[]), state, Marking::Leave, now())), [Part::Main]);
        // After a crash between the two only the state is left to write.
        assert_eq!(
            parts(&enter(&marked("Normal", &[reason]), state, Marking::NotReady, now())),
            [Part::Main]
        );
    }
}

#[test]
fn every_way_out_of_an_update_puts_the_pod_back_into_rotation() {
    // Upstream forgets the way to Normal, and a hook whose flag was taken away meanwhile.
    for (from, to) in [
        ("PreparingUpdate", State::Updated),
        ("Updating", State::Updated),
        ("PreparingUpdate", State::Normal),
        ("Updating", State::Normal),
        ("Updated", State::Normal),
    ] {
        for marking in [Marking::NotReady, Marking::Leave] {
            let patches = enter(&marked(from, &["preUpdateHook"]), to, marking, now());
            assert_eq!(parts(&patches), [Part::Status, Part::Main], "{from} -> {to:?}");
            let condition = &patches[0].body["status"]["conditions"][0];
            assert_eq!((&condition["status"], &condition["message"]), (&json!("True"), &json!("[]")));
        }
    }
}

#[test]
fn a_deletion_that_is_taken_back_puts_the_pod_back_into_rotation() {
    let pod = marked("PreparingDelete", &["preDeleteHook"]);
    let patches = enter(&pod, State::PreparingNormal, Marking::Leave, now());
    assert_eq!(parts(&patches), [Part::Status, Part::Main]);
    assert_eq!(patches[0].body["status"]["conditions"][0]["status"], "True");
}

#[test]
fn the_move_to_updating_leaves_rotation_alone() {
    let pod = marked("PreparingUpdate", &["preUpdateHook"]);
    assert_eq!(parts(&enter(&pod, State::Updating, Marking::NotReady, now())), [Part::Main]);
}

#[test]
fn a_second_update_arms_the_hook_again_in_the_same_patch() {
    let hook = hook(&[("a", "1")], &["x"]);
    let patches = enter_hooked(&pod("Updated"), State::PreparingUpdate, Some(&hook), now());
    assert_eq!(parts(&patches), [Part::Main]);
    let metadata = &patches[0].body["metadata"];
    assert_eq!(metadata["labels"], json!({"a": "1", "lifecycle.apps.kruise.io/state": "PreparingUpdate"}));
    assert_eq!(metadata["finalizers"], json!(["x"]));
    assert!(metadata["annotations"]["lifecycle.apps.kruise.io/timestamp"].is_string());

    let marking = LifecycleHook { mark_pod_not_ready: true, ..hook.clone() };
    let patches = enter_hooked(&marked("Updated", &[]), State::PreparingUpdate, Some(&marking), now());
    assert_eq!(parts(&patches), [Part::Status, Part::Main]);

    assert_eq!(enter_hooked(&pod("Updated"), State::PreparingUpdate, None, now()), []);
    assert_eq!(enter_hooked(&pod("PreparingUpdate"), State::PreparingUpdate, Some(&hook), now()), []);
}

#[test]
fn deletion_is_final_where_a_hook_takes_the_pod_out_of_rotation() {
    let marking = LifecycleHook { mark_pod_not_ready: true, ..LifecycleHook::default() };
    assert!(!is_deletion_final(None));
    assert!(!is_deletion_final(Some(&Lifecycle::default())));
    assert!(is_deletion_final(Some(&Lifecycle {
        pre_delete: Some(marking.clone()),
        ..Lifecycle::default()
    })));
    assert!(is_deletion_final(Some(&Lifecycle {
        in_place_update: Some(marking.clone()),
        ..Lifecycle::default()
    })));
    assert!(!is_deletion_final(Some(&Lifecycle { pre_normal: Some(marking), ..Lifecycle::default() })));
}
