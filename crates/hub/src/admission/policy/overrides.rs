//! What a policy may not change: the paths that belong to the fleet (OV-1).

use kruise_core::{
    api::fleet::{PatchOperation, PatchStep, owned::touched, policy::Placement},
    runtime::webhook::FieldError,
};
use serde_json::json;

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
    if !step.path.starts_with('/') || !is_pointer(&step.path) {
        let detail = "must be a JSON pointer such as /spec/template/spec/priorityClassName";
        return Some(FieldError::invalid(format!("{path}.path"), json!(step.path), detail));
    }
    if let Some(from) = step.from.as_deref().filter(|it| !is_pointer(it)) {
        let detail = "must be a JSON pointer such as /spec/template/metadata/labels/app";
        return Some(FieldError::invalid(format!("{path}.from"), json!(from), detail));
    }
    if let Some(touched) = touched(step) {
        let detail = format!("{} belongs to the fleet and cannot be overridden", touched.owned);
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

/// Whether an agent can read it: empty, or beginning with a slash, and with `~` only before 0 and 1.
fn is_pointer(text: &str) -> bool {
    let mut after = text.split('~').skip(1);
    (text.is_empty() || text.starts_with('/')) && after.all(|it| it.starts_with(['0', '1']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(step: &serde_json::Value) -> Option<String> {
        let step = serde_json::from_value(step.clone()).unwrap();
        step_fault("spec.overrides[0].patches[0]", &step).map(|it| it.to_string())
    }

    #[test]
    fn ov_1_whatever_an_agent_would_refuse_is_denied_with_the_path_named() {
        for path in [
            "/kind",
            "/apiVersion",
            "/status",
            "/status/replicas",
            "/metadata",
            "/metadata/name",
            "/metadata/uid",
            "/metadata/resourceVersion",
            "/metadata/ownerReferences",
            "/metadata/finalizers/0",
            "/metadata/managedFields",
            "/metadata/annotations",
            "/metadata/annotations/fleet.kruise.io~1hub-uid",
            "/spec",
            "/spec/replicas",
            "/spec/parallelism",
            "/spec/completionPolicy",
            "/spec/completionPolicy/activeDeadlineSeconds",
            "/spec/completionPolicy/ttlSecondsAfterFinished",
            "/spec/scaleStrategy/maxUnavailable",
        ] {
            let said = fault(&json!({"op": "add", "path": path, "value": {}}));
            assert!(said.as_ref().is_some_and(|it| it.contains("belongs to the fleet")), "{path}: {said:?}");
        }
        let taken = json!({"op": "move", "from": "/metadata/finalizers", "path": "/spec/template/x"});
        assert!(fault(&taken).is_some_and(|it| it.contains("/metadata/finalizers belongs to the fleet")));
        let unreadable = json!({"op": "add", "path": "/spec/template/a~2", "value": 1});
        assert!(fault(&unreadable).is_some_and(|it| it.contains("JSON pointer")));
        let from_nowhere = json!({"op": "copy", "from": "spec/template", "path": "/spec/template/x"});
        assert!(fault(&from_nowhere).is_some_and(|it| it.contains("JSON pointer")));
    }

    #[test]
    fn ov_1_what_is_left_may_be_overridden() {
        for step in [
            json!({"op": "add", "path": "/metadata/annotations/team", "value": "a"}),
            json!({"op": "add", "path": "/metadata/annotations/example.com~1team", "value": "a"}),
            json!({"op": "test", "path": "/kind", "value": "CloneSet"}),
            json!({"op": "copy", "from": "/metadata/name", "path": "/spec/template/metadata/labels/of"}),
            json!({"op": "remove", "path": "/spec/template/spec/priorityClassName"}),
        ] {
            assert_eq!(fault(&step), None);
        }
    }
}
