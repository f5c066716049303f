//! Lifecycle hooks that will never hold anything back.

use serde_json::Value;

use super::strategy::Strategy;
use crate::admission::tree;

/// What will do nothing.
pub(super) fn warnings(object: &Value, strategy: &Strategy<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    for hook in ["preDelete", "inPlaceUpdate", "preNormal"] {
        let Some(it) = tree::at(object, &["spec", "lifecycle", hook]) else { continue };
        let handlers = [tree::at(it, &["labelsHandler"]), tree::at(it, &["finalizersHandler"])];
        if handlers.iter().all(|it| tree::is_same(*it, None)) {
            warnings.push(format!(
                "spec.lifecycle.{hook} has neither labelsHandler nor finalizersHandler, so it never holds a pod back"
            ));
        }
    }
    if tree::at(object, &["spec", "lifecycle", "preNormal", "markPodNotReady"]) == Some(&Value::Bool(true)) {
        warnings.push("spec.lifecycle.preNormal.markPodNotReady has no effect".to_owned());
    }
    if tree::at(object, &["spec", "lifecycle", "inPlaceUpdate"]).is_some() && !strategy.is_in_place() {
        warnings.push(format!(
            "spec.lifecycle.inPlaceUpdate has no effect unless pods are updated in place; set {} to \
             InPlaceIfPossible or InPlaceOnly",
            strategy.policy_path
        ));
    }
    warnings
}
