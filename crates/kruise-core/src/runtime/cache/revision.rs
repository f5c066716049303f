//! ControllerRevisions as controllers read them.

use std::collections::BTreeMap;

use k8s_openapi::{api::apps::v1::ControllerRevision, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use crate::revision::data::RevisionData;

/// A ControllerRevision. Its data is kept as text in one form, whoever wrote it, so that comparing costs no parsing.
#[derive(Debug, Clone, Default, Deserialize, Resource)]
#[resource(inherit = "ControllerRevision")]
pub struct RevisionLite {
    /// Names, labels, annotations, owners.
    pub metadata: ObjectMeta,
    /// Its number: the highest is the newest.
    #[serde(default)]
    pub revision: i64,
    /// What it records.
    #[serde(default)]
    pub data: RevisionData,
}

impl RevisionLite {
    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Its labels.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.metadata.labels.as_ref().unwrap_or(&NONE)
    }

    /// The annotation `key`.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_form_in_which_data_was_written_does_not_matter() {
        let read = |data: &str| -> RevisionLite {
            let text = format!(
                r#"{{"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {{"name": "a"}}, "revision": 3, "data": {data}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let one = read(r#"{"spec": {"template": {"a": "x && y", "$patch": "replace"}}}"#);
        let other = read(r#"{"spec":{"template":{"$patch":"replace","a":"x \u0026\u0026 y"}}}"#);
        assert_eq!(one.data, other.data);
        assert_eq!(one.data.as_str(), r#"{"spec":{"template":{"$patch":"replace","a":"x \u0026\u0026 y"}}}"#);
        assert_eq!((one.name(), one.revision), ("a", 3));
        assert_eq!(RevisionLite::kind(&()), "ControllerRevision");
        assert_eq!(RevisionLite::api_version(&()), "apps/v1");
    }

    #[test]
    fn a_revision_without_data_is_no_error() {
        let revision: RevisionLite = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        assert_eq!(revision.data.as_str(), "null");
        assert!(revision.data.template().is_none() && revision.labels().is_empty());
    }
}
