//! What a decoder refuses: members of the wrong sort always, and with `fieldValidation=Strict` fields that the kind does not
//! have.

use serde_json::{Map, Value};

use super::{openapi, registry::Resource, status::Failure};

/// Refuses an object with fields that its kind does not have.
pub(super) fn check(resource: &Resource, object: &Value) -> Result<(), Failure> {
    let parts = openapi::components();
    let schema = match &resource.schema {
        Some(schema) => Some(&**schema),
        None => openapi::schema(&resource.api_version(), &resource.kind).and_then(|it| parts.get(it)),
    };
    let Some(schema) = schema else { return Ok(()) };
    let mut found = Vec::new();
    for (name, member) in object.as_object().into_iter().flatten() {
        let known = matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
        if !known {
            walk_member(schema, parts, name, member, name.clone(), &mut found);
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = found.iter().map(|it| format!("unknown field {it:?}")).collect();
    let (kind, version) = (&resource.kind, &resource.version);
    let texts = texts.join(", ");
    let message = if resource.traits.custom {
        format!("strict decoding error: {texts}")
    } else {
        format!("{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {texts}")
    };
    Err(Failure::bad_request(message))
}

/// What a decoder says about an object with a member of the wrong sort: a list, an object or neither where the kind has
/// something else. Scalars are not told apart, and of custom kinds only the metadata is looked at; the rest is their schema's.
pub(super) fn decode(resource: &Resource, object: &Value) -> Result<(), String> {
    let parts = openapi::components();
    let kind = &resource.kind;
    let fault = match parts.get(openapi::OBJECT_META) {
        Some(schema) => misfit(schema, parts, &object["metadata"], &format!("{kind}.metadata")),
        None => None,
    };
    let fault = fault.or_else(|| {
        let name = openapi::schema(&resource.api_version(), kind).filter(|_| !resource.traits.custom)?;
        misfit(parts.get(name)?, parts, object, kind)
    });
    fault.map_or(Ok(()), Err)
}

/// How Go calls the sort of a value.
pub(super) fn sort(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn misfit(schema: &Value, parts: &Map<String, Value>, value: &Value, path: &str) -> Option<String> {
    let name = reference(schema).unwrap_or_default();
    // These hold anything.
    if name.ends_with(".RawExtension") || name.ends_with(".JSON") || value.is_null() {
        return None;
    }
    let schema = resolved(schema, parts);
    let wanted = schema["type"].as_str()?;
    let fits = match value {
        Value::Object(_) => wanted == "object",
        Value::Array(_) => wanted == "array",
        _ => !matches!(wanted, "object" | "array"),
    };
    if !fits {
        let mut words = name.rsplit('.');
        let wanted = match (words.next().filter(|it| !it.is_empty()), words.next(), wanted) {
            (Some(kind), Some(version), _) => format!("{version}.{kind}"),
            (_, _, "object") => "map[string]interface {}".to_owned(),
            (_, _, "array") => "[]interface {}".to_owned(),
            (_, _, other) => other.to_owned(),
        };
        let found = sort(value);
        return Some(format!("json: cannot unmarshal {found} into Go struct field {path} of type {wanted}"));
    }
    match value {
        Value::Object(members) => members.iter().find_map(|(name, member)| {
            let schema = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
            misfit(schema, parts, member, &format!("{path}.{name}"))
        }),
        Value::Array(items) => items.iter().find_map(|it| misfit(&schema["items"], parts, it, path)),
        _ => None,
    }
}

fn walk(schema: &Value, parts: &Map<String, Value>, value: &Value, path: &str, found: &mut Vec<String>) {
    let schema = resolved(schema, parts);
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                walk_member(schema, parts, name, member, format!("{path}.{name}"), found);
            }
        }
        Value::Array(items) if schema["items"].is_object() => {
            for (index, item) in items.iter().enumerate() {
                walk(&schema["items"], parts, item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn walk_member(
    schema: &Value,
    parts: &Map<String, Value>,
    name: &str,
    member: &Value,
    path: String,
    found: &mut Vec<String>,
) {
    let (property, more) = (&schema["properties"][name], &schema["additionalProperties"]);
    if !property.is_null() {
        walk(property, parts, member, &path, found);
    } else if more.is_object() {
        walk(more, parts, member, &path, found);
    } else if schema["properties"].is_object()
        && schema["x-kubernetes-preserve-unknown-fields"] != true
        && *more != true
        && !(schema["x-kubernetes-embedded-resource"] == true
            && matches!(name, "apiVersion" | "kind" | "metadata"))
    {
        found.push(path);
    }
}

/// What a schema that refers to another one stands for.
fn resolved<'a>(schema: &'a Value, parts: &'a Map<String, Value>) -> &'a Value {
    reference(schema).and_then(|it| parts.get(it)).unwrap_or(schema)
}

fn reference(schema: &Value) -> Option<&str> {
    let target = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    target.and_then(|it| it.strip_prefix("#/components/schemas/"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::server::registry::Registry;

    #[test]
    fn a_misspelt_field_is_named_with_its_path() {
        let pods = Registry::builtin().by_kind("v1", "Pod").unwrap();
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"x": "y"}},
            "spec": {"nodeSelector": {"any": "thing"}, "containers": [{"name": "main", "image": "web",
                     "resources": {"requests": {"cpu": "1"}}, "ports": [{"containerPort": 80}]}]},
        });
        assert_eq!(check(&pods, &pod), Ok(()));
        pod["spec"]["containers"][0]["imagePullPolize"] = json!("Always");
        let failure = check(&pods, &pod).unwrap_err();
        let expected = "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \
                        \"spec.containers[0].imagePullPolize\"";
        assert_eq!((failure.code, failure.message.as_str()), (400, expected));
    }
}
