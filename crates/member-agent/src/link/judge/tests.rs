use kruise_core::api::fleet::{CloneSetSlice, FederatedObject, Slice, WholeSlice, keys, policy::WhenExists};
use serde_json::json;

use super::*;

const HUB: Known<'_> = Known { hub_uid: "hub", member_uid: None, adopted: None };

fn plan(term: u64, seq: u64) -> AssignmentSpec {
    AssignmentSpec {
        object: FederatedObject { uid: "object".into(), name: "web".into(), ..FederatedObject::default() },
        term,
        seq,
        epoch: 1,
        slice: Some(Slice::CloneSet(CloneSetSlice::default())),
        ..AssignmentSpec::default()
    }
}

fn with(intent: Intent) -> AssignmentSpec {
    AssignmentSpec { intent, ..plan(3, 5) }
}

fn marks() -> Marks {
    Marks {
        hub_uid: "hub".into(),
        object_uid: "object".into(),
        plan: Pair { term: 3, seq: 4 },
        epoch: 1,
        ..Marks::default()
    }
}

fn member(marks: &Marks) -> Value {
    json!({"metadata": {"uid": "member", "annotations": marks.annotations()}, "spec": {"replicas": 3}})
}

fn unmarked() -> Value {
    json!({"metadata": {"uid": "member"}, "spec": {"replicas": 3}})
}

#[test]
fn proto_3_a_lower_pair_is_refused_and_the_kept_plan_goes_on() {
    let kept = plan(3, 5);
    for older in [plan(3, 4), plan(2, 900), plan(4, 4)] {
        let chosen = choose(Some(&older), Some(&kept), 1);
        assert_eq!(chosen.plan, Some(&kept));
        let refusal = Refusal::OlderPlan { offered: pair(&older), known: Pair { term: 3, seq: 5 } };
        assert_eq!(chosen.refusal, Some(refusal));
    }
    for newer in [plan(3, 5), plan(3, 6), plan(4, 5), plan(4, 6)] {
        assert_eq!(choose(Some(&newer), Some(&kept), 1), Chosen { plan: Some(&newer), refusal: None });
    }
}

#[test]
fn proto_3_the_pair_on_the_member_object_counts_when_nothing_else_is_left() {
    let step = judge(&plan(3, 3), Some(&member(&marks())), HUB);
    let refusal = Refusal::OlderPlan { offered: Pair { term: 3, seq: 3 }, known: Pair { term: 3, seq: 4 } };
    assert_eq!(step, Step::Refuse(refusal));
    assert_eq!(judge(&plan(3, 4), Some(&member(&marks())), HUB), Step::Keep(Some(marks())));
    let mut late = with(Intent::Delete);
    late.seq = 3;
    assert!(matches!(judge(&late, Some(&member(&marks())), HUB), Step::Refuse(_)));
}

#[test]
fn proto_11_a_late_copy_of_an_old_plan_does_not_bring_a_deleted_object_back() {
    let deleted = with(Intent::Delete);
    let late = plan(3, 4);
    let chosen = choose(Some(&late), Some(&deleted), 1);
    assert_eq!(chosen.plan, Some(&deleted));
    assert_eq!(judge(chosen.plan.unwrap(), None, HUB), Step::Done);
}

#[test]
fn proto_6_and_7_deletion_needs_intent_an_absent_plan_changes_nothing() {
    let kept = plan(3, 5);
    assert_eq!(choose(None, Some(&kept), 1), Chosen { plan: Some(&kept), refusal: None });
    assert_eq!(choose(None, None, 1), Chosen { plan: None, refusal: None });
}

#[test]
fn fo_5_a_plan_of_an_older_epoch_is_not_acted_on() {
    let refusal = Some(Refusal::OlderEpoch { offered: 1, known: 2 });
    assert_eq!(choose(Some(&plan(3, 6)), None, 2), Chosen { plan: None, refusal });
    let mut current = plan(3, 6);
    current.epoch = 2;
    assert_eq!(choose(Some(&current), None, 2).refusal, None);
}

#[test]
fn a_successor_of_the_same_name_begins_to_count_anew_but_not_in_an_older_term() {
    let kept = with(Intent::Delete);
    let mut successor = plan(3, 1);
    successor.object.uid = "successor".into();
    assert_eq!(choose(Some(&successor), Some(&kept), 1).plan, Some(&successor));
    successor.term = 2;
    assert!(choose(Some(&successor), Some(&kept), 1).refusal.is_some());
}

#[test]
fn cf_1_an_object_of_another_hub_is_never_touched() {
    let theirs = member(&Marks { hub_uid: "another".into(), ..marks() });
    let conflict = Step::Conflict(Conflict::OtherHub { hub_uid: "another".into() });
    assert_eq!(judge(&plan(3, 5), Some(&theirs), HUB), conflict);
    for intent in [Intent::Delete, Intent::Orphan] {
        assert_eq!(judge(&with(intent), Some(&theirs), HUB), Step::Done);
    }
}

#[test]
fn del_1_only_intent_delete_deletes_and_it_is_done_when_the_object_is_gone() {
    assert_eq!(judge(&with(Intent::Delete), Some(&member(&marks())), HUB), Step::Delete);
    let mut going = member(&marks());
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(judge(&with(Intent::Delete), Some(&going), HUB), Step::WaitForEnd);
    assert_eq!(judge(&with(Intent::Delete), None, HUB), Step::Done);
    assert_eq!(judge(&with(Intent::Apply), Some(&going), HUB), Step::WaitForEnd);
    // What is not ours is not deleted by us.
    assert_eq!(judge(&with(Intent::Delete), Some(&unmarked()), HUB), Step::Done);
    let older = member(&Marks { object_uid: "predecessor".into(), ..marks() });
    assert_eq!(judge(&with(Intent::Delete), Some(&older), HUB), Step::Done);
}

#[test]
fn del_3_an_orphan_is_let_go_of() {
    assert_eq!(judge(&with(Intent::Orphan), Some(&member(&marks())), HUB), Step::Release);
    assert_eq!(judge(&with(Intent::Orphan), None, HUB), Step::Done);
    assert_eq!(judge(&with(Intent::Orphan), Some(&unmarked()), HUB), Step::Done);
}

#[test]
fn ad_1_an_adopted_object_is_let_go_of_unless_its_deletion_was_asked_for_later() {
    let delete = |adopted, deletion| {
        let marked = member(&Marks { adopted: Some(adopted), ..marks() });
        judge(&AssignmentSpec { deletion, ..with(Intent::Delete) }, Some(&marked), HUB)
    };
    assert_eq!(delete(DeletionPolicy::Delete, DeletionPolicy::Delete), Step::Release);
    assert_eq!(delete(DeletionPolicy::Orphan, DeletionPolicy::Orphan), Step::Release);
    assert_eq!(delete(DeletionPolicy::Orphan, DeletionPolicy::Delete), Step::Delete);
    // A policy that says Orphan for a while, and Delete again, has asked for it.
    let mut plan = plan(3, 5);
    plan.deletion = DeletionPolicy::Orphan;
    assert_eq!(adopted(Some(DeletionPolicy::Delete), &plan), Some(DeletionPolicy::Orphan));
    plan.deletion = DeletionPolicy::Delete;
    assert_eq!(adopted(Some(DeletionPolicy::Orphan), &plan), Some(DeletionPolicy::Orphan));
    assert_eq!(adopted(None, &plan), None);
}

#[test]
fn ad_1_an_adopted_object_is_let_go_of_even_if_somebody_took_the_mark_off() {
    let known = Known { member_uid: Some("member"), adopted: Some(DeletionPolicy::Delete), ..HUB };
    let delete = with(Intent::Delete);
    for stripped in [unmarked(), member(&marks())] {
        assert_eq!(judge(&delete, Some(&stripped), known), Step::Release);
        assert_eq!(known.adoption(&stripped), Some(DeletionPolicy::Delete));
    }
    // One that we made after the adopted one was gone.
    let mut other = member(&marks());
    other["metadata"]["uid"] = "another".into();
    assert_eq!(judge(&delete, Some(&other), known), Step::Delete);
    // What the mark says is newer than what is remembered.
    let marked = member(&Marks { adopted: Some(DeletionPolicy::Orphan), ..marks() });
    assert_eq!(known.adoption(&marked), Some(DeletionPolicy::Orphan));
}

#[test]
fn marks_that_somebody_took_off_are_no_reason_to_adopt() {
    assert_eq!(judge(&plan(3, 5), Some(&unmarked()), HUB), Step::TryToAdopt);
    let known = Known { member_uid: Some("member"), ..HUB };
    assert_eq!(judge(&plan(3, 5), Some(&unmarked()), known), Step::Keep(None));
    assert_eq!(judge(&plan(3, 5), None, HUB), Step::Create);
}

fn adoption(when_exists: WhenExists, slice: Slice, after: Value) -> Result<(), Conflict> {
    let before = json!({
        "metadata": {"name": "web"}, "status": {"replicas": 1, "updatedReplicas": 1},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": {"x": 1}, "lifecycle": {}},
    });
    let mut whole = before.clone();
    json_patch::merge(&mut whole, &after);
    let plan = AssignmentSpec { when_exists, slice: Some(slice), ..plan(3, 5) };
    adopt::judge(&plan, &before, &whole)
}

fn granted(replicas: u32) -> Slice {
    Slice::CloneSet(CloneSetSlice { replicas, ..CloneSetSlice::default() })
}

#[test]
fn ad_1_an_identical_object_is_taken_over_if_nothing_but_metadata_and_the_fleets_numbers_changes() {
    let marked = json!({"metadata": {"annotations": {(keys::HUB_UID): "hub"}}, "spec": {"lifecycle": null}});
    assert_eq!(adoption(WhenExists::IfIdentical, granted(3), marked.clone()), Ok(()));
    let numbers = json!({"spec": {
        "replicas": 4, "scaleStrategy": {"podsToDelete": [], "enablePVCReuse": false},
        "updateStrategy": {"rollingUpdate": {"partition": 0, "maxUnavailable": 0, "maxSurge": 1, "paused": true}},
    }});
    assert_eq!(adoption(WhenExists::IfIdentical, granted(4), numbers.clone()), Ok(()));
    let other = json!({"spec": {"minReadySeconds": 5, "replicas": 4}});
    let differs = Err(Conflict::Differs { path: "/spec/minReadySeconds".into() });
    assert_eq!(adoption(WhenExists::IfIdentical, granted(4), other.clone()), differs);
    assert_eq!(adoption(WhenExists::Never, granted(3), marked), Err(Conflict::Exists));
    assert_eq!(adoption(WhenExists::Always, granted(4), other), Ok(()));
}

#[test]
fn ad_1_taking_over_never_deletes_pods() {
    for when in [WhenExists::IfIdentical, WhenExists::Always] {
        let fewer = adoption(when, granted(2), json!({"spec": {"replicas": 2}}));
        assert_eq!(fewer, Err(Conflict::WouldDelete { has: 3, granted: 2 }));
    }
    let told = Conflict::WouldDelete { has: 3, granted: 2 }.to_string();
    assert!(told.contains("3 replicas") && told.contains("2 are granted"), "{told}");
}

#[test]
fn ad_1_an_object_whose_pods_are_being_updated_is_not_taken_over_as_identical() {
    let resting = json!({"status": {"replicas": 3, "updatedReplicas": 3}});
    let halfway = json!({"status": {"replicas": 3, "updatedReplicas": 1}});
    let judged = |status: &Value| {
        let mut before = json!({"spec": {"replicas": 3}});
        json_patch::merge(&mut before, status);
        let plan = AssignmentSpec { slice: Some(granted(3)), ..plan(3, 5) };
        adopt::judge(&plan, &before, &before)
    };
    assert_eq!((judged(&resting), judged(&halfway)), (Ok(()), Err(Conflict::InUpdate)));
}

#[test]
fn ad_1_another_selector_is_a_conflict_before_an_api_server_refuses_to_change_it() {
    let object = |app: &str| json!({"spec": {"selector": {"matchLabels": {"app": app}}, "replicas": 3}});
    let judged = |when_exists, app| {
        let plan = AssignmentSpec { when_exists, slice: Some(granted(3)), ..plan(3, 5) };
        adopt::at_once(&plan, &object("a"), &object(app))
    };
    assert_eq!(judged(WhenExists::Always, "b"), Err(Conflict::OtherSelector));
    let differs = Conflict::Differs { path: "/spec/selector".to_owned() };
    assert_eq!(judged(WhenExists::IfIdentical, "b"), Err(differs));
    assert_eq!(judged(WhenExists::Never, "a"), Err(Conflict::Exists));
    assert_eq!(judged(WhenExists::Always, "a"), Ok(()));
    assert_eq!(judged(WhenExists::IfIdentical, "a"), Ok(()));
}

#[test]
fn ad_1_always_still_refuses_another_selector_and_restarts_that_nothing_paces() {
    let clone_set = || granted(3);
    let selector = json!({"spec": {"selector": {"matchLabels": {"app": "b"}}}});
    assert_eq!(adoption(WhenExists::Always, clone_set(), selector), Err(Conflict::OtherSelector));
    let template = json!({"spec": {"template": {"x": 2}}});
    assert_eq!(adoption(WhenExists::Always, clone_set(), template.clone()), Ok(()), "U paces it");
    let whole = adoption(WhenExists::Always, Slice::Whole(WholeSlice {}), template);
    assert_eq!(whole, Err(Conflict::WouldRestart));
}

#[test]
fn proto_12_a_new_leader_acknowledges_nothing_before_the_old_one_must_have_ended() {
    let seconds = std::time::Duration::from_secs;
    assert!(!may_acknowledge(seconds(44), seconds(15), seconds(30)));
    assert!(may_acknowledge(seconds(45), seconds(15), seconds(30)));
}
