//! Rules that kinds give themselves, in CEL.

use http::Method;
use serde_json::{Value, json};
use sim::{World, server::status::Failure};

use crate::kit::*;

const BOXES: &str = "/apis/example.com/v1/namespaces/default/boxes";

/// A kind with rules of every sort.
fn definition() -> Value {
    let part = json!({
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}},
        "x-kubernetes-validations": [{
            "rule": "!has(oldSelf.weight) || !has(self.weight) || self.weight >= oldSelf.weight",
            "message": "a part never gets lighter",
        }],
    });
    let spec = json!({
        "type": "object",
        "properties": {
            "size": {"type": "string", "enum": ["small", "large"], "default": "small", "x-kubernetes-validations": [
                {"rule": "!(oldSelf == 'large' && self == 'small')", "message": "boxes do not shrink"},
            ]},
            "min": {"type": "integer"},
            "max": {"type": "integer"},
            "surge": {"x-kubernetes-int-or-string": true},
            "owner": {"type": "string"},
            "after": {"type": "string"},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                      "items": part},
            "lids": {"type": "object", "additionalProperties": {"type": "string", "x-kubernetes-validations": [
                {"rule": "self != 'open'", "message": "lids are closed", "reason": "FieldValueForbidden"},
            ]}},
        },
        "x-kubernetes-validations": [
            {"rule": "!has(self.min) || !has(self.max) || self.min <= self.max", "fieldPath": ".min",
             "message": "min must not be above max"},
            {"rule": "self.surge != 0 && self.surge != '0%'", "message": "nothing would move"},
            {"rule": "self.size == 'small' || has(self.owner)", "reason": "FieldValueRequired", "fieldPath": ".owner",
             "message": "large boxes have an owner"},
            {"rule": "!has(self.max) || self.max < 100",
             "messageExpression": "'%d is too many'.format([self.max])"},
            {"rule": "!has(self.after) || duration(self.after) >= duration('80s')"},
        ],
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boxes.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": spec, "status": {"type": "object", "properties": {"phase": {"type": "string"}}}},
                    "x-kubernetes-validations": [
                        {"rule": "self.metadata.name.size() <= 8", "message": "names of boxes are short"},
                    ],
                }},
            }],
        },
    })
}

fn with_boxes(test: impl AsyncFnOnce(World)) {
    bare(async |world| {
        world.cluster("member-1").server().define(&definition()).unwrap();
        test(world).await;
    });
}

fn create(world: &World, name: &str, mut spec: Value) -> Result<Value, Failure> {
    if spec.get("surge").is_none() {
        spec["surge"] = json!(1);
    }
    let object =
        json!({"apiVersion": "example.com/v1", "kind": "Box", "metadata": {"name": name}, "spec": spec});
    world.write("member-1", Method::POST, BOXES, &object)
}

fn patch(world: &World, name: &str, patch: Value) -> Result<Value, Failure> {
    world.write("member-1", Method::PATCH, &format!("{BOXES}/{name}"), &patch)
}

fn message(result: Result<Value, Failure>) -> String {
    let failure = result.unwrap_err();
    assert_eq!(failure.code, 422);
    failure.message
}

#[test]
fn what_breaks_a_rule_is_refused_in_the_words_of_the_rule() {
    with_boxes(async |world| {
        create(&world, "good", json!({"min": 1, "max": 2, "after": "2m"})).unwrap();
        let cases = [
            (json!({"min": 3, "max": 2}), "spec.min: Invalid value: \"object\": min must not be above max"),
            (json!({"surge": "0%"}), "spec: Invalid value: \"object\": nothing would move"),
            (json!({"surge": 0}), "spec: Invalid value: \"object\": nothing would move"),
            (json!({"size": "large"}), "spec.owner: Required value: large boxes have an owner"),
            (json!({"max": 150}), "spec: Invalid value: \"object\": 150 is too many"),
            (
                json!({"after": "79s"}),
                "spec: Invalid value: \"object\": failed rule: !has(self.after) || duration(self.after) >= \
                 duration('80s')",
            ),
            (json!({"lids": {"a": "shut", "b": "open"}}), "spec.lids[b]: Forbidden: lids are closed"),
        ];
        for (spec, expected) in cases {
            let told = message(create(&world, "bad", spec));
            assert_eq!(told, format!("Box.example.com \"bad\" is invalid: {expected}"));
        }
        let told = message(create(&world, "far-too-long", json!({})));
        assert!(
            told.ends_with("is invalid: <nil>: Invalid value: \"object\": names of boxes are short"),
            "{told}"
        );
    });
}

#[test]
fn a_refusal_names_field_and_reason_as_causes() {
    with_boxes(async |world| {
        let failure = create(&world, "bad", json!({"min": 3, "max": 2})).unwrap_err();
        let expected = json!([{
            "reason": "FieldValueInvalid", "field": "spec.min",
            "message": "Invalid value: \"object\": min must not be above max",
        }]);
        assert_eq!(failure.details["causes"], expected);
    });
}

#[test]
fn rules_about_a_change_see_what_was_there() {
    with_boxes(async |world| {
        let parts = json!([{"name": "x", "weight": 1}, {"name": "y", "weight": 5}]);
        create(&world, "a", json!({"size": "large", "owner": "me", "parts": parts})).unwrap();
        let told = message(patch(&world, "a", json!({"spec": {"size": "small"}})));
        assert!(told.ends_with("spec.size: Invalid value: \"string\": boxes do not shrink"), "{told}");

        // Items are known again by their key, wherever they are.
        let swapped =
            json!([{"name": "y", "weight": 5}, {"name": "x", "weight": 2}, {"name": "z", "weight": 0}]);
        patch(&world, "a", json!({"spec": {"parts": swapped}})).unwrap();
        let lighter = json!([{"name": "x", "weight": 2}, {"name": "y", "weight": 4}]);
        let told = message(patch(&world, "a", json!({"spec": {"parts": lighter}})));
        assert!(
            told.ends_with("spec.parts[1]: Invalid value: \"object\": a part never gets lighter"),
            "{told}"
        );
    });
}

#[test]
fn what_was_wrong_before_and_is_not_touched_is_left_alone() {
    with_boxes(async |world| {
        let server = world.cluster("member-1");
        let mut lax = definition();
        lax["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            .as_object_mut()
            .unwrap()
            .remove("x-kubernetes-validations");
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/boxes.example.com";
        let exchange = |definition: &Value| {
            let mut next = definition.clone();
            next["metadata"]["resourceVersion"] = read(&world, path)["metadata"]["resourceVersion"].clone();
            server.server().write(Method::PUT, path, &next).unwrap();
        };
        exchange(&lax);
        create(&world, "a", json!({"min": 3, "max": 2})).unwrap();
        exchange(&definition());

        patch(&world, "a", json!({"metadata": {"labels": {"app": "x"}}})).unwrap();
        patch(&world, "a/status", json!({"status": {"phase": "Up"}})).unwrap();
        let told = message(patch(&world, "a", json!({"spec": {"max": 1}})));
        assert!(told.ends_with("spec.min: Invalid value: \"object\": min must not be above max"), "{told}");
        patch(&world, "a", json!({"spec": {"max": 4}})).unwrap();
    });
}

#[test]
fn rules_are_not_looked_at_while_the_schema_is_broken() {
    with_boxes(async |world| {
        let told = message(create(&world, "bad", json!({"size": "huge", "min": 3, "max": 2})));
        assert!(told.contains("spec.size: Unsupported value: \"huge\""), "{told}");
        assert!(
            told.contains("some validation rules were not checked because the object was invalid"),
            "{told}"
        );
        assert!(!told.contains("min must not be above max"), "{told}");
    });
}

#[test]
fn rules_of_all_branches_of_a_schema_are_kept() {
    let mut crd = widget_definition();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["allOf"] = json!([
        {"x-kubernetes-validations": [{"rule": "self.replicas < 10", "message": "ten are too many"}]},
        {"allOf": [{"properties": {"parts": {"items": {"x-kubernetes-validations": [
            {"rule": "self.weight > 0", "message": "parts weigh something"},
        ]}}}}]},
    ]);
    bare(async |world| {
        world.cluster("member-1").server().define(&crd).unwrap();
        let refused = |name: &str, spec: Value| {
            let widget = json!({
                "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec,
            });
            let path = "/apis/example.com/v1/namespaces/default/widgets";
            world.write("member-1", Method::POST, path, &widget).err().map(|it| it.message)
        };
        let many = refused("many", json!({"size": "small", "replicas": 10})).unwrap();
        assert!(many.ends_with("spec: Invalid value: \"object\": ten are too many"), "{many}");
        let light = json!({"size": "small", "parts": [{"name": "a", "weight": 0}]});
        let light = refused("light", light).unwrap();
        assert!(
            light.contains("spec.parts[0]: Invalid value: ") && light.ends_with("parts weigh something"),
            "{light}"
        );
        let good = json!({"size": "small", "replicas": 9, "parts": [{"name": "a", "weight": 1}]});
        assert_eq!(refused("good", good), None);
    });
}

#[test]
fn rules_that_are_not_checked_can_be_listed() {
    let rule = |text: &str| json!([{"rule": text}]);
    let schema = json!({
        "type": "object",
        "properties": {
            "good": {"type": "string", "x-kubernetes-validations": rule("self != ''")},
            "bad": {"type": "array", "items": {"type": "string", "x-kubernetes-validations": rule("self ! ''")}},
            "not": {"type": "string", "x-kubernetes-validations": rule("self == 'b'")},
            "lost": {"anyOf": [{"x-kubernetes-validations": rule("self == 'a'")}]},
        },
    });
    let found = sim::server::schema::unchecked(&schema);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].contains("self ! ''") && found[1].contains("anyOf"), "{found:#?}");
}
