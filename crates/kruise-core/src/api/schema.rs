//! Schemas for what schemars cannot derive: raw JSON and references.

use schemars::{Schema, SchemaGenerator, json_schema};

/// An object of any shape whose fields are all kept.
pub(crate) fn raw_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
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
