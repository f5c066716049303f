use serde_json::{Value, json};

use super::refusal;
use crate::admission::members::{self, Fleet};

const FLEET: Fleet<'_> = Fleet { hub_uid: "hub", members: &[("eu-1", "uid-1")] };

fn member(name: &str, uid: &str) -> Value {
    json!({"kind": "MemberCluster", "metadata": {"name": name}, "spec": {"clusterUid": uid, "publicKey": "k"}})
}

fn judged(member: &Value, old: Option<&Value>) -> Option<String> {
    refusal(members::check(member, old, &FLEET).verdict())
}

#[test]
fn api_3_the_hubs_own_cluster_is_denied() {
    let refused = judged(&member("eu-2", "hub"), None).unwrap();
    assert!(refused.starts_with("spec.clusterUid") && refused.contains("HubCannotBeMember"), "{refused}");
}

#[test]
fn join_6_an_identity_belongs_to_one_member_and_never_changes() {
    assert_eq!(judged(&member("eu-2", "uid-2"), None), None);
    assert!(judged(&member("eu-2", "uid-1"), None).unwrap().contains("IdentityMismatch"));
    let old = member("eu-1", "uid-1");
    assert_eq!(judged(&old, Some(&old)), None);
    assert!(judged(&member("eu-1", "uid-3"), Some(&old)).unwrap().contains("IdentityMismatch"));
    let mut other_key = old.clone();
    other_key["spec"]["publicKey"] = json!("k2");
    assert!(judged(&other_key, Some(&old)).unwrap().starts_with("spec.publicKey: Forbidden"));
}

#[test]
fn names_and_taints_are_checked() {
    assert!(judged(&member("system", "uid-2"), None).unwrap().starts_with("metadata.name"));
    let mut tainted = member("eu-2", "uid-2");
    tainted["spec"]["taints"] = json!([{"key": "ok"}, {"key": "not ok"}]);
    assert!(judged(&tainted, None).unwrap().starts_with("spec.taints[1].key"));
}

#[test]
fn bad_input_7_more_clusters_than_the_limit_are_denied_with_the_limit() {
    let names: Vec<String> = (0..5_000).map(|it| format!("m-{it}")).collect();
    let members: Vec<(&str, &str)> = names.iter().map(|it| (it.as_str(), it.as_str())).collect();
    let full = Fleet { hub_uid: "hub", members: &members };
    let refused = refusal(members::check(&member("one-more", "uid"), None, &full).verdict()).unwrap();
    assert!(refused.contains("5000"), "{refused}");
    let old = member("m-1", "m-1");
    assert_eq!(refusal(members::check(&old, Some(&old), &full).verdict()), None);
}

#[test]
fn del_6_words_about_leaving_that_mean_nothing_are_refused() {
    let mut leaving = member("eu-1", "uid-1");
    for words in ["Orphan", "Force", "Orphan,Force"] {
        leaving["metadata"]["annotations"] = json!({"fleet.kruise.io/leave": words});
        assert_eq!(judged(&leaving, None), None, "{words}");
    }
    leaving["metadata"]["annotations"] = json!({"fleet.kruise.io/leave": "force"});
    let refused = judged(&leaving, None).unwrap();
    assert!(refused.starts_with("metadata.annotations[fleet.kruise.io/leave]"), "{refused}");
}
