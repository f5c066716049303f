//! Templates and what OpenKruise 1.9 stores for them: `hand.json` covers the features of a pod one by one, `fuzz.json`
//! is random over the shape table, with nulls, zeros and empty members strewn in. The outputs were made in Go by
//! OpenKruise's own revision code, from CloneSets decoded from JSON.

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{
    data::RevisionData,
    hash::{revision_hash, revision_name},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vector {
    r#in: Value,
    out: String,
    collision_count: i32,
    name: String,
}

fn check(vectors: &str, at_least: usize) {
    let vectors: Vec<Vector> = serde_json::from_str(vectors).unwrap();
    assert!(vectors.len() >= at_least);
    for it in vectors {
        let data = RevisionData::of_template(&it.r#in);
        assert_eq!(data.as_str(), it.out, "{}", it.r#in);
        assert_eq!(revision_name("web", &revision_hash(&data, it.collision_count)), it.name);
        let template = data.template().unwrap();
        assert_eq!(RevisionData::of_template(&template), data, "twice");
    }
}

#[test]
fn every_feature_of_a_pod_is_recorded_as_openkruise_records_it() {
    check(include_str!("../vectors/hand.json"), 19);
}

#[test]
fn random_templates_are_recorded_as_openkruise_records_them() {
    check(include_str!("../vectors/fuzz.json"), 200);
}

#[test]
fn the_data_of_the_smallest_template_is_known_by_heart() {
    assert_eq!(
        RevisionData::of_template(&super::template("nginx:1")).as_str(),
        concat!(
            r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"web"}},"#,
            r#""spec":{"containers":[{"image":"nginx:1","name":"web","resources":{}}]}}}}"#
        )
    );
}

#[test]
fn members_newer_than_this_build_are_kept_as_they_stand() {
    let mut template = super::template("nginx:1");
    template["spec"]["quantumCores"] = json!({"b": 0, "a": "", "c": null, "d": 1.5});
    template["spec"]["containers"][0]["zoo"] = json!([]);
    let data = RevisionData::of_template(&template);
    assert!(data.as_str().contains(r#""quantumCores":{"a":"","b":0,"c":null,"d":1.5}"#), "{data:?}");
    assert!(data.as_str().contains(r#""resources":{},"zoo":[]}"#), "{data:?}");
    assert_ne!(data, RevisionData::of_template(&super::template("nginx:1")));
}

#[test]
fn values_of_a_wrong_type_are_kept_and_harm_nothing() {
    let template = json!({"metadata": 1, "spec": {"containers": {"a": 1}, "hostPID": "yes", "volumes": [7, "x"], "priority": "high"}});
    assert_eq!(
        RevisionData::of_template(&template).as_str(),
        r#"{"spec":{"template":{"$patch":"replace","metadata":1,"spec":{"containers":{"a":1},"hostPID":"yes","priority":"high","volumes":[7,"x"]}}}}"#
    );
    assert_eq!(RevisionData::of_template(&json!([1])).as_str(), r#"{"spec":{"template":[1]}}"#);
}

#[test]
fn a_patch_directive_of_the_user_is_replaced() {
    let mut template = super::template("nginx:1");
    template["$patch"] = json!("delete");
    assert_eq!(RevisionData::of_template(&template), RevisionData::of_template(&super::template("nginx:1")));
}

#[test]
fn a_recorded_template_comes_back_without_the_directive() {
    let data = RevisionData::of_template(&super::template("nginx:1"));
    let template = data.template().unwrap();
    assert_eq!(template["spec"]["containers"][0]["image"], "nginx:1");
    assert!(template.get("$patch").is_none());
    assert_eq!(RevisionData::of_json(&json!({"spec": {}})).template(), None);
}

#[test]
fn data_of_other_builds_means_the_same_if_it_says_the_same() {
    let wanted = RevisionData::of_template(&super::template("nginx:1"));
    let terse = RevisionData::of_json(&json!({"spec": {"template": {
        "$patch": "replace", "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "nginx:1"}]},
    }}}));
    assert_ne!(terse, wanted);
    assert!(terse.means_same(&wanted) && wanted.means_same(&terse));
    let other = RevisionData::of_template(&super::template("nginx:2"));
    assert!(!terse.means_same(&other));
    // Data without a template is compared as it stands.
    let containers =
        |image: &str| RevisionData::of_json(&json!({"spec": {"containers": [{"image": image}]}}));
    assert!(containers("a").means_same(&containers("a")) && !containers("a").means_same(&containers("b")));
}
