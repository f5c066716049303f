//! Items that an applied object gives twice. Lists that merge by key cannot hold them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{set::shown_element, walk::element};
use crate::server::schema::{ListKind, Shape};

/// One text for each item that was given before.
pub fn repeated(shape: Shape<'_>, applied: &Value) -> Vec<String> {
    let mut found = Vec::new();
    look(shape, applied, "", &mut found);
    found
}

fn look(shape: Shape<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) if !shape.is_atomic_map() => {
            for (name, member) in members {
                look(shape.member(name), member, &format!("{path}.{name}"), found);
            }
        }
        Value::Array(items) if shape.list() != ListKind::Atomic => {
            let mut seen = BTreeSet::new();
            for item in items {
                let Some(name) = element(shape.list(), item) else { continue };
                let shown = shown_element("", &name);
                look(shape.item(), item, &format!("{path}{shown}"), found);
                if !seen.insert(name) {
                    found.push(format!("{path}: duplicate entries for key {shown}"));
                }
            }
        }
        _ => {}
    }
}
