use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::*;
use crate::api::cloneset::{CloneSetCondition, conditions, keys::PINNED_REVISION, progress};

const START: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(START + seconds).unwrap()
}

fn cloneset(spec: serde_json::Value) -> CloneSet {
    let mut whole = json!({"selector": {"matchLabels": {"app": "cs"}}, "template": {}, "replicas": 3});
    json_patch::merge(&mut whole, &spec);
    serde_json::from_value(json!({"metadata": {"name": "a", "generation": 4}, "spec": whole})).unwrap()
}

const OLD: Counted = Counted { is_updated: false, is_ready: true, is_available: true };
const NEW: Counted = Counted { is_updated: true, is_ready: true, is_available: true };

fn names<'a>(update: &'a str, current: &'a str) -> Names<'a> {
    Names { update, current, collision_count: 0 }
}

fn reported(cloneset: &CloneSet, names: Names<'_>, pods: &[Counted], now: i64) -> Report {
    let limits = Limits::of(&cloneset.spec);
    report(cloneset, &limits, names, pods.iter().copied(), at(now))
}

/// Reports, and leaves the status on the object as a write would.
fn pass(cloneset: &mut CloneSet, names: Names<'_>, pods: &[Counted], now: i64) -> CloneSetCondition {
    let report = reported(cloneset, names, pods, now);
    let found = report.status.conditions.iter().find(|it| it.type_ == conditions::PROGRESSING).cloned();
    cloneset.status = Some(report.status);
    found.unwrap()
}

#[test]
fn every_counter_counts_what_its_name_says() {
    let cloneset = cloneset(json!({"replicas": 5, "updateStrategy": {"rollingUpdate": {"partition": 2}}}));
    let down = Counted { is_updated: true, is_ready: false, is_available: false };
    let fresh = Counted { is_updated: true, is_ready: true, is_available: false };
    let status = reported(&cloneset, names("a-2", "a-1"), &[OLD, OLD, NEW, down, fresh], 0).status;
    assert_eq!(
        serde_json::to_value(&status).unwrap(),
        json!({
            "observedGeneration": 4, "replicas": 5, "readyReplicas": 4, "availableReplicas": 3, "updatedReplicas": 3,
            "updatedReadyReplicas": 2, "updatedAvailableReplicas": 1, "expectedUpdatedReplicas": 3,
            "updateRevision": "a-2", "currentRevision": "a-1", "collisionCount": 0, "labelSelector": "app=cs",
        })
    );
}

#[test]
fn the_current_revision_follows_once_all_replicas_are_there_and_updated_as_kruise_1545_asks() {
    let current = |pods: &[Counted]| {
        reported(&cloneset(json!({})), names("a-2", "a-1"), pods, 0).status.current_revision
    };
    assert_eq!(current(&[NEW, NEW, NEW]), "a-2");
    assert_eq!(current(&[NEW, NEW]), "a-1", "an old pod was deleted and its successor is not there yet");
    assert_eq!(current(&[NEW, NEW, NEW, OLD]), "a-1");
    let down = Counted { is_updated: true, is_ready: false, is_available: false };
    assert_eq!(current(&[down, down, down]), "a-2", "readiness does not matter");
}

#[test]
fn rev_8_a_pinned_revision_stays_the_current_one_and_the_release_still_counts_as_available() {
    let spec = json!({"progressDeadlineSeconds": 60});
    let mut pinned = cloneset(spec.clone());
    pinned.metadata.annotations = Some([(PINNED_REVISION.to_owned(), "a-1".to_owned())].into());
    let condition = pass(&mut pinned, names("a-2", "a-1"), &[NEW, NEW, NEW], 0);
    assert_eq!(condition.reason, progress::AVAILABLE, "nothing is left to do in this cluster");
    assert_eq!(pinned.status.as_ref().unwrap().current_revision, "a-1");
    // Whoever pinned it ends the release.
    pinned.metadata.annotations = None;
    pass(&mut pinned, names("a-2", "a-1"), &[NEW, NEW, NEW], 1);
    assert_eq!(pinned.status.as_ref().unwrap().current_revision, "a-2");
}

#[test]
fn a_selector_reads_as_kubernetes_prints_it() {
    let text = |it| selector_text(&serde_json::from_value(it).unwrap());
    assert_eq!(text(json!({"matchLabels": {"b": "2", "a": "1"}})), "a=1,b=2");
    let sets = json!({"matchLabels": {"m": "x"}, "matchExpressions": [
        {"key": "z", "operator": "In", "values": ["2", "1"]}, {"key": "c", "operator": "NotIn", "values": ["q"]},
        {"key": "n", "operator": "Exists"}, {"key": "d", "operator": "DoesNotExist"},
    ]});
    assert_eq!(text(sets), "c notin (q),!d,m=x,n,z in (1,2)");
}

#[test]
fn a_trouble_is_told_with_its_last_message_and_taken_back_when_it_is_over_as_kruise_1351_asks() {
    let mut cloneset = cloneset(json!({}));
    let mut tell = |scale: Trouble, now: i64| {
        let troubles = Troubles { scale, update: Trouble::None };
        let limits = Limits::of(&cloneset.spec);
        let status = report(&cloneset, &limits, names("a", "a"), [], at(now)).after(&troubles, at(now));
        cloneset.status = Some(status.clone());
        status.conditions
    };
    let told = |it: &str| Trouble::Told(it.to_owned());
    let first = tell(told("quota"), 0);
    assert_eq!((first[0].type_.as_str(), first[0].status.as_str()), ("FailedScale", "True"));
    assert_eq!(tell(told("quota"), 5), first, "the same trouble is no news");
    assert_eq!(tell(Trouble::Untried, 7), first, "nothing was tried, so it may be there still");
    let second = tell(told("admission"), 9);
    assert_eq!(
        (second[0].message.as_str(), &second[0].last_transition_time),
        ("admission", &Some(Time(at(0))))
    );
    assert!(tell(Trouble::None, 10).is_empty());
}

#[test]
fn progress_is_not_tracked_without_a_deadline() {
    for spec in [json!({}), json!({"progressDeadlineSeconds": i32::MAX})] {
        let mut cloneset = cloneset(spec);
        cloneset.status = Some(CloneSetStatus {
            conditions: vec![CloneSetCondition {
                type_: "Progressing".to_owned(),
                ..CloneSetCondition::default()
            }],
            ..CloneSetStatus::default()
        });
        let report = reported(&cloneset, names("a", "a"), &[NEW], 0);
        assert!(report.status.conditions.is_empty() && report.look_again.is_none());
    }
}

#[test]
fn reasons_of_progress_are_tried_in_order() {
    let tell = |spec: serde_json::Value, pods: &[Counted]| {
        let mut cloneset = cloneset(json!({"progressDeadlineSeconds": 10}));
        let patched = serde_json::to_value(&cloneset.spec).unwrap();
        let mut patched = patched;
        json_patch::merge(&mut patched, &spec);
        cloneset.spec = serde_json::from_value(patched).unwrap();
        pass(&mut cloneset, names("a-2", "a-1"), pods, 0).reason
    };
    let paused = json!({"updateStrategy": {"rollingUpdate": {"paused": true}}});
    assert_eq!(tell(paused.clone(), &[NEW, NEW, NEW]), progress::AVAILABLE);
    assert_eq!(tell(paused, &[OLD, OLD, OLD]), progress::PAUSED);
    let partition = json!({"updateStrategy": {"rollingUpdate": {"partition": "99%"}}});
    assert_eq!(tell(partition.clone(), &[OLD, OLD, NEW]), progress::PARTITION_AVAILABLE);
    assert_eq!(tell(partition, &[OLD, OLD, OLD]), progress::UPDATED);
    assert_eq!(tell(json!({}), &[OLD, OLD, NEW]), progress::UPDATED);
}

#[test]
fn the_next_look_is_a_second_after_the_deadline() {
    let mut cloneset = cloneset(json!({"progressDeadlineSeconds": 10}));
    pass(&mut cloneset, names("a-2", "a-1"), &[OLD, OLD, OLD], 0);
    let look_again = |now| {
        reported(&cloneset, names("a-2", "a-1"), &[OLD, OLD, NEW], now).look_again.map(|it| it.as_secs())
    };
    assert_eq!(look_again(0), Some(11));
    assert_eq!(look_again(5), Some(6));
    assert_eq!(look_again(10), Some(0), "exactly at the deadline");
}

#[test]
fn a_release_that_is_late_stays_late_until_it_rests() {
    let mut cloneset = cloneset(json!({"progressDeadlineSeconds": 10}));
    let release = names("a-2", "a-1");
    assert_eq!(pass(&mut cloneset, release, &[OLD, OLD, OLD], 0).reason, progress::UPDATED);
    assert_eq!(pass(&mut cloneset, release, &[OLD, OLD, NEW], 10).reason, progress::UPDATED);
    let late = pass(&mut cloneset, release, &[OLD, OLD, NEW], 11);
    assert_eq!((late.reason.as_str(), late.status.as_str()), (progress::DEADLINE_EXCEEDED, "False"));
    assert_eq!(late.message, "CloneSet revision a-2 has timed out progressing");
    assert_eq!(pass(&mut cloneset, release, &[OLD, NEW, NEW], 12).reason, progress::DEADLINE_EXCEEDED);
    assert_eq!(pass(&mut cloneset, release, &[NEW, NEW, NEW], 13).reason, progress::AVAILABLE);
}

#[test]
fn a_release_long_after_the_last_one_is_not_late_at_once() {
    let mut cloneset = cloneset(json!({"progressDeadlineSeconds": 10}));
    assert_eq!(pass(&mut cloneset, names("a-1", "a-1"), &[NEW, NEW, NEW], 0).reason, progress::AVAILABLE);
    let day = 86_400;
    assert_eq!(pass(&mut cloneset, names("a-2", "a-1"), &[OLD, OLD, OLD], day).reason, progress::UPDATED);
    assert_eq!(pass(&mut cloneset, names("a-2", "a-1"), &[OLD, OLD, OLD], day + 9).reason, progress::UPDATED);
}

#[test]
fn another_release_begins_with_a_new_deadline() {
    let mut cloneset = cloneset(json!({"progressDeadlineSeconds": 10}));
    pass(&mut cloneset, names("a-2", "a-1"), &[OLD, OLD, OLD], 0);
    assert_eq!(pass(&mut cloneset, names("a-3", "a-1"), &[OLD, OLD, OLD], 9).reason, progress::UPDATED);
    assert_eq!(pass(&mut cloneset, names("a-3", "a-1"), &[OLD, OLD, OLD], 18).reason, progress::UPDATED);
    assert_eq!(
        pass(&mut cloneset, names("a-3", "a-1"), &[OLD, OLD, OLD], 20).reason,
        progress::DEADLINE_EXCEEDED
    );
    assert_eq!(
        pass(&mut cloneset, names("a-4", "a-1"), &[OLD, OLD, OLD], 30).reason,
        progress::UPDATED,
        "a repaired template is given its time"
    );
}
