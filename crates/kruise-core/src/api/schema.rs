//! Schemas for what schemars cannot derive: raw JSON, references and durations.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// An object of any shape whose fields are all kept.
pub(crate) fn raw_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Bytes by name, as a Secret has them.
pub(crate) fn bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "additionalProperties": {"type": "string", "format": "byte"}})
}

/// A list of objects of any shape whose fields are all kept.
pub(crate) fn raw_objects(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    })
}

/// A whole Kubernetes object, checked by the API server for apiVersion, kind and metadata.
pub(crate) fn embedded_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// References to objects of the same namespace.
pub(crate) fn local_object_references(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {
                "name": { "type": "string", "default": "", "description": "Name of the object." },
            },
        },
    })
}

/// One of the words of `T`, or nothing at all in quotes: `""` is how Go programs write that a word is absent.
pub(crate) fn or_blank<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let schema = T::json_schema(generator);
    let plain = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    // A word with a description is an alternative of its own.
    let described = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    let described = described.filter_map(|it| it.get("const"));
    let words: Vec<&Value> = plain.chain(described).collect();
    let blank = json!("");
    json_schema!({ "type": "string", "enum": words.into_iter().chain([&blank]).collect::<Vec<_>>() })
}

/// A value of any type.
pub(crate) fn any_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// A length of time as Go writes it. The length is bounded because CEL rules parse it.
pub(crate) fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 32,
        "pattern": "^([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h))+$",
    })
}
