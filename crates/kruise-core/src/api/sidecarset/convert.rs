//! SidecarSet between v1alpha1 and v1beta1.

use serde_json::{Value, json};

use super::{keys, v1alpha1, v1beta1};
use crate::api::convert::{Facet, Path, Shape, Version, decodes_as};

/// How SidecarSets are converted.
pub(crate) const SHAPE: Shape =
    Shape { to_beta, to_alpha, facets, decodes: decodes_as::<v1alpha1::SidecarSet, v1beta1::SidecarSet> };

/// Label that every namespace carries with its own name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

fn to_beta(object: &mut Value) {
    let label = Path::label(keys::CUSTOM_VERSION);
    let version = label.get(object).cloned();
    label.set(object, None);
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(version) = version {
        spec.insert("customVersion".to_owned(), version);
    }
    let namespace = spec.remove("namespace");
    if let Some(namespace) = namespace.as_ref().and_then(Value::as_str).filter(|it| !it.is_empty()) {
        let selector = json!({ "matchLabels": { NAMESPACE_NAME: namespace } });
        spec.insert("namespaceSelector".to_owned(), selector);
    }
}

fn to_alpha(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let version = spec.remove("customVersion");
    if version.as_ref().and_then(Value::as_str).is_some_and(|it| !it.is_empty()) {
        Path::label(keys::CUSTOM_VERSION).set(object, version);
    }
}

fn facets(version: Version, _: &Value) -> Vec<Facet> {
    let label = Path::label(keys::CUSTOM_VERSION);
    let custom_version = Path::fields("spec.customVersion");
    let selector = Path::fields("spec.namespaceSelector");
    match version {
        Version::Alpha => vec![
            Facet::new(label, [custom_version]),
            Facet::new(Path::fields("spec.namespace"), [selector.clone()]),
            Facet::new(selector.clone(), [selector]),
        ],
        Version::Beta => {
            vec![Facet::new(custom_version, [label.clone()]), Facet::new(label.clone(), [label])]
        }
    }
}
