use std::collections::BTreeSet;

use jiff::Timestamp;
use kruise_core::runtime::webhook::Operation;
use serde_json::{Value, json};

use super::refusal;
use crate::{admission::joining, members::joining::Token};

fn now() -> Timestamp {
    Timestamp::from_second(1_000).unwrap()
}

fn token() -> Token {
    Token {
        id: "abc".to_owned(),
        pattern: "eu-*".to_owned(),
        expires: Timestamp::from_second(2_000).unwrap(),
        uses: 1,
        used_by: BTreeSet::new(),
    }
}

fn request(name: &str) -> Value {
    json!({"kind": "JoinRequest", "metadata": {"name": name}, "spec": {"clusterUid": "u", "publicKey": "k"}})
}

fn made_by(user: &str, request: &Value, token: Token) -> Option<String> {
    refusal(joining::review(request, None, user, &[token], now()))
}

const BOOTSTRAP: &str = "system:bootstrap:abc";

#[test]
fn join_1_a_token_asks_for_its_own_names_only() {
    assert_eq!(made_by(BOOTSTRAP, &request("eu-1"), token()), None);
    let refused = made_by(BOOTSTRAP, &request("us-1"), token()).unwrap();
    assert_eq!(refused, "TokenRejected: us-1 cannot ask to join: the token is for eu-*");
    assert!(made_by("system:bootstrap:zzz", &request("eu-1"), token()).is_some());
    let used = Token { used_by: BTreeSet::from(["other".to_owned()]), ..token() };
    assert!(made_by(BOOTSTRAP, &request("eu-1"), used).unwrap().contains("used up"));
    let old = Token { expires: now(), ..token() };
    assert!(made_by(BOOTSTRAP, &request("eu-1"), old).unwrap().contains("expired"));
}

#[test]
fn join_1_the_token_is_written_down_and_cannot_be_claimed() {
    let mut mine = request("eu-1");
    joining::mutate(&mut mine, Operation::Create, BOOTSTRAP);
    assert_eq!(mine["metadata"]["annotations"], json!({"fleet.kruise.io/token": "abc"}));
    let mut claimed = request("eu-1");
    claimed["metadata"]["annotations"] = json!({"fleet.kruise.io/token": "abc", "other": "kept"});
    joining::mutate(&mut claimed, Operation::Create, "alice");
    assert_eq!(claimed["metadata"]["annotations"], json!({"other": "kept"}));
    let mut changed = mine.clone();
    changed["metadata"]["annotations"]["fleet.kruise.io/token"] = json!("zzz");
    assert!(refusal(joining::review(&changed, Some(&mine), "alice", &[], now())).is_some());
}

#[test]
fn join_2_a_cluster_cannot_approve_itself_nor_change_its_request() {
    let mut approved = request("eu-1");
    approved["metadata"]["annotations"] = json!({"fleet.kruise.io/decision": "Approve"});
    assert!(made_by(BOOTSTRAP, &approved, token()).unwrap().contains("cannot approve itself"));
    let old = request("eu-1");
    let by = |user: &str, new: &Value| refusal(joining::review(new, Some(&old), user, &[token()], now()));
    assert!(by(BOOTSTRAP, &approved).is_some());
    assert_eq!(by("admin", &approved), None);
    let mut odd = approved.clone();
    odd["metadata"]["annotations"]["fleet.kruise.io/decision"] = json!("Maybe");
    assert!(by("admin", &odd).unwrap().contains("must be Approve or Deny"));
    let mut other_key = old.clone();
    other_key["spec"]["publicKey"] = json!("k2");
    assert!(by("admin", &other_key).unwrap().contains("never changes"));
}
