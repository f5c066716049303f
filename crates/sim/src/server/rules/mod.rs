//! What the API server knows about built-in kinds: defaults, and what it refuses.

mod names;
mod owners;
mod pod;
mod workloads;

use serde_json::{Value, json};

pub use names::{is_dns_label, is_dns_subdomain};
pub use owners::drop_repeated as drop_repeated_owners;
pub use pod::qos_class;

use crate::server::{
    object::{at, copy, has, remove, set, set_default},
    registry::Resource,
    status::FieldError,
};

/// Prepares a new object: what its strategy and the admission plugins that are always on do.
pub fn default_new(resource: &Resource, object: &mut Value) {
    match resource.qualified().as_str() {
        "pods" => {
            pod::admit(object);
            set(object, &["status"], json!({"phase": "Pending", "qosClass": qos_class(&object["spec"])}));
        }
        "namespaces" => {
            set(object, &["spec", "finalizers"], json!(["kubernetes"]));
            set(object, &["status"], json!({"phase": "Active"}));
        }
        "persistentvolumeclaims" => set(object, &["status"], json!({"phase": "Pending"})),
        "persistentvolumes" => set(object, &["status"], json!({"phase": "Pending"})),
        // Nodes register themselves with their status.
        "nodes" => {}
        _ if resource.traits.status && resource.traits.custom => {
            remove(object, &["status"]);
        }
        _ if resource.traits.status => set(object, &["status"], json!({})),
        _ => {}
    }
}

/// Fills in what a built-in kind gets on every write.
pub fn default_always(resource: &Resource, object: &mut Value) {
    match resource.qualified().as_str() {
        "pods" => pod::default_spec(object, &["spec"]),
        "namespaces" => {
            let name = at(object, &["metadata", "name"]).clone();
            set(object, &["metadata", "labels", "kubernetes.io/metadata.name"], name);
        }
        "secrets" => workloads::default_secret(object),
        "services" => workloads::default_service(object),
        "persistentvolumeclaims" => {
            set_default(object, &["spec", "volumeMode"], json!("Filesystem"));
        }
        "deployments.apps" => workloads::default_deployment(object),
        "replicasets.apps" => workloads::default_replica_set(object),
        "statefulsets.apps" => workloads::default_stateful_set(object),
        "daemonsets.apps" => workloads::default_daemon_set(object),
        "jobs.batch" => workloads::default_job(object),
        _ => {}
    }
}

/// Undoes what a write to the main resource may not change.
pub fn keep_from_old(resource: &Resource, object: &mut Value, old: &Value) {
    if resource.traits.status {
        copy(old, object, &["status"]);
    }
    if resource.is_core("namespaces") {
        copy(old, object, &["spec", "finalizers"]);
    }
    if resource.is_core("pods") {
        pod::admit(object);
    }
}

/// What is wrong with a new object, beyond its schema.
pub fn validate_new(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let mut errors = names::validate_metadata(resource, object);
    match resource.qualified().as_str() {
        "pods" => errors.extend(pod::validate(&object["spec"], "spec")),
        "deployments.apps" | "replicasets.apps" | "statefulsets.apps" | "daemonsets.apps" => {
            errors.extend(workloads::validate(object));
        }
        _ => {}
    }
    errors
}

/// What is wrong with a change, beyond the schema.
pub fn validate_change(resource: &Resource, object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_new(resource, object);
    errors.extend(names::validate_metadata_change(object, old));
    match resource.qualified().as_str() {
        "pods" => errors.extend(pod::validate_change(object, old)),
        "configmaps" | "secrets" if old["immutable"] == true => {
            for field in ["immutable", "data", "binaryData"] {
                if object[field] != old[field] {
                    let shown = if field == "immutable" { "immutable" } else { field };
                    errors.push(FieldError::forbidden(shown, "field is immutable when `immutable` is set"));
                }
            }
        }
        "deployments.apps" | "replicasets.apps" | "statefulsets.apps" | "daemonsets.apps" => {
            errors.extend(immutable(object, old, &["spec", "selector"]));
        }
        "controllerrevisions.apps" => errors.extend(immutable(object, old, &["data"])),
        "persistentvolumeclaims" if has(old, &["spec", "accessModes"]) => {
            errors.extend(immutable(object, old, &["spec", "accessModes"]));
        }
        _ => {}
    }
    errors
}

fn immutable(object: &Value, old: &Value, path: &[&str]) -> Option<FieldError> {
    let (new, old) = (at(object, path), at(old, path));
    (new != old).then(|| FieldError::invalid(path.join("."), new, "field is immutable"))
}
