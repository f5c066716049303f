//! What the fleet's own kinds refuse by themselves: rules in their definitions, which the simulated server evaluates.

use http::Method;
use kruise_core::api;
use serde_json::{Value, json};
use sim::{World, fleet};

const POLICIES: &str = "/apis/fleet.kruise.io/v1alpha1/namespaces/default/placementpolicies";

fn with_kinds(test: impl AsyncFnOnce(World)) {
    let crds = api::crds().into_iter().map(|it| json!(it));
    crds.fold(fleet().hub().members(0), |it, crd| it.define(crd)).run(async |world| test(world).await);
}

fn create(world: &World, name: &str, more: &Value) -> Result<Value, String> {
    let mut spec = json!({"targets": [{"kind": "CloneSet", "name": "web"}]});
    if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
        spec.extend(more.clone());
    }
    let policy = json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "PlacementPolicy", "metadata": {"name": name}, "spec": spec,
    });
    world.write("hub", Method::POST, POLICIES, &policy).map_err(|it| it.message)
}

#[test]
fn good_policies_pass_their_own_rules() {
    with_kinds(async |world| {
        let selector =
            json!({"fieldSelector": [{"key": "version", "operator": "AtLeast", "values": ["v1.30.0"]}]});
        let cases = [
            json!({}),
            json!({"clusters": selector}),
            json!({"rebalance": {"maxSurge": 0, "maxUnavailable": 1}}),
            json!({"failover": {"enabled": true, "after": "5m"}}),
            json!({"replicas": {"perCluster": [{"clusters": {}, "min": 1, "max": 2}]}}),
            json!({"overrides": [{"clusters": {}, "patches": [
                {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "nginx:2"},
            ]}]}),
        ];
        for (index, more) in cases.iter().enumerate() {
            let made = create(&world, &format!("good-{index}"), more);
            assert!(made.is_ok(), "{more}: {made:?}");
        }
    });
}

#[test]
fn bad_policies_are_refused_with_the_name_of_the_field() {
    with_kinds(async |world| {
        let patch = |path: &str| json!({"overrides": [{"clusters": {}, "patches": [{"op": "replace", "path": path, "value": 1}]}]});
        let selector = json!({"fieldSelector": [{"key": "region", "operator": "AtLeast", "values": ["a"]}]});
        let cases = [
            (
                json!({"replicas": {"perCluster": [{"clusters": {}, "min": 3, "max": 2}]}}),
                "spec.replicas.perCluster[0].min: Invalid value: \"object\": min must not be above max",
            ),
            (
                json!({"rebalance": {"maxSurge": 0, "maxUnavailable": "0%"}}),
                "spec.rebalance.maxUnavailable: Invalid value: \"object\": maxSurge and maxUnavailable must not both",
            ),
            (
                json!({"failover": {"enabled": true, "after": "79s"}}),
                "spec.failover.after: Invalid value: \"object\": after must be at least 80s",
            ),
            (
                json!({"failover": {"enabled": true, "fencing": "SelfFence"}}),
                "spec.failover.fencing: Invalid value: \"object\": fencing SelfFence needs fenceAfter",
            ),
            (
                patch("/spec/replicas"),
                "spec.overrides[0].patches: Invalid value: \"array\": a path belongs to the fleet",
            ),
            (patch("/spec/updateStrategy"), "a path belongs to the fleet"),
            (
                json!({"clusters": selector}),
                "spec.clusters.fieldSelector[0]: Invalid value: \"object\": AtLeast and Below take key version",
            ),
            (
                json!({"targets": [{"kind": "CloneSet"}]}),
                "spec.targets[0]: Invalid value: \"object\": give either name or labelSelector",
            ),
        ];
        for (index, (more, expected)) in cases.iter().enumerate() {
            let told = create(&world, &format!("bad-{index}"), more).unwrap_err();
            assert!(told.contains(expected), "{more}: {told}");
        }
    });
}
