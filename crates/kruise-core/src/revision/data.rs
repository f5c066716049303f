//! What a revision records: the template, in the bytes that OpenKruise stores for it.
//!
//! # When are two revisions equal
//!
//! The name of a revision is a hash of its bytes, so a candidate must have exactly OpenKruise's bytes. What is stored
//! is compared by meaning: the API server hands out data as it was written, and another writer may have used another
//! order of keys or other escapes. Reading a revision therefore brings its data into the one form ([`RevisionData`]
//! deserialises any JSON), and two recorded templates are the same if their bytes are, or if they become so by the round
//! trip that candidates go through. The latter recognises revisions of builds that knew fewer or more empty members.
//!
//! # Members newer than this build
//!
//! They are part of the data, as they stand, so changing one is a new revision. OpenKruise would drop them.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{
    gojson,
    shape::SHAPES,
    typed::{Order, write_struct},
};

/// The data of a revision: JSON text in Go's form. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RevisionData(Arc<str>);

impl RevisionData {
    /// What OpenKruise records for a workload whose pods are made from `template`.
    pub fn of_template(template: &Value) -> Self {
        let mut out = String::with_capacity(1024);
        out.push_str(r#"{"spec":{"template":"#);
        write_struct(&mut out, SHAPES.pod_template, template, Order::Sorted, Some(("$patch", "replace")));
        out.push_str("}}");
        Self(out.into())
    }

    /// Data that is recorded already, or whose form the caller knows.
    pub fn of_json(data: &Value) -> Self {
        let mut out = String::new();
        gojson::write_value(&mut out, data);
        Self(out.into())
    }

    /// The text, as it is sent and hashed.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The recorded template, ready to make pods from; nothing if the data holds none.
    pub fn template(&self) -> Option<Value> {
        let mut data: Value = serde_json::from_str(&self.0).ok()?;
        let mut template = data.pointer_mut("/spec/template")?.take();
        template.as_object_mut()?.remove("$patch");
        Some(template)
    }

    /// Whether both record the same.
    pub fn means_same(&self, other: &Self) -> bool {
        self == other
            || matches!((self.round_trip(), other.round_trip()), (Some(mine), Some(theirs)) if mine == theirs)
    }

    fn round_trip(&self) -> Option<Self> {
        self.template().map(|it| Self::of_template(&it))
    }
}

impl Default for RevisionData {
    fn default() -> Self {
        Self("null".into())
    }
}

impl fmt::Debug for RevisionData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RevisionData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::of_json(&Value::deserialize(deserializer)?))
    }
}
