//! Names of objects, cheap to copy, and the order of resource versions.

use std::{cmp::Ordering, fmt, sync::Arc};

use kube::Resource;

/// An object's namespace and name within one kind. Cluster-scoped objects have an empty namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl Key {
    /// The key of `name` in `namespace`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of `object`.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The UID of `object`, empty if it has none.
pub fn uid<K: Resource>(object: &K) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}

/// The resource version of `object`, empty if it has none.
pub fn version<K: Resource>(object: &K) -> &str {
    object.meta().resource_version.as_deref().unwrap_or_default()
}

/// The UID of the owner that controls `object`.
pub fn controller_uid<K: Resource>(object: &K) -> Option<&str> {
    let owners = object.meta().owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|it| it.controller == Some(true)).map(|it| it.uid.as_str())
}

/// The number in a resource version. Kubernetes promises that it is one (KEP-5504); other servers may not.
pub fn version_number(version: &str) -> Option<u64> {
    version.parse().ok()
}

/// Which of two resource versions of one kind is later; nothing if that cannot be told.
pub fn compare_versions(a: &str, b: &str) -> Option<Ordering> {
    match (version_number(a), version_number(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => (a == b).then_some(Ordering::Equal),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn versions_compare_as_numbers_and_otherwise_only_as_equal() {
        assert_eq!(compare_versions("9", "10"), Some(Ordering::Less));
        assert_eq!(compare_versions("10", "10"), Some(Ordering::Equal));
        assert_eq!(compare_versions("a", "a"), Some(Ordering::Equal));
        assert_eq!(compare_versions("a", "b"), None);
        assert_eq!(compare_versions("9", "b"), None);
    }

    #[test]
    fn only_the_controlling_owner_counts() {
        let owner = |uid: &str, controls: bool| json!({"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid, "controller": controls});
        let object: ConfigMap = serde_json::from_value(json!({
            "metadata": {"namespace": "n", "name": "a", "ownerReferences": [owner("1", false), owner("2", true)]},
        }))
        .unwrap();
        assert_eq!(controller_uid(&object), Some("2"));
        assert_eq!(Key::of(&object).to_string(), "n/a");
        assert_eq!(Key::new("", "node-1").to_string(), "node-1");
    }
}
