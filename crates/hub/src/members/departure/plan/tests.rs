use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::*;

fn member(words: &str) -> MemberCluster {
    let mut member = MemberCluster::new("eu-1", Default::default());
    member.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    member.finalizers_mut().push("fleet.kruise.io/shares".to_owned());
    member.annotations_mut().insert("fleet.kruise.io/leave".to_owned(), words.to_owned());
    member
}

fn object(name: &str) -> Value {
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "namespace": "shop", "name": name, "uid": name})
}

/// The binding of an object that has a row for `cluster`.
fn binding(name: &str, cluster: &str, conditions: &Value) -> FleetBinding {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"object": object(name), "ledger": {"clusters": {cluster: {"share": {"seq": 1}}}}},
        "status": {"conditions": conditions},
    }))
    .unwrap()
}

fn share(name: &str, intent: &str) -> Assignment {
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": format!("uid-of-{name}")},
        "spec": {"object": object(name), "term": 1, "seq": 1, "epoch": 0, "intent": intent},
    }))
    .unwrap()
}

fn look(words: &str, is_heard: bool, shares: &[Assignment], bindings: &[FleetBinding]) -> Step {
    let member = member(words);
    leaving(&Observed {
        member: &member,
        departure: Departure::of(&member).unwrap(),
        is_heard,
        leaving_for: SETTLED_AFTER,
        unreadable: 0,
        shares: shares.iter().collect(),
        bindings: bindings.iter().collect(),
    })
}

fn reason(step: &Step) -> &'static str {
    match step {
        Step::Wait(hold) => hold.reason,
        Step::LetGo { .. } => "LetGo",
        Step::Claim => "Claim",
        Step::Rest => "Rest",
    }
}

#[test]
fn del_6_every_member_has_the_finalizer_from_the_beginning() {
    let mut member = MemberCluster::new("eu-1", Default::default());
    assert_eq!(staying(&member), Step::Claim);
    member.finalizers_mut().push("fleet.kruise.io/shares".to_owned());
    assert_eq!(staying(&member), Step::Rest);
}

#[test]
fn del_6_a_member_without_shares_goes_and_takes_its_questions_along() {
    let step = look("", true, &[share("web", "Ask")], &[binding("api", "us-1", &json!([]))]);
    assert_eq!(step, Step::LetGo { questions: vec![("web".to_owned(), "uid-of-web".to_owned())] });
    assert_eq!(reason(&look("", false, &[], &[])), "LetGo", "one that never had anything is not waited for");
}

#[test]
fn del_6_nobody_goes_while_a_round_from_before_may_be_under_way() {
    let member = member("");
    let observed = Observed {
        member: &member,
        departure: Departure::default(),
        is_heard: true,
        leaving_for: SETTLED_AFTER - Duration::from_secs(1),
        unreadable: 0,
        shares: Vec::new(),
        bindings: Vec::new(),
    };
    assert_eq!(reason(&leaving(&observed)), "Empty");
    let late = Observed { leaving_for: SETTLED_AFTER, unreadable: 1, ..observed };
    assert_eq!(reason(&leaving(&late)), "Unreadable", "what cannot be read may be a share");
}

#[test]
fn del_6_a_ledger_row_or_an_assignment_keeps_the_member() {
    let (none, row) = (json!([]), [binding("web", "eu-1", &json!([]))]);
    assert_eq!(reason(&look("", true, &[], &row)), "Draining", "saved and not written yet");
    let elsewhere = [binding("web", "us-1", &none)];
    assert_eq!(
        reason(&look("", true, &[share("web", "Delete")], &elsewhere)),
        "Draining",
        "not acknowledged"
    );
    assert_eq!(reason(&look("Orphan", true, &[share("web", "Orphan")], &elsewhere)), "Orphaning");
    assert_eq!(reason(&look("Force", true, &[share("web", "Delete")], &elsewhere)), "Deleting");
}

#[test]
fn del_6_a_silent_member_stays_until_somebody_says_force() {
    let row = [binding("web", "eu-1", &json!([]))];
    for words in ["", "Orphan", "Nonsense"] {
        let Step::Wait(hold) = look(words, false, &[share("web", "Apply")], &row) else { panic!("{words}") };
        assert_eq!((hold.reason, hold.severity), ("Unreachable", Severity::Warning));
        assert!(hold.message.contains("CloneSet shop/web") && hold.message.contains("--force"));
    }
    // The row goes by the rounds of the object; what is left then is a tombstone.
    assert_eq!(reason(&look("Force", false, &[share("web", "Apply")], &row)), "Deleting");
    let elsewhere = [binding("web", "us-1", &json!([]))];
    assert_eq!(reason(&look("Force", false, &[share("web", "Delete")], &elsewhere)), "LetGo");
    assert_eq!(reason(&look("Orphan,Force", false, &[share("web", "Orphan")], &elsewhere)), "LetGo");
}

#[test]
fn del_6_what_holds_a_drain_up_is_said_with_what_helps() {
    let condition = |kind: &str| json!([{"type": kind, "status": "True", "reason": "r", "message": "why", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let held = look("", true, &[], &[binding("web", "eu-1", &condition("Unplaced"))]);
    let Step::Wait(hold) = held else { panic!("{held:?}") };
    assert_eq!(hold.reason, "DrainHeld");
    assert!(hold.message.contains("CloneSet shop/web (Unplaced: why)"), "{}", hold.message);
    let suspended = look("", true, &[], &[binding("web", "eu-1", &condition("Suspended"))]);
    assert_eq!(reason(&suspended), "NotPlanned");
    let forgotten = [share("web", "Apply")];
    assert_eq!(reason(&look("", true, &forgotten, &[])), "NotPlanned", "its object is gone");
    assert_eq!(reason(&look("Orphan", true, &forgotten, &[])), "LetGo", "it runs on by itself anyway");
}

#[test]
fn cs_5_pods_with_volumes_that_nobody_may_move_hold_a_removal_up_with_the_command_that_helps() {
    let condition = |kind: &str, message: &str| json!({"type": kind, "status": "True", "reason": "r", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let why = "3 replicas have volumes (`kubectl fleet drain eu-1 --move-stateful`)";
    let both = json!([condition("BudgetHeld", "used up"), condition("DrainHeld", why)]);
    let held = look("", true, &[share("web", "Apply")], &[binding("web", "eu-1", &both)]);
    let Step::Wait(hold) = held else { panic!("{held:?}") };
    assert_eq!((hold.reason, hold.severity), ("DrainHeld", Severity::Warning));
    assert!(hold.message.contains(&format!("CloneSet shop/web (DrainHeld: {why})")), "{}", hold.message);
    assert!(hold.message.contains("kubectl fleet remove eu-1 --force"), "{}", hold.message);
    let mut over = condition("DrainHeld", why);
    over["status"] = json!("False");
    assert_eq!(reason(&look("", true, &[], &[binding("web", "eu-1", &json!([over]))])), "Draining");
}

#[test]
fn del_6_five_objects_are_named_and_the_rest_is_counted() {
    let rows: Vec<_> = (0..7).map(|it| binding(&format!("w{it}"), "eu-1", &json!([]))).collect();
    let Step::Wait(hold) = look("", true, &[], &rows) else { panic!("they are there") };
    assert!(hold.message.ends_with("CloneSet shop/w4 and 2 more"), "{}", hold.message);
}

#[test]
fn del_6_words_of_the_annotation_are_those_and_no_others() {
    for (words, orphan, force) in [("", false, false), ("Orphan", true, false), ("Force, Orphan", true, true)]
    {
        assert_eq!(Departure::read(words), Some(Departure { orphan, force }));
    }
    assert_eq!(Departure::read("force"), None);
    let both = Departure { orphan: true, force: true };
    assert_eq!(Departure::read(both.words().unwrap()), Some(both));
}
