//! Every rule of the plan, on values.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::plan::{Action, Observed, Plan, plan};
use crate::{api::node_image::v1beta1::NodeImage, runtime::cache::node::NodeLite};

const DELAY: Duration = Duration::from_secs(30);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn node(change: Value) -> NodeLite {
    let mut it = json!({
        "metadata": {"name": "n1", "labels": {"arch": "arm64"}},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(1000).to_string()}]},
    });
    json_patch::merge(&mut it, &change);
    serde_json::from_value(it).unwrap()
}

fn node_image(tags: Value, change: Value) -> NodeImage {
    let mut it = json!({
        "metadata": {"name": "n1", "labels": {"arch": "arm64"}},
        "spec": {"images": {"nginx": {"tags": tags}}},
    });
    json_patch::merge(&mut it, &change);
    serde_json::from_value(it).unwrap()
}

fn tag(change: Value) -> Value {
    let mut it = json!({"tag": "1", "createdAt": at(1000).to_string()});
    json_patch::merge(&mut it, &change);
    it
}

fn look(node_image: &NodeImage, jobs: &[(&str, &str)], now: i64) -> Plan {
    let node = node(json!({}));
    let jobs = jobs.iter().map(|(name, uid)| (("ns".into(), (*name).into()), (*uid).into())).collect();
    let observed = Observed { node: Some(&node), node_image: Some(node_image), jobs, ..Observed::default() };
    plan(&observed, DELAY, at(now))
}

fn written(plan: Plan) -> (BTreeMap<String, String>, Vec<String>, Vec<String>) {
    match plan.action {
        Some(Action::WriteSpec { labels, images, dropped }) => {
            let tags = images.iter().flat_map(|(name, it)| {
                it.tags
                    .iter()
                    .map(move |tag| format!("{name}:{} owners {}", tag.tag, tag.owner_references.len()))
            });
            (labels, tags.collect(), dropped)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_ready_node_gets_its_object_after_the_delay() {
    let create =
        |node: &NodeLite, now| plan(&Observed { node: Some(node), ..Observed::default() }, DELAY, at(now));
    assert_eq!(
        create(&node(json!({})), 1010),
        Plan { action: None, look_again_in: Some(Duration::from_secs(20)) }
    );
    assert_eq!(create(&node(json!({})), 1030).action, Some(Action::Create));
    assert_eq!(create(&node(json!({"status": {"conditions": []}})), 1030), Plan::default());
    assert_eq!(
        create(&node(json!({"metadata": {"labels": {"type": "virtual-kubelet"}}})), 9999),
        Plan::default()
    );
    assert_eq!(plan(&Observed::default(), DELAY, at(9999)), Plan::default());
}

#[test]
fn the_object_goes_with_its_node_unless_it_stands_for_none() {
    let orphan = |change: Value| {
        let it = node_image(json!([tag(json!({}))]), change);
        plan(&Observed { node_image: Some(&it), ..Observed::default() }, DELAY, at(1001)).action
    };
    assert_eq!(orphan(json!({})), Some(Action::Delete));
    assert_eq!(orphan(json!({"metadata": {"labels": {"apps.kruise.io/fake-nodeimage": "x"}}})), None);
    assert_eq!(orphan(json!({"metadata": {"deletionTimestamp": at(1000).to_string()}})), None);
    let (deleted, it) = (
        node(json!({"metadata": {"deletionTimestamp": at(1000).to_string()}})),
        node_image(json!([]), json!({})),
    );
    let observed = Observed { node: Some(&deleted), node_image: Some(&it), ..Observed::default() };
    assert_eq!(plan(&observed, DELAY, at(1001)).action, Some(Action::Delete));
}

#[test]
fn labels_follow_the_node_exactly() {
    let it =
        node_image(json!([tag(json!({}))]), json!({"metadata": {"labels": {"old": "x", "arch": "amd64"}}}));
    let (labels, tags, _) = written(look(&it, &[], 1001));
    assert_eq!(labels, BTreeMap::from([("arch".into(), "arm64".into())]));
    assert_eq!(tags, ["nginx:1 owners 0"], "a tag that never had owners stays");
}

#[test]
fn tags_go_with_the_last_of_their_jobs() {
    let owner = |name: &str, uid: &str, version: &str| json!({"apiVersion": format!("apps.kruise.io/{version}"), "kind": "ImagePullJob", "namespace": "ns", "name": name, "uid": uid});
    let owned = |owners: Value| node_image(json!([tag(json!({"ownerReferences": owners}))]), json!({}));
    let one = owned(json!([owner("a", "1", "v1beta1")]));
    assert_eq!(look(&one, &[("a", "1")], 1001).action, None, "also when the job is finished");
    let gone =
        vec!["image nginx:1 has no owner any more".to_owned(), "no longer has nginx image spec".to_owned()];
    assert_eq!(
        written(look(&one, &[], 1001)),
        (BTreeMap::from([("arch".into(), "arm64".into())]), vec![], gone)
    );
    assert!(written(look(&one, &[("a", "2")], 1001)).1.is_empty(), "a job of the same name is another one");
    let old = owned(json!([owner("a", "1", "v1alpha1")]));
    assert!(written(look(&old, &[], 1001)).1.is_empty(), "whatever the version");
    let two = owned(json!([owner("a", "1", "v1beta1"), owner("b", "2", "v1beta1")]));
    assert_eq!(written(look(&two, &[("b", "2")], 1001)).1, ["nginx:1 owners 1"]);
    for foreign in
        [json!([{"name": "x"}]), json!([{"apiVersion": "v1", "kind": "ImagePullJob", "name": "a"}])]
    {
        assert_eq!(look(&owned(foreign), &[], 1001).action, None);
    }
}

#[test]
fn a_tag_without_a_time_goes() {
    let it = node_image(json!([tag(json!({"createdAt": null}))]), json!({}));
    let expected = ["image nginx:1 has no createAt field", "no longer has nginx image spec"];
    assert_eq!(written(look(&it, &[], 1001)).2, expected);
}

#[test]
fn a_finished_tag_goes_when_its_time_is_up() {
    let it = |completed: i64, version: i64| {
        let status = json!({"desired": 1, "imageStatuses": {"nginx": {"tags": [
            {"tag": "1", "phase": "Succeeded", "version": version, "completionTime": at(completed).to_string()},
        ]}}});
        node_image(
            json!([tag(json!({"pullPolicy": {"ttlSecondsAfterFinished": 60}}))]),
            json!({"status": status}),
        )
    };
    assert!(written(look(&it(1000, 0), &[], 1061)).1.is_empty());
    let waits = look(&it(1030, 0), &[], 1060);
    assert_eq!((waits.action, waits.look_again_in), (None, Some(Duration::from_secs(30))));
    assert_eq!(look(&it(1000, 7), &[], 1061).action, None, "another version is another download");
}

#[test]
fn secrets_that_are_gone_are_forgotten_but_not_those_that_jobs_manage() {
    let secrets = json!([
        {"namespace": "c", "name": "secret1"}, {"namespace": "c", "name": "secret2"}, {"namespace": "c", "name": "secret3", "mode": "batch"},
    ]);
    let it =
        node_image(json!([tag(json!({}))]), json!({"spec": {"images": {"nginx": {"pullSecrets": secrets}}}}));
    let node = node(json!({}));
    let observed = Observed {
        node: Some(&node),
        node_image: Some(&it),
        secrets: BTreeSet::from([("c".into(), "secret1".into())]),
        ..Observed::default()
    };
    let Some(Action::WriteSpec { images, .. }) = plan(&observed, DELAY, at(1001)).action else { panic!() };
    let names: Vec<_> = images["nginx"].pull_secrets.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["secret1", "secret3"]);
}

fn failed(plan: Plan) -> (Value, Vec<String>) {
    match plan.action {
        Some(Action::WriteStatus { status, failures }) => {
            (json!(status), failures.into_iter().map(|it| it.message).collect())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_silent_node_is_waited_for_ten_minutes() {
    let it = node_image(json!([tag(json!({}))]), json!({}));
    let waits = look(&it, &[], 1060);
    assert_eq!((waits.action, waits.look_again_in), (None, Some(Duration::from_secs(540))));
    let (status, messages) = failed(look(&it, &[], 1660));
    assert_eq!((&status["desired"], &status["failed"]), (&json!(1), &json!(1)));
    assert_eq!(
        status["imageStatuses"]["nginx"]["tags"],
        json!([{"tag": "1", "phase": "Failed", "completionTime": at(1660).to_string(), "message": "node has not responded for a long time"}])
    );
    assert_eq!(
        messages,
        ["Failed to pull image nginx:1 on node n1 for node has not responded for a long time"]
    );
}

#[test]
fn an_answer_about_another_version_is_no_answer_and_what_left_is_dropped() {
    let status = json!({"desired": 3, "pulling": 2, "imageStatuses": {
        "gone": {"tags": [{"tag": "1", "phase": "Pulling"}]},
        "nginx": {"tags": [{"tag": "9", "phase": "Pulling"}, {"tag": "1", "phase": "Pulling", "version": 4}]},
    }});
    let it = node_image(json!([tag(json!({"version": 5}))]), json!({"status": status}));
    let (status, _) = failed(look(&it, &[], 1700));
    assert_eq!(status["imageStatuses"].as_object().unwrap().len(), 1);
    assert_eq!(status["imageStatuses"]["nginx"]["tags"].as_array().unwrap().len(), 1);
    assert_eq!((&status["pulling"], &status["failed"]), (&json!(0), &json!(1)));
}

#[test]
fn a_deadline_is_ended_here_ten_minutes_after_the_node_should_have() {
    let status = |end: Value| json!({"desired": 1, "imageStatuses": {"nginx": {"tags": [{"tag": "1", "phase": "Pulling", "completionTime": end}]}}});
    let tag = tag(json!({"pullPolicy": {"activeDeadlineSeconds": 60}}));
    let it = node_image(json!([tag]), json!({"status": status(Value::Null)}));
    assert_eq!(look(&it, &[], 1100).look_again_in, Some(Duration::from_secs(560)));
    assert!(failed(look(&it, &[], 1660)).1[0].ends_with("pulling exceeds the activeDeadlineSeconds"));
    let done = node_image(json!([tag]), json!({"status": status(json!(at(1100).to_string()))}));
    assert_eq!(look(&done, &[], 9999), Plan::default());
}
