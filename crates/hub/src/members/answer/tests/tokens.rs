//! Agents that are known by tokens: when one is issued, and what becomes of the account it is of (JOIN-4, ADR 13).

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_core::api::fleet::{join_request::JoinDecision, member_cluster::MemberClusterStatus};
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData};
use serde_json::json;

use super::kit::{CLUSTER, Case, asked, bound_to, certificate, first, key, member, pem, said, user};
use crate::members::{
    account::{self, Account, Credentials},
    answer::{issue::Recipient, plan::Action},
    key::fingerprint,
};

fn account() -> Account {
    Account { uid: "account-1".to_owned(), key: fingerprint(&key().subject_public_key_info()) }
}

fn stranger() -> Account {
    Account { key: "0123456789abcdef".to_owned(), ..account() }
}

/// A hub with tokens, and a member that has everything.
fn with_tokens(case: Case) -> Case {
    let bound = bound_to(&[&user(), &account::user(CLUSTER)]);
    Case { bound, account: Some(account()), credentials: Credentials::Token, ..case }
}

/// One whose request has its token.
fn at_rest() -> Case {
    let mut case = with_tokens(Case::joined());
    case.request().status.as_mut().unwrap().sealed_for = account().uid;
    case
}

/// One whose agent asks for the next token, as whoever it is.
fn renewing(creator: &str) -> Case {
    let asked = asked("fleet-agent-2", creator, &pem(key(), &user(), |_| {}));
    with_tokens(Case { member: Some(member(true)), signing: vec![asked], ..Case::quiet() })
}

fn issued(to: Recipient, answers: &str) -> Action {
    Action::Issue { to, answers: answers.to_owned(), key: key().subject_public_key_info() }
}

#[test]
fn join_4_the_first_token_is_issued_once_the_member_is_there_and_nothing_is_signed() {
    let case = Case { credentials: Credentials::Token, ..Case::new() };
    assert_eq!(case.done(), ["let read", "use token", "tell"]);
    let mut case = Case { reader: Case::joined().reader, ..case };
    case.answered(JoinDecision::Approved, "");
    assert_eq!(case.done(), ["grant", "join", "tell"]);
    let Action::Grant(objects) = &case.plan().actions[0] else { panic!("rights come first") };
    assert!(objects.iter().any(|it| it["kind"] == "ServiceAccount"), "{objects:?}");
    assert_eq!(with_tokens(Case::joined()).plan().actions, [issued(Recipient::Request, "account-1")]);
    assert_eq!(at_rest().plan().actions, [], "one is enough");
    // Whether anybody signs what was asked for does not matter.
    let mut signed = at_rest();
    signed.signing = vec![said(first(), "Approved", &certificate(2))];
    assert_eq!(signed.plan().actions, []);
}

#[test]
fn join_4_without_its_account_nothing_is_issued_and_the_account_is_made() {
    let case = Case { account: None, ..at_rest() };
    assert_eq!(case.done(), ["grant"]);
    let lost = Case { has_namespace: false, ..case };
    assert_eq!(lost.plan().actions, [], "nor is a namespace that somebody deleted made again");
    let half = Case { bound: bound_to(&[&user()]), ..at_rest() };
    assert_eq!(half.done(), ["grant"]);
}

#[test]
fn join_4_an_agent_renews_with_whichever_credential_it_has() {
    for creator in [user(), account::user(CLUSTER)] {
        let mut case = renewing(&creator);
        assert_eq!(case.plan().actions, [issued(Recipient::Member, "uid-of-fleet-agent-2")]);
        let sealed_for = "uid-of-fleet-agent-2".to_owned();
        case.member().status = Some(MemberClusterStatus { sealed_for, ..Default::default() });
        assert_eq!(case.plan().actions, [], "it was answered");
    }
    for creator in
        ["alice", "system:serviceaccount:fleet-eu-2:fleet-agent", "system:serviceaccount:fleet-eu-1:default"]
    {
        assert_eq!(renewing(creator).plan().actions, []);
    }
    let other = KeyPair::generate().unwrap();
    let mut case = renewing(&user());
    case.signing = vec![asked("fleet-agent-2", &user(), &pem(&other, &user(), |_| {}))];
    assert_eq!(case.plan().actions, [], "its key is not the pinned one");
}

#[test]
fn join_4_only_the_last_that_was_asked_for_is_answered() {
    let at = |name: &str, time: &str| {
        let mut asked = asked(name, &user(), &pem(key(), &user(), |_| {}));
        asked.metadata.creation_timestamp = Some(Time(time.parse().unwrap()));
        asked
    };
    let mut case = renewing(&user());
    case.signing =
        vec![at("fleet-agent-9", "2030-01-01T10:00:00Z"), at("fleet-agent-2", "2030-01-01T11:00:00Z")];
    assert_eq!(case.plan().actions, [issued(Recipient::Member, "uid-of-fleet-agent-2")]);
    case.signing.push(at("fleet-agent-1", "2030-01-01T11:00:00Z"));
    assert_eq!(
        case.plan().actions,
        [issued(Recipient::Member, "uid-of-fleet-agent-2")],
        "always the same one"
    );
    case.signing[1] = said(case.signing[1].clone(), "Denied", "");
    assert_eq!(case.plan().actions, [issued(Recipient::Member, "uid-of-fleet-agent-1")], "somebody said no");
}

#[test]
fn join_5_bindings_go_first_then_the_account_and_with_it_every_token() {
    let mut case = at_rest();
    case.member().spec.accepted = false;
    assert_eq!(
        (case.done(), case.events()),
        (vec!["withdraw", "dismiss"], vec!["Member Warning Revoked".into()])
    );
    case.bound = vec![None; 3];
    assert_eq!((case.done(), case.events()), (vec!["dismiss"], vec![]), "a crash came between");
    case.account = None;
    assert_eq!(case.plan().actions, []);
    // Accepted again it gets another account, and its request a token of that one.
    case.member().spec.accepted = true;
    assert_eq!(case.done(), ["grant"]);
    let anew = Account { uid: "account-2".to_owned(), ..account() };
    let case = Case { account: Some(anew), request: case.request, ..at_rest() };
    assert_eq!(case.plan().actions, [issued(Recipient::Request, "account-2")]);
    let gone = with_tokens(Case::quiet());
    assert_eq!(gone.done(), ["withdraw", "dismiss"], "nobody has the name any more");
}

#[test]
fn join_6_a_name_that_is_given_anew_comes_with_another_account() {
    let case = Case { account: Some(stranger()), ..at_rest() };
    assert_eq!(case.done(), ["dismiss", "grant"]);
    let mut new = Case { account: Some(stranger()), credentials: Credentials::Token, ..Case::new() };
    new.reader = Case::joined().reader;
    new.answered(JoinDecision::Approved, "");
    assert_eq!(new.done(), ["dismiss", "grant", "join", "tell"]);
}

#[test]
fn a_hub_that_changes_its_mind_locks_nobody_out() {
    // From certificates to tokens: the account is made and bound, and those who have certificates keep their rights.
    let case = Case { credentials: Credentials::Token, signing: Vec::new(), ..Case::joined() };
    let Action::Grant(objects) = &case.plan().actions[0] else { panic!("rights are granted") };
    let subjects = objects.iter().filter(|it| !it["subjects"].is_null());
    assert!(
        subjects.clone().count() == 3
            && subjects.into_iter().all(|it| it["subjects"][0]["name"] == user().as_str())
    );
    // And back: accounts stay, and what their holders ask for is signed.
    let mut back = renewing(&account::user(CLUSTER));
    back.credentials = Credentials::Certificate;
    assert_eq!(back.done(), ["approve"]);
    back.signing = vec![said(back.signing.remove(0), "Approved", &certificate(2))];
    let (sealed_credential, sealed_for) = ("sealed".to_owned(), "uid".to_owned());
    back.member().status = Some(MemberClusterStatus { sealed_credential, sealed_for, ..Default::default() });
    let Action::Note(note) = &back.plan().actions[0] else { panic!("a certificate is handed over") };
    assert_eq!((&note["sealedCredential"], &note["sealedFor"]), (&json!(null), &json!(null)));
    // Whoever deletes one is done with tokens.
    back = Case { account: None, signing: Vec::new(), ..back };
    let Action::Grant(objects) = &back.plan().actions[0] else { panic!("bindings are put right") };
    assert!(!objects.iter().any(|it| it["kind"] == "ServiceAccount"));
}

#[test]
fn join_4_a_key_that_nothing_can_be_sealed_to_is_told_so() {
    let other = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let mut case = Case::new();
    case.request().spec.public_key = STANDARD.encode(other.subject_public_key_info());
    case.credentials = Credentials::Token;
    assert_eq!(case.answer(), (json!("Denied"), json!("InvalidRequest")));
    assert!(case.told()["message"].as_str().unwrap().contains("P-256"));
    // One that joined by hand without a key keeps its certificate.
    let mut by_hand =
        Case { member: Some(member(true)), bound: bound_to(&["fleet:agent:eu-1"]), ..Case::quiet() };
    by_hand.credentials = Credentials::Token;
    by_hand.member().spec.public_key = String::new();
    assert_eq!(by_hand.plan().actions, []);
}
