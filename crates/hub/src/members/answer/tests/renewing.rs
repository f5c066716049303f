//! What is signed, and where certificates go.

use kruise_core::api::fleet::{join_request::JoinDecision, member_cluster::MemberClusterStatus};
use rcgen::KeyPair;
use serde_json::json;

use super::kit::{
    Case, NAMED, TOKEN_USER, asked, bound_to, certificate, first, key, member, pem, said, user,
};
use crate::members::{access, answer::plan::Action};

/// A member whose agent asks for the next certificate.
fn renewing() -> Case {
    Case {
        member: Some(member(true)),
        bound: bound_to(&[&user()]),
        signing: vec![asked("fleet-agent-2", &user(), &pem(key(), &user(), |_| {}))],
        ..Case::quiet()
    }
}

#[test]
fn join_4_the_first_certificate_is_approved_once_the_member_is_there_and_handed_over() {
    let mut case = Case::joined();
    let approval = Action::Sign {
        name: NAMED.to_owned(),
        uid: format!("uid-of-{NAMED}"),
        version: "7".to_owned(),
        fault: None,
    };
    assert_eq!(case.plan().actions, [approval], "exactly the one that was judged");
    case.signing = vec![said(first(), "Approved", "")];
    assert_eq!(case.plan().actions, [], "the signer has not signed yet");
    let signed = certificate(2);
    case.signing = vec![said(first(), "Approved", &signed)];
    let expiry = json!({"credentialExpiresAt": "2030-01-02T00:00:00Z"});
    let told = json!({"certificate": signed});
    assert_eq!(case.plan().actions, [Action::Note(expiry), Action::Tell(told)]);
}

#[test]
fn a_stranger_under_the_named_name_is_refused() {
    for creator in ["alice", "system:bootstrap:zyxwvu", "system:serviceaccount:default:default"] {
        let mut case = Case::joined();
        case.signing = vec![asked(NAMED, creator, &pem(key(), &user(), |_| {}))];
        assert_eq!(
            (case.done(), case.events()),
            (vec!["refuse"], vec!["Request Warning SigningRefused".into()])
        );
        assert_eq!(case.refusal().unwrap(), "it was made by somebody else");
        // Nor is a certificate that others have approved for it handed over.
        case.signing = vec![said(case.signing.remove(0), "Approved", &certificate(2))];
        assert_eq!(case.plan().actions, []);
    }
}

#[test]
fn one_request_gets_one_certificate() {
    let mut case = Case::joined();
    case.request().status.as_mut().unwrap().certificate = certificate(2);
    assert_eq!(
        (case.done(), case.refusal().unwrap().as_str()),
        (vec!["refuse"], "the cluster has its certificate")
    );
}

#[test]
fn what_a_request_names_that_is_not_ours_is_not_answered() {
    let mut case = Case::joined();
    case.request().spec.signing_request = Some("alice".to_owned());
    case.signing = vec![asked("alice", "alice", &pem(key(), "alice", |_| {}))];
    assert_eq!(case.plan().actions, []);
    case.answered(JoinDecision::Denied, "");
    assert_eq!(case.plan().actions, []);
}

#[test]
fn nothing_is_signed_before_the_answer_and_nothing_after_a_denial() {
    let mut case = Case { rules: Vec::new(), ..Case::new() };
    assert!(!case.done().iter().any(|it| ["approve", "refuse"].contains(it)));
    case.answered(JoinDecision::Approved, "");
    assert!(!case.done().iter().any(|it| ["approve", "refuse"].contains(it)), "not made yet");
    case.answered(JoinDecision::Denied, "");
    assert!(case.done().contains(&"refuse"));
}

#[test]
fn join_5_a_revoked_cluster_gets_no_certificate() {
    let mut first = Case::joined();
    first.member().spec.accepted = false;
    assert_eq!(first.done(), ["withdraw", "refuse"]);
    let mut next = renewing();
    next.member().spec.accepted = false;
    assert_eq!(next.done(), ["withdraw", "refuse"]);
    assert_eq!(Case { member: None, bound: vec![None; 3], ..renewing() }.done(), ["refuse"]);
}

#[test]
fn join_4_an_agent_renews_as_itself_with_its_pinned_key() {
    assert_eq!(renewing().done(), ["approve"]);
    let other = KeyPair::generate().unwrap();
    let other_key = asked("fleet-agent-2", &user(), &pem(&other, &user(), |_| {}));
    let former = access::user("eu-1", "");
    let former_user = asked("fleet-agent-2", &former, &pem(key(), &user(), |_| {}));
    let other_user =
        asked("fleet-agent-2", &user(), &pem(key(), "fleet:agent:eu-2:0123456789abcdef", |_| {}));
    for wrong in [other_key, former_user, other_user] {
        assert_eq!(Case { signing: vec![wrong], ..renewing() }.done(), ["refuse"]);
    }
    let mut by_hand = renewing();
    by_hand.member().spec.public_key = String::new();
    by_hand.bound = bound_to(&[&former]);
    assert!(by_hand.refusal().unwrap().contains("no pinned key"));
}

#[test]
fn join_4_the_newest_certificate_is_handed_over_in_the_member() {
    let signed = |name: &str, day| {
        said(asked(name, &user(), &pem(key(), &user(), |_| {})), "Approved", &certificate(day))
    };
    let newest = signed("fleet-agent-2", 5);
    let text = crate::members::answer::signing::certificate(&newest).unwrap().to_owned();
    let mut case = renewing();
    case.signing = vec![newest, signed("fleet-agent-3", 4)];
    let noted = json!({"certificate": text, "credentialExpiresAt": "2030-01-05T00:00:00Z"});
    assert_eq!(case.plan().actions, [Action::Note(noted)]);
    let holding = |certificate: String| Some(MemberClusterStatus { certificate, ..Default::default() });
    case.member().status = holding(text);
    assert_eq!(case.plan().actions, []);
    case.member().status = holding(certificate(6));
    assert_eq!(case.plan().actions, [], "an older one does not replace a newer one");
}

#[test]
fn a_renewal_is_judged_as_one_whoever_names_it() {
    // Somebody with a token names what the agent of the member has asked for.
    let mut case = renewing();
    case.request = Case::new().request;
    case.request().spec.signing_request = Some("fleet-agent-2".to_owned());
    case.answered(JoinDecision::Denied, "");
    case.reader = Some(("request-1".to_owned(), TOKEN_USER.to_owned()));
    assert_eq!(case.done(), ["approve"]);
}
