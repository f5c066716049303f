//! What happens to every new pod: a chain of small changes, each of which sees what the ones before it did
//! (spec/admission.md 6).

mod launch_order;
mod readiness_gate;

use serde_json::Value;

use crate::runtime::{
    gates::Gates,
    webhook::{
        AdmissionRequest, Operation, Registration, Verdict,
        registration::{FailurePolicy, LabelRule, Phase, SideEffects},
    },
};

/// Where new pods are changed.
pub const MUTATE: &str = "/mutate-pod";

/// Which requests the API server sends here.
pub const REGISTRATIONS: &[Registration] = &[Registration {
    name: "mpod.kb.io",
    phase: Phase::Mutating,
    path: MUTATE,
    operations: &[Operation::Create],
    group: "",
    versions: &["v1"],
    resources: &["pods"],
    // Control planes label their namespaces so: their pods must start even when nobody answers here.
    namespaces: &[LabelRule::DoesNotExist("control-plane")],
    objects: &[],
    failure: FailurePolicy::Fail,
    side_effects: SideEffects::None,
}];

/// What a stage may know besides the pod.
#[derive(Debug, Clone, Copy)]
struct Setting {
    gates: Gates,
    /// For whatever must look random.
    seed: u64,
}

/// One stage: changes the pod and returns warnings for the user, or says why the pod cannot be let in.
type Stage = fn(&mut Value, &Setting) -> Result<Vec<String>, String>;

/// The chain. The launch order comes after everything that adds containers.
const STAGES: [Stage; 2] = [readiness_gate::apply, launch_order::apply];

/// Reviews the creation of a pod.
pub fn mutate(request: &AdmissionRequest, gates: Gates, seed: u64) -> Verdict {
    let is_new_pod = request.operation == Operation::Create
        && request.resource.resource == "pods"
        && request.sub_resource.as_deref().unwrap_or_default().is_empty();
    if !is_new_pod {
        return Verdict::allow();
    }
    let Some(original) = &request.object else {
        return Verdict::denied(400, "the request has no pod");
    };
    let mut pod = original.clone();
    let mut warnings = Vec::new();
    for stage in STAGES {
        match stage(&mut pod, &Setting { gates, seed }) {
            Ok(more) => warnings.extend(more),
            Err(reason) => return Verdict::denied(500, reason),
        }
    }
    let verdict = if pod == *original { Verdict::allow() } else { Verdict::patched(pod) };
    warnings.into_iter().fold(verdict, Verdict::warn)
}

/// The items of the list at `pointer`; none if there is no such list.
fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The list `name` of `object`, made if it is missing. None if `object` or the field has another form.
fn list<'a>(object: &'a mut Value, name: &str) -> Option<&'a mut Vec<Value>> {
    let field = object.as_object_mut()?.entry(name).or_insert(Value::Null);
    if field.is_null() {
        *field = Value::Array(Vec::new());
    }
    field.as_array_mut()
}

#[cfg(test)]
mod tests;
