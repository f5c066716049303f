//! Schemas for what schemars cannot derive: raw JSON.

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
