//! OpenAPI v3: what `kubectl apply` asks before it leaves checking to the server, and what `kubectl explain` shows.
//!
//! Strategic merge patches are left out of the documents on purpose: kubectl then takes the merge keys of built-in
//! kinds from its own types, which have all of them.

mod builtin;

use serde_json::{Map, Value, json};

pub(super) use builtin::{components, schema};

use super::registry::{Registry, Resource};

/// The name of the schema of metadata.
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Where the documents are.
pub(super) fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for resource in registry.all() {
        let place = place(&resource.group, &resource.version);
        // Clients keep documents by address: the mark changes when a kind of the group does.
        let mark = mark(registry, &resource.group, &resource.version);
        let address = format!("/openapi/v3/{place}?hash={mark:016x}");
        paths.insert(place, json!({"serverRelativeURL": address}));
    }
    json!({"paths": paths})
}

/// The document of one group and version.
pub(super) fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for resource in registry.all().filter(|it| it.group == group && it.version == version) {
        add_paths(&mut paths, resource);
        add_schema(&mut schemas, resource);
    }
    if paths.is_empty() {
        return None;
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": super::discovery::VERSION},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

fn place(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn mark(registry: &Registry, group: &str, version: &str) -> u64 {
    let kinds = registry.all().filter(|it| it.group == group && it.version == version);
    let mut mark = crate::seed::Seed::new(0);
    for kind in kinds {
        mark = mark.of(&kind.kind);
        if let Some(schema) = &kind.schema {
            mark = mark.of(&schema.to_string());
        }
    }
    mark.bits()
}

fn gvk(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

fn add_paths(paths: &mut Map<String, Value>, resource: &Resource) {
    let root = format!("/{}", place(&resource.group, &resource.version));
    let inside = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let list = format!("{root}{inside}/{}", resource.plural);
    let operation = |action: &str, parameters: &[&str]| {
        let parameters: Vec<Value> = parameters
            .iter()
            .map(|it| json!({"name": it, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
            .collect();
        json!({
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk(resource),
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
        })
    };
    let writing = ["dryRun", "fieldManager", "fieldValidation"];
    let applying = ["dryRun", "fieldManager", "fieldValidation", "force"];
    let mut patch = operation("patch", &applying);
    let any = json!({"schema": {"type": "object"}});
    patch["requestBody"] = json!({"content": {
        "application/apply-patch+yaml": any, "application/json-patch+json": any, "application/merge-patch+json": any,
    }});
    paths.insert(
        format!("{list}/{{name}}"),
        json!({
            "get": operation("get", &[]),
            "put": operation("put", &writing),
            "patch": patch,
            "delete": operation("delete", &["dryRun", "gracePeriodSeconds", "propagationPolicy"]),
        }),
    );
    paths.insert(list, json!({"get": operation("list", &[]), "post": operation("post", &writing)}));
}

fn add_schema(schemas: &mut Map<String, Value>, resource: &Resource) {
    let (name, mut schema) = match (&resource.schema, resource.traits.custom) {
        (_, false) => {
            let Some(name) = builtin::schema(&resource.api_version(), &resource.kind) else { return };
            builtin::copy_with_parts(name, schemas);
            (name.to_owned(), schemas.remove(name).unwrap_or_default())
        }
        (schema, true) => {
            builtin::copy_with_parts(OBJECT_META, schemas);
            let mut schema = schema.as_deref().cloned().unwrap_or_else(|| json!({"type": "object"}));
            describe_head(&mut schema);
            (custom_name(resource), schema)
        }
    };
    schema["x-kubernetes-group-version-kind"] = json!([gvk(resource)]);
    schemas.insert(name, schema);
}

/// The members every object has, which definitions leave out or leave blank.
fn describe_head(schema: &mut Value) {
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let properties = &mut schema["properties"];
    properties["apiVersion"] =
        json!({"type": "string", "description": "The version of the object's schema."});
    properties["kind"] = json!({"type": "string", "description": "The kind of the object."});
    properties["metadata"] = json!({
        "description": "Standard object's metadata.",
        "allOf": [{"$ref": format!("#/components/schemas/{OBJECT_META}")}],
    });
}

/// `apps.kruise.io/v1alpha1`, `CloneSet` becomes `io.kruise.apps.v1alpha1.CloneSet`.
fn custom_name(resource: &Resource) -> String {
    let group: Vec<&str> = resource.group.rsplit('.').collect();
    format!("{}.{}.{}", group.join("."), resource.version, resource.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_kind_is_described_and_may_be_checked_by_the_server() {
        let registry = Registry::builtin();
        for resource in registry.all() {
            let document = document(&registry, &resource.group, &resource.version).unwrap();
            let schemas = document["components"]["schemas"].as_object().unwrap();
            let gvk = json!([gvk(resource)]);
            let found = schemas.values().find(|it| it["x-kubernetes-group-version-kind"] == gvk);
            assert!(found.is_some(), "{} has no schema", resource.kind);
            for schema in schemas.values() {
                assert_references_lead_somewhere(schema, schemas);
            }
        }
        let address = index(&registry)["paths"]["apis/apps/v1"]["serverRelativeURL"].clone();
        assert!(address.as_str().unwrap().starts_with("/openapi/v3/apis/apps/v1?hash="));
    }

    fn assert_references_lead_somewhere(value: &Value, schemas: &Map<String, Value>) {
        match value {
            Value::Object(members) => {
                if let Some(target) = members.get("$ref").and_then(Value::as_str) {
                    let name = target.trim_start_matches("#/components/schemas/");
                    assert!(schemas.contains_key(name), "{target} leads nowhere");
                }
                members.values().for_each(|it| assert_references_lead_somewhere(it, schemas));
            }
            Value::Array(items) => items.iter().for_each(|it| assert_references_lead_somewhere(it, schemas)),
            _ => {}
        }
    }

    #[test]
    fn group_versions_of_definitions_are_named_as_the_real_server_names_them() {
        let pods = Registry::builtin().by_kind("v1", "Pod").unwrap();
        let resource =
            Resource { group: "apps.kruise.io".into(), version: "v1alpha1".into(), ..(*pods).clone() };
        assert_eq!(custom_name(&resource), "io.kruise.apps.v1alpha1.Pod");
    }
}
