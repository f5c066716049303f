//! Every rule of progress and assignment, on values.

use std::time::Duration;

use jiff::Timestamp;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::{
    Caches,
    assign::{assign, parallelism},
    progress::{Observed, Progress, progress, seen},
    secrets::kept_for,
};
use crate::{
    api::{
        image_pull_job::v1beta1::ImagePullJob,
        node_image::v1beta1::{ImageSpec, NodeImage, ReferenceObject},
    },
    runtime::{
        cache::{Cache, Cached},
        clock::Clock,
        controller::Triggers,
        metrics::Metrics,
    },
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn job(change: Value) -> ImagePullJob {
    let mut it = json!({
        "metadata": {"name": "j", "namespace": "ns", "uid": "job"},
        "spec": {"image": "nginx:1", "completionPolicy": {"type": "Always"}},
    });
    json_patch::merge(&mut it, &change);
    serde_json::from_value(it).unwrap()
}

fn ours() -> Value {
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "namespace": "ns", "name": "j", "uid": "job"})
}

/// A node whose image has one tag with this, and this status for it.
fn node(name: &str, tag: Value, status: Value) -> NodeImage {
    let mut wanted = json!({"tag": "1", "ownerReferences": [ours()]});
    json_patch::merge(&mut wanted, &tag);
    let status = match status {
        Value::Null => Value::Null,
        it => json!({"desired": 1, "imageStatuses": {"nginx": {"tags": [it]}}}),
    };
    serde_json::from_value(json!({
        "metadata": {"name": name}, "spec": {"images": {"nginx": {"tags": [wanted]}}}, "status": status,
    }))
    .unwrap()
}

fn secret(name: &str) -> ReferenceObject {
    ReferenceObject { namespace: "c".into(), name: name.into(), mode: "batch".into() }
}

fn look(job: &ImagePullJob, nodes: &[NodeImage], secrets: Vec<ReferenceObject>, now: i64) -> Progress {
    progress(&Observed { job, nodes: nodes.iter().collect(), secrets }, at(now)).unwrap()
}

fn counts(it: &Progress) -> (i32, i32, i32, i32) {
    let status = &it.status;
    (status.desired, status.active, status.succeeded, status.failed)
}

#[test]
fn a_node_without_a_report_on_this_tag_and_version_is_at_work() {
    for status in [
        Value::Null,
        json!({"tag": "2", "phase": "Succeeded"}),
        json!({"tag": "1", "version": 7, "phase": "Succeeded"}),
        json!({"tag": "1", "phase": "Waiting"}),
    ] {
        let it = look(&job(json!({})), &[node("n1", json!({}), status)], vec![], 9);
        assert_eq!(counts(&it), (1, 1, 0, 0));
        assert_eq!(it.status.message, "job is running, progress 0.0%");
        assert!(it.missing.is_empty() && it.status.completion_time.is_none());
    }
}

#[test]
fn a_node_that_lacks_a_secret_is_at_work_and_still_to_be_told() {
    let it = look(&job(json!({})), &[node("n1", json!({}), Value::Null)], vec![secret("s")], 9);
    assert_eq!((counts(&it), it.lacking), ((1, 1, 0, 0), vec!["n1".to_owned()]));
}

#[test]
fn a_tag_of_others_is_not_ours() {
    let foreign = json!({"ownerReferences": [{"uid": "other"}]});
    let it = look(&job(json!({})), &[node("n1", foreign, Value::Null)], vec![], 9);
    assert_eq!((counts(&it), it.missing), ((1, 0, 0, 0), vec!["n1".to_owned()]));
}

#[test]
fn a_job_ends_when_every_node_is_done_and_at_once_where_there_is_none() {
    let done = |name: &str, phase: &str| node(name, json!({}), json!({"tag": "1", "phase": phase}));
    let nodes = [done("b", "Failed"), done("a", "Failed"), done("c", "Succeeded")];
    let it = look(&job(json!({})), &nodes, vec![], 9);
    assert_eq!((counts(&it), it.status.message.as_str()), ((3, 0, 1, 2), "job has completed"));
    assert_eq!(it.status.failed_nodes, ["a", "b"]);
    assert_eq!(it.status.completion_time.unwrap().0, at(9));
    let none = look(&job(json!({})), &[], vec![], 9);
    assert_eq!((none.status.desired, none.status.message.as_str()), (0, "job has completed"));
    let third = look(
        &job(json!({})),
        &[done("a", "Failed"), node("b", json!({}), Value::Null), node("c", json!({}), Value::Null)],
        vec![],
        9,
    );
    assert_eq!(third.status.message, "job is running, progress 33.3%");
}

#[test]
fn a_status_says_which_generation_it_was_counted_under_and_a_job_that_is_over_says_that_it_saw_an_edit() {
    let fifth = |status: Value| job(json!({"metadata": {"generation": 5}, "status": status}));
    let open = look(&fifth(Value::Null), &[node("n1", json!({}), Value::Null)], vec![], 9);
    assert_eq!((open.status.observed_generation, open.status.active), (5, 1));
    let over = |seen: i64| json!({"desired": 1, "succeeded": 1, "completionTime": at(3).to_string(), "observedGeneration": seen});
    let told = seen(&fifth(over(4))).unwrap();
    assert_eq!((told.observed_generation, told.succeeded, told.completion_time.unwrap().0), (5, 1, at(3)));
    assert_eq!(seen(&fifth(over(5))), None);
    let mut going = fifth(over(4));
    going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(9)));
    assert_eq!(seen(&going), None);
}

#[test]
fn an_endless_job_goes_on() {
    let never = job(json!({"spec": {"completionPolicy": {"type": "Never"}}}));
    let done = node("a", json!({}), json!({"tag": "1", "phase": "Succeeded"}));
    let it = look(&never, &[done], vec![], 9);
    assert_eq!(
        (it.status.completion_time, it.status.message.as_str()),
        (None, "job is running, progress 100.0%")
    );
    assert_eq!(look(&never, &[], vec![], 9).status.message, "job is running, no progress");
}

#[test]
fn the_deadline_ends_a_job_and_counts_each_node_once() {
    let late = job(json!({
        "spec": {"completionPolicy": {"activeDeadlineSeconds": 300}}, "status": {"desired": 1, "startTime": at(0).to_string()},
    }));
    let nodes = [
        node("n1", json!({}), Value::Null),
        node("n2", json!({"ownerReferences": null}), Value::Null),
        node("n3", json!({}), json!({"tag": "1", "phase": "Succeeded"})),
    ];
    let it = look(&late, &nodes, vec![secret("s")], 600);
    assert_eq!(counts(&it), (3, 0, 1, 2));
    assert_eq!(it.status.failed_nodes, ["n1", "n2"]);
    assert_eq!(it.status.message, "job exceeds activeDeadlineSeconds");
    assert!(it.status.completion_time.is_some());
    assert_eq!(look(&late, &nodes, vec![], 100).left, Some(Duration::from_secs(200)));
    let done = look(&late, &nodes[2..], vec![], 600);
    assert_eq!(done.status.message, "job has completed", "what is done in time is not late");
}

#[test]
fn a_finished_job_keeps_its_copies_for_a_moment_and_a_deleted_one_does_not() {
    let over = |change: Value| {
        let mut it = json!({
            "spec": {"pullSecrets": ["s"]}, "status": {"desired": 1, "completionTime": at(100).to_string()},
        });
        json_patch::merge(&mut it, &change);
        job(it)
    };
    let seconds = |it: &ImagePullJob, now: i64| kept_for(it, at(now)).map(|it| it.as_secs());
    let done = over(json!({}));
    assert_eq!((seconds(&done, 100), seconds(&done, 104), seconds(&done, 105)), (Some(5), Some(1), None));
    let short = over(json!({"spec": {"completionPolicy": {"ttlSecondsAfterFinished": 2}}}));
    assert_eq!(
        (seconds(&short, 101), seconds(&short, 102)),
        (Some(1), None),
        "no longer than the job itself"
    );
    let deleted = over(json!({"metadata": {"deletionTimestamp": at(101).to_string()}}));
    assert_eq!(seconds(&deleted, 101), None);
    let public = over(json!({"spec": {"pullSecrets": null}}));
    assert_eq!(seconds(&public, 100), None, "there is nothing to keep");
}

#[test]
fn an_image_that_is_no_name_is_an_error() {
    let bad = job(json!({"spec": {"image": "UPPER/x"}}));
    assert!(progress(&Observed { job: &bad, nodes: vec![], secrets: vec![] }, at(0)).is_err());
}

fn assigned(job: &ImagePullJob, node: &NodeImage, secrets: &[ReferenceObject]) -> Option<ImageSpec> {
    assign(job, node, secrets, 300, 7, at(50)).unwrap().map(|(name, image)| {
        assert_eq!(name, "nginx");
        image
    })
}

fn empty(status: Value) -> NodeImage {
    let mut it = node("n1", json!({}), status);
    it.spec.images.clear();
    it
}

#[test]
fn a_new_tag_begins_with_version_0_or_after_the_last_report() {
    let image = assigned(&job(json!({})), &empty(Value::Null), &[secret("s")]).unwrap();
    let tag = &image.tags[0];
    assert_eq!((tag.version, tag.tag.as_str(), tag.created_at.as_ref().unwrap().0), (0, "1", at(50)));
    assert_eq!(json!(tag.owner_references), json!([ours()]));
    assert_eq!(tag.image_pull_policy.as_deref(), Some("IfNotPresent"));
    assert_eq!(image.pull_secrets, [secret("s")]);
    let again =
        assigned(&job(json!({})), &empty(json!({"tag": "1", "version": 5, "phase": "Succeeded"})), &[]);
    assert_eq!(again.unwrap().tags[0].version, 6);
}

#[test]
fn what_is_ours_already_is_written_only_for_a_missing_secret() {
    let mut owned = node("n1", json!({"version": 3}), Value::Null);
    assert_eq!(assigned(&job(json!({})), &owned, &[]), None);
    let image = assigned(&job(json!({})), &owned, &[secret("s")]).unwrap();
    assert_eq!((image.tags[0].version, image.pull_secrets.len()), (3, 1));
    owned.spec.images.insert("nginx".into(), image);
    assert_eq!(assigned(&job(json!({})), &owned, &[secret("s")]), None, "planning again changes nothing");
}

#[test]
fn a_tag_of_others_is_asked_for_again_with_our_limits() {
    let foreign =
        json!({"version": 3, "ownerReferences": [{"uid": "other"}], "pullPolicy": {"timeoutSeconds": 1}});
    let it = job(json!({"spec": {"pullPolicy": {"timeoutSeconds": 30}, "imagePullPolicy": "Always"}}));
    let image = assigned(&it, &node("n1", foreign, Value::Null), &[]).unwrap();
    let tag = &image.tags[0];
    assert_eq!((tag.version, tag.owner_references.len()), (4, 2));
    assert_eq!(tag.pull_policy.as_ref().unwrap().timeout_seconds, Some(30));
    assert_eq!(tag.image_pull_policy.as_deref(), Some("Always"));
}

#[test]
fn digests_stand_where_tags_do_and_tags_are_sorted() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let it = job(json!({"spec": {"image": format!("nginx@{digest}")}}));
    let image = assigned(&it, &node("n1", json!({"tag": "zzz"}), Value::Null), &[]).unwrap();
    assert_eq!(image.tags.iter().map(|it| it.tag.as_str()).collect::<Vec<_>>(), [digest.as_str(), "zzz"]);
}

#[test]
fn limits_of_the_tag_follow_from_the_job() {
    let policy = |spec: Value| {
        let it = assigned(&job(json!({"spec": spec})), &empty(Value::Null), &[]).unwrap();
        let policy = it.tags[0].pull_policy.clone().unwrap();
        (policy.ttl_seconds_after_finished.unwrap(), policy.active_deadline_seconds)
    };
    // 7 is the chance.
    assert_eq!(policy(json!({})), (600 * 3 + 300 + 7, None));
    assert_eq!(policy(json!({"completionPolicy": {"ttlSecondsAfterFinished": 20}})), (20 + 300 + 7, None));
    assert_eq!(
        policy(json!({"completionPolicy": {"activeDeadlineSeconds": 900}})),
        (900 + 300 + 7, Some(900))
    );
    let never = |pull: Value| policy(json!({"completionPolicy": {"type": "Never"}, "pullPolicy": pull}));
    assert_eq!(never(json!({"timeoutSeconds": 10, "backoffLimit": 1})), (86_400 + 7 - 600, Some(1_800)));
    assert_eq!(never(json!({"timeoutSeconds": 1000, "backoffLimit": 1})).1, Some(2_000), "retries count");
}

#[test]
fn parallelism_is_one_unless_said_and_nonsense_pauses() {
    let with = |it: Value| parallelism(&job(json!({"spec": {"parallelism": it}})));
    assert_eq!((with(Value::Null), with(json!(4)), with(json!("3")), with(json!(0))), (1, 4, 3, 0));
    assert_eq!((with(json!("50%")), with(json!(-2))), (0, 0));
}

#[test]
fn a_manager_that_takes_over_looks_at_the_jobs_that_are_there() {
    fn cache<K: Cached>() -> Cache<K> {
        Cache::new("any", Clock::system(), Metrics::default())
    }
    let caches = Caches { jobs: cache(), node_images: cache(), pods: cache(), secrets: cache() };
    // A replica fills its caches long before it leads and has controllers.
    let there = job(json!({"metadata": {"resourceVersion": "1"}}));
    for event in [Event::Init, Event::InitApply(there), Event::InitDone] {
        caches.jobs.watched(event);
    }
    let triggers = Triggers::new(Clock::system());
    super::listen(&caches, &triggers);
    assert_eq!(format!("{triggers:?}"), "Triggers { waiting: 1 }");
}
