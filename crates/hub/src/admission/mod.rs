//! What is let in on the hub: policies, the fleet's own kinds, and the numbers of federated objects.
//!
//! Functions over JSON, like those of `kruise-core::admission`, which judges the objects themselves: here is only what
//! the fleet adds. [`webhooks`] says what is asked where, and [`reviews`] reads what the functions need. Every row of the specification's table of bad input has a test of its number in `tests`.

pub mod deletion;
pub mod downloads;
pub mod joining;
pub mod members;
pub mod object;
pub mod policy;
pub mod reach;
pub mod reviews;
mod rights;
pub mod webhooks;

use kruise_core::runtime::webhook::{FieldError, Verdict};
use serde_json::Value;

/// What a check comes to: faults deny, warnings do not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// Fields at fault.
    pub faults: Vec<FieldError>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

impl Findings {
    /// The answer to the user.
    pub fn verdict(self) -> Verdict {
        self.warnings.into_iter().fold(Verdict::invalid(self.faults), Verdict::warn)
    }
}

/// Puts fields of `defaults` into `tree` where it has none. What is there stays, unknown fields included.
pub(crate) fn fill_in(tree: &mut Value, defaults: &Value) {
    match (tree, defaults) {
        (Value::Object(fields), Value::Object(defaults)) => {
            for (name, default) in defaults {
                match fields.get_mut(name) {
                    Some(field) if !field.is_null() => fill_in(field, default),
                    _ => {
                        fields.insert(name.clone(), default.clone());
                    }
                }
            }
        }
        (Value::Array(items), Value::Array(defaults)) => {
            items.iter_mut().zip(defaults).for_each(|(item, default)| fill_in(item, default));
        }
        _ => {}
    }
}

/// The value of an annotation.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// The name of an object.
pub(crate) fn name_of(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
