//! Walks over objects by shape: which fields an object has, and which differ between two.

use serde_json::{Map, Value};

use super::set::FieldSet;
use crate::server::schema::{ListKind, Shape};

/// What changed from one object to another.
#[derive(Debug, Default, Clone)]
pub(super) struct Comparison {
    /// Paths only the new one has.
    pub(super) added: FieldSet,
    /// Paths both have with different values.
    pub(super) modified: FieldSet,
    /// Paths only the old one has.
    pub(super) removed: FieldSet,
}

/// The name of a list item in a set of fields; `None` when it cannot be told apart.
pub(super) fn element(kind: ListKind<'_>, item: &Value) -> Option<String> {
    match kind {
        ListKind::Atomic => None,
        ListKind::Set => Some(format!("v:{item}")),
        ListKind::Keyed(keys) => {
            let keys: Map<String, Value> = keys.of(item)?.into_iter().collect();
            Some(format!("k:{}", Value::Object(keys)))
        }
    }
}

/// The fields an applied object names.
pub(super) fn fields_of(shape: Shape<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    collect(shape, value, &mut set);
    set
}

fn collect(shape: Shape<'_>, value: &Value, set: &mut FieldSet) {
    match value {
        Value::Object(members) => {
            if shape.is_atomic_map() {
                set.here = true;
                return;
            }
            for (name, member) in members {
                let child = set.child(&format!("f:{name}"));
                collect(shape.member(name), member, child);
                let empty = member.is_null() || member.as_object().is_some_and(Map::is_empty);
                if empty || shape.has_free_keys() {
                    child.here = true;
                }
            }
            set.below.retain(|_, it| !it.is_empty());
        }
        Value::Array(items) => {
            let kind = shape.list();
            if kind == ListKind::Atomic {
                set.here = true;
                return;
            }
            for item in items {
                if let Some(name) = element(kind, item) {
                    let child = set.child(&name);
                    collect(shape.item(), item, child);
                    child.here = true;
                }
            }
        }
        _ => set.here = true,
    }
}

/// What changed from `old` to `new`.
pub(super) fn compare(shape: Shape<'_>, old: &Value, new: &Value) -> Comparison {
    let mut result = Comparison::default();
    let mut path = Vec::new();
    visit(shape, Some(old), Some(new), &mut path, &mut result);
    result
}

fn visit(
    shape: Shape<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<String>,
    result: &mut Comparison,
) {
    let either = new.filter(|it| !it.is_null()).or(old.filter(|it| !it.is_null())).or(new).or(old);
    let both_kinds_differ = matches!((old, new), (Some(old), Some(new))
        if !old.is_null() && !new.is_null() && kind_of(old) != kind_of(new));
    let leaf = both_kinds_differ
        || match either {
            Some(Value::Object(_)) => shape.is_atomic_map() || is_empty(old) && is_empty(new),
            Some(Value::Array(_)) => shape.list() == ListKind::Atomic || is_empty(old) && is_empty(new),
            _ => true,
        };
    if leaf {
        match (old, new) {
            (None, Some(_)) => insert(&mut result.added, path),
            (Some(_), None) => insert(&mut result.removed, path),
            (Some(old), Some(new)) if old != new => insert(&mut result.modified, path),
            _ => {}
        }
        return;
    }
    match either {
        Some(Value::Object(_)) => visit_members(shape, old, new, path, result),
        _ => visit_items(shape, old, new, path, result),
    }
    match (old, new) {
        (None, Some(_)) => insert(&mut result.added, path),
        (Some(_), None) => insert(&mut result.removed, path),
        _ => {}
    }
}

fn visit_members(
    shape: Shape<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<String>,
    result: &mut Comparison,
) {
    let none = Map::new();
    let before = old.and_then(Value::as_object).unwrap_or(&none);
    let after = new.and_then(Value::as_object).unwrap_or(&none);
    let names = before.keys().chain(after.keys().filter(|it| !before.contains_key(*it)));
    for name in names {
        let (old, new) = (before.get(name), after.get(name));
        if old == new {
            continue;
        }
        path.push(format!("f:{name}"));
        visit(shape.member(name), old, new, path, result);
        path.pop();
    }
}

fn visit_items<'a>(
    shape: Shape<'_>,
    old: Option<&'a Value>,
    new: Option<&'a Value>,
    path: &mut Vec<String>,
    result: &mut Comparison,
) {
    let kind = shape.list();
    let (before, after) = (named(kind, old), named(kind, new));
    let find = |list: &[(String, &'a Value)], name: &str| -> Vec<&'a Value> {
        list.iter().filter(|(it, _)| it == name).map(|(_, value)| *value).collect()
    };
    let mut seen: Vec<&str> = Vec::new();
    for (name, _) in before.iter().chain(&after) {
        if seen.contains(&name.as_str()) {
            continue;
        }
        seen.push(name);
        path.push(name.clone());
        // Items with one name count as one thing without parts, and one that is alone as another thing than several.
        match (find(&before, name).as_slice(), find(&after, name).as_slice()) {
            (old @ ([] | [_]), new @ ([] | [_])) => {
                visit(shape.item(), old.first().copied(), new.first().copied(), path, result);
            }
            (old @ [_, _, ..], new @ [_, _, ..]) => {
                if old != new {
                    insert(&mut result.modified, path);
                }
            }
            ([_, _, ..], new) => {
                if let Some(new) = new.first() {
                    visit(shape.item(), None, Some(new), path, result);
                }
                insert(&mut result.removed, path);
            }
            (old, _) => {
                if let Some(old) = old.first() {
                    visit(shape.item(), Some(old), None, path, result);
                }
                insert(&mut result.added, path);
            }
        }
        path.pop();
    }
}

/// The items of a list with their names.
fn named<'a>(kind: ListKind<'_>, list: Option<&'a Value>) -> Vec<(String, &'a Value)> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|it| Some((element(kind, it)?, it))).collect()
}

fn insert(set: &mut FieldSet, path: &[String]) {
    let place = path.iter().fold(set, |set, element| set.child(element));
    place.here = true;
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(members)) => members.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

fn kind_of(value: &Value) -> u8 {
    match value {
        Value::Object(_) => 0,
        Value::Array(_) => 1,
        _ => 2,
    }
}
