//! When an update is complete.

use serde_json::{Value, json};

use super::support::{STATE, at, container, env_from, pod, read, time};
use crate::pod::inplace::{
    Context,
    hashes::{expected_env_hash, plain_hash},
    is_complete, refresh,
};

/// A pod whose container c1 was changed at second 0, when the image with this digest ran.
fn changed(last: &str, spec_image: &str, status_image: &str) -> Value {
    let mut pod = pod(vec![container("c1", spec_image)]);
    pod["status"]["containerStatuses"][0]["image"] = json!(status_image);
    pod["status"]["containerStatuses"][0]["imageID"] = json!("img01");
    pod["metadata"]["annotations"][STATE] = json!(
        json!({
            "revision": "set-new", "updateTimestamp": time(0), "lastContainerStatuses": {"c1": {"imageID": last}},
            "containerBatchesRecord": [{"timestamp": time(0), "containers": ["c1"]}],
        })
        .to_string()
    );
    pod
}

fn complete(pod: &Value) -> bool {
    is_complete(&read(pod), &at(5))
}

fn report(pod: &mut Value, container: &str, plain: u64, env: u64) {
    pod["metadata"]["annotations"]["apps.kruise.io/runtime-containers-meta"] = json!(
        json!({"containers": [{
            "name": "c1", "containerID": container, "restartCount": 1,
            "hashes": {"plainHash": plain, "extractedEnvFromMetadataHash": env},
        }]})
        .to_string()
    );
}

#[test]
fn a_pod_that_was_never_updated_is_complete() {
    assert!(complete(&pod(vec![container("c1", "foo")])));
}

#[test]
fn another_digest_is_complete_and_the_same_with_another_name_is_not() {
    assert!(complete(&changed("img00", "foo:2", "foo:1")));
    assert!(!complete(&changed("img01", "foo:2", "foo:1")));
}

#[test]
fn a_container_without_status_is_not_complete() {
    let mut pod = changed("img00", "foo:2", "foo:2");
    pod["status"]["containerStatuses"] = json!([]);
    assert!(!complete(&pod));
}

#[test]
fn a_new_tag_of_the_same_digest_is_complete_when_the_runtime_names_it() {
    assert!(complete(&changed("img01", "foo:2", "foo:2")));
    assert!(complete(&changed("img01", "foo:2", "docker.io/library/foo:2")));
}

#[test]
fn a_missing_tag_is_latest_and_a_port_is_no_tag_kruise_418() {
    assert!(complete(&changed("img01", "foo", "foo:latest")));
    assert!(complete(&changed("img01", "registry:5000/app", "registry:5000/app:latest")));
    assert!(!complete(&changed("img01", "registry:5000/app", "registry:5000/app:1")));
}

#[test]
fn a_restart_tells_where_the_runtime_keeps_the_old_name_kruise_635() {
    let mut pod = changed("img01", "foo:2", "foo:1");
    pod["status"]["containerStatuses"][0]["state"] = json!({"running": {"startedAt": time(3)}});
    assert!(complete(&pod));
    pod["status"]["containerStatuses"][0]["state"] = json!({"running": {"startedAt": time(-3)}});
    assert!(!complete(&pod));
    pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": {"reason": "ContainerCreating"}});
    assert!(!complete(&pod));
}

#[test]
fn a_restart_of_the_old_spec_is_told_apart_where_kubelet_says_what_it_has_seen() {
    let mut pod = changed("img01", "foo:2", "foo:1");
    pod["status"]["containerStatuses"][0]["state"] = json!({"running": {"startedAt": time(3)}});
    pod["metadata"]["generation"] = json!(2);
    pod["status"]["observedGeneration"] = json!(1);
    assert!(!complete(&pod));
    pod["status"]["observedGeneration"] = json!(2);
    assert!(complete(&pod));
}

#[test]
fn a_start_in_the_second_of_the_change_counts_after_a_minute() {
    let mut pod = changed("img01", "foo:2", "foo:1");
    pod["status"]["containerStatuses"][0]["state"] = json!({"running": {"startedAt": time(0)}});
    assert!(!is_complete(&read(&pod), &at(59)));
    assert_eq!(refresh(&read(&pod), &at(20)).look_again, Some(std::time::Duration::from_secs(40)));
    assert!(is_complete(&read(&pod), &at(60)));
}

#[test]
fn the_report_of_the_daemon_is_enough_if_it_is_about_this_container() {
    let mut pod = changed("img01", "foo:2", "foo:1");
    report(&mut pod, "c1-0", plain_hash("c1", "foo:2"), 0);
    assert!(complete(&pod));
    report(&mut pod, "c1-1", plain_hash("c1", "foo:2"), 0);
    assert!(!complete(&pod));
    report(&mut pod, "c1-0", plain_hash("c1", "foo:1"), 0);
    assert!(!complete(&pod));
}

#[test]
fn a_stale_report_does_not_stand_in_the_way_and_a_broken_one_does() {
    let mut pod = changed("img00", "foo:2", "foo:1");
    report(&mut pod, "c1-0", plain_hash("c1", "foo:1"), 0);
    assert!(complete(&pod));
    pod["metadata"]["annotations"]["apps.kruise.io/runtime-containers-meta"] = json!("{");
    assert!(!complete(&pod));
}

#[test]
fn environment_from_metadata_needs_the_report_of_the_daemon() {
    let mut pod = changed("img00", "foo:2", "foo:2");
    let env = [env_from("E", "metadata.labels['k']")];
    pod["spec"]["containers"][0]["env"] = json!(env);
    pod["metadata"]["labels"]["k"] = json!("new");
    let text = pod["metadata"]["annotations"][STATE].as_str().unwrap().replacen(
        "\"revision\"",
        "\"updateEnvFromMetadata\":true,\"revision\"",
        1,
    );
    pod["metadata"]["annotations"][STATE] = json!(text);
    assert!(!complete(&pod), "no report");

    let labels = |value: &str| [("k".to_owned(), value.to_owned())].into();
    let none = std::collections::BTreeMap::new();
    report(&mut pod, "c1-0", 1, expected_env_hash(&env, &labels("old"), &none));
    assert!(!complete(&pod), "the old environment");
    report(&mut pod, "c1-0", 1, expected_env_hash(&env, &labels("new"), &none));
    assert!(complete(&pod));
    report(&mut pod, "c1-9", 1, expected_env_hash(&env, &labels("new"), &none));
    assert!(!complete(&pod), "another container");
}

#[test]
fn resources_count_only_if_the_gate_is_on() {
    let mut pod = changed("img00", "foo:2", "foo:2");
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "2"}});
    pod["status"]["containerStatuses"][0]["resources"] = json!({"limits": {"cpu": "1"}});
    let text = pod["metadata"]["annotations"][STATE].as_str().unwrap();
    let text = text.replacen("\"revision\"", "\"updateResources\":true,\"revision\"", 1);
    pod["metadata"]["annotations"][STATE] = json!(text);
    assert!(complete(&pod));
    assert!(!is_complete(&read(&pod), &Context { vertical_scaling: true, ..at(5) }));
}
