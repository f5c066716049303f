//! Which sidecars are stopped, when and how.

use serde_json::{Value, json};

use super::plan::{Action, is_due, plan};
use crate::{
    pod::{
        patch::{Part, PodPatch},
        sample::noon,
    },
    runtime::cache::pod::PodLite,
};

const STOP: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";
const IMAGE: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE";
const IGNORE: &str = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE";

/// Names and values.
type Env<'a> = &'a [(&'a str, &'a str)];

/// A running pod. Each container: name, environment, exit code if it has ended.
fn pod(policy: &str, containers: &[(&str, Env<'_>, Option<i32>)]) -> PodLite {
    let env = |list: Env<'_>| -> Vec<Value> {
        list.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
    };
    let state = |code: Option<i32>| match code {
        Some(code) => json!({"terminated": {"exitCode": code}}),
        None => json!({"running": {}}),
    };
    let spec: Vec<Value> = containers
        .iter()
        .map(|(name, list, _)| json!({"name": name, "image": "i:1", "env": env(list)}))
        .collect();
    let status: Vec<Value> = containers
        .iter()
        .map(|(name, _, code)| json!({"name": name, "image": "i:1", "imageID": "", "state": state(*code)}))
        .collect();
    serde_json::from_value(json!({
        "metadata": {"name": "job", "namespace": "n", "uid": "u"},
        "spec": {"nodeName": "node", "restartPolicy": policy, "containers": spec},
        "status": {"phase": "Running", "containerStatuses": status},
    }))
    .unwrap()
}

fn stop(name: &str, containers: &[&str]) -> Action {
    let containers = containers.iter().map(|&it| it.to_owned()).collect();
    Action::Stop { containers, name: name.to_owned() }
}

fn on_machine(pod: &PodLite, requests: &[&str]) -> Vec<Action> {
    plan(pod, false, |it| requests.contains(&it), noon())
}

const PLAIN: Env<'_> = &[(STOP, "true")];
const IGNORED: Env<'_> = &[(STOP, "True"), (IGNORE, "true")];
const BY_IMAGE: Env<'_> = &[(IMAGE, "exit:1")];

#[test]
fn work_has_to_be_done_as_the_restart_policy_means_it() {
    for (policy, code, due) in [
        ("Never", None, false),
        ("Never", Some(0), true),
        ("Never", Some(1), true),
        ("OnFailure", None, false),
        ("OnFailure", Some(0), true),
        ("OnFailure", Some(1), false),
        ("Always", Some(0), false),
    ] {
        let pod = pod(policy, &[("main", &[], code), ("log", PLAIN, None)]);
        assert_eq!(is_due(&pod), due, "{policy} {code:?}");
        assert_eq!(on_machine(&pod, &[]).is_empty(), !due, "{policy} {code:?}");
    }
}

#[test]
fn pods_that_wait_go_or_have_no_sidecar_left_are_let_be() {
    let due = pod("Never", &[("main", &[], Some(0)), ("log", PLAIN, None)]);
    assert!(is_due(&due));
    assert!(!is_due(&due.clone().in_phase("Pending")));
    let mut going = due.clone();
    going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(noon()));
    assert!(!is_due(&going));
    let mut half_known = due;
    half_known.status.container_statuses.pop();
    assert!(!is_due(&half_known));
    assert!(!is_due(&pod("Never", &[("main", &[], Some(0)), ("log", PLAIN, Some(0))])));
    assert!(!is_due(&pod("Never", &[("main", &[], Some(0)), ("other", &[(STOP, "false")], None)])));
    assert!(!is_due(&pod("Never", &[("main", &[], Some(0)), ("two", &[], None), ("log", PLAIN, None)])));
}

#[test]
fn plain_sidecars_are_stopped_by_one_request() {
    let pod = pod(
        "Never",
        &[("a", PLAIN, None), ("main", &[], Some(0)), ("b", PLAIN, Some(0)), ("c", PLAIN, None)],
    );
    assert_eq!(on_machine(&pod, &[]), [stop("sidecar-termination-u", &["a", "c"])]);
    assert_eq!(on_machine(&pod, &["sidecar-termination-u"]), []);
}

#[test]
fn a_pod_whose_sidecars_do_not_count_ends_as_its_work_did() {
    for (code, phase) in [(0, "Succeeded"), (3, "Failed")] {
        let due = pod("Never", &[("main", &[], Some(code)), ("log", IGNORED, None)]);
        let condition = json!({
            "type": "SidecarTerminated", "status": "True", "message": "Terminated by Sidecar Terminator",
            "lastTransitionTime": "2026-01-15T12:00:00Z",
        });
        let actions = on_machine(&due, &[]);
        let [Action::End(PodPatch { part: Part::Status, body, .. }), last] = &actions[..] else {
            panic!("{actions:?}")
        };
        assert_eq!(*body, json!({"status": {"phase": phase, "conditions": [condition]}}));
        assert_eq!(*last, stop("sidecar-termination-u", &["log"]));
        // Once it has ended, only the request is left to make, once.
        let ended = due.in_phase(phase);
        assert!(!is_due(&ended), "somebody else has ended it");
        let ended = ended.with_condition("SidecarTerminated", "True", None);
        assert_eq!(on_machine(&ended, &[]), [stop("sidecar-termination-u", &["log"])]);
        assert_eq!(on_machine(&ended, &["sidecar-termination-u"]), []);
    }
}

/// OpenKruise gives both requests one name, so the second is never made.
#[test]
fn sidecars_that_do_not_count_come_after_the_others_with_a_request_of_their_own() {
    let of = |log| pod("Never", &[("main", &[], Some(0)), ("log", PLAIN, log), ("mesh", IGNORED, None)]);
    assert_eq!(on_machine(&of(None), &[]), [stop("sidecar-termination-u", &["log"])]);
    assert_eq!(on_machine(&of(None), &["sidecar-termination-u"]), []);
    let actions = on_machine(&of(Some(143)), &["sidecar-termination-u"]);
    assert!(
        matches!(&actions[..], [Action::End(_), last] if *last == stop("sidecar-termination-u-ignored", &["mesh"]))
    );
}

#[test]
fn on_virtual_nodes_another_image_ends_them() {
    let due = pod("OnFailure", &[("main", &[], Some(0)), ("log", BY_IMAGE, None), ("mesh", PLAIN, None)]);
    let actions = plan(&due, true, |_| false, noon());
    let [Action::Replace { containers, patch }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(containers, &["log"]);
    assert_eq!(patch.body, json!({"spec": {"containers": [{"name": "log", "image": "exit:1"}]}}));
    assert_eq!(patch.part, Part::Main);

    let mut replaced = due.clone();
    let mut list = replaced.spec.containers.to_vec();
    list[1].image = Some("exit:1".into());
    replaced.spec.containers = list.into();
    assert_eq!(plan(&replaced, true, |_| false, noon()), []);
    // On a machine it is the daemon's matter, and this one did not ask for that.
    assert_eq!(on_machine(&due, &[]), [stop("sidecar-termination-u", &["mesh"])]);
}

/// The node would take its being down for having been stopped, and the request would be used up.
#[test]
fn a_sidecar_that_waits_for_its_next_start_is_stopped_after_it() {
    let mut crashing = pod("OnFailure", &[("main", &[], Some(0)), ("log", PLAIN, None)]);
    crashing.status.container_statuses[1].state =
        serde_json::from_value(json!({"waiting": {"reason": "CrashLoopBackOff"}})).unwrap();
    assert!(is_due(&crashing));
    assert_eq!(on_machine(&crashing, &[]), []);
    crashing.status.container_statuses[1].state = serde_json::from_value(json!({"running": {}})).unwrap();
    assert_eq!(on_machine(&crashing, &[]), [stop("sidecar-termination-u", &["log"])]);
}

/// It says how it ends on a virtual node only; on a machine its end has to be waited for.
#[test]
fn a_pod_is_not_ended_before_a_container_that_nobody_stops_here() {
    let of = |log| pod("Never", &[("main", &[], Some(0)), ("log", BY_IMAGE, log), ("mesh", IGNORED, None)]);
    assert_eq!(on_machine(&of(None), &[]), []);
    assert!(matches!(&on_machine(&of(Some(0)), &[])[..], [Action::End(_), Action::Stop { .. }]));
}
