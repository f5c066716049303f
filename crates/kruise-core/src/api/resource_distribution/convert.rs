//! ResourceDistribution between v1alpha1 and v1beta1: two fields are spelled differently.

use serde_json::Value;

use super::{v1alpha1, v1beta1};
use crate::api::convert::{Facet, Path, Shape, Version, decodes_as};

/// How ResourceDistributions are converted.
pub(crate) const SHAPE: Shape = Shape {
    to_beta,
    to_alpha,
    facets,
    decodes: decodes_as::<v1alpha1::ResourceDistribution, v1beta1::ResourceDistribution>,
};

fn to_beta(object: &mut Value) {
    rename(object.pointer_mut("/spec/targets"), "namespaceLabelSelector", "namespaceSelector");
    for condition in conditions(object) {
        rename(Some(condition), "failedNamespace", "failedNamespaces");
    }
}

fn to_alpha(object: &mut Value) {
    rename(object.pointer_mut("/spec/targets"), "namespaceSelector", "namespaceLabelSelector");
    for condition in conditions(object) {
        rename(Some(condition), "failedNamespaces", "failedNamespace");
    }
}

fn conditions(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
}

fn rename(fields: Option<&mut Value>, from: &str, to: &str) {
    let Some(fields) = fields.and_then(Value::as_object_mut) else { return };
    if let Some(value) = fields.remove(from) {
        fields.insert(to.to_owned(), value);
    }
}

/// Nothing is lost unless an object uses both spellings at once.
fn facets(_: Version, _: &Value) -> Vec<Facet> {
    ["spec.targets", "status.conditions"].map(|it| Facet::new(Path::fields(it), [Path::fields(it)])).into()
}
