//! The main patch of a step, put together from its parts.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::pod::patch::{Part, Pin, PodPatch};

/// A strategic merge patch of a pod. What is put in later wins.
#[derive(Debug, Default)]
pub(super) struct Body {
    metadata: Map<String, Value>,
    containers: BTreeMap<String, Map<String, Value>>,
}

impl Body {
    /// Adds metadata; maps are merged key by key.
    pub(super) fn merge(&mut self, metadata: &Value) {
        for (field, value) in metadata.as_object().into_iter().flatten() {
            match value {
                Value::Object(map) => {
                    for (key, value) in map {
                        self.set(field, key, value.clone());
                    }
                }
                other => {
                    self.metadata.insert(field.clone(), other.clone());
                }
            }
        }
    }

    pub(super) fn label(&mut self, key: &str, value: &str) {
        self.set("labels", key, json!(value));
    }

    pub(super) fn annotation(&mut self, key: &str, value: &str) {
        self.set("annotations", key, json!(value));
    }

    pub(super) fn drop_annotation(&mut self, key: &str) {
        self.set("annotations", key, Value::Null);
    }

    /// Changes one field of a container.
    pub(super) fn container(&mut self, name: &str, field: &str, value: Value) {
        self.containers.entry(name.into()).or_default().insert(field.into(), value);
    }

    /// The patch of the pod itself.
    pub(super) fn into_main(self) -> PodPatch {
        self.into_patch(Part::Main)
    }

    /// The patch for `pods/resize`, unless nothing is to be resized.
    pub(super) fn into_resize(self) -> Option<PodPatch> {
        (!self.containers.is_empty()).then(|| self.into_patch(Part::Resize))
    }

    fn into_patch(self, part: Part) -> PodPatch {
        let mut body = Map::new();
        if !self.metadata.is_empty() {
            body.insert("metadata".into(), self.metadata.into());
        }
        if !self.containers.is_empty() {
            let containers = self.containers.into_iter().map(|(name, mut fields)| {
                fields.insert("name".into(), name.into());
                Value::from(fields)
            });
            body.insert("spec".into(), json!({"containers": containers.collect::<Vec<_>>()}));
        }
        PodPatch { part, pin: Pin::Version, body: body.into() }
    }

    fn set(&mut self, field: &str, key: &str, value: Value) {
        let map = self.metadata.entry(field).or_insert_with(|| json!({}));
        if let Some(map) = map.as_object_mut() {
            map.insert(key.into(), value);
        }
    }
}
