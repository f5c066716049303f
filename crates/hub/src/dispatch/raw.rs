//! Objects as users wrote them.
//!
//! A typed object would lose fields that are newer than this build, and members would lose them with it. So objects are
//! cached as JSON, under the name of their kind.

use std::{borrow::Cow, fmt, marker::PhantomData};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Map, Value, json};

/// An object of kind `K` as it is stored.
pub struct Raw<K> {
    metadata: ObjectMeta,
    /// Everything but its metadata.
    rest: Map<String, Value>,
    kind: PhantomData<fn() -> K>,
}

impl<K: Resource<DynamicType = ()>> Raw<K> {
    /// The whole object.
    pub fn json(&self) -> Value {
        let mut object = Value::Object(self.rest.clone());
        object["apiVersion"] = K::api_version(&()).into();
        object["kind"] = K::kind(&()).into();
        object["metadata"] = json!(self.metadata);
        object
    }
}

impl<K> Clone for Raw<K> {
    fn clone(&self) -> Self {
        Self { metadata: self.metadata.clone(), rest: self.rest.clone(), kind: PhantomData }
    }
}

impl<K> fmt::Debug for Raw<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What users write may hold secrets (SEC-3).
        f.debug_struct("Raw").field("name", &self.metadata.name).finish_non_exhaustive()
    }
}

impl<'de, K> Deserialize<'de> for Raw<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut rest = Map::deserialize(deserializer)?;
        let metadata = rest.remove("metadata").unwrap_or_else(|| json!({}));
        let metadata = serde_json::from_value(metadata).map_err(D::Error::custom)?;
        Ok(Self { metadata, rest, kind: PhantomData })
    }
}

impl<K: Resource<DynamicType = ()>> Resource for Raw<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use kruise_core::api::cloneset::v1beta1::CloneSet;

    use super::*;

    #[test]
    fn fields_that_this_build_does_not_know_are_kept() {
        let object = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "web"},
            "spec": {"replicas": 3, "newer": {"than": "this"}},
        });
        let raw: Raw<CloneSet> = serde_json::from_value(object.clone()).unwrap();
        assert_eq!((raw.json(), raw.meta().name.as_deref()), (object, Some("web")));
        assert!(serde_json::from_value::<Raw<CloneSet>>(json!({"metadata": 7})).is_err());
    }
}
