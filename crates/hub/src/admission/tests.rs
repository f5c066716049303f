//! The specification's table of bad input, row by row, and what else admission promises.

mod bad_input;
mod deletion;
mod joining;
mod members;
mod reach;

use kruise_core::runtime::webhook::Verdict;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::placement::select::ClusterFacts;

pub(super) fn cluster(name: &str) -> ClusterFacts {
    ClusterFacts {
        name: name.to_owned(),
        labels: [("env".to_owned(), "prod".to_owned())].into(),
        region: Some("eu".to_owned()),
        apis: vec!["apps.kruise.io/v1beta1/CloneSet".to_owned()],
        ..ClusterFacts::default()
    }
}

pub(super) fn policy(parts: Value) -> Value {
    let mut spec = json!({"targets": [{"kind": "CloneSet", "name": "web"}]});
    if let (Some(spec), Value::Object(parts)) = (spec.as_object_mut(), parts) {
        spec.extend(parts);
    }
    json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "PlacementPolicy",
        "metadata": {"name": "web", "namespace": "shop"}, "spec": spec,
    })
}

pub(super) fn cloneset(replicas: i64, rolling: Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {},
            "updateStrategy": {"rollingUpdate": rolling}},
    })
}

/// The message that the user reads; none if the object passes.
pub(super) fn refusal(verdict: Verdict) -> Option<String> {
    match verdict {
        Verdict::Denied(denial) => Some(denial.message),
        Verdict::Allowed { .. } | Verdict::Patched { .. } => None,
    }
}

#[test]
fn defaults_of_a_policy_are_filled_in_and_nothing_else_changes() {
    let written = policy(json!({
        "rollout": {"waves": [{"name": "canary", "futureField": 1}]}, "futurePart": {"kept": true},
        "clusters": {"names": ["a"]},
    }));
    let mut filled = written.clone();
    policy::default(&mut filled);
    assert_eq!(filled["spec"]["targets"], written["spec"]["targets"]);
    assert_eq!(filled["spec"]["futurePart"], json!({"kept": true}));
    let wave = json!({"name": "canary", "futureField": 1, "soak": "0ns", "approval": "None",
        "gate": {"maxFailed": 0, "maxCrashing": 0}});
    assert_eq!(filled["spec"]["rollout"]["waves"], json!([wave]));
    assert_eq!(filled["spec"]["replicas"]["mode"], "Divided");
    assert_eq!(filled["spec"]["replicas"]["whenShort"], "Overcommit");
    assert_eq!(filled["spec"]["rebalance"]["maxSurge"], "10%");
    assert_eq!(filled["spec"]["failover"]["after"], "300s");
    assert_eq!(filled["spec"]["whenExists"], "IfIdentical");
    let mut again = filled.clone();
    policy::default(&mut again);
    assert_eq!(again, filled, "filling in twice changes nothing");
}

#[test]
fn the_example_of_the_specification_passes_and_nothing_is_told_but_what_is_not_there_yet() {
    let example = policy(json!({
        "clusters": {"labelSelector": {"matchLabels": {"env": "prod"}}},
        "replicas": {"weights": [{"clusters": {"names": ["eu-1"]}, "weight": 2}], "perCluster": [{"clusters": {}, "min": 1}]},
        "rollout": {"order": "Waves", "prePull": {"enabled": true}, "waves": [
            {"name": "canary", "clusters": {"names": ["eu-1"]}, "soak": "10m", "approval": "After"}, {"name": "rest"}]},
    }));
    let findings = policy::check(&example, &[cluster("eu-1"), cluster("eu-2")]);
    assert_eq!(findings.faults, []);
    let about: Vec<_> = findings.warnings.iter().filter_map(|it| it.split([' ', ':']).next()).collect();
    assert_eq!(about, ["spec.rollout.prePull", "spec.rollout.order"]);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z0-9%./*-]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z]{1,8}", inner, 0..4)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn fuzz_policy(part in any_json(), name in prop::sample::select(vec![
        "targets", "clusters", "tiers", "spread", "replicas", "rebalance", "rollout", "failover", "overrides", "drift",
    ])) {
        let mut hostile = policy(json!({}));
        hostile["spec"][name] = part;
        policy::default(&mut hostile);
        policy::check(&hostile, &[cluster("a")]);
    }

    #[test]
    fn fuzz_object(part in any_json(), pointer in prop::sample::select(vec![
        "replicas", "updateStrategy", "scaleStrategy", "parallelism", "completionPolicy", "selector",
    ]), kind in prop::sample::select(vec!["CloneSet", "ImagePullJob", "SidecarSet", "Other"])) {
        let mut hostile = cloneset(3, json!({}));
        hostile["kind"] = json!(kind);
        hostile["spec"][pointer] = part;
        object::check(&hostile, None);
    }
}
