//! Names, labels and selectors, by the rules of Kubernetes.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde_json::{Value, json};

use super::tree;
use crate::runtime::webhook::{FieldError, FieldFault};

/// The longest DNS subdomain.
const SUBDOMAIN_LENGTH: usize = 253;
/// The longest DNS label, label value and name part of a label key.
const LABEL_LENGTH: usize = 63;
/// How long all annotations of one object may be together.
const ANNOTATIONS_LENGTH: usize = 256 * 1024;

/// What is wrong with a DNS-1123 subdomain: the name of an object.
pub fn subdomain_fault(text: &str) -> Option<String> {
    if text.is_empty() || text.len() > SUBDOMAIN_LENGTH {
        return Some(format!("must be 1 to {SUBDOMAIN_LENGTH} characters long"));
    }
    (!text.split('.').all(is_dns_label)).then(|| {
        "must consist of lower case letters, digits, '-' and '.', and every part between dots must start and end \
         with a letter or digit (a DNS-1123 subdomain)"
            .to_owned()
    })
}

/// What is wrong with a DNS-1123 label: the name of a volume or container.
pub fn dns_label_fault(text: &str) -> Option<String> {
    if text.is_empty() || text.len() > LABEL_LENGTH {
        return Some(format!("must be 1 to {LABEL_LENGTH} characters long"));
    }
    (!is_dns_label(text)).then(|| {
        "must consist of lower case letters, digits and '-', and must start and end with a letter or digit \
         (a DNS-1123 label)"
            .to_owned()
    })
}

/// What is wrong with the key of a label or annotation.
pub fn key_fault(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if let Some(fault) = prefix.and_then(subdomain_fault) {
        return Some(format!("prefix part {fault}"));
    }
    if name.is_empty() || name.len() > LABEL_LENGTH {
        return Some(format!("name part must be 1 to {LABEL_LENGTH} characters long"));
    }
    (!is_word(name)).then(|| {
        "name part must consist of letters, digits, '-', '_' and '.', and must start and end with a letter or digit"
            .to_owned()
    })
}

/// What is wrong with the value of a label.
pub fn label_value_fault(value: &str) -> Option<String> {
    if value.len() > LABEL_LENGTH {
        return Some(format!("must be no more than {LABEL_LENGTH} characters long"));
    }
    (!value.is_empty() && !is_word(value)).then(|| {
        "must be empty or consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit"
            .to_owned()
    })
}

/// What is wrong with an object's metadata.
pub fn faults(object: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let meta = object.get("metadata").unwrap_or(&Value::Null);
    let name = tree::text(meta, &["name"]).filter(|it| !it.is_empty());
    let generate = tree::text(meta, &["generateName"]).filter(|it| !it.is_empty());
    if let Some(fault) = generate.and_then(|it| subdomain_fault(&format!("{it}x"))) {
        faults.push(FieldError::invalid("metadata.generateName", json!(generate), fault));
    }
    match name {
        Some(name) => faults
            .extend(subdomain_fault(name).map(|it| FieldError::invalid("metadata.name", json!(name), it))),
        None if generate.is_none() => {
            faults.push(FieldError::required("metadata.name", "name or generateName is required"));
        }
        None => {}
    }
    faults.extend(label_faults("metadata.labels", meta.get("labels")));
    faults.extend(annotation_faults("metadata.annotations", meta.get("annotations")));
    faults
}

/// What is wrong with a map of labels.
pub fn label_faults(path: &str, labels: Option<&Value>) -> Vec<FieldError> {
    let mut faults = Vec::new();
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        faults.extend(key_fault(key).map(|it| FieldError::invalid(path, json!(key), it)));
        let fault = value.as_str().map_or(Some("must be a string".to_owned()), label_value_fault);
        faults.extend(fault.map(|it| FieldError::invalid(path, value.clone(), format!("label {key}: {it}"))));
    }
    faults
}

fn annotation_faults(path: &str, annotations: Option<&Value>) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let mut length = 0;
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        length += key.len() + value.as_str().map_or(0, str::len);
        faults.extend(key_fault(key).map(|it| FieldError::invalid(path, json!(key), it)));
    }
    if length > ANNOTATIONS_LENGTH {
        let detail = format!("all annotations together must have at most {ANNOTATIONS_LENGTH} bytes");
        faults.push(FieldError::invalid(path, json!(length), detail));
    }
    faults
}

/// Reads labels; values that are no strings count as absent.
pub fn labels(labels: Option<&Value>) -> BTreeMap<String, String> {
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Reads a selector and says what is wrong with it. `None` with no faults: it is not there.
pub fn selector(path: &str, value: Option<&Value>) -> Result<Option<LabelSelector>, Vec<FieldError>> {
    let Some(value) = value.filter(|it| !it.is_null()) else { return Ok(None) };
    let selector: LabelSelector = serde_json::from_value(value.clone())
        .map_err(|error| vec![FieldError::invalid(path, value.clone(), error.to_string())])?;
    let mut faults = label_faults(&format!("{path}.matchLabels"), value.get("matchLabels"));
    for (index, it) in selector.match_expressions.iter().flatten().enumerate() {
        faults.extend(requirement_faults(&format!("{path}.matchExpressions[{index}]"), it));
    }
    if faults.is_empty() { Ok(Some(selector)) } else { Err(faults) }
}

/// Whether a selector says nothing at all.
pub fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

fn requirement_faults(path: &str, requirement: &LabelSelectorRequirement) -> Vec<FieldError> {
    let LabelSelectorRequirement { key, operator, values } = requirement;
    let values: &[String] = values.as_deref().unwrap_or_default();
    let mut faults = Vec::new();
    faults.extend(key_fault(key).map(|it| FieldError::invalid(format!("{path}.key"), json!(key), it)));
    let at_values = format!("{path}.values");
    match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            faults.push(FieldError::required(at_values.clone(), format!("operator {operator} needs values")));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            faults.push(FieldError::forbidden(
                at_values.clone(),
                format!("operator {operator} takes no values"),
            ));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => faults.push(FieldError {
            path: format!("{path}.operator"),
            fault: FieldFault::Invalid,
            value: Some(json!(other)),
            detail: "must be In, NotIn, Exists or DoesNotExist".to_owned(),
        }),
    }
    for (index, value) in values.iter().enumerate() {
        let fault = label_value_fault(value);
        faults.extend(fault.map(|it| FieldError::invalid(format!("{at_values}[{index}]"), json!(value), it)));
    }
    faults
}

fn is_dns_label(text: &str) -> bool {
    let is_letter = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    has_shape(text, is_letter, |it| is_letter(it) || it == b'-')
}

fn is_word(text: &str) -> bool {
    let is_letter = |it: u8| it.is_ascii_alphanumeric();
    has_shape(text, is_letter, |it| is_letter(it) || b"-_.".contains(&it))
}

fn has_shape(text: &str, at_ends: impl Fn(u8) -> bool, anywhere: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let ends = bytes.first().copied().zip(bytes.last().copied());
    ends.is_some_and(|(first, last)| at_ends(first) && at_ends(last)) && bytes.iter().all(|it| anywhere(*it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_subdomains() {
        for good in ["a", "a-b.c1", "1", &"a".repeat(253)] {
            assert_eq!(subdomain_fault(good), None, "{good}");
        }
        for bad in ["", "A", "-a", "a-", "a..b", "a_b", ".a", &"a".repeat(254)] {
            assert!(subdomain_fault(bad).is_some(), "{bad}");
        }
        assert!(dns_label_fault("a.b").is_some() && dns_label_fault("a-b").is_none());
    }

    #[test]
    fn labels_have_a_key_with_at_most_one_prefix_and_a_short_value() {
        for good in ["app", "example.com/App_v1", "a.b"] {
            assert_eq!(key_fault(good), None, "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "Upper.com/a", "-a", "a b", &"k".repeat(64)] {
            assert!(key_fault(bad).is_some(), "{bad}");
        }
        assert_eq!((label_value_fault(""), label_value_fault("A.b_1-c")), (None, None));
        assert!(label_value_fault("a b").is_some() && label_value_fault(&"v".repeat(64)).is_some());
    }

    #[test]
    fn metadata_needs_a_good_name_or_the_beginning_of_one() {
        let paths = |meta| {
            let faults = faults(&json!({ "metadata": meta }));
            faults.into_iter().map(|it| it.path).collect::<Vec<_>>()
        };
        assert!(
            paths(json!({"name": "a", "labels": {"a/b": "c"}, "annotations": {"a": "any text!"}})).is_empty()
        );
        assert!(paths(json!({"generateName": "a-"})).is_empty());
        assert_eq!(paths(json!({})), ["metadata.name"]);
        assert_eq!(paths(json!({"name": "A"})), ["metadata.name"]);
        assert_eq!(paths(json!({"generateName": "_"})), ["metadata.generateName"]);
        assert_eq!(
            paths(json!({"name": "a", "labels": {"a b": "c d"}})),
            ["metadata.labels", "metadata.labels"]
        );
        let long = "x".repeat(ANNOTATIONS_LENGTH);
        assert_eq!(paths(json!({"name": "a", "annotations": {"a": long}})), ["metadata.annotations"]);
    }

    #[test]
    fn a_selector_is_judged_part_by_part() {
        let paths = |value| match selector("s", Some(&value)) {
            Ok(_) => Vec::new(),
            Err(faults) => faults.into_iter().map(|it| it.path).collect::<Vec<_>>(),
        };
        let requirement =
            |key, operator, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        let with = |it| json!({ "matchExpressions": [it] });
        assert!(paths(json!({"matchLabels": {"a": "b"}})).is_empty());
        assert!(paths(with(requirement("a", "In", &["b"]))).is_empty());
        assert!(paths(with(json!({"key": "a", "operator": "Exists"}))).is_empty());
        assert_eq!(paths(json!({"matchLabels": {"a": "b c"}})), ["s.matchLabels"]);
        assert_eq!(paths(with(requirement("a", "In", &[]))), ["s.matchExpressions[0].values"]);
        assert_eq!(paths(with(requirement("a", "Exists", &["b"]))), ["s.matchExpressions[0].values"]);
        assert_eq!(paths(with(requirement("a", "Like", &["b"]))), ["s.matchExpressions[0].operator"]);
        assert_eq!(paths(with(requirement("a b", "In", &["b c"]))).len(), 2);
        assert_eq!(paths(json!({"matchLabels": 1})), ["s"]);
        assert_eq!(selector("s", None), Ok(None));
    }
}
