//! Looking into JSON trees.

use serde_json::{Map, Value};

/// What is at the end of these field names; `null` counts as nothing.
pub(crate) fn at<'a>(tree: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(tree, |it, name| it.get(name)).filter(|it| !it.is_null())
}

/// The text at the end of these field names.
pub(crate) fn text<'a>(tree: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(tree, path).and_then(Value::as_str)
}

/// The entries of the list at the end of these field names.
pub(crate) fn items<'a>(tree: &'a Value, path: &[&str]) -> &'a [Value] {
    at(tree, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The fields of `tree`, which becomes an object if it is nothing yet.
pub(crate) fn fields(tree: &mut Value) -> Option<&mut Map<String, Value>> {
    if tree.is_null() {
        *tree = Value::Object(Map::new());
    }
    tree.as_object_mut()
}

/// Sets a field that is missing, `null` or, where `zero` counts as missing too, that.
pub(crate) fn fill(fields: &mut Map<String, Value>, name: &str, zero: &Value, value: impl Into<Value>) {
    let is_missing = fields.get(name).is_none_or(|it| it.is_null() || it == zero);
    if is_missing {
        fields.insert(name.to_owned(), value.into());
    }
}

/// The tree without what says nothing: `null`s, empty lists and empty objects. Two trees that differ only in those are
/// equal to every reader of typed objects.
pub(crate) fn essence(tree: &Value) -> Value {
    match tree {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, it)| (name.clone(), essence(it)));
            Value::Object(fields.filter(|(_, it)| !is_nothing(it)).collect())
        }
        // Entries of lists keep their place.
        Value::Array(items) => Value::Array(items.iter().map(essence).collect()),
        other => other.clone(),
    }
}

/// Whether two trees mean the same.
pub(crate) fn is_same(a: Option<&Value>, b: Option<&Value>) -> bool {
    let essence = |it: Option<&Value>| it.map(essence).filter(|it| !is_nothing(it));
    essence(a) == essence(b)
}

fn is_nothing(tree: &Value) -> bool {
    match tree {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn trees_that_differ_only_in_nothing_are_the_same() {
        let a = json!({"a": [{"b": {}}, 1], "c": null, "d": {"e": []}});
        assert!(is_same(Some(&a), Some(&json!({"a": [{}, 1]}))));
        assert!(is_same(None, Some(&json!({"a": {"b": null}}))));
        assert!(!is_same(Some(&a), Some(&json!({"a": [1]}))));
        assert!(!is_same(Some(&json!({"a": ""})), Some(&json!({}))));
    }
}
