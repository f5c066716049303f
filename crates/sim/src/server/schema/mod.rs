//! What a CustomResourceDefinition's schema does to an object: unknown fields go, defaults come, the rest is checked.

mod promises;
mod shape;
mod validate;

use serde_json::{Map, Value};

pub use promises::{Promises, unchecked};
pub use shape::{Keys, ListKind, Shape};
pub use validate::validate;

/// Takes out every field that the schema does not name.
pub fn prune(schema: &Value, object: &mut Value) {
    let Some(members) = object.as_object_mut() else { return };
    let envelope: Vec<(String, Value)> = ["apiVersion", "kind", "metadata"]
        .iter()
        .filter_map(|it| members.remove(*it).map(|value| ((*it).to_owned(), value)))
        .collect();
    prune_value(schema, object);
    if let Some(members) = object.as_object_mut() {
        members.extend(envelope);
    }
}

fn prune_value(schema: &Value, value: &mut Value) {
    let keeps = schema["x-kubernetes-preserve-unknown-fields"] == true;
    match value {
        Value::Object(members) => {
            let embedded = schema["x-kubernetes-embedded-resource"] == true;
            let additional = &schema["additionalProperties"];
            let known = &schema["properties"];
            let drop = |name: &String| -> bool {
                let kept = keeps || !known[name].is_null() || additional.is_object() || *additional == true;
                !(kept || embedded && matches!(name.as_str(), "apiVersion" | "kind" | "metadata"))
            };
            members.retain(|name, _| !drop(name));
            for (name, member) in members.iter_mut() {
                if !known[name].is_null() {
                    prune_value(&known[name], member);
                } else if additional.is_object() {
                    prune_value(additional, member);
                }
            }
        }
        Value::Array(items) if schema["items"].is_object() => {
            for item in items {
                prune_value(&schema["items"], item);
            }
        }
        _ => {}
    }
}

/// The paths of fields that the schema does not name, as server-side apply spells them.
pub fn undeclared(schema: &Value, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (name, member) in object.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            find_undeclared(schema, name, member, String::new(), &mut found);
        }
    }
    found
}

fn find_undeclared(schema: &Value, name: &str, value: &Value, path: String, found: &mut Vec<String>) {
    let path = format!("{path}.{name}");
    let property = match (&schema["properties"][name], &schema["additionalProperties"]) {
        (Value::Null, more @ Value::Object(_)) => more,
        (Value::Null, _) => {
            if schema["x-kubernetes-preserve-unknown-fields"] != true {
                found.push(path);
            }
            return;
        }
        (property, _) => property,
    };
    for (name, member) in value.as_object().into_iter().flatten() {
        find_undeclared(property, name, member, path.clone(), found);
    }
}

/// Fills in the defaults of the schema, and lets go of nulls that a default (or nothing) replaces.
pub fn fill_defaults(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(members) => {
            drop_unwanted_nulls(schema, members);
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                if !members.contains_key(name) && !property["default"].is_null() {
                    members.insert(name.clone(), property["default"].clone());
                }
                if let Some(member) = members.get_mut(name) {
                    fill_defaults(property, member);
                }
            }
            let additional = &schema["additionalProperties"];
            if additional.is_object() {
                let known = &schema["properties"];
                for (_, member) in members.iter_mut().filter(|(name, _)| known[name.as_str()].is_null()) {
                    fill_defaults(additional, member);
                }
            }
        }
        Value::Array(items) if schema["items"].is_object() => {
            for item in items {
                fill_defaults(&schema["items"], item);
            }
        }
        _ => {}
    }
}

/// A null in a field that may not be null is as if it were not written, when the field has a default.
fn drop_unwanted_nulls(schema: &Value, members: &mut Map<String, Value>) {
    let properties = &schema["properties"];
    members.retain(|name, value| {
        let property = &properties[name];
        !(value.is_null() && !property["default"].is_null() && property["nullable"] != true)
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_go_and_preserved_ones_stay() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "known": {"type": "string"},
                "template": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
            }},
        }});
        let mut object = json!({
            "apiVersion": "x/v1", "kind": "X", "metadata": {"name": "a"}, "other": 1,
            "spec": {"known": "k", "unknown": 1, "template": {"any": {"thing": 1}},
                     "list": [{"a": "1", "b": 2}], "map": {"x": "y"}},
        });
        prune(&schema, &mut object);
        let expected = json!({
            "apiVersion": "x/v1", "kind": "X", "metadata": {"name": "a"},
            "spec": {"known": "k", "template": {"any": {"thing": 1}}, "list": [{"a": "1"}], "map": {"x": "y"}},
        });
        assert_eq!(object, expected);
    }

    #[test]
    fn defaults_reach_into_lists_and_into_defaults() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "default": {}, "properties": {
                "replicas": {"type": "integer", "default": 1},
                "items": {"type": "array", "items": {"type": "object", "properties": {
                    "weight": {"type": "integer", "default": 5},
                }}},
            }},
        }});
        let mut empty = json!({});
        fill_defaults(&schema, &mut empty);
        assert_eq!(empty, json!({"spec": {"replicas": 1}}));

        let mut object = json!({"spec": {"replicas": null, "items": [{}, {"weight": 1}]}});
        fill_defaults(&schema, &mut object);
        assert_eq!(object, json!({"spec": {"replicas": 1, "items": [{"weight": 5}, {"weight": 1}]}}));
    }
}
