//! Every field says what it is.

use serde_json::Value;

use crate::api::crds;

#[test]
fn every_field_of_every_kind_is_described() {
    let mut silent = Vec::new();
    for crd in crds() {
        for version in &crd.spec.versions {
            let schema = version.schema.as_ref().and_then(|it| it.open_api_v3_schema.as_ref());
            let mut schema = serde_json::to_value(schema.expect("every version has a schema")).unwrap();
            // The API server forbids a description of its own metadata.
            assert_eq!(schema["properties"]["metadata"].take(), serde_json::json!({"type": "object"}));
            schema["properties"].as_object_mut().unwrap().remove("metadata");
            collect_silent(&schema, &format!("{}/{}", crd.spec.names.kind, version.name), &mut silent);
        }
    }
    assert!(silent.is_empty(), "fields without a description:\n{}", silent.join("\n"));
}

#[test]
fn a_field_without_a_description_is_found() {
    let mut silent = Vec::new();
    let schema = serde_json::json!({"properties": {
        "a": {"description": "said", "items": {"properties": {"b": {}}}},
        "c": {"description": "said", "additionalProperties": {"properties": {"d": {"description": ""}}}},
    }});
    collect_silent(&schema, "Kind", &mut silent);
    assert_eq!(silent, ["Kind.a.b", "Kind.c.d"]);
}

fn collect_silent(schema: &Value, at: &str, silent: &mut Vec<String>) {
    for (name, part) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let here = format!("{at}.{name}");
        if part.get("description").and_then(Value::as_str).is_none_or(str::is_empty) {
            silent.push(here.clone());
        }
        collect_silent(part, &here, silent);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(part) = schema.get(inner) {
            collect_silent(part, at, silent);
        }
    }
}
