//! Tests over vectors made by OpenKruise, properties, and the rules of history.

mod history;
mod properties;
mod vectors;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::{data::RevisionData, history::Wanted};
use crate::runtime::cache::revision::RevisionLite;

/// A template whose only difference is its image.
fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}})
}

fn wanted(template: &Value) -> Wanted {
    Wanted {
        namespace: "shop".into(),
        owner: OwnerReference {
            api_version: "apps.kruise.io/v1beta1".into(),
            kind: "CloneSet".into(),
            name: "web".into(),
            uid: "uid-1".into(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        },
        labels: [("app".to_owned(), "web".to_owned())].into(),
        annotations: [("note".to_owned(), "hello".to_owned())].into(),
        refreshed: [("claims".to_owned(), "42".to_owned())].into(),
        forgotten: &["released"],
        data: RevisionData::of_template(template),
    }
}

/// A stored revision of `template`, owned by `uid-1`.
fn stored(name: &str, revision: i64, template: &Value) -> RevisionLite {
    let data: Value = serde_json::from_str(RevisionData::of_template(template).as_str()).unwrap();
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "shop", "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "x", "kind": "CloneSet", "name": "web", "uid": "uid-1", "controller": true}],
        },
        "revision": revision,
        "data": data,
    }))
    .unwrap()
}
