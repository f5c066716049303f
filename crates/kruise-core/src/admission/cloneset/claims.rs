//! Claim templates: their names are names of volumes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    admission::{metadata, tree},
    runtime::webhook::{FieldError, FieldFault},
};

/// What is wrong with the names of the claim templates.
pub(super) fn faults(object: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, name) in names(object).iter().enumerate() {
        let path = format!("spec.volumeClaimTemplates[{index}].metadata.name");
        if name.is_empty() {
            faults.push(FieldError::required(path, "the name is the name of the volume in the pod"));
        } else if let Some(fault) = metadata::dns_label_fault(name) {
            faults.push(FieldError::invalid(path, json!(name), format!("{fault}: it names a volume")));
        } else if !seen.insert(name.clone()) {
            let detail = "every claim template needs a name of its own".to_owned();
            faults.push(FieldError { path, fault: FieldFault::Duplicate, value: Some(json!(name)), detail });
        }
    }
    faults
}

/// The names of the claim templates.
pub(super) fn names(object: &Value) -> Vec<String> {
    crate::pod::claims::template_names(tree::items(object, &["spec", "volumeClaimTemplates"]))
}
