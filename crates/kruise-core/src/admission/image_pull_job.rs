//! ImagePullJobs and ImageListPullJobs: what admission fills in, and what it refuses.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::of_our_kind;
use crate::{
    api::image_pull_job::keys::FINALIZER,
    image,
    runtime::{
        gates::{Gate, Gates},
        webhook::{
            AdmissionRequest, FieldError, FieldFault, Operation, Registration, Verdict, registration::Phase,
        },
    },
};

/// Where ImagePullJobs are changed.
pub const MUTATE: &str = "/mutate-apps-kruise-io-imagepulljob";
/// Where they are checked.
pub const VALIDATE: &str = "/validate-apps-kruise-io-imagepulljob";
/// Where ImageListPullJobs are changed.
pub const MUTATE_LIST: &str = "/mutate-apps-kruise-io-imagelistpulljob";
/// Where they are checked.
pub const VALIDATE_LIST: &str = "/validate-apps-kruise-io-imagelistpulljob";

/// Which requests the API server sends here.
pub const REGISTRATIONS: &[Registration] = &[
    of_our_kind("mimagepulljob-v1beta1.kb.io", Phase::Mutating, MUTATE, &["imagepulljobs"]),
    of_our_kind("vimagepulljob-v1beta1.kb.io", Phase::Validating, VALIDATE, &["imagepulljobs"]),
    of_our_kind("mimagelistpulljob-v1beta1.kb.io", Phase::Mutating, MUTATE_LIST, &["imagelistpulljobs"]),
    of_our_kind("vimagelistpulljob-v1beta1.kb.io", Phase::Validating, VALIDATE_LIST, &["imagelistpulljobs"]),
];

/// The most images of one list.
const MOST_IMAGES: usize = 255;

/// Whether jobs are let in at all.
pub fn gate(gates: Gates) -> Result<(), Verdict> {
    for (gate, name) in [(Gate::KruiseDaemon, "KruiseDaemon"), (Gate::ImagePullJob, "ImagePullJobGate")] {
        if !gates.is_on(gate) {
            let message = format!("feature-gate {name} is not enabled (chart value featureGates)");
            return Err(Verdict::denied(403, message));
        }
    }
    Ok(())
}

/// Reviews an ImagePullJob, first pass.
pub fn mutating(request: &AdmissionRequest, gates: Gates) -> Verdict {
    changed(request, gates, |object| mutate(object, request.operation))
}

/// Reviews an ImageListPullJob, first pass.
pub fn mutating_list(request: &AdmissionRequest, gates: Gates) -> Verdict {
    changed(request, gates, mutate_list)
}

/// Reviews an ImagePullJob, second pass.
pub fn validating(request: &AdmissionRequest, gates: Gates) -> Verdict {
    warned(request, checked(request, gates, |object| validate(object, request.old_object.as_ref())))
}

/// Reviews an ImageListPullJob, second pass.
pub fn validating_list(request: &AdmissionRequest, gates: Gates) -> Verdict {
    warned(request, checked(request, gates, validate_list))
}

/// Whoever edits a job that is over expects it to begin again; it does not (openkruise/kruise#1386).
fn warned(request: &AdmissionRequest, verdict: Verdict) -> Verdict {
    let (Some(object), Some(old)) = (&request.object, &request.old_object) else { return verdict };
    let is_over = !old["status"]["completionTime"].is_null();
    // How long it stays can still be changed.
    let without_ttl = |it: &Value| {
        let mut spec = it["spec"].clone();
        if let Some(policy) = spec.get_mut("completionPolicy").and_then(Value::as_object_mut) {
            policy.remove("ttlSecondsAfterFinished");
        }
        spec
    };
    match is_over && without_ttl(object) != without_ttl(old) {
        true => {
            verdict.warn("this job is over: the change has no effect; create another job to download again")
        }
        false => verdict,
    }
}

fn changed(request: &AdmissionRequest, gates: Gates, change: impl FnOnce(&mut Value)) -> Verdict {
    if let Err(refusal) = gate(gates) {
        return refusal;
    }
    let Some(original) = &request.object else { return Verdict::bad_request("the request has no job") };
    let mut object = original.clone();
    change(&mut object);
    if object == *original { Verdict::allow() } else { Verdict::patched(object) }
}

fn checked(
    request: &AdmissionRequest,
    gates: Gates,
    check: impl FnOnce(&Value) -> Vec<FieldError>,
) -> Verdict {
    match (gate(gates), &request.object) {
        (Err(refusal), _) => refusal,
        (Ok(()), Some(object)) => Verdict::invalid(check(object)),
        (Ok(()), None) => Verdict::bad_request("the request has no job"),
    }
}

/// Fills in what an ImagePullJob leaves out.
pub fn mutate(object: &mut Value, operation: Operation) {
    let is_old_version = object["apiVersion"].as_str().is_some_and(|it| it.ends_with("/v1alpha1"));
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata.filter(|_| is_old_version && operation == Operation::Create) {
        let list = metadata.entry("finalizers").or_insert(Value::Null);
        if list.is_null() {
            *list = json!([]);
        }
        if let Some(list) = list.as_array_mut().filter(|it| !it.contains(&json!(FINALIZER))) {
            list.push(json!(FINALIZER));
        }
    }
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    fill_template(spec);
    fill(spec, "imagePullPolicy", json!("IfNotPresent"));
}

/// Fills in what an ImageListPullJob leaves out; the rest is left to its jobs.
pub fn mutate_list(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        fill_template(spec);
    }
}

fn fill_template(spec: &mut Map<String, Value>) {
    for (part, defaults) in [
        ("completionPolicy", vec![("type", json!("Always"))]),
        ("pullPolicy", vec![("timeoutSeconds", json!(600)), ("backoffLimit", json!(3))]),
    ] {
        fill(spec, part, json!({}));
        if let Some(part) = spec.get_mut(part).and_then(Value::as_object_mut) {
            for (field, value) in defaults {
                fill(part, field, value);
            }
        }
    }
}

fn fill(object: &mut Map<String, Value>, field: &str, value: Value) {
    let is_empty = |it: &Value| it.is_null() || *it == json!("");
    if object.get(field).is_none_or(is_empty) {
        object.insert(field.to_owned(), value);
    }
}

/// What is wrong with an ImagePullJob; `old` is the one before a change.
pub fn validate(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut faults = Vec::new();
    let name = spec["image"].as_str().unwrap_or_default();
    match image::split(name) {
        _ if name.is_empty() => faults.push(FieldError::required("spec.image", "image can not be empty")),
        Err(error) => faults.push(FieldError::invalid("spec.image", json!(name), error.reason)),
        Ok(_) => {}
    }
    faults.extend(validate_template(spec));
    let policy = spec["imagePullPolicy"].as_str().unwrap_or("IfNotPresent");
    if !matches!(policy, "Always" | "IfNotPresent") {
        faults.push(not_supported("spec.imagePullPolicy", policy, "Always, IfNotPresent"));
    }
    let secrets = |it: &Value| it["spec"]["pullSecrets"].as_array().cloned().unwrap_or_default();
    if old.is_some_and(|old| secrets(old) != secrets(object)) {
        faults.push(FieldError::forbidden("spec.pullSecrets", "spec.pullSecrets is immutable"));
    }
    faults
}

/// What is wrong with an ImageListPullJob.
pub fn validate_list(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut faults = Vec::new();
    let images = spec["images"].as_array().map(Vec::as_slice).unwrap_or_default();
    if images.is_empty() {
        faults.push(FieldError::required("spec.images", "images can not be empty"));
    }
    if images.len() > MOST_IMAGES {
        let detail = format!("must have at most {MOST_IMAGES} items");
        faults.push(FieldError::invalid("spec.images", json!(images.len()), detail));
    }
    let mut seen = BTreeSet::new();
    for (place, name) in images.iter().enumerate() {
        let (path, name) = (format!("spec.images[{place}]"), name.as_str().unwrap_or_default());
        match image::split(name) {
            Err(error) => faults.push(FieldError::invalid(path, json!(name), error.reason)),
            Ok(_) if !seen.insert(name) => faults.push(duplicate(path, name)),
            Ok(_) => {}
        }
    }
    faults.extend(validate_template(spec));
    faults
}

fn validate_template(spec: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let selector = spec.get("selector").filter(|it| !it.is_null());
    let pods = spec.get("podSelector").filter(|it| !it.is_null());
    if selector.is_some() && pods.is_some() {
        faults.push(FieldError::forbidden("spec.podSelector", "can not be set together with selector"));
    }
    if let Some(selector) = selector {
        validate_nodes(selector, &mut faults);
    }
    if let Some(pods) = pods {
        validate_labels(pods, "spec.podSelector", &mut faults);
    }
    validate_parallelism(&spec["parallelism"], &mut faults);
    validate_completion(spec, &mut faults);
    faults
}

fn validate_nodes(selector: &Value, faults: &mut Vec<FieldError>) {
    let names = selector["names"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has_labels = ["matchLabels", "matchExpressions"].iter().any(|it| match &selector[*it] {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    });
    if !names.is_empty() && has_labels {
        faults.push(FieldError::forbidden("spec.selector.names", "can not be set together with labels"));
    }
    let mut seen = BTreeSet::new();
    for (place, name) in names.iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        if !seen.insert(name) {
            faults.push(duplicate(format!("spec.selector.names[{place}]"), name));
        }
    }
    validate_labels(selector, "spec.selector", faults);
}

fn validate_labels(selector: &Value, path: &str, faults: &mut Vec<FieldError>) {
    let rules = selector["matchExpressions"].as_array().into_iter().flatten();
    for (place, rule) in rules.enumerate() {
        let path = format!("{path}.matchExpressions[{place}]");
        let has_values = rule["values"].as_array().is_some_and(|it| !it.is_empty());
        match rule["operator"].as_str().unwrap_or_default() {
            "In" | "NotIn" if !has_values => {
                faults.push(FieldError::required(format!("{path}.values"), "must be set for In and NotIn"));
            }
            "Exists" | "DoesNotExist" if has_values => {
                let detail = "may not be set for Exists and DoesNotExist";
                faults.push(FieldError::forbidden(format!("{path}.values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let detail = "not a valid selector operator";
                faults.push(FieldError::invalid(format!("{path}.operator"), json!(other), detail));
            }
        }
    }
}

fn validate_parallelism(parallelism: &Value, faults: &mut Vec<FieldError>) {
    let number = match parallelism {
        Value::Null => return,
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    };
    if number.is_none_or(|it: i64| it < 0) {
        let detail = "must be a whole number that is not negative";
        faults.push(FieldError::invalid("spec.parallelism", parallelism.clone(), detail));
    }
}

fn validate_completion(spec: &Value, faults: &mut Vec<FieldError>) {
    let policy = &spec["completionPolicy"];
    let deadline = policy["activeDeadlineSeconds"].as_i64();
    match policy["type"].as_str().unwrap_or("Always") {
        "Always" | "" => {
            let timeout = spec["pullPolicy"]["timeoutSeconds"].as_i64().unwrap_or(600);
            if let Some(deadline) = deadline.filter(|it| *it < timeout) {
                let path = "spec.completionPolicy.activeDeadlineSeconds";
                let detail = format!("must not be less than pullPolicy.timeoutSeconds, which is {timeout}");
                faults.push(FieldError::invalid(path, json!(deadline), detail));
            }
        }
        "Never" => {
            for field in ["activeDeadlineSeconds", "ttlSecondsAfterFinished"] {
                if !policy[field].is_null() {
                    let path = format!("spec.completionPolicy.{field}");
                    faults.push(FieldError::forbidden(path, "can not be set for type Never"));
                }
            }
        }
        other => faults.push(not_supported("spec.completionPolicy.type", other, "Always, Never")),
    }
}

fn duplicate(path: String, value: &str) -> FieldError {
    FieldError { path, fault: FieldFault::Duplicate, value: Some(json!(value)), detail: String::new() }
}

fn not_supported(path: &str, value: &str, allowed: &str) -> FieldError {
    let detail = format!("supported values: {allowed}");
    FieldError { path: path.into(), fault: FieldFault::NotSupported, value: Some(json!(value)), detail }
}

#[cfg(test)]
mod tests;
