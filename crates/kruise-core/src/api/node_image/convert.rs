//! NodeImage between v1alpha1 and v1beta1: only v1beta1 knows the mode of a secret.

use serde_json::Value;

use super::{v1alpha1, v1beta1};
use crate::api::convert::{Facet, Path, Shape, Version, decodes_as};

/// How NodeImages are converted.
pub(crate) const SHAPE: Shape =
    Shape { to_beta, to_alpha, facets, decodes: decodes_as::<v1alpha1::NodeImage, v1beta1::NodeImage> };

fn to_beta(_: &mut Value) {}

fn to_alpha(object: &mut Value) {
    let images = object.pointer_mut("/spec/images").and_then(Value::as_object_mut);
    for image in images.into_iter().flat_map(|it| it.values_mut()) {
        let secrets = image.get_mut("pullSecrets").and_then(Value::as_array_mut);
        for secret in secrets.into_iter().flatten().filter_map(Value::as_object_mut) {
            secret.remove("mode");
        }
    }
}

/// The mode of each secret by itself, so that adding one secret leaves the modes of the others alone; the whole list
/// only where two entries name the same secret.
fn facets(version: Version, object: &Value) -> Vec<Facet> {
    if version == Version::Alpha {
        return Vec::new();
    }
    let mut facets = Vec::new();
    let images = object.pointer("/spec/images").and_then(Value::as_object);
    for (name, image) in images.into_iter().flatten() {
        let list = Path::fields("spec.images").field(name).field("pullSecrets");
        let secrets = image.get("pullSecrets").and_then(Value::as_array);
        for secret in secrets.into_iter().flatten() {
            let text = |it: &str| secret.get(it).and_then(Value::as_str).unwrap_or_default().to_owned();
            let entry = vec![("namespace", text("namespace")), ("name", text("name"))];
            facets.push(Facet::new(list.clone().entry(entry).field("mode"), []));
        }
        facets.push(Facet::new(list.clone(), [list]));
    }
    facets
}
