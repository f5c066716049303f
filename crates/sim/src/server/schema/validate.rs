//! Checks a value against a schema, with the words of the API server.

use serde_json::Value;

use crate::server::status::FieldError;

/// Everything in `object` that breaks the schema.
pub fn validate(schema: &Value, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(schema, object, "", &mut errors);
    errors
}

fn check(schema: &Value, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if value.is_null() && (schema["nullable"] == true || schema["type"].is_null()) {
        return;
    }
    if !has_type(schema, value) {
        let wanted = schema["type"].as_str().unwrap_or("integer,string");
        let found = type_name(value);
        let detail = format!("{} in body must be of type {wanted}: {found:?}", shown(path));
        errors.push(FieldError::wrong_type(path, value, &detail));
        return;
    }
    check_enum(schema, value, path, errors);
    match value {
        Value::Number(number) => check_range(schema, number, path, value, errors),
        Value::String(text) => check_text(schema, text, path, value, errors),
        Value::Array(items) => check_items(schema, items, path, value, errors),
        Value::Object(members) => {
            for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !members.contains_key(name) {
                    errors.push(FieldError::required(child(path, name), ""));
                }
            }
            for (name, member) in members {
                let property = &schema["properties"][name];
                if property.is_object() {
                    check(property, member, &child(path, name), errors);
                } else if schema["additionalProperties"].is_object() {
                    check(&schema["additionalProperties"], member, &child(path, name), errors);
                }
            }
            check_size(schema, ("minProperties", "maxProperties"), "properties", members.len(), path, errors);
        }
        _ => {}
    }
}

fn has_type(schema: &Value, value: &Value) -> bool {
    if schema["x-kubernetes-int-or-string"] == true {
        return value.is_string() || value.as_i64().is_some();
    }
    match schema["type"].as_str() {
        None => true,
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|it| it.fract() == 0.0)
        }
        Some(_) => true,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn check_enum(schema: &Value, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(allowed) = schema["enum"].as_array() else { return };
    if !allowed.contains(value) {
        let texts: Vec<String> =
            allowed.iter().map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned)).collect();
        errors.push(FieldError::unsupported(path, value, &texts));
    }
}

fn check_range(
    schema: &Value,
    number: &serde_json::Number,
    path: &str,
    value: &Value,
    errors: &mut Vec<FieldError>,
) {
    let Some(found) = number.as_f64() else { return };
    let bound = |name: &str| schema[name].as_f64();
    if let Some(least) = bound("minimum").filter(|it| found < *it) {
        let detail = format!("{} in body should be greater than or equal to {least}", shown(path));
        errors.push(FieldError::invalid(path, value, &detail));
    }
    if let Some(most) = bound("maximum").filter(|it| found > *it) {
        let detail = format!("{} in body should be less than or equal to {most}", shown(path));
        errors.push(FieldError::invalid(path, value, &detail));
    }
}

fn check_text(schema: &Value, text: &str, path: &str, value: &Value, errors: &mut Vec<FieldError>) {
    let length = text.chars().count() as u64;
    if let Some(most) = schema["maxLength"].as_u64().filter(|it| length > *it) {
        let message = format!("Too long: may not be more than {most} bytes");
        errors.push(FieldError { reason: "FieldValueTooLong", message, field: path.to_owned() });
    }
    if let Some(least) = schema["minLength"].as_u64().filter(|it| length < *it) {
        let detail = format!("{} in body should be at least {least} chars long", shown(path));
        errors.push(FieldError::invalid(path, value, &detail));
    }
    let Some(pattern) = schema["pattern"].as_str() else { return };
    // A pattern that Rust cannot read is one the real server would have refused with the definition.
    if regex::Regex::new(pattern).is_ok_and(|it| !it.is_match(text)) {
        let detail = format!("{} in body should match '{pattern}'", shown(path));
        errors.push(FieldError::invalid(path, value, &detail));
    }
}

fn check_items(schema: &Value, items: &[Value], path: &str, _: &Value, errors: &mut Vec<FieldError>) {
    if schema["items"].is_object() {
        for (index, item) in items.iter().enumerate() {
            check(&schema["items"], item, &format!("{path}[{index}]"), errors);
        }
    }
    check_size(schema, ("minItems", "maxItems"), "items", items.len(), path, errors);

    let keys: Vec<&str> = match schema["x-kubernetes-list-type"].as_str() {
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            keys.filter_map(Value::as_str).collect()
        }
        Some("set") => Vec::new(),
        _ => return,
    };
    let identity = |item: &Value| -> Value {
        if keys.is_empty() {
            return item.clone();
        }
        keys.iter().map(|it| ((*it).to_owned(), item[*it].clone())).collect::<serde_json::Map<_, _>>().into()
    };
    let mut seen: Vec<Value> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let identity = identity(item);
        if seen.contains(&identity) {
            let message = format!("Duplicate value: {identity}");
            let field = format!("{path}[{index}]");
            errors.push(FieldError { reason: "FieldValueDuplicate", message, field });
        }
        seen.push(identity);
    }
}

fn check_size(
    schema: &Value,
    (least, most): (&str, &str),
    what: &str,
    found: usize,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    if let Some(least) = schema[least].as_u64().filter(|it| (found as u64) < *it) {
        let detail = format!("{} in body should have at least {least} {what}", shown(path));
        errors.push(FieldError::invalid(path, &Value::from(found), &detail));
    }
    if let Some(most) = schema[most].as_u64().filter(|it| (found as u64) > *it) {
        let message = format!("Too many: {found}: must have at most {most} items");
        errors.push(FieldError { reason: "FieldValueTooMany", message, field: path.to_owned() });
    }
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn shown(path: &str) -> &str {
    if path.is_empty() { "<nil>" } else { path }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(value: Value) -> Vec<String> {
        let schema = json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "maxLength": 3, "pattern": "^[a-z]+$"},
            "count": {"type": "integer", "minimum": 0, "maximum": 9},
            "mode": {"type": "string", "enum": ["A", "B"]},
            "either": {"x-kubernetes-int-or-string": true},
            "rows": {"type": "array", "maxItems": 2, "x-kubernetes-list-type": "map",
                     "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object"}},
            "open": {"type": "string", "nullable": true},
        }});
        validate(&schema, &value).into_iter().map(|it| format!("{}: {}", it.field, it.message)).collect()
    }

    #[test]
    fn a_good_object_passes() {
        let value = json!({"name": "abc", "count": 3, "mode": "A", "either": "50%", "rows": [{"k": 1}], "open": null});
        assert_eq!(messages(value), Vec::<String>::new());
    }

    #[test]
    fn every_fault_is_named_with_its_path() {
        let value = json!({"count": -1, "mode": "C", "either": [], "rows": [{"k": 1}, {"k": 1}, {"k": 2}]});
        let expected = [
            "name: Required value",
            "count: Invalid value: -1: count in body should be greater than or equal to 0",
            "either: Invalid value: \"array\": either in body must be of type integer,string: \"array\"",
            "mode: Unsupported value: \"C\": supported values: \"A\", \"B\"",
            "rows: Too many: 3: must have at most 2 items",
            "rows[1]: Duplicate value: {\"k\":1}",
        ];
        assert_eq!(messages(value), expected);
        assert_eq!(messages(json!({"name": "abcd"})), ["name: Too long: may not be more than 3 bytes"]);
        assert_eq!(messages(json!({"name": null})).len(), 1);
    }
}
