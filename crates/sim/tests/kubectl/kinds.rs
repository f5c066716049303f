//! What there is, and custom kinds: the definitions of `config/crd` themselves.

use serde_json::json;

use crate::desk::{Desk, words};

fn definitions() -> String {
    format!("{}/../../config/crd", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn kubectl_learns_kinds_versions_and_fields() {
    let desk = Desk::open();
    assert!(desk.get(&["version"]).contains("Server Version: v1.34"));
    let kinds = desk.get(&["api-resources"]);
    let row = kinds.lines().find(|it| it.starts_with("deployments ")).unwrap();
    assert_eq!(words(row), ["deployments", "deploy", "apps/v1", "true", "Deployment"]);
    assert!(desk.get(&["api-versions"]).contains("policy/v1"));
    let told = desk.get(&["explain", "pod.spec.containers.image"]);
    assert!(told.contains("FIELD: image <string>"), "{told}");
}

#[test]
fn custom_kinds_have_columns_scale_and_explanations() {
    let desk = Desk::open();
    desk.get(&["apply", "--server-side", "-f", &definitions()]);
    let cloneset = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                         "spec": {"containers": [{"name": "main", "image": "web:1"}]}},
        },
    });
    let said = desk.apply(&cloneset, &[]);
    assert_eq!(said.out, "cloneset.apps.kruise.io/web created\n", "{}", said.err);
    let table = desk.get(&["get", "clone"]);
    assert!(words(table.lines().next().unwrap()).starts_with(&["NAME", "DESIRED"]), "{table}");
    assert_eq!(words(table.lines().nth(1).unwrap())[..2], ["web", "3"], "{table}");

    desk.get(&["scale", "clonesets.apps.kruise.io", "web", "--replicas=7"]);
    assert_eq!(desk.get(&["get", "clone", "web", "-o", "jsonpath={.spec.replicas}"]), "7");
    let told = desk.get(&["explain", "cloneset.spec.updateStrategy"]);
    assert!(
        told.contains("FIELD: updateStrategy <Object>") && told.contains("rollingUpdate\t<Object>"),
        "{told}"
    );
    let told = desk.get(&["describe", "clone", "web"]);
    assert!(told.contains("Kind:         CloneSet"), "{told}");
    desk.get(&["delete", "clone", "web"]);
    assert_eq!(desk.get(&["get", "clone", "-o", "name"]), "");
}

#[test]
fn a_definition_that_comes_later_is_found() {
    let desk = Desk::open();
    assert!(desk.refused(&["get", "clonesets"]).contains("the server doesn't have a resource type"));
    desk.get(&["apply", "--server-side", "-f", &definitions()]);
    desk.get(&["get", "clonesets"]);
}
