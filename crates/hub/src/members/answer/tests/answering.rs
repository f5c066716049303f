//! Requests: in which order they are answered, and what is made for them.

use kruise_core::api::fleet::join_request::JoinDecision;
use rcgen::KeyPair;
use serde_json::{Value, json};

use super::kit::{
    CLUSTER, Case, NAMED, TOKEN_USER, asked, bound_to, key, known, member, pem, public, said, user,
};
use crate::members::{answer::plan::Action, joining::Known};

fn denied(reason: &str) -> (Value, Value) {
    (json!("Denied"), json!(reason))
}

#[test]
fn join_1_the_token_is_used_up_before_the_request_is_approved() {
    let case = Case::new();
    assert_eq!(case.done(), ["let read", "use token", "tell"]);
    let Action::UseToken { id, version, used_by } = &case.plan().actions[1] else {
        panic!("the token comes first")
    };
    assert_eq!((id.as_str(), version.as_str(), used_by.as_str()), ("abcdef", "41", "request-1"));
    let told = case.told();
    assert_eq!(
        (&told["decision"], &told["reason"], &told["decidedBy"], &told["decidedAt"]),
        (&json!("Approved"), &json!("ApprovedByRule"), &json!("rule"), &json!("2030-01-01T12:00:00Z"))
    );
    assert!(case.plan().actions.contains(&Action::Count(JoinDecision::Approved)));
}

#[test]
fn join_1_a_token_that_is_used_by_this_request_is_not_used_again() {
    let mut case = Case::new();
    case.token().used_by.insert("request-1".to_owned());
    assert_eq!(case.done(), ["let read", "tell"]);
    assert_eq!(case.answer().0, "Approved");
    case.token().used_by = ["request-0".to_owned()].into();
    assert_eq!((case.done(), case.answer()), (vec!["let read", "tell"], denied("TokenRejected")));
    assert_eq!(case.events(), ["Request Warning TokenRejected"]);
}

#[test]
fn join_2_a_request_that_waits_uses_its_token_and_is_looked_at_when_that_ends() {
    let mut case = Case { rules: Vec::new(), ..Case::new() };
    assert_eq!(case.done(), ["let read", "use token", "tell"]);
    assert_eq!(case.answer(), (json!("Pending"), json!("ApprovalNeeded")));
    assert_eq!(case.told()["decidedAt"], Value::Null, "nobody has decided yet");
    assert_eq!(case.plan().look_again_in.unwrap().as_secs(), 3_601);
    // Once it is told, nothing is done.
    case.token().used_by.insert("request-1".to_owned());
    case.reader = Some(("request-1".to_owned(), TOKEN_USER.to_owned()));
    case.request().status = serde_json::from_value(case.told()).unwrap();
    assert_eq!(case.plan().actions, []);
    case.annotate("decision", "Approve");
    assert_eq!((case.done(), case.told()["decidedBy"].clone()), (vec!["tell"], json!("administrator")));
    case.annotate("decision", "Deny");
    assert_eq!(
        (case.answer(), case.events()),
        (denied("DeniedByHand"), vec!["Request Normal DeniedByHand".into()])
    );
}

#[test]
fn join_6_another_cluster_and_another_key_are_told_to_both_and_the_member_stays() {
    let other_uid = Known { cluster_uid: "cluster-2".to_owned(), ..known() };
    let other_key = Known { public_key: public(&KeyPair::generate().unwrap()), ..known() };
    for it in [other_uid, other_key] {
        let mut case = Case { members: vec![it], bound: bound_to(&[&user()]), ..Case::new() };
        case.member = Some(member(true));
        assert_eq!((case.done(), case.answer()), (vec!["let read", "tell"], denied("IdentityMismatch")));
        assert_eq!(case.events(), ["Member Warning IdentityMismatch", "Request Warning IdentityMismatch"]);
    }
}

#[test]
fn api_3_the_hubs_own_cluster_is_told_that_it_cannot_be_a_member() {
    let mut case = Case::new();
    case.request().spec.cluster_uid = "hub".to_owned();
    assert_eq!(
        (case.answer(), case.events()),
        (denied("HubCannotBeMember"), vec!["Request Warning HubCannotBeMember".into()])
    );
}

#[test]
fn what_no_member_could_have_is_refused_before_anything_is_made() {
    type Change = fn(&mut Case);
    let changes: [(&str, Change); 5] = [
        ("its public key", |it| it.request().spec.public_key = "none".to_owned()),
        ("the label fleet.kruise.io/order", |it| {
            it.request().spec.labels.insert("fleet.kruise.io/order".to_owned(), "1".to_owned());
        }),
        ("the label a/b/c", |it| {
            it.request().spec.labels.insert("a/b/c".to_owned(), String::new());
        }),
        ("the label env", |it| {
            it.request().spec.labels.insert("env".to_owned(), "no value".to_owned());
        }),
        ("names no CertificateSigningRequest", |it| it.request().spec.signing_request = None),
    ];
    for (words, change) in changes {
        let mut case = Case::new();
        change(&mut case);
        assert_eq!(case.answer().0, "Denied", "{words}");
        assert!(case.told()["message"].as_str().unwrap().contains(words), "{}", case.told());
        assert!(!case.done().contains(&"use token"));
    }
}

#[test]
fn a_request_is_approved_only_with_what_it_asks_to_be_signed() {
    let missing = Case { signing: Vec::new(), ..Case::new() };
    assert_eq!(missing.answer(), (json!("Pending"), json!("SigningRequestMissing")));
    assert!(missing.done().contains(&"use token"));
    let stranger = asked(NAMED, "alice", &pem(key(), &user(), |_| {}));
    let squatted = Case { signing: vec![stranger], ..Case::new() };
    assert_eq!(squatted.answer(), denied("SigningRefused"));
    assert!(squatted.told()["message"].as_str().unwrap().contains("made by somebody else"));
    let refused = Case { signing: vec![said(super::kit::first(), "Denied", "")], ..Case::new() };
    assert_eq!(refused.answer(), denied("SigningRefused"));
}

#[test]
fn join_3_the_member_comes_after_all_that_it_needs_and_is_made_once() {
    let mut case = Case::new();
    case.reader = Some(("request-1".to_owned(), TOKEN_USER.to_owned()));
    case.answered(JoinDecision::Approved, "");
    assert_eq!(case.done(), ["grant", "join", "tell"]);
    let told = case.told();
    assert_eq!((&told["namespace"], &told["hubUid"]), (&json!("fleet-eu-1"), &json!("hub")));
    let Action::Join(made) = &case.plan().actions[1] else { panic!("the member is made") };
    let made = json!(made);
    let finalizers = ["fleet.kruise.io/shares"];
    assert_eq!(
        made["metadata"],
        json!({"name": CLUSTER, "labels": {"env": "prod"}, "finalizers": finalizers})
    );
    // What it did not say is not there: the API server refuses nulls.
    let identity =
        json!({"clusterUid": "cluster-1", "publicKey": public(key()), "accepted": true, "region": "eu"});
    assert_eq!(made["spec"], identity);
    // Half-way through a crash: rights are there, the member is there.
    case.bound = bound_to(&[&user()]);
    assert_eq!(case.done(), ["grant", "join", "tell"], "rights are not withdrawn meanwhile");
    case.member = Some(member(true));
    assert_eq!(case.done(), ["tell"]);
    // Somebody else got the name in between.
    case.member().spec.cluster_uid = "cluster-2".to_owned();
    assert_eq!(case.answer(), denied("IdentityMismatch"));
    // Or the cluster got another one.
    case.member = None;
    case.members = vec![Known { name: "eu-2".to_owned(), ..known() }];
    assert_eq!(case.answer(), denied("IdentityMismatch"));
    case.members = Vec::new();
    // Once it was made, it is not made again: somebody has removed it.
    case.answered(JoinDecision::Approved, "fleet-eu-1");
    case.member = None;
    assert_eq!(case.done(), ["withdraw", "refuse"]);
}

#[test]
fn an_answered_request_goes_after_a_day() {
    for decision in [JoinDecision::Approved, JoinDecision::Denied] {
        let mut case = Case { signing: Vec::new(), ..Case::joined() };
        case.answered(decision, "fleet-eu-1");
        assert_eq!((case.plan().actions.len(), case.plan().look_again_in.unwrap().as_secs()), (0, 86_401));
        case.now = "2030-01-02T11:59:59Z".parse().unwrap();
        assert_eq!(case.plan().actions, []);
        case.now = "2030-01-02T12:00:00Z".parse().unwrap();
        assert_eq!(case.done(), ["forget"]);
    }
}

#[test]
fn join_1_a_request_may_be_read_by_its_own_token_only() {
    let mut case = Case::joined();
    case.signing.clear();
    assert_eq!(case.plan().actions, []);
    for reader in [("request-0", TOKEN_USER), ("request-1", "alice")] {
        case.reader = Some((reader.0.to_owned(), reader.1.to_owned()));
        assert_eq!(case.done(), ["let read"]);
    }
    case.request().metadata.annotations = None;
    assert_eq!(case.plan().actions, [], "nobody's token: nobody reads it");
}

#[test]
fn a_request_that_is_being_deleted_is_left_alone() {
    let mut case = Case::new();
    case.request().metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(super::kit::now()));
    assert_eq!(case.plan().actions, []);
}
