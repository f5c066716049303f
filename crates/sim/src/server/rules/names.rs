//! Metadata that every kind shares.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::owners;
use crate::server::{
    object::{finalizers, meta_str, string_map},
    registry::Resource,
    status::FieldError,
};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
'[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// Whether `text` may be part of a host name.
pub fn is_dns_label(text: &str) -> bool {
    let inner = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    let edge = |it: Option<u8>| it.is_some_and(|it| inner(it) && it != b'-');
    text.len() <= 63 && text.bytes().all(inner) && edge(text.bytes().next()) && edge(text.bytes().next_back())
}

/// Whether `text` may be a host name.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label_of_any_length)
}

fn is_dns_label_of_any_length(text: &str) -> bool {
    let inner = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

pub(super) fn validate_metadata(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = meta_str(object, "name");
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else if let Some(rule) = broken_name_rule(resource, name) {
        errors.push(FieldError::invalid("metadata.name", &json!(name), rule));
    }
    for (key, value) in string_map(object, "labels") {
        if !is_qualified(key) {
            errors.push(FieldError::invalid("metadata.labels", &json!(key), QUALIFIED));
        }
        if value.len() > 63 {
            errors.push(FieldError::invalid(
                "metadata.labels",
                &json!(value),
                "must be no more than 63 bytes",
            ));
        } else if !is_word(value) && !value.is_empty() {
            errors.push(FieldError::invalid("metadata.labels", &json!(value), LABEL_VALUE));
        }
    }
    for (key, _) in string_map(object, "annotations") {
        if !is_qualified(&key.to_lowercase()) {
            errors.push(FieldError::invalid("metadata.annotations", &json!(key), QUALIFIED));
        }
    }
    owners::validate(object, &mut errors);
    validate_finalizers(resource, object, &mut errors);
    errors
}

fn validate_finalizers(resource: &Resource, object: &Value, errors: &mut Vec<FieldError>) {
    let path = "metadata.finalizers";
    // Custom kinds and leases may have finalizers without a domain.
    let may_be_plain = resource.traits.custom || resource.group == "coordination.k8s.io";
    for (index, finalizer) in finalizers(object).enumerate() {
        if !is_qualified(finalizer) {
            errors.push(FieldError::invalid(path, &json!(finalizer), QUALIFIED));
        }
        let known = matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes");
        if !may_be_plain && !known && !finalizer.contains('/') {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(format!("{path}[{index}]"), &json!(finalizer), detail));
        }
    }
    if ["orphan", "foregroundDeletion"].iter().all(|it| finalizers(object).any(|found| found == *it)) {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, &object["metadata"]["finalizers"], detail));
    }
}

pub(super) fn validate_metadata_change(object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !old["metadata"]["deletionTimestamp"].is_null() {
        let before: BTreeSet<&str> = finalizers(old).collect();
        let added: BTreeSet<&str> = finalizers(object).filter(|it| !before.contains(it)).collect();
        if !added.is_empty() {
            let shown: Vec<String> = added.iter().map(|it| format!("{it:?}")).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                shown.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", &detail));
        }
    }
    errors
}

fn broken_name_rule(resource: &Resource, name: &str) -> Option<&'static str> {
    match resource.qualified().as_str() {
        "namespaces" | "services" => (!is_dns_label(name)).then_some(LABEL),
        // Path segments are all that is asked of these.
        "roles.rbac.authorization.k8s.io"
        | "rolebindings.rbac.authorization.k8s.io"
        | "clusterroles.rbac.authorization.k8s.io"
        | "clusterrolebindings.rbac.authorization.k8s.io" => None,
        _ => (!is_dns_subdomain(name)).then_some(SUBDOMAIN),
    }
}

fn is_qualified(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_word(name) && name.len() <= 63,
        None => is_word(key) && key.len() <= 63,
    }
}

fn is_word(text: &str) -> bool {
    let inner = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.');
    let edge = |it: Option<u8>| it.is_some_and(|it| it.is_ascii_alphanumeric());
    text.bytes().all(inner) && edge(text.bytes().next()) && edge(text.bytes().next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_dns() {
        assert!(is_dns_label("a-1") && is_dns_label("1"));
        assert!(!is_dns_label("a.b") && !is_dns_label("-a") && !is_dns_label("A") && !is_dns_label(""));
        assert!(is_dns_subdomain("a.b-c") && !is_dns_subdomain("a..b") && !is_dns_subdomain("a_b"));
        assert!(is_qualified("kruise.io/Name_1") && !is_qualified("/x") && !is_qualified("a b"));
    }
}
