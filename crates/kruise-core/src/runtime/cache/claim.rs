//! Volume claims as controllers read them: whose they are. What is in them is for the storage.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::PersistentVolumeClaim, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

/// A PersistentVolumeClaim, as far as controllers read it. For reading only, like
/// [`PodLite`](super::pod::PodLite).
#[derive(Debug, Clone, Default, Deserialize, Resource)]
#[resource(inherit = "PersistentVolumeClaim")]
pub struct ClaimLite {
    /// Names, labels, owners.
    pub metadata: ObjectMeta,
}

impl ClaimLite {
    /// Whether it is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Its labels.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.metadata.labels.as_ref().unwrap_or(&NONE)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_read_by_its_kind_and_without_its_content() {
        let claim: ClaimLite = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data-a", "labels": {"app": "x"}},
            "spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Bound"},
        }))
        .unwrap();
        assert_eq!((claim.name(), claim.labels()["app"].as_str()), ("data-a", "x"));
        assert!(!claim.is_terminating());
        assert_eq!(
            (ClaimLite::kind(&()).as_ref(), ClaimLite::plural(&()).as_ref()),
            ("PersistentVolumeClaim", "persistentvolumeclaims")
        );
    }
}
