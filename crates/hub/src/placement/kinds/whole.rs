//! Kinds without numbers of their own: every cluster has a copy.

use kruise_core::{
    api::fleet::{Slice, WholeSlice},
    runtime::webhook::FieldError,
};
use serde_json::{Value, json};

use super::{Division, Granted, Kind, totals::Totals};

/// Objects that are copied as they are.
#[derive(Debug, Clone)]
pub struct Whole {
    /// Group of the kind.
    pub group: String,
    /// The kind.
    pub kind: String,
}

impl Kind for Whole {
    fn name(&self) -> (&str, &str) {
        (&self.group, &self.kind)
    }

    fn division(&self, _: &Value) -> Result<Division, FieldError> {
        Ok(Division::Whole)
    }

    fn revision_source(&self, object: &Value) -> Value {
        super::body(self, object)
    }

    fn divided_fields(&self) -> &'static [&'static str] {
        &[]
    }

    fn slice(&self, _: &Granted<'_>) -> Slice {
        Slice::Whole(WholeSlice {})
    }

    fn status(&self, _: &Value, _: &Totals) -> Value {
        // What such a status means over several clusters is the kind's own business.
        json!({})
    }
}
