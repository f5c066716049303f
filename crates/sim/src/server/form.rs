//! In which form a client wants objects: whole, as metadata only, or as rows of a table.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    registry::Resource,
    request::ApiRequest,
    table::{self, Include},
};

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Objects as they are.
    Whole,
    /// `PartialObjectMetadata`.
    Metadata,
    /// `Table`.
    Table(Include),
}

impl Form {
    /// What a request asks for; of several accepted forms the first counts.
    pub fn of(request: &ApiRequest) -> Self {
        let first = request.accept.split(',').next().unwrap_or_default();
        if first.contains("as=PartialObjectMetadata") {
            Self::Metadata
        } else if first.contains("as=Table") {
            Self::Table(Include::parse(request.query.include_object.as_deref()))
        } else {
            Self::Whole
        }
    }

    /// One object in this form.
    pub fn write(self, resource: &Resource, object: Value, now: Timestamp) -> Value {
        match self {
            Self::Whole => object,
            Self::Metadata => metadata_only(&object),
            Self::Table(include) => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                let mut table = table::empty(&resource.columns, metadata);
                table["rows"] = json!([table::row(&resource.columns, &object, include, now)]);
                table
            }
        }
    }
}

/// An object's `PartialObjectMetadata`.
pub fn metadata_only(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}
