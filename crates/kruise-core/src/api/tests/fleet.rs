//! The fleet's kinds: defaults, rules, and what they refuse by type.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::api::{
    crds,
    fleet::{
        GROUP, Slice,
        assignment::Assignment,
        policy::{Placement, PlacementPolicy, ReplicasMode, RolloutOrder},
    },
    fleet_crds, member_crds,
};

fn schema_of(kind: &str) -> Value {
    let crd = crds().into_iter().find(|it| it.spec.names.kind == kind).unwrap();
    let schema = crd.spec.versions[0].schema.as_ref().and_then(|it| it.open_api_v3_schema.as_ref());
    serde_json::to_value(schema.unwrap()).unwrap()
}

/// Fills in what is absent, as the API server does.
fn fill_in(schema: &Value, value: &mut Value) {
    if let (Some(properties), Some(fields)) =
        (schema.get("properties").and_then(Value::as_object), value.as_object_mut())
    {
        for (name, part) in properties {
            if let (false, Some(default)) = (fields.contains_key(name), part.get("default")) {
                fields.insert(name.clone(), default.clone());
            }
            if let Some(inner) = fields.get_mut(name) {
                fill_in(part, inner);
            }
        }
    }
    if let (Some(part), Some(items)) = (schema.get("items"), value.as_array_mut()) {
        items.iter_mut().for_each(|it| fill_in(part, it));
    }
}

#[test]
fn the_example_of_the_specification_is_read_with_its_defaults() {
    let policy: PlacementPolicy = serde_json::from_value(json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "PlacementPolicy", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "targets": [{"kind": "CloneSet", "name": "web"}],
            "clusters": {"labelSelector": {"matchLabels": {"env": "prod"}}},
            "replicas": {"weights": [{"clusters": {"names": ["eu-1"]}, "weight": 2}], "perCluster": [{"clusters": {}, "min": 1}]},
            "rollout": {"order": "Waves", "prePull": {"enabled": true}, "waves": [
                {"name": "canary", "clusters": {"names": ["eu-1"]}, "soak": "10m", "approval": "After"}, {"name": "rest"}]},
        },
    }))
    .unwrap();
    let placement = policy.spec.placement;
    assert_eq!(placement.replicas.mode, ReplicasMode::Divided);
    assert_eq!(placement.rollout.order, RolloutOrder::Waves);
    assert_eq!(placement.rollout.waves[0].soak, std::time::Duration::from_secs(600));
    assert_eq!(placement.rollout.waves[1].soak, std::time::Duration::ZERO);
    assert_eq!(placement.rollout.pre_pull.threshold, "90%");
    assert_eq!(placement.failover.after, std::time::Duration::from_secs(300));
    assert!(placement.clusters.selector.label_selector.is_some());
}

#[test]
fn defaults_of_the_definition_are_those_of_the_types() {
    let schema = schema_of("PlacementPolicy");
    let minimal =
        json!({"targets": [{"kind": "CloneSet", "name": "web"}], "rollout": {"waves": [{"name": "a"}]}});
    let mut filled = minimal.clone();
    fill_in(&schema["properties"]["spec"], &mut filled);
    assert_ne!(filled, minimal);
    let by_server: Placement = serde_json::from_value(filled).unwrap();
    let by_types: Placement = serde_json::from_value(minimal).unwrap();
    assert_eq!(by_server, by_types);
}

#[test]
fn every_rule_says_what_is_wrong() {
    fn rules<'a>(schema: &'a Value, found: &mut Vec<&'a Value>) {
        match schema {
            Value::Object(fields) => {
                found.extend(
                    fields.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten(),
                );
                fields.values().for_each(|it| rules(it, found));
            }
            Value::Array(items) => items.iter().for_each(|it| rules(it, found)),
            _ => {}
        }
    }
    let schemas: Vec<_> = crds().iter().map(|it| serde_json::to_value(it).unwrap()).collect();
    let mut found = Vec::new();
    schemas.iter().for_each(|it| rules(it, &mut found));
    assert!(found.len() >= 10);
    assert!(found.iter().all(|it| it["message"].as_str().is_some_and(|it| !it.is_empty())));
}

#[test]
fn numbers_of_a_share_cannot_be_negative() {
    let assignment = |replicas: i64| {
        json!({"apiVersion": "fleet.kruise.io/v1alpha1", "kind": "Assignment", "metadata": {"name": "a"}, "spec": {
            "object": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "w", "uid": "u"},
            "term": 1, "seq": 1, "epoch": 0, "slice": {"cloneSet": {"replicas": replicas, "updated": 0}}}})
    };
    assert!(serde_json::from_value::<Assignment>(assignment(3)).is_ok());
    assert!(serde_json::from_value::<Assignment>(assignment(-1)).is_err());
    let schema = schema_of("Assignment");
    let replicas = &schema["properties"]["spec"]["properties"]["slice"]["properties"]["cloneSet"]["properties"]
        ["replicas"];
    assert_eq!((&replicas["minimum"], &replicas["format"]), (&json!(0.0), &json!("int64")));
}

#[test]
fn kinds_of_the_fleet_share_a_category() {
    assert_eq!(Assignment::crd().spec.names.categories, Some(vec!["fleet".to_owned()]));
}

#[test]
fn a_slice_is_of_exactly_one_kind() {
    let slice = |it: Value| serde_json::from_value::<Slice>(it);
    let whole = slice(json!({"whole": {}})).unwrap();
    assert_eq!(serde_json::to_value(&whole).unwrap(), json!({"whole": {}}));
    assert!(slice(json!({"whole": {}, "imagePullJob": {"parallelism": 1}})).is_err());
    assert!(slice(json!({})).is_err());
    let schema = schema_of("Assignment");
    let slice = &schema["properties"]["spec"]["properties"]["slice"];
    assert_eq!(slice["oneOf"].as_array().map(Vec::len), Some(3), "{slice}");
    assert_eq!(slice["type"], "object");
}

#[test]
fn definitions_of_the_hub_are_apart_from_those_of_members() {
    let groups = |crds: Vec<CustomResourceDefinition>| -> BTreeSet<String> {
        crds.into_iter().map(|it| it.spec.group).collect()
    };
    assert_eq!(groups(fleet_crds()), BTreeSet::from([GROUP.to_owned()]));
    assert!(!groups(member_crds()).contains(GROUP));
}
