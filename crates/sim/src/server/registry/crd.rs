//! Kinds that come as CustomResourceDefinition objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Names, Resource, ScalePaths, Traits};
use crate::server::{object::set, schema::Promises, table};

/// One entry for each served version.
pub(super) fn versions(crd: &Value) -> Vec<Resource> {
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = || spec["versions"].as_array().into_iter().flatten();
    let Some(storage) = all().find(|it| it["storage"] == true) else { return Vec::new() };

    all()
        .filter(|it| it["served"] == true)
        .map(|version| Resource {
            group: text(&spec["group"]),
            version: text(&version["name"]),
            storage_version: text(&storage["name"]),
            kind: text(&spec["names"]["kind"]),
            plural: text(&spec["names"]["plural"]),
            names: Names::custom(&spec["names"]),
            namespaced: spec["scope"] == "Namespaced",
            traits: Traits {
                custom: true,
                status: !version["subresources"]["status"].is_null(),
                generation: true,
                unconditional: false,
                create_on_update: false,
                returns_deleted: false,
            },
            scale: scale(&version["subresources"]["scale"]),
            selectable: selectable(version),
            schema: schema(version),
            promises: Promises::default(),
            columns: table::custom(&version["additionalPrinterColumns"]),
        })
        .collect()
}

/// Writes the status that the API server's own controllers give a definition it has accepted.
pub fn established(crd: &mut Value, now: &str) {
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
        })
    };
    let stored: Vec<Value> = crd["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|it| it["storage"] == true)
        .map(|it| it["name"].clone())
        .collect();
    let names = crd["spec"]["names"].clone();
    let status = json!({
        "acceptedNames": names,
        "storedVersions": stored,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
    });
    set(crd, &["status"], status);
}

fn scale(value: &Value) -> Option<ScalePaths> {
    let path = |name: &str| -> Option<Vec<String>> {
        let text = value[name].as_str()?;
        Some(text.trim_start_matches('.').split('.').map(str::to_owned).collect())
    };
    Some(ScalePaths {
        spec: path("specReplicasPath")?,
        status: path("statusReplicasPath")?,
        selector: path("labelSelectorPath"),
    })
}

fn selectable(version: &Value) -> Vec<String> {
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    fields.filter_map(|it| Some(it["jsonPath"].as_str()?.trim_start_matches('.').to_owned())).collect()
}

fn schema(version: &Value) -> Option<Arc<Value>> {
    let schema = &version["schema"]["openAPIV3Schema"];
    schema.is_object().then(|| Arc::new(schema.clone()))
}
