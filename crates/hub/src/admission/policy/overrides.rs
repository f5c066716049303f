//! What a policy may not change: the paths that belong to the fleet (OV-1).

use kruise_core::{
    api::fleet::{PatchOperation, PatchStep, policy::Placement},
    runtime::webhook::FieldError,
};
use serde_json::json;

/// Paths that belong to the fleet, as JSON pointers.
pub const OWNED_PATHS: [&str; 15] = [
    "/metadata/name",
    "/metadata/namespace",
    "/spec/replicas",
    "/spec/selector",
    "/spec/parallelism",
    "/spec/scaleStrategy/podsToDelete",
    "/spec/scaleStrategy/maxUnavailable",
    "/spec/updateStrategy/partition",
    "/spec/updateStrategy/maxUnavailable",
    "/spec/updateStrategy/maxSurge",
    "/spec/updateStrategy/paused",
    "/spec/updateStrategy/rollingUpdate/partition",
    "/spec/updateStrategy/rollingUpdate/maxUnavailable",
    "/spec/updateStrategy/rollingUpdate/maxSurge",
    "/spec/updateStrategy/rollingUpdate/paused",
];

/// The path of the fleet that a change at `pointer` would touch: that one itself, something inside it, or something
/// that holds it.
pub fn owned_path(pointer: &str) -> Option<&'static str> {
    let inside = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|it| it.is_empty() || it.starts_with('/'))
    };
    // `~1` and `~0` stand for `/` and `~`; no path of the fleet has either.
    let pointer = pointer.trim_end_matches('/');
    OWNED_PATHS.into_iter().find(|it| inside(it, pointer) || inside(pointer, it))
}

/// What is wrong with the overrides of a policy.
pub(super) fn faults(placement: &Placement) -> Vec<FieldError> {
    let mut faults = Vec::new();
    for (place, it) in placement.overrides.iter().enumerate() {
        for (step_place, step) in it.patches.iter().enumerate() {
            faults.extend(step_fault(&format!("spec.overrides[{place}].patches[{step_place}]"), step));
        }
    }
    faults
}

fn step_fault(path: &str, step: &PatchStep) -> Option<FieldError> {
    if !step.path.starts_with('/') {
        let detail = "must be a JSON pointer such as /spec/template/spec/priorityClassName";
        return Some(FieldError::invalid(format!("{path}.path"), json!(step.path), detail));
    }
    let moved_from = step.from.as_deref().filter(|_| step.op == PatchOperation::Move);
    // Reading is free: a test or the source of a copy changes nothing.
    let changed = (step.op != PatchOperation::Test).then_some(step.path.as_str());
    let touched = changed.into_iter().chain(moved_from).find_map(owned_path);
    if let Some(owned) = touched {
        let detail = format!("{owned} belongs to the fleet and cannot be overridden");
        return Some(FieldError::invalid(format!("{path}.path"), json!(step.path), detail));
    }
    match step.op {
        PatchOperation::Add | PatchOperation::Replace | PatchOperation::Test if step.value.is_none() => {
            Some(FieldError::required(format!("{path}.value"), "add, replace and test need a value"))
        }
        PatchOperation::Move | PatchOperation::Copy if step.from.is_none() => {
            Some(FieldError::required(format!("{path}.from"), "move and copy need a source"))
        }
        _ => None,
    }
}
