//! What is filled in.

use serde_json::{Map, Value, json};

use super::strategy::ON_DELETE;
use crate::{
    admission::{
        Version, template,
        tree::{self, fill},
    },
    runtime::{
        gates::{Gate, Gates},
        webhook::Operation,
    },
};

/// Fills in what `object` leaves out. `old` is the object as it is stored, on updates.
///
/// A template is given defaults only when it is new or changed: defaults that a later release adds must not change a
/// template nobody touched, because that would be a new revision.
pub fn default(
    object: &mut Value,
    old: Option<&Value>,
    operation: Operation,
    version: Version,
    gates: Gates,
) {
    let old_template = old.and_then(|it| tree::at(it, &["spec", "template"]));
    let is_new = operation == Operation::Create
        || !tree::is_same(tree::at(object, &["spec", "template"]), old_template);
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    fill(spec, "replicas", &Value::Null, 1);
    fill(spec, "revisionHistoryLimit", &Value::Null, 10);
    if is_new && !gates.is_on(Gate::TemplateNoDefaults) {
        if let Some(it) = spec.get_mut("template") {
            template::defaults::apply(it, old_template, gates);
        }
        if let Some(it) = spec.get_mut("volumeClaimTemplates") {
            template::defaults::apply_to_claims(it);
        }
    }
    let Some(strategy) = tree::fields(spec.entry("updateStrategy").or_insert(Value::Null)) else { return };
    match version {
        Version::V1Alpha1 => {
            fill(strategy, "type", &json!(""), "ReCreate");
            let policy = strategy["type"].clone();
            numbers(strategy, &policy);
        }
        Version::V1Beta1 => {
            fill(strategy, "type", &json!(""), "RollingUpdate");
            if strategy["type"] == "RollingUpdate"
                && let Some(rolling) = tree::fields(strategy.entry("rollingUpdate").or_insert(Value::Null))
            {
                fill(rolling, "podUpdatePolicy", &json!(""), "ReCreate");
                let policy = rolling["podUpdatePolicy"].clone();
                numbers(rolling, &policy);
            }
        }
    }
}

fn numbers(rolling: &mut Map<String, Value>, policy: &Value) {
    if policy == "InPlaceIfPossible" || policy == "InPlaceOnly" {
        fill(rolling, "inPlaceUpdateStrategy", &Value::Null, json!({}));
    }
    fill(rolling, "partition", &Value::Null, 0);
    fill(rolling, "maxUnavailable", &Value::Null, "20%");
    fill(rolling, "maxSurge", &Value::Null, 0);
}

/// Whether this is what [`default`] would have filled in, so that nobody can have meant anything by it.
pub(super) fn is_default(name: &str, value: &Value) -> bool {
    match name {
        "partition" | "maxSurge" => *value == json!(0),
        "maxUnavailable" => *value == json!("20%"),
        "paused" => *value == json!(false),
        "type" => *value == json!(ON_DELETE),
        _ => tree::is_same(Some(value), None),
    }
}
