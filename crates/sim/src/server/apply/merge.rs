//! Merges an applied object into a live one, and takes out what the applier no longer names.

use serde_json::{Map, Value};

use super::{set::FieldSet, walk::element};
use crate::server::schema::{ListKind, Shape};

/// `live` with everything that `applied` says.
pub(super) fn merge(shape: Shape<'_>, live: &Value, applied: &Value) -> Value {
    match (live, applied) {
        (Value::Object(live), Value::Object(applied)) if !shape.is_atomic_map() => {
            let mut result = live.clone();
            for (name, value) in applied {
                let merged = match live.get(name) {
                    Some(live) => merge(shape.member(name), live, value),
                    None => value.clone(),
                };
                result.insert(name.clone(), merged);
            }
            Value::Object(result)
        }
        (Value::Array(live), Value::Array(applied)) if shape.list() != ListKind::Atomic => {
            Value::Array(merge_lists(shape, live, applied))
        }
        _ => applied.clone(),
    }
}

/// Two cursors: items only the live list has come where they stand, shared items in the order of the applied list.
fn merge_lists(shape: Shape<'_>, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let kind = shape.list();
    let named = |list: &[Value]| -> Vec<(String, Value)> {
        list.iter().filter_map(|it| Some((element(kind, it)?, it.clone()))).collect()
    };
    let (live, applied) = (named(live), named(applied));
    let in_live = |name: &str| live.iter().find(|(it, _)| it == name).map(|(_, value)| value);
    let is_applied = |name: &str| applied.iter().any(|(it, _)| it == name);
    let merged = |(name, value): &(String, Value)| {
        in_live(name).map_or_else(|| value.clone(), |it| merge(shape.item(), it, value))
    };

    let mut result = Vec::with_capacity(live.len().max(applied.len()));
    let (mut left, mut right) = (0, 0);
    while left < live.len() || right < applied.len() {
        if let (Some((name, _)), Some((wanted, _))) = (live.get(left), applied.get(right)) {
            if name == wanted {
                result.push(merged(&applied[right]));
                (left, right) = (left + 1, right + 1);
                continue;
            }
            let next_shared = applied[right..].iter().map(|(it, _)| it).find(|it| in_live(it).is_some());
            if is_applied(name) && next_shared.is_some_and(|it| it != name) {
                left += 1;
                continue;
            }
        }
        if let Some((name, value)) = live.get(left) {
            if !is_applied(name) {
                result.push(value.clone());
                left += 1;
                continue;
            }
            if applied[..right].iter().any(|(it, _)| it == name) {
                left += 1;
            }
        }
        if let Some(item) = applied.get(right) {
            result.push(merged(item));
            right += 1;
        }
    }
    result
}

/// `value` without the fields in `gone`.
pub(super) fn remove_fields(shape: Shape<'_>, value: &Value, gone: &FieldSet) -> Value {
    match value {
        Value::Object(members) if !shape.is_atomic_map() => {
            let mut result = Map::new();
            for (name, member) in members {
                match gone.below.get(&format!("f:{name}")) {
                    Some(set) if set.here => {}
                    Some(set) => {
                        let rest = remove_fields(shape.member(name), member, set);
                        // A list or map that loses its last entry goes with it.
                        if rest == *member || !is_empty(&rest) {
                            result.insert(name.clone(), rest);
                        }
                    }
                    None => {
                        result.insert(name.clone(), member.clone());
                    }
                }
            }
            Value::Object(result)
        }
        Value::Array(items) if shape.list() != ListKind::Atomic => {
            let kind = shape.list();
            let keep = items.iter().filter_map(|item| {
                let set = element(kind, item).and_then(|it| gone.below.get(&it));
                match set {
                    Some(set) if set.here => None,
                    Some(set) => Some(remove_fields(shape.item(), item, set)),
                    None => Some(item.clone()),
                }
            });
            Value::Array(keep.collect())
        }
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn containers_merge_by_name_and_commands_as_a_whole() {
        let live = json!({"spec": {"containers": [
            {"name": "side", "image": "s"}, {"name": "main", "image": "a", "args": ["1", "2"], "tty": true},
        ]}});
        let applied = json!({"spec": {"containers": [{"name": "main", "image": "b", "args": ["3"]}]}});
        let expected = json!({"spec": {"containers": [
            {"name": "side", "image": "s"}, {"name": "main", "image": "b", "args": ["3"], "tty": true},
        ]}});
        assert_eq!(merge(Shape::root(None), &live, &applied), expected);
    }

    #[test]
    fn sets_keep_foreign_values() {
        let live = json!({"metadata": {"finalizers": ["a", "b"]}});
        let applied = json!({"metadata": {"finalizers": ["c"]}});
        let merged = merge(Shape::root(None), &live, &applied);
        assert_eq!(merged, json!({"metadata": {"finalizers": ["a", "b", "c"]}}));
    }
}
