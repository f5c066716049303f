//! The API reference, one page per kind, from the same definitions as the CRDs.

use std::fmt::Write;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// The page of one kind.
pub(super) fn page(crd: &CustomResourceDefinition) -> String {
    let names = &crd.spec.names;
    let mut page = format!("# {}\n\n", names.kind);
    let scope = if crd.spec.scope == "Namespaced" { "in a namespace" } else { "of the whole cluster" };
    let _ = write!(page, "Group `{}`, resource `{}`, {scope}", crd.spec.group, names.plural);
    if let Some(short) = names.short_names.as_ref().filter(|it| !it.is_empty()) {
        let _ = write!(page, ", short `{}`", short.join("`, `"));
    }
    page.push_str(".\n");
    // The stored version first: it is the one to write new manifests in.
    let mut versions: Vec<_> = crd.spec.versions.iter().collect();
    versions.sort_by_key(|it| !it.storage);
    for version in versions {
        let stored = if version.storage { ", stored" } else { ", converted" };
        let _ = write!(page, "\n## {}{stored}\n\n", version.name);
        page.push_str("| field | type | description |\n| --- | --- | --- |\n");
        let schema = version.schema.as_ref().and_then(|it| it.open_api_v3_schema.as_ref());
        let schema = serde_json::to_value(schema).unwrap_or_default();
        for part in ["spec", "status"] {
            let part_schema = &schema["properties"][part];
            if part_schema.is_object() {
                rows(part_schema, part, &mut page);
            }
        }
    }
    page
}

fn rows(schema: &Value, path: &str, page: &mut String) {
    let fields = schema["properties"].as_object();
    for (name, field) in fields.into_iter().flatten() {
        let path = format!("{path}.{name}");
        let required = schema["required"].as_array().is_some_and(|it| it.iter().any(|it| it == name));
        let _ = writeln!(page, "| `{path}` | {} | {} |", kind_of(field), words(field, required));
        rows(field, &path, page);
        rows(&field["items"], &format!("{path}[]"), page);
        rows(&field["additionalProperties"], &format!("{path}.*"), page);
    }
}

fn kind_of(field: &Value) -> String {
    if field["x-kubernetes-int-or-string"] == true {
        return "integer or percent".to_owned();
    }
    match field["type"].as_str() {
        Some("array") => format!("list of {}", kind_of(&field["items"])),
        Some("object") if field["additionalProperties"].is_object() => {
            format!("map of {}", kind_of(&field["additionalProperties"]))
        }
        Some(kind) => kind.to_owned(),
        None => "any".to_owned(),
    }
}

fn words(field: &Value, required: bool) -> String {
    let description = field["description"].as_str().unwrap_or_default();
    let mut words = description.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    if required {
        words.push_str(" **Required.**");
    }
    if let Some(values) = field["enum"].as_array() {
        let values: Vec<String> =
            values.iter().filter_map(Value::as_str).map(|it| format!("`{it}`")).collect();
        let _ = write!(words, " One of {}.", values.join(", "));
    }
    if !field["default"].is_null() {
        let _ = write!(words, " Default `{}`.", field["default"]);
    }
    for (bound, word) in [("minimum", "At least"), ("maximum", "At most")] {
        if let Some(value) = field[bound].as_f64() {
            let _ = write!(words, " {word} {value}.");
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_below_lists_and_maps_have_rows_of_their_own() {
        let schema = json!({"required": ["a"], "properties": {
            "a": {"type": "array", "description": "Some\n  words.", "items": {"type": "object", "properties": {
                "b": {"type": "string", "description": "Which.", "enum": ["X", "Y"], "default": "X"},
            }}},
            "c": {"type": "integer", "description": "How many.", "minimum": 0.0},
        }});
        let mut page = String::new();
        rows(&schema, "spec", &mut page);
        assert_eq!(
            page,
            "| `spec.a` | list of object | Some words. **Required.** |\n\
             | `spec.a[].b` | string | Which. One of `X`, `Y`. Default `\"X\"`. |\n\
             | `spec.c` | integer | How many. At least 0. |\n"
        );
    }
}
