//! Rules for adding and removing pods.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Context;
use crate::{
    admission::{numbers, tree},
    runtime::webhook::FieldError,
};

const PODS: &str = "spec.scaleStrategy.podsToDelete";

/// What is wrong with the scale strategy.
pub(super) fn faults(new: &Value, old: Option<&Value>, context: &Context<'_>) -> Vec<FieldError> {
    let named = names(new);
    let twice = duplicates(&named);
    if !twice.is_empty() {
        let detail = format!("duplicated items [{}]; name each pod once", twice.join(" "));
        return vec![FieldError::invalid(PODS, json!(named), detail)];
    }
    let mut faults = Vec::new();
    if let Some(value) = tree::at(new, &["spec", "scaleStrategy", "maxUnavailable"]) {
        faults.extend(numbers::read("spec.scaleStrategy.maxUnavailable", value).err());
    }
    let known: BTreeSet<_> = old.map(names).unwrap_or_default().into_iter().collect();
    let uid = tree::text(new, &["metadata", "uid"]);
    let added: BTreeSet<_> = named.into_iter().filter(|it| !known.contains(it)).collect();
    faults.extend(added.into_iter().filter_map(|it| pod_fault(it, uid, context)));
    faults
}

fn pod_fault(name: &str, uid: Option<&str>, context: &Context<'_>) -> Option<FieldError> {
    let detail = match context.pods?(name) {
        None => format!("there is no pod {name}; name pods of this cloneset"),
        Some(pod) if pod.is_terminating => format!("pod {name} is being deleted already; leave it out"),
        Some(pod) if uid.is_none() || pod.controller.as_deref() != uid => {
            format!("pod {name} does not belong to this cloneset; name pods of this cloneset")
        }
        Some(_) => return None,
    };
    Some(FieldError::invalid(PODS, json!(name), detail))
}

fn names(object: &Value) -> Vec<&str> {
    let names = tree::items(object, &["spec", "scaleStrategy", "podsToDelete"]);
    names.iter().filter_map(Value::as_str).collect()
}

fn duplicates<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<_> = names.iter().copied().filter(|it| !seen.insert(*it)).collect();
    twice.into_iter().collect()
}
