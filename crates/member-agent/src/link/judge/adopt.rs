//! Objects that were there before the fleet (AD-1).

use kruise_core::api::fleet::{Slice, assignment::AssignmentSpec, policy::WhenExists};
use serde_json::{Map, Value};

use super::{Conflict, drift};
use crate::link::render::NUMBERS;

/// Whether the object is left alone whatever applying `body` would lead to. Another selector is said here: a dry run says nothing of
/// it, because API servers refuse to change one, and their refusal does not tell whose the object is.
pub fn at_once(plan: &AssignmentSpec, before: &Value, body: &Value) -> Result<(), Conflict> {
    const SELECTOR: &str = "/spec/selector";
    let selector = |it: &Value| drift::essence(it.pointer(SELECTOR).unwrap_or(&Value::Null));
    let selects_others = selector(before) != selector(body);
    match plan.when_exists {
        WhenExists::Never => Err(Conflict::Exists),
        WhenExists::IfIdentical if selects_others => Err(Conflict::Differs { path: SELECTOR.to_owned() }),
        WhenExists::Always if selects_others => Err(Conflict::OtherSelector),
        WhenExists::IfIdentical | WhenExists::Always => Ok(()),
    }
}

/// Whether the object may be taken over. `before` is the object, `after` what a dry run of applying the plan answered; both as
/// the API server tells them. Taking over by itself neither restarts nor deletes a pod.
pub fn judge(plan: &AssignmentSpec, before: &Value, after: &Value) -> Result<(), Conflict> {
    at_once(plan, before, after)?;
    match plan.when_exists {
        WhenExists::Never => {}
        WhenExists::IfIdentical => {
            if let Some(path) = drift::first_change(&content(before), &content(after)) {
                return Err(Conflict::Differs { path });
            }
            // The plan's partition is the fleet's: it would go on with an update that rests here on purpose.
            if is_in_update(before) {
                return Err(Conflict::InUpdate);
            }
        }
        WhenExists::Always => {
            let at =
                |object: &Value, path: &str| drift::essence(object.pointer(path).unwrap_or(&Value::Null));
            let differs = |path: &str| at(before, path) != at(after, path);
            // The numbers of a CloneSet pace what follows a new template, so its pods restart inside U. Nothing does where an
            // object is copied as a whole.
            let is_paced = matches!(plan.slice, Some(Slice::CloneSet(_)));
            if !is_paced && differs("/spec/template") {
                return Err(Conflict::WouldRestart);
            }
        }
    }
    match &plan.slice {
        Some(Slice::CloneSet(slice)) => {
            // A CloneSet that does not say has one.
            let has = before.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
            let granted = slice.replicas;
            if has > u64::from(granted) { Err(Conflict::WouldDelete { has, granted }) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

/// Whether some pods do not carry the template, as far as the object's controller has said.
fn is_in_update(object: &Value) -> bool {
    let number = |name: &str| object["status"][name].as_u64().unwrap_or_default();
    number("updatedReplicas") < number("replicas")
}

/// What two manifests are compared by: all but metadata, status, and the fleet's own numbers. Those a plan sets in any case, and an
/// ordinary object never has them as a plan does (BUD-9).
fn content(object: &Value) -> Value {
    let mut content = object.clone();
    if let Some(fields) = content.as_object_mut() {
        fields.remove("metadata");
        fields.remove("status");
        fields.remove("apiVersion");
        for path in NUMBERS {
            remove(fields, path);
        }
        // A plan always names pods to delete, if only none. Where nobody had spoken of scaling before, the API server fills in
        // what is so anyway, under the name of the version.
        for name in ["disablePVCReuse", "enablePVCReuse"] {
            if object["spec"]["scaleStrategy"][name] == false {
                remove(fields, &["spec", "scaleStrategy", name]);
            }
        }
    }
    content
}

fn remove(fields: &mut Map<String, Value>, path: &[&str]) {
    match path {
        [] => {}
        [last] => drop(fields.remove(*last)),
        [first, rest @ ..] => {
            if let Some(below) = fields.get_mut(*first).and_then(Value::as_object_mut) {
                remove(below, rest);
            }
        }
    }
}
