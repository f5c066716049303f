//! Strategic merge patch, for built-in kinds: lists merge by key where the API says so, and `$` directives say more.

use serde_json::{Map, Value};

use crate::server::schema::{Keys, ListKind, Shape};

/// Lists that merge by one key here, though server-side apply keys them otherwise or treats them as one value.
const MERGE_KEYS: &[(&str, &str, &str)] = &[
    ("*", "ports", "containerPort"),
    ("spec", "ports", "port"),
    ("spec", "topologySpreadConstraints", "topologyKey"),
    ("metadata", "ownerReferences", "uid"),
];

/// Applies `patch` to `target`.
pub fn strategic(target: &mut Value, patch: &Value) {
    merge_value(Shape::root(None), ["", ""], target, patch);
}

fn merge_value(shape: Shape<'_>, path: [&str; 2], target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            *target = Value::Object(without_directives(patch));
            return;
        }
        Some("delete") => {
            *target = Value::Object(Map::new());
            return;
        }
        _ => {}
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let members = target.as_object_mut().expect("it was made an object just above");
    if let Some(kept) = patch.get("$retainKeys").and_then(Value::as_array) {
        members.retain(|name, _| kept.iter().any(|it| it == name));
    }
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            delete_values(members, list, value);
        }
    }
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        merge_member(shape.member(name), [path[1], name], members, name, value);
    }
    for (name, order) in patch {
        if let Some(list) = name.strip_prefix("$setElementOrder/") {
            let key = merge_key(shape.member(list), [path[1], list]);
            if let (Some(Value::Array(items)), Some(order)) = (members.get_mut(list), order.as_array()) {
                let server_order = items.clone();
                order_items(items, order, &server_order, key.as_deref());
            }
        }
    }
}

fn merge_member(
    shape: Shape<'_>,
    path: [&str; 2],
    members: &mut Map<String, Value>,
    name: &str,
    value: &Value,
) {
    match value {
        Value::Null => {
            members.remove(name);
        }
        // A list that was not there is taken as it is, even with items that have the same key.
        Value::Array(_) if !members.contains_key(name) => {
            members.insert(name.to_owned(), plain(value));
        }
        Value::Array(patch) => {
            let current = members.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            let key = merge_key(shape, path);
            match (current, key) {
                (Value::Array(items), Some(key)) => {
                    let before = items.clone();
                    merge_keyed(shape.item(), path, items, patch, &key);
                    order_items(items, patch, &before, Some(&key));
                }
                (Value::Array(items), None) if shape.list() == ListKind::Set => {
                    let before = items.clone();
                    items.extend(patch.iter().filter(|it| !items.contains(it)).cloned().collect::<Vec<_>>());
                    order_items(items, patch, &before, None);
                }
                (current, _) => *current = value.clone(),
            }
        }
        Value::Object(patch) => {
            if !members.contains_key(name) && patch.get("$patch").is_some_and(|it| it == "delete") {
                return;
            }
            let current = members.entry(name).or_insert_with(|| Value::Object(Map::new()));
            merge_value(shape, path, current, value);
            if patch.get("$patch").is_some_and(|it| it == "delete") {
                members.remove(name);
            }
        }
        scalar => {
            members.insert(name.to_owned(), scalar.clone());
        }
    }
}

fn merge_keyed(shape: Shape<'_>, path: [&str; 2], items: &mut Vec<Value>, patch: &[Value], key: &str) {
    if patch.iter().any(|it| it["$patch"] == "replace") {
        *items = patch.iter().filter(|it| it["$patch"] != "replace").cloned().collect();
        return;
    }
    for change in patch {
        let place = items.iter().position(|it| it[key] == change[key]);
        if change["$patch"] == "delete" {
            items.retain(|it| it[key] != change[key]);
            continue;
        }
        match place {
            Some(place) => merge_value(shape, path, &mut items[place], change),
            None => {
                let mut added = Value::Object(Map::new());
                merge_value(shape, path, &mut added, change);
                items.push(added);
            }
        }
    }
}

fn merge_key(shape: Shape<'_>, path: [&str; 2]) -> Option<String> {
    let known = MERGE_KEYS
        .iter()
        .find(|(parent, field, _)| *field == path[1] && (*parent == "*" || *parent == path[0]));
    if let Some((_, _, key)) = known.filter(|row| row.0 != "*" || path[0] != "spec") {
        return Some((*key).to_owned());
    }
    match shape.list() {
        ListKind::Keyed(Keys::Known(keys)) => keys.first().map(|(name, _)| (*name).to_owned()),
        _ => None,
    }
}

/// A value without what directives are about, and without them.
fn plain(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().filter(|it| it["$patch"].is_null()).map(plain).collect(),
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, it)| !name.starts_with('$') && it["$patch"].is_null());
            kept.map(|(name, it)| (name.clone(), plain(it))).collect()
        }
        scalar => scalar.clone(),
    }
}

fn delete_values(members: &mut Map<String, Value>, list: &str, gone: &Value) {
    let gone = gone.as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(Value::Array(items)) = members.get_mut(list) {
        items.retain(|it| !gone.contains(it));
    }
}

/// The items the patch names come in its order, the others in the server's. Between the two kinds the server's order
/// counts where it knows both, and else the patch's item comes first.
fn order_items(items: &mut Vec<Value>, patch: &[Value], server: &[Value], key: Option<&str>) {
    let rank = |list: &[Value], item: &Value| {
        list.iter().position(|it| key.map_or(it == item, |key| it[key] == item[key]))
    };
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        std::mem::take(items).into_iter().partition(|it| rank(patch, it).is_some());
    named.sort_by_key(|it| rank(patch, it));
    others.sort_by_key(|it| rank(server, it));
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (named.peek(), others.peek()) {
            (None, None) => return,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (Some(named), Some(other)) => match (rank(server, other), rank(server, named)) {
                (Some(other), Some(named)) => other < named,
                _ => false,
            },
        };
        items.extend(if other_first { others.next() } else { named.next() });
    }
}

fn without_directives(members: &Map<String, Value>) -> Map<String, Value> {
    members
        .iter()
        .filter(|(name, _)| !name.starts_with('$'))
        .map(|(name, it)| (name.clone(), it.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(mut target: Value, patch: Value) -> Value {
        strategic(&mut target, &patch);
        target
    }

    #[test]
    fn conditions_merge_by_type() {
        let pod = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "X", "status": "1"}]}});
        let patch =
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "New"}]}});
        let expected = json!({"status": {"conditions": [
            {"type": "Ready", "status": "False"}, {"type": "New"}, {"type": "X", "status": "1"},
        ]}});
        assert_eq!(patched(pod, patch), expected);
    }

    #[test]
    fn containers_merge_by_name_and_delete_by_directive() {
        let pod = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}});
        let patch =
            json!({"spec": {"containers": [{"name": "a", "image": "2"}, {"name": "b", "$patch": "delete"}]}});
        assert_eq!(patched(pod, patch), json!({"spec": {"containers": [{"name": "a", "image": "2"}]}}));
    }

    #[test]
    fn finalizers_are_added_deleted_and_ordered() {
        let object = json!({"metadata": {"finalizers": ["a", "b"]}});
        let patch = json!({"metadata": {
            "finalizers": ["c"],
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "$setElementOrder/finalizers": ["c", "b"],
        }});
        assert_eq!(patched(object, patch), json!({"metadata": {"finalizers": ["c", "b"]}}));
    }

    #[test]
    fn owners_merge_by_uid_and_labels_go_with_null() {
        let object = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "ownerReferences": [{"uid": "1", "name": "x"}]}});
        let patch = json!({"metadata": {
            "labels": {"a": null},
            "ownerReferences": [{"uid": "1", "$patch": "delete"}, {"uid": "2", "name": "y"}],
        }});
        let expected =
            json!({"metadata": {"labels": {"b": "2"}, "ownerReferences": [{"uid": "2", "name": "y"}]}});
        assert_eq!(patched(object, patch), expected);
    }

    #[test]
    fn a_list_that_was_not_there_may_have_a_key_twice_and_loses_both_at_once() {
        let twice = json!([{"uid": "1", "name": "x"}, {"uid": "1", "name": "y"}]);
        let object = patched(json!({"metadata": {}}), json!({"metadata": {"ownerReferences": twice}}));
        assert_eq!(object, json!({"metadata": {"ownerReferences": twice}}));
        let none =
            patched(object, json!({"metadata": {"ownerReferences": [{"uid": "1", "$patch": "delete"}]}}));
        assert_eq!(none, json!({"metadata": {"ownerReferences": []}}));
    }

    #[test]
    fn lists_without_a_key_are_replaced() {
        let pod =
            json!({"spec": {"tolerations": [{"key": "a"}], "containers": [{"name": "a", "args": ["1"]}]}});
        let patch =
            json!({"spec": {"tolerations": [{"key": "b"}], "containers": [{"name": "a", "args": ["2"]}]}});
        assert_eq!(patched(pod, patch.clone()), patch);
    }
}
