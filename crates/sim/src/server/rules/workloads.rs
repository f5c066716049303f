//! Defaults of the built-in workloads, services and secrets.

use serde_json::{Value, json};

use super::pod;
use crate::server::{
    object::{has, items_mut, remove, set, set_default},
    status::FieldError,
};

pub(super) fn default_deployment(object: &mut Value) {
    set_default(object, &["spec", "replicas"], json!(1));
    set_default(object, &["spec", "revisionHistoryLimit"], json!(10));
    set_default(object, &["spec", "progressDeadlineSeconds"], json!(600));
    set_default(object, &["spec", "strategy", "type"], json!("RollingUpdate"));
    if object["spec"]["strategy"]["type"] == "RollingUpdate" {
        set_default(object, &["spec", "strategy", "rollingUpdate", "maxSurge"], json!("25%"));
        set_default(object, &["spec", "strategy", "rollingUpdate", "maxUnavailable"], json!("25%"));
    }
    pod::default_spec(object, &["spec", "template", "spec"]);
}

pub(super) fn default_replica_set(object: &mut Value) {
    set_default(object, &["spec", "replicas"], json!(1));
    pod::default_spec(object, &["spec", "template", "spec"]);
}

pub(super) fn default_stateful_set(object: &mut Value) {
    set_default(object, &["spec", "replicas"], json!(1));
    set_default(object, &["spec", "revisionHistoryLimit"], json!(10));
    set_default(object, &["spec", "podManagementPolicy"], json!("OrderedReady"));
    set_default(object, &["spec", "updateStrategy", "type"], json!("RollingUpdate"));
    if object["spec"]["updateStrategy"]["type"] == "RollingUpdate" {
        set_default(object, &["spec", "updateStrategy", "rollingUpdate", "partition"], json!(0));
    }
    set_default(
        object,
        &["spec", "persistentVolumeClaimRetentionPolicy"],
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
    );
    pod::default_spec(object, &["spec", "template", "spec"]);
}

pub(super) fn default_daemon_set(object: &mut Value) {
    set_default(object, &["spec", "revisionHistoryLimit"], json!(10));
    set_default(object, &["spec", "updateStrategy", "type"], json!("RollingUpdate"));
    if object["spec"]["updateStrategy"]["type"] == "RollingUpdate" {
        set_default(object, &["spec", "updateStrategy", "rollingUpdate", "maxSurge"], json!(0));
        set_default(object, &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"], json!(1));
    }
    pod::default_spec(object, &["spec", "template", "spec"]);
}

pub(super) fn default_job(object: &mut Value) {
    for (field, value) in [("completions", json!(1)), ("parallelism", json!(1)), ("backoffLimit", json!(6))] {
        set_default(object, &["spec", field], value);
    }
    set_default(object, &["spec", "completionMode"], json!("NonIndexed"));
    set_default(object, &["spec", "suspend"], json!(false));
    pod::default_spec(object, &["spec", "template", "spec"]);
}

pub(super) fn default_service(object: &mut Value) {
    set_default(object, &["spec", "type"], json!("ClusterIP"));
    set_default(object, &["spec", "sessionAffinity"], json!("None"));
    set_default(object, &["spec", "internalTrafficPolicy"], json!("Cluster"));
    let Some(spec) = object.get_mut("spec") else { return };
    for port in items_mut(spec, "ports") {
        set_default(port, &["protocol"], json!("TCP"));
        let number = port["port"].clone();
        set_default(port, &["targetPort"], number);
    }
}

/// `stringData` is written only: it turns into `data`.
pub(super) fn default_secret(object: &mut Value) {
    set_default(object, &["type"], json!("Opaque"));
    if let Some(Value::Object(plain)) = remove(object, &["stringData"]) {
        for (key, value) in plain {
            set(object, &["data", &key], json!(base64(value.as_str().unwrap_or_default().as_bytes())));
        }
    }
}

pub(super) fn validate(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !has(object, &["spec", "selector"]) {
        errors.push(FieldError::required("spec.selector", ""));
    }
    let labels = &object["spec"]["template"]["metadata"]["labels"];
    let wanted = object["spec"]["selector"]["matchLabels"].as_object().into_iter().flatten();
    if wanted.into_iter().any(|(key, value)| labels[key] != *value) {
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", labels, detail));
    }
    errors.extend(pod::validate(&object["spec"]["template"]["spec"], "spec.template.spec"));
    errors
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * place) & 0x3f) as usize];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_data_turns_into_data() {
        let mut secret = json!({"stringData": {"a": "x", "b": "hello", "c": "abc"}});
        default_secret(&mut secret);
        assert_eq!(secret, json!({"type": "Opaque", "data": {"a": "eA==", "b": "aGVsbG8=", "c": "YWJj"}}));
    }
}
