//! What a policy changes in this cluster: a JSON patch, applied to the body before the numbers.

use json_patch::{
    AddOperation, CopyOperation, MoveOperation, Patch, PatchOperation as Step, RemoveOperation,
    ReplaceOperation, TestOperation,
    jsonptr::{Pointer, PointerBuf},
};
pub(in crate::link) use kruise_core::api::fleet::owned::NUMBERS;
use kruise_core::api::fleet::{PatchOperation, PatchStep, owned::touched};
use serde_json::Value;

use super::Fault;

/// Applies `steps` to `object`, all or none.
pub(super) fn apply(object: &mut Value, steps: &[PatchStep]) -> Result<(), Fault> {
    if steps.is_empty() {
        return Ok(());
    }
    if let Some(touched) = steps.iter().find_map(touched) {
        return Err(Fault::OwnedPath { path: touched.path.to_owned() });
    }
    let patch = steps.iter().map(step).collect::<Result<Vec<_>, _>>()?;
    json_patch::patch(object, &Patch(patch)).map_err(|error| Fault::Override { reason: error.to_string() })
}

fn step(step: &PatchStep) -> Result<Step, Fault> {
    let pointer = |text: &str| -> Result<PointerBuf, Fault> {
        let unreadable = |_| Fault::Override { reason: format!("{text:?} is no JSON pointer") };
        Pointer::parse(text).map(Pointer::to_buf).map_err(unreadable)
    };
    let from = || match &step.from {
        Some(from) => pointer(from),
        None => Err(Fault::Override { reason: format!("the step at {:?} says not from where", step.path) }),
    };
    let path = pointer(&step.path)?;
    let value = step.value.clone().unwrap_or_default();
    Ok(match step.op {
        PatchOperation::Add => Step::Add(AddOperation { path, value }),
        PatchOperation::Remove => Step::Remove(RemoveOperation { path }),
        PatchOperation::Replace => Step::Replace(ReplaceOperation { path, value }),
        PatchOperation::Move => Step::Move(MoveOperation { from: from()?, path }),
        PatchOperation::Copy => Step::Copy(CopyOperation { from: from()?, path }),
        PatchOperation::Test => Step::Test(TestOperation { path, value }),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(step: Value) -> PatchStep {
        serde_json::from_value(step).unwrap()
    }

    fn object() -> Value {
        json!({"metadata": {"name": "a", "labels": {"a": "1"}}, "spec": {"template": {"x": 1}, "lifecycle": {}}})
    }

    fn applied(steps: &[Value]) -> Result<Value, Fault> {
        let mut object = object();
        let steps: Vec<_> = steps.iter().cloned().map(read).collect();
        apply(&mut object, &steps).map(|()| object)
    }

    #[test]
    fn ov_1_paths_of_the_fleet_are_refused_and_named() {
        for path in [
            "/spec/replicas",
            "/spec/selector/matchLabels/app",
            "/spec/updateStrategy/partition",
            "/spec/updateStrategy/rollingUpdate/maxSurge",
            "/spec/updateStrategy/rollingUpdate",
            "/spec/updateStrategy",
            "/spec/scaleStrategy/podsToDelete/0",
            "/spec/scaleStrategy",
            "/spec/parallelism",
            "/spec/completionPolicy",
            "/spec",
            "/metadata",
            "",
            "/metadata/name",
            "/metadata/namespace",
            "/metadata/annotations",
            "/metadata/annotations/fleet.kruise.io~1hub-uid",
            "/kind",
            "/status/replicas",
        ] {
            let refused = applied(&[json!({"op": "add", "path": path, "value": {}})]);
            assert_eq!(refused, Err(Fault::OwnedPath { path: path.to_owned() }));
        }
        let taken = json!({"op": "move", "from": "/spec/replicas", "path": "/spec/template/x"});
        assert_eq!(applied(&[taken]), Err(Fault::OwnedPath { path: "/spec/replicas".into() }));
    }

    #[test]
    fn ov_1_what_is_left_is_changed_and_reading_is_free() {
        let changed = applied(&[
            json!({"op": "test", "path": "/metadata/name", "value": "a"}),
            json!({"op": "replace", "path": "/spec/template/x", "value": 2}),
            json!({"op": "add", "path": "/metadata/labels/b", "value": "2"}),
            json!({"op": "copy", "from": "/metadata/name", "path": "/spec/template/y"}),
        ]);
        assert_eq!(
            changed.unwrap(),
            json!({"metadata": {"name": "a", "labels": {"a": "1", "b": "2"}}, "spec": {"template": {"x": 2, "y": "a"}, "lifecycle": {}}})
        );
    }

    #[test]
    fn a_patch_that_does_not_fit_changes_nothing() {
        let fails = applied(&[
            json!({"op": "replace", "path": "/spec/template/x", "value": 2}),
            json!({"op": "remove", "path": "/spec/template/none"}),
        ]);
        assert!(matches!(fails, Err(Fault::Override { .. })), "{fails:?}");
        let nowhere = applied(&[json!({"op": "move", "path": "/spec/template/x"})]);
        assert!(matches!(nowhere, Err(Fault::Override { .. })), "{nowhere:?}");
    }
}
