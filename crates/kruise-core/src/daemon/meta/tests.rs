//! Every rule of the plan, on values.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::plan::{entries, is_ours, is_worth_a_look, outdated, read_env, report, runtime_of};
use crate::{
    daemon::cri::{Container, ContainerState},
    runtime::cache::pod::PodLite,
};

/// Hash of `[{"name":"E","value":"1"}]` is what the pod below asks for; this is what an empty environment hashes to.
const NOTHING: u64 = 86_995_377;

fn pod(change: impl FnOnce(&mut Value)) -> PodLite {
    let mut pod = json!({
        "metadata": {
            "name": "web", "namespace": "n", "labels": {"v": "1"},
            "ownerReferences": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "c", "uid": "u", "controller": true}],
        },
        "spec": {"containers": [
            {"name": "main", "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['v']"}}}]},
            {"name": "plain"},
        ]},
        "status": {"containerStatuses": [
            {"name": "main", "containerID": "containerd://m1"}, {"name": "plain", "containerID": "containerd://p1"},
        ]},
    });
    change(&mut pod);
    serde_json::from_value(pod).unwrap()
}

fn running(name: &str, id: &str) -> Container {
    Container {
        id: id.into(),
        sandbox_id: "box".into(),
        name: name.into(),
        state: ContainerState::Running,
        created_at: Timestamp::UNIX_EPOCH,
        started_at: Some(Timestamp::UNIX_EPOCH),
        hash: 77,
        restart_count: 2,
        labels: Default::default(),
        annotations: Default::default(),
    }
}

fn both() -> [Container; 2] {
    [running("main", "m1"), running("plain", "p1")]
}

/// The pod with the report that the present state asks for.
fn settled(change: impl FnOnce(&mut Value)) -> PodLite {
    let bare = pod(|_| ());
    let mut entries = entries(&bare, &both(), "containerd", true);
    for it in &mut entries {
        it.report.hashes.extracted_env_from_metadata_hash = it.expected;
    }
    let text = serde_json::to_string(&report(&bare, &entries).unwrap()).unwrap();
    pod(|it| {
        it["metadata"]["annotations"] = json!({"apps.kruise.io/runtime-containers-meta": text});
        change(it);
    })
}

#[test]
fn pods_of_our_workloads_and_with_our_sidecars_are_ours() {
    assert!(is_ours(&pod(|_| ())));
    let foreign = |it: &mut Value| it["metadata"]["ownerReferences"][0]["apiVersion"] = json!("apps/v1");
    assert!(!is_ours(&pod(foreign)));
    assert!(is_ours(&pod(|it| {
        foreign(it);
        it["metadata"]["annotations"] = json!({"kruise.io/sidecarset-hash": "{}"});
    })));
    assert!(!is_ours(&pod(|it| it["metadata"]["ownerReferences"][0]["controller"] = json!(false))));
}

#[test]
fn a_start_of_the_daemon_writes_to_nobody_but_catches_up_where_it_reported_before() {
    assert!(!is_worth_a_look(None, &pod(|_| ()), true));
    assert!(is_worth_a_look(Some(&pod(|_| ())), &pod(|_| ()), true), "the next change is enough");
    assert!(!is_worth_a_look(None, &settled(|_| ()), true));
    let restarted =
        settled(|it| it["status"]["containerStatuses"][0]["containerID"] = json!("containerd://m2"));
    assert!(is_worth_a_look(None, &restarted, true));
}

#[test]
fn each_reason_for_another_report_counts_by_itself() {
    let before = settled(|_| ());
    let look = |pod: &PodLite| is_worth_a_look(Some(&before), pod, true);
    assert!(!look(&before), "at rest nothing is looked at");
    assert!(look(&settled(
        |it| it["status"]["containerStatuses"][0]["containerID"] = json!("containerd://m2")
    )));
    let longer = |it: &mut Value| it["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "x"}));
    assert!(look(&settled(longer)));
    assert!(look(&settled(|it| {
        it["status"]["containerStatuses"].as_array_mut().unwrap().push(json!({"name": "x"}));
    })));
    let relabelled = settled(|it| it["metadata"]["labels"]["v"] = json!("2"));
    assert!(look(&relabelled));
    assert!(!is_worth_a_look(Some(&before), &relabelled, false), "environments are not looked at");
    assert!(!look(&settled(|it| {
        it["status"]["containerStatuses"][0]["containerID"] = json!("containerd://m2");
        it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    })));
}

#[test]
fn a_new_container_is_reported_and_a_known_one_keeps_its_entry() {
    let entries_of = |pod: &PodLite, containers: &[Container]| entries(pod, containers, "containerd", true);
    let first = entries_of(&pod(|_| ()), &both());
    assert_eq!(first[0].report.container_id, "containerd://m1");
    assert_eq!((first[0].report.hashes.plain_hash, first[0].report.restart_count), (77, 2));
    assert!(first[0].needs_env && first[1].needs_env);
    assert_eq!(first[1].expected, NOTHING);

    let settled = settled(|_| ());
    let again = entries_of(&settled, &both());
    assert!(!again[0].needs_env, "it was read before");
    assert_eq!(report(&settled, &again), None, "at rest nothing is written");
    let replaced = entries_of(&settled, &[running("main", "m2"), running("plain", "p1")]);
    assert!(replaced[0].needs_env && !replaced[1].needs_env);
    assert!(report(&settled, &replaced).is_some());
    assert_eq!(
        entries_of(&settled, &[running("main", "m1")]).len(),
        1,
        "the runtime does not know the other"
    );
}

#[test]
fn environments_are_left_alone_where_the_gate_is_off_or_nothing_runs() {
    assert!(!entries(&pod(|_| ()), &both(), "containerd", false)[0].needs_env);
    let exited = Container { state: ContainerState::Exited, ..running("main", "m1") };
    assert!(!entries(&pod(|_| ()), &[exited], "containerd", true)[0].needs_env);
}

#[test]
fn a_container_is_restarted_only_while_a_workload_updates_its_pod() {
    let relabel = |it: &mut Value| it["metadata"]["labels"]["v"] = json!("2");
    let updating = |it: &mut Value| {
        it["status"]["conditions"] = json!([{"type": "InPlaceUpdateReady", "status": "False"}]);
    };
    let restarts = |pod: &PodLite| {
        let entries = entries(pod, &both(), "containerd", true);
        outdated(pod, &entries).into_iter().map(|it| it.id.clone()).collect::<Vec<_>>()
    };
    assert!(restarts(&settled(relabel)).is_empty(), "somebody changed a label");
    assert!(restarts(&settled(updating)).is_empty(), "the environment is right");
    let both = settled(|it| {
        relabel(it);
        updating(it);
    });
    assert_eq!(restarts(&both), ["m1"], "only the container that reads the label");
    let unknown = pod(|it| {
        relabel(it);
        updating(it);
    });
    assert!(restarts(&unknown).is_empty(), "nobody knows the environment yet");
}

#[test]
fn the_runtime_is_that_of_the_first_container_with_an_id() {
    let none = pod(|it| it["status"]["containerStatuses"][0]["containerID"] = json!(""));
    assert_eq!(runtime_of(&none), Some("containerd"));
    assert_eq!(runtime_of(&pod(|it| it["status"] = json!({}))), None);
}

#[test]
fn values_with_equals_signs_are_read_whole() {
    let read = read_env(b"A=1\nB=x=y=z\nC=\nnonsense\n");
    let expected = [("A", "1"), ("B", "x=y=z"), ("C", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(read, expected);
}
