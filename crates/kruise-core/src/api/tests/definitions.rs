//! What each kind looks like from outside: names, columns, subresources, conversion.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use crate::api::crds;

/// One line for everything about a kind that is neither a field nor a description.
fn summary(crd: &CustomResourceDefinition) -> String {
    let names = &crd.spec.names;
    let words = |it: &Option<Vec<String>>| it.clone().unwrap_or_default().join(",");
    let conversion = crd.spec.conversion.as_ref().map_or("None", |it| it.strategy.as_str());
    let mut lines = vec![format!(
        "{} {} {} [{}] {} {conversion}",
        names.kind,
        names.plural,
        names.singular.clone().unwrap_or_default(),
        words(&names.short_names),
        crd.spec.scope,
    )];
    for version in &crd.spec.versions {
        let subresources = version.subresources.clone().unwrap_or_default();
        let scale = subresources.scale.as_ref().map(|it| {
            let selector = it.label_selector_path.as_deref().unwrap_or_default();
            format!(" scale({} {} {selector})", it.spec_replicas_path, it.status_replicas_path)
        });
        let columns = version.additional_printer_columns.iter().flatten().map(|it| {
            let wide = if it.priority == Some(1) { "+" } else { "" };
            format!("{wide}{}:{}", it.name, it.type_)
        });
        lines.push(format!(
            "  {}{}{}{} | {}",
            version.name,
            if version.storage { " stored" } else { "" },
            if subresources.status.is_some() { " status" } else { "" },
            scale.unwrap_or_default(),
            columns.collect::<Vec<_>>().join(" "),
        ));
    }
    lines.join("\n")
}

#[test]
fn names_columns_and_subresources_are_those_of_the_specification() {
    let found: Vec<_> = crds().iter().map(summary).collect();
    let expected = include_str!("definitions.txt");
    assert_eq!(found.join("\n"), expected.trim_end(), "if intended, change definitions.txt");
}

#[test]
fn every_kind_is_served_and_exactly_one_version_is_stored() {
    for crd in crds() {
        assert!(crd.spec.versions.iter().all(|it| it.served), "{}", crd.spec.names.kind);
        assert_eq!(crd.spec.versions.iter().filter(|it| it.storage).count(), 1, "{}", crd.spec.names.kind);
    }
}

#[test]
fn definitions_are_the_same_each_time() {
    assert_eq!(crds(), crds());
}

#[test]
fn a_column_reads_a_field_that_exists() {
    for crd in crds() {
        for version in &crd.spec.versions {
            let schema = version.schema.as_ref().and_then(|it| it.open_api_v3_schema.as_ref()).unwrap();
            let schema = serde_json::to_value(schema).unwrap();
            for column in version.additional_printer_columns.iter().flatten() {
                let path = column.json_path.trim_start_matches('.');
                if path.starts_with("metadata") || path.starts_with("spec.template") {
                    continue;
                }
                let pointer = path.split('.').map(|it| format!("/properties/{it}")).collect::<String>();
                assert!(schema.pointer(&pointer).is_some(), "{}: {}", crd.spec.names.kind, column.json_path);
            }
        }
    }
}

#[test]
fn the_words_of_an_update_strategy_may_be_left_blank() {
    let clonesets = crds().into_iter().find(|it| it.spec.names.kind == "CloneSet").unwrap();
    let clonesets = serde_json::to_value(clonesets).unwrap();
    let words = |version: usize, path: &[&str]| {
        let mut schema = &clonesets["spec"]["versions"][version]["schema"]["openAPIV3Schema"];
        for field in [&["spec", "updateStrategy"], path].concat() {
            schema = &schema["properties"][field];
        }
        assert_eq!(schema["type"], "string");
        schema["enum"].clone()
    };
    let alpha = json!(["ReCreate", "InPlaceIfPossible", "InPlaceOnly", "OnDelete", ""]);
    assert_eq!(words(0, &["type"]), alpha);
    assert_eq!(words(1, &["type"]), json!(["RollingUpdate", "OnDelete", ""]));
    let policies = json!(["ReCreate", "InPlaceIfPossible", "InPlaceOnly", ""]);
    assert_eq!(words(1, &["rollingUpdate", "podUpdatePolicy"]), policies);
}
