//! Containers that change one after the other.

use serde_json::{Value, json};

use super::support::{
    at, barrier, condition, container, env_from, image, images, pod, read, run, send, started, state,
};
use crate::pod::inplace::{Hold, UpdateSpec, is_complete, refresh};

/// Upstream's four containers: c1 starts first, then c2, then c3 and c4; c2 and c3 read the same label.
fn four() -> Value {
    let containers =
        [("c1", 20, "label-k1"), ("c2", 10, "label-k2"), ("c3", 0, "label-k2"), ("c4", 0, "label-k4")];
    let mut pod = pod(containers
        .into_iter()
        .map(|(name, priority, label)| {
            let (mut spec, status) = container(name, &format!("{name}:1"));
            spec["env"] =
                json!([barrier(priority), env_from("config", &format!("metadata.labels['{label}']"))]);
            (spec, status)
        })
        .collect());
    pod["metadata"]["labels"]["label-k2"] = json!("foo");
    pod
}

fn records(pod: &Value) -> Vec<Vec<String>> {
    state(pod).container_batches_record.into_iter().map(|it| it.containers).collect()
}

fn required(pod: &Value) -> Option<Vec<String>> {
    state(pod).pre_check_before_next.map(|it| it.containers_required_ready)
}

#[test]
fn containers_change_by_priority_and_with_those_that_read_the_same_label() {
    let mut pod = four();
    let mut spec = images(&[("c1", "c1:2"), ("c2", "c2:2"), ("c4", "c4:2")]);
    for name in ["c2", "c3"] {
        spec.container_ref_metadata
            .entry(name.into())
            .or_default()
            .labels
            .insert("label-k2".into(), "bar".into());
    }
    started(&mut pod, &spec);
    assert_eq!(records(&pod), [["c1"]]);
    assert_eq!(required(&pod), Some(vec!["c1".into()]));
    assert_eq!(pod["metadata"]["labels"]["label-k2"], "foo");

    // Changed, but not ready: the others wait.
    run(&mut pod, 0);
    pod["status"]["containerStatuses"][0]["ready"] = json!(false);
    assert_eq!(refresh(&read(&pod), &at(1)).hold, Some(Hold::NotReady));
    pod["status"]["containerStatuses"][0]["ready"] = json!(true);

    let patches = refresh(&read(&pod), &at(2)).patches;
    send(&mut pod, &patches);
    assert_eq!(records(&pod), [vec!["c1"], vec!["c2", "c3"]]);
    assert_eq!(required(&pod), Some(vec!["c2".into(), "c3".into()]));
    assert_eq!(pod["metadata"]["labels"]["label-k2"], "bar");
    assert_eq!(image(&pod, "c4"), "c4:1");
    assert!(!is_complete(&read(&pod), &at(2)));
    assert_eq!(refresh(&read(&pod), &at(2)).hold, Some(Hold::Containers));

    run(&mut pod, 1);
    let patches = refresh(&read(&pod), &at(3)).patches;
    send(&mut pod, &patches);
    assert_eq!(records(&pod), [vec!["c1"], vec!["c2", "c3"], vec!["c4"]]);
    assert_eq!(required(&pod), None);
    assert_eq!(image(&pod, "c4"), "c4:2");
    run(&mut pod, 3);
    assert!(is_complete(&read(&pod), &at(4)));
    assert_eq!(condition(&pod, "InPlaceUpdateReady")["status"], "False");
}

#[test]
fn a_container_that_never_gets_ready_keeps_the_lower_ones_untouched() {
    let mut pod = four();
    started(&mut pod, &images(&[("c1", "c1:2"), ("c4", "c4:2")]));
    run(&mut pod, 0);
    pod["status"]["containerStatuses"][0]["ready"] = json!(false);
    for seconds in [1, 100, 10_000] {
        assert_eq!(refresh(&read(&pod), &at(seconds)).patches, []);
    }
    assert_eq!(image(&pod, "c4"), "c4:1");
}

#[test]
fn containers_without_a_priority_never_wait() {
    let mut pod = four();
    pod["spec"]["containers"][3]["env"] = json!([]);
    started(&mut pod, &images(&[("c1", "c1:2"), ("c2", "c2:2"), ("c4", "c4:2")]));
    assert_eq!(records(&pod), [["c1", "c4"]]);
}

#[test]
fn what_shares_labels_in_a_chain_changes_together() {
    let mut pod = four();
    let mut spec = UpdateSpec { revision: "set-new".into(), ..UpdateSpec::default() };
    for (name, label) in [("c1", "a"), ("c2", "a"), ("c2", "b"), ("c3", "b")] {
        spec.container_ref_metadata.entry(name.into()).or_default().labels.insert(label.into(), "1".into());
    }
    spec.container_images.insert("c4".into(), "c4:2".into());
    started(&mut pod, &spec);
    assert_eq!(records(&pod), [["c1", "c2", "c3"]]);
    assert_eq!(image(&pod, "c4"), "c4:1");
}

#[test]
fn metadata_of_a_container_that_the_pod_does_not_have_lands_at_once() {
    // Upstream would put it off to a next batch that never comes.
    let mut pod = pod(vec![container("c1", "foo:1")]);
    let mut spec = UpdateSpec::default();
    spec.container_ref_metadata.entry("gone".into()).or_default().labels.insert("k".into(), "1".into());
    started(&mut pod, &spec);
    assert_eq!(pod["metadata"]["labels"]["k"], "1");
    assert!(!state(&pod).has_next());
}

#[test]
fn odd_barriers_count_as_priority_zero() {
    for odd in [
        json!({"name": "KRUISE_CONTAINER_BARRIER"}),
        json!({"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": {"configMapKeyRef": {"key": ""}}}),
        json!({"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": {"configMapKeyRef": {"key": "p_x"}}}),
    ] {
        let mut pod = four();
        pod["spec"]["containers"][3]["env"] = json!([odd]);
        started(&mut pod, &images(&[("c2", "c2:2"), ("c4", "c4:2")]));
        assert_eq!(records(&pod), [["c2"]]);
    }
}

#[test]
fn what_an_earlier_update_has_not_reached_is_taken_along() {
    let mut pod = four();
    started(&mut pod, &images(&[("c1", "c1:2"), ("c4", "c4:2")]));
    assert_eq!(records(&pod), [["c1"]]);
    // The new c1 never becomes ready; its successor names c1 alone, because the pod says that it is at that revision.
    started(&mut pod, &images(&[("c1", "c1:3")]));
    assert_eq!(image(&pod, "c1"), "c1:3");
    assert_eq!(state(&pod).next_container_images["c4"], "c4:2");
    run(&mut pod, 0);
    let patches = refresh(&read(&pod), &at(2)).patches;
    send(&mut pod, &patches);
    assert_eq!(image(&pod, "c4"), "c4:2");
    assert!(!is_complete(&read(&pod), &at(3)), "c4 does not run it yet");
    run(&mut pod, 3);
    assert!(is_complete(&read(&pod), &at(3)));
}
