//! `fieldValidation=Strict`: fields that the kind does not have are refused and not dropped.

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
    let target = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    let name = target.and_then(|it| it.strip_prefix("#/components/schemas/"));
    name.and_then(|it| parts.get(it)).unwrap_or(schema)
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
