//! Stage 1: our readiness gate, on pods of our own kinds or on all.

use serde_json::{Value, json};

use super::{Setting, items, list};
use crate::{
    api::{APPS_GROUP, common::keys::CONDITION_KRUISE_POD_READY},
    runtime::gates::Gate,
};

/// Adds the gate where it belongs and is missing.
pub(super) fn apply(pod: &mut Value, setting: &Setting) -> Result<Vec<String>, String> {
    let has_gate =
        items(pod, "/spec/readinessGates").iter().any(|it| it["conditionType"] == CONDITION_KRUISE_POD_READY);
    let wanted = setting.gates.is_on(Gate::KruisePodReadiness) || is_of_our_kinds(pod);
    if wanted
        && !has_gate
        && let Some(gates) = pod.get_mut("spec").and_then(|it| list(it, "readinessGates"))
    {
        gates.push(json!({ "conditionType": CONDITION_KRUISE_POD_READY }));
    }
    Ok(Vec::new())
}

fn is_of_our_kinds(pod: &Value) -> bool {
    let controller = items(pod, "/metadata/ownerReferences").iter().find(|it| it["controller"] == true);
    let group = controller.and_then(|it| it["apiVersion"].as_str()?.split_once('/'));
    group.is_some_and(|(group, _)| group == APPS_GROUP)
}
