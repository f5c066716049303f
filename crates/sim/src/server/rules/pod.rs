//! Pods: defaults of their spec, and the few fields that may change.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::server::{
    object::{at, has, items_mut, set, set_default},
    status::FieldError,
};

const CHANGE_RULE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Fills in a pod spec, wherever it is in an object.
pub(super) fn default_spec(object: &mut Value, path: &[&str]) {
    let Some(spec) = path.iter().try_fold(&mut *object, |value, name| value.get_mut(*name)) else { return };
    if !spec.is_object() {
        return;
    }
    set_default(spec, &["restartPolicy"], json!("Always"));
    set_default(spec, &["dnsPolicy"], json!("ClusterFirst"));
    if path.len() == 1 {
        // Only pods themselves get this one, templates do not.
        set_default(spec, &["enableServiceLinks"], json!(true));
    }
    set_default(spec, &["terminationGracePeriodSeconds"], json!(30));
    set_default(spec, &["schedulerName"], json!("default-scheduler"));
    set_default(spec, &["securityContext"], json!({}));
    if let Some(name) = spec["serviceAccountName"].as_str().map(str::to_owned) {
        set_default(spec, &["serviceAccount"], json!(name));
    }
    for list in ["initContainers", "containers"] {
        for container in items_mut(spec, list) {
            default_container(container);
        }
    }
    for volume in items_mut(spec, "volumes") {
        for kind in ["configMap", "secret", "projected", "downwardAPI"] {
            if volume[kind].is_object() {
                set_default(volume, &[kind, "defaultMode"], json!(420));
            }
        }
        if volume["hostPath"].is_object() {
            set_default(volume, &["hostPath", "type"], json!(""));
        }
    }
}

fn default_container(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or_default();
    let tag = image.rsplit('/').next().and_then(|it| it.split_once(':')).map(|(_, tag)| tag);
    let pinned = image.contains('@') || tag.is_some_and(|it| it != "latest");
    set_default(container, &["imagePullPolicy"], json!(if pinned { "IfNotPresent" } else { "Always" }));
    set_default(container, &["resources"], json!({}));
    set_default(container, &["terminationMessagePath"], json!("/dev/termination-log"));
    set_default(container, &["terminationMessagePolicy"], json!("File"));
    for port in items_mut(container, "ports") {
        set_default(port, &["protocol"], json!("TCP"));
    }
    for env in items_mut(container, "env") {
        if env["valueFrom"]["fieldRef"].is_object() {
            set_default(env, &["valueFrom", "fieldRef", "apiVersion"], json!("v1"));
        }
    }
    for probe in ["readinessProbe", "livenessProbe", "startupProbe"] {
        if container[probe].is_object() {
            for (field, value) in [
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ] {
                set_default(container, &[probe, field], json!(value));
            }
            if container[probe]["httpGet"].is_object() {
                set_default(container, &[probe, "httpGet", "path"], json!("/"));
                set_default(container, &[probe, "httpGet", "scheme"], json!("HTTP"));
            }
        }
    }
    // A limit without a request asks for as much.
    let limits = container["resources"]["limits"].as_object().cloned().unwrap_or_default();
    for (name, value) in limits {
        set_default(container, &["resources", "requests", &name], value);
    }
}

/// What the admission plugins that are always on add to a new pod.
pub(super) fn admit(object: &mut Value) {
    if !object["spec"].is_object() {
        return;
    }
    set_default(object, &["spec", "preemptionPolicy"], json!("PreemptLowerPriority"));
    set_default(object, &["spec", "priority"], json!(0));
    let mut tolerations = object["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covers = |it: &Value| {
            let key_fits = it["key"] == key || it["key"].as_str().is_none_or(str::is_empty);
            let effect_fits = it["effect"] == "NoExecute" || it["effect"].as_str().is_none_or(str::is_empty);
            key_fits && effect_fits
        };
        if !tolerations.iter().any(covers) {
            tolerations.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            );
        }
    }
    set(object, &["spec", "tolerations"], json!(tolerations));
}

pub(super) fn validate(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let containers = spec["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if containers.is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut seen = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        let at = format!("{path}.containers[{index}]");
        match container["name"].as_str() {
            None | Some("") => errors.push(FieldError::required(format!("{at}.name"), "")),
            Some(name) if seen.contains(&name) => {
                let message = format!("Duplicate value: {name:?}");
                errors.push(FieldError {
                    reason: "FieldValueDuplicate",
                    message,
                    field: format!("{at}.name"),
                });
            }
            Some(name) => seen.push(name),
        }
        if container["image"].as_str().is_none_or(str::is_empty) {
            errors.push(FieldError::required(format!("{at}.image"), ""));
        }
    }
    errors
}

pub(super) fn validate_change(object: &Value, old: &Value) -> Option<FieldError> {
    let mut allowed = old["spec"].clone();
    let new = &object["spec"];
    for list in ["containers", "initContainers"] {
        let count = |spec: &Value| spec[list].as_array().map_or(0, Vec::len);
        if count(new) != count(&allowed) {
            let detail = "pod updates may not add or remove containers";
            return Some(FieldError::forbidden(format!("spec.{list}"), detail));
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        if has(new, &[field]) {
            allowed[field] = new[field].clone();
        }
    }
    if old["spec"]["terminationGracePeriodSeconds"].as_i64().is_some_and(|it| it < 0) {
        allowed["terminationGracePeriodSeconds"] = at(new, &["terminationGracePeriodSeconds"]).clone();
    }
    for list in ["containers", "initContainers"] {
        let containers = items_mut(&mut allowed, list);
        for (mine, theirs) in containers.zip(new[list].as_array().into_iter().flatten()) {
            mine["image"] = theirs["image"].clone();
        }
    }
    (allowed != *new).then(|| FieldError::forbidden("spec", CHANGE_RULE))
}

/// The quality-of-service class that requests and limits give a pod.
pub fn qos_class(spec: &Value) -> &'static str {
    let containers = || {
        ["initContainers", "containers"].into_iter().flat_map(|it| spec[it].as_array().into_iter().flatten())
    };
    let values = |member: &str| -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for container in containers() {
            for name in container["resources"][member].as_object().into_iter().flatten().map(|(name, _)| name)
            {
                if name == "cpu" || name == "memory" {
                    *counts.entry(name.clone()).or_insert(0) += 1;
                }
            }
        }
        counts
    };
    if values("requests").is_empty() && values("limits").is_empty() {
        return "BestEffort";
    }
    let guaranteed = containers().all(|it| {
        let (limits, requests) = (&it["resources"]["limits"], &it["resources"]["requests"]);
        ["cpu", "memory"].iter().all(|name| !limits[*name].is_null() && limits[*name] == requests[*name])
    });
    if guaranteed { "Guaranteed" } else { "Burstable" }
}
