//! NodeImages: what admission fills in, and what it refuses.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::of_our_kind;
use crate::runtime::{
    clock::whole_seconds,
    webhook::{AdmissionRequest, FieldError, FieldFault, Registration, Verdict, registration::Phase},
};

/// Where NodeImages are changed.
pub const MUTATE: &str = "/mutate-apps-kruise-io-nodeimage";
/// Where they are checked.
pub const VALIDATE: &str = "/validate-apps-kruise-io-nodeimage";

const RESOURCES: &[&str] = &["nodeimages"];

/// Which requests the API server sends here.
pub const REGISTRATIONS: &[Registration] = &[
    of_our_kind("mnodeimage.kb.io", Phase::Mutating, MUTATE, RESOURCES),
    of_our_kind("vnodeimage.kb.io", Phase::Validating, VALIDATE, RESOURCES),
];

/// The most images a node is asked to have.
const MOST_IMAGES: usize = 256;

/// How long one attempt may take, and how often it is repeated, if nobody says.
const DEFAULTS: [(&str, i64); 2] = [("timeoutSeconds", 600), ("backoffLimit", 3)];

/// Reviews a NodeImage, first pass.
pub fn mutating(request: &AdmissionRequest, now: Timestamp) -> Verdict {
    let Some(original) = &request.object else { return Verdict::bad_request("the request has no NodeImage") };
    let mut object = original.clone();
    mutate(&mut object, now);
    if object == *original { Verdict::allow() } else { Verdict::patched(object) }
}

/// Reviews a NodeImage, second pass.
pub fn validating(request: &AdmissionRequest) -> Verdict {
    match &request.object {
        Some(object) => Verdict::invalid(validate(object)),
        None => Verdict::bad_request("the request has no NodeImage"),
    }
}

/// Fills in what a tag leaves out and puts tags in order.
pub fn mutate(object: &mut Value, now: Timestamp) {
    let images = object.pointer_mut("/spec/images").and_then(Value::as_object_mut);
    for image in images.into_iter().flat_map(|it| it.values_mut()) {
        let Some(tags) = image.get_mut("tags").and_then(Value::as_array_mut) else { continue };
        for tag in tags.iter_mut().filter_map(Value::as_object_mut) {
            if tag.get("createdAt").is_none_or(Value::is_null) {
                tag.insert("createdAt".into(), json!(whole_seconds(now)));
            }
            let policy = tag.entry("pullPolicy").or_insert(Value::Null);
            if policy.is_null() {
                *policy = json!({});
            }
            for (field, value) in DEFAULTS {
                if let Some(policy) = policy.as_object_mut()
                    && policy.get(field).is_none_or(Value::is_null)
                {
                    policy.insert(field.into(), json!(value));
                }
            }
        }
        sort(tags);
    }
    let statuses = object.pointer_mut("/status/imageStatuses").and_then(Value::as_object_mut);
    for image in statuses.into_iter().flat_map(|it| it.values_mut()) {
        if let Some(tags) = image.get_mut("tags").and_then(Value::as_array_mut) {
            sort(tags);
        }
    }
}

fn sort(tags: &mut [Value]) {
    tags.sort_by_key(|it| it["tag"].as_str().unwrap_or_default().to_owned());
}

/// What is wrong with a NodeImage.
pub fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let Some(images) = object.pointer("/spec/images").and_then(Value::as_object) else { return faults };
    if images.len() > MOST_IMAGES {
        let detail = format!("must have at most {MOST_IMAGES} items");
        faults.push(FieldError::invalid("spec.images", json!(images.len()), detail));
    }
    for (name, image) in images {
        let path = format!("spec.images[{name}]");
        if name.is_empty() {
            faults.push(FieldError::required(&path, "image name cannot be empty"));
        }
        let mut seen = BTreeSet::new();
        for (place, tag) in image["tags"].as_array().into_iter().flatten().enumerate() {
            let path = format!("{path}.tags[{place}]");
            let text = tag["tag"].as_str().unwrap_or_default();
            if text.is_empty() {
                faults.push(FieldError::required(format!("{path}.tag"), "tag cannot be empty"));
            } else if !seen.insert(text) {
                faults.push(FieldError {
                    path: format!("{path}.tag"),
                    fault: FieldFault::Duplicate,
                    value: Some(json!(text)),
                    detail: String::new(),
                });
            }
            validate_tag(tag, &path, &mut faults);
        }
    }
    faults
}

fn validate_tag(tag: &Value, path: &str, faults: &mut Vec<FieldError>) {
    if tag["createdAt"].is_null() {
        faults.push(FieldError::required(format!("{path}.createdAt"), "createdAt cannot be empty"));
    }
    if let Some(version) = tag["version"].as_i64().filter(|it| *it < 0) {
        faults.push(FieldError::invalid(format!("{path}.version"), json!(version), "must not be negative"));
    }
    if tag["pullPolicy"].is_null() {
        faults.push(FieldError::required(format!("{path}.pullPolicy"), "pullPolicy cannot be empty"));
    } else if tag["pullPolicy"]["ttlSecondsAfterFinished"].is_null() {
        let path = format!("{path}.pullPolicy.ttlSecondsAfterFinished");
        faults.push(FieldError::required(path, "ttlSecondsAfterFinished cannot be empty"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_tags(tags: Value) -> Value {
        json!({"spec": {"images": {"nginx": {"tags": tags}}}})
    }

    fn faults(object: &Value) -> Vec<String> {
        validate(object).into_iter().map(|it| it.path).collect()
    }

    #[test]
    fn a_tag_gets_its_time_and_limits_and_its_place() {
        let mut object = with_tags(json!([
            {"tag": "b", "pullPolicy": {"timeoutSeconds": 5}},
            {"tag": "a", "createdAt": "2020-01-01T00:00:00Z", "imagePullPolicy": "Always"},
        ]));
        object["status"] = json!({"imageStatuses": {"nginx": {"tags": [{"tag": "b"}, {"tag": "a"}]}}});
        mutate(&mut object, "2026-01-01T00:00:00.5Z".parse().unwrap());
        assert_eq!(
            object["spec"]["images"]["nginx"]["tags"],
            json!([
                {"tag": "a", "createdAt": "2020-01-01T00:00:00Z", "imagePullPolicy": "Always", "pullPolicy": {"timeoutSeconds": 600, "backoffLimit": 3}},
                {"tag": "b", "createdAt": "2026-01-01T00:00:00Z", "pullPolicy": {"timeoutSeconds": 5, "backoffLimit": 3}},
            ]),
            "the policy for present images is not filled in"
        );
        assert_eq!(object["status"]["imageStatuses"]["nginx"]["tags"][0]["tag"], "a");
        let before = object.clone();
        mutate(&mut object, Timestamp::UNIX_EPOCH);
        assert_eq!(object, before, "once is enough");
    }

    #[test]
    fn a_tag_needs_a_name_of_its_own_a_time_and_an_end() {
        let good = json!({"tag": "1", "createdAt": "x", "pullPolicy": {"ttlSecondsAfterFinished": 1}});
        assert!(faults(&with_tags(json!([good]))).is_empty());
        assert_eq!(faults(&with_tags(json!([good, good]))), ["spec.images[nginx].tags[1].tag"]);
        let bad = json!({"tag": "", "version": -1});
        assert_eq!(
            faults(&with_tags(json!([bad]))),
            ["tag", "createdAt", "version", "pullPolicy"]
                .map(|it| format!("spec.images[nginx].tags[0].{it}"))
        );
        let endless = json!({"tag": "1", "createdAt": "x", "pullPolicy": {}});
        assert_eq!(
            faults(&with_tags(json!([endless]))),
            ["spec.images[nginx].tags[0].pullPolicy.ttlSecondsAfterFinished"]
        );
    }

    #[test]
    fn no_more_than_256_images_and_none_without_a_name() {
        let images: serde_json::Map<_, _> =
            (0..257).map(|it| (format!("i{it}"), json!({"tags": []}))).collect();
        assert_eq!(faults(&json!({"spec": {"images": images}})), ["spec.images"]);
        assert_eq!(faults(&json!({"spec": {"images": {"": {"tags": []}}}})), ["spec.images[]"]);
    }

    #[test]
    fn malformed_objects_cause_no_panic() {
        for mut object in [
            json!(null),
            json!({"spec": {"images": 3}}),
            json!({"spec": {"images": {"a": {"tags": [1, null]}}}}),
        ] {
            mutate(&mut object, Timestamp::UNIX_EPOCH);
            validate(&object);
        }
    }
}
