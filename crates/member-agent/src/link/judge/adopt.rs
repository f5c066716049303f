//! Objects that were there before the fleet (AD-1).

use kruise_core::api::fleet::{Slice, assignment::AssignmentSpec, policy::WhenExists};
use serde_json::Value;

use super::{Conflict, drift};

/// Whether the object may be taken over. `before` is the object, `after` what a dry run of applying the plan answered.
pub fn judge(plan: &AssignmentSpec, before: &Value, after: &Value) -> Result<(), Conflict> {
    match plan.when_exists {
        WhenExists::Never => return Err(Conflict::Exists),
        WhenExists::IfIdentical => {
            let change = drift::first_change(&content(before), &content(after));
            return change.map_or(Ok(()), |path| Err(Conflict::Differs { path }));
        }
        WhenExists::Always => {}
    }
    let at = |object: &Value, path: &str| drift::essence(object.pointer(path).unwrap_or(&Value::Null));
    let differs = |path: &str| at(before, path) != at(after, path);
    if differs("/spec/selector") {
        return Err(Conflict::OtherSelector);
    }
    // The numbers of a CloneSet pace what follows a new template, so its pods restart inside U. Nothing does where an object
    // is copied as a whole.
    let is_paced = matches!(plan.slice, Some(Slice::CloneSet(_)));
    if !is_paced && differs("/spec/template") {
        return Err(Conflict::WouldRestart);
    }
    Ok(())
}

/// All but metadata and status.
fn content(object: &Value) -> Value {
    let mut content = object.clone();
    if let Some(fields) = content.as_object_mut() {
        fields.remove("metadata");
        fields.remove("status");
        fields.remove("apiVersion");
    }
    content
}
