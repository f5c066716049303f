//! The member object: body, then overrides, then the cluster's numbers, then our marks. Pure.
//!
//! The result is what server-side apply sends under the field manager `fleet-agent`: every field in it is ours, and a
//! field that is not in it belongs to whoever wrote it.

mod cloneset;
mod overrides;
pub(super) mod pull_job;
mod registries;

use std::collections::BTreeSet;

use kruise_core::{
    admission::{Version, cloneset::default},
    api::{
        self, APPS_V1BETA1,
        fleet::{FederatedObject, Slice, assignment::AssignmentSpec},
    },
    revision::data::RevisionData,
    runtime::{gates::Gates, webhook::Operation},
};
use serde_json::{Map, Value, json};

use super::{is_ours, marks::Marks, secrets};
pub(super) use overrides::NUMBERS;

/// Why there is no member object for a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The body is not of the object that the plan names, or is no object.
    #[error("the body is not that of {wanted}")]
    OtherObject {
        /// What the plan names.
        wanted: String,
    },
    /// An override touches what belongs to the fleet.
    #[error("an override changes {path}, which belongs to the fleet")]
    OwnedPath {
        /// The path.
        path: String,
    },
    /// An override does not fit the body.
    #[error("an override does not apply: {reason}")]
    Override {
        /// Why not.
        reason: String,
    },
    /// The numbers are not those of the object's kind.
    #[error("the numbers of the plan are not those of a {kind}")]
    OtherKind {
        /// The object's kind.
        kind: String,
    },
    /// The version of the object is not known here.
    #[error("{kind} of {api_version} cannot be read here")]
    UnknownVersion {
        /// Group and version.
        api_version: String,
        /// The object's kind.
        kind: String,
    },
}

/// The body with overrides: what all pods of one fleet revision in this cluster are made from, without numbers and marks.
/// CloneSets are brought to the stored version, whose words the numbers are written in.
pub fn base(body: &Value, plan: &AssignmentSpec) -> Result<Value, Fault> {
    let object = &plan.object;
    let text = |path: &str| body.pointer(path).and_then(Value::as_str);
    let is_same = text("/apiVersion") == Some(&object.api_version) && text("/kind") == Some(&object.kind);
    if !is_same || text("/metadata/name") != Some(&object.name) {
        return Err(Fault::OtherObject { wanted: format!("{} {}", object.kind, object.name) });
    }
    let mut base = body.clone();
    clean(&mut base, object);
    overrides::apply(&mut base, &plan.overrides)?;
    registries::rewrite(&mut base, &plan.image_registries);
    if object.kind == "CloneSet" && object.api_version != APPS_V1BETA1 {
        base = api::convert(base, APPS_V1BETA1).map_err(|_| Fault::UnknownVersion {
            api_version: object.api_version.clone(),
            kind: object.kind.clone(),
        })?;
    }
    Ok(base)
}

/// What only the hub's object has, and what only we may say.
fn clean(object: &mut Value, of: &FederatedObject) {
    let Some(fields) = object.as_object_mut() else { return };
    fields.remove("status");
    let mut metadata = match fields.remove("metadata") {
        Some(Value::Object(it)) => it,
        _ => Map::new(),
    };
    metadata.retain(|name, _| matches!(name.as_str(), "labels" | "annotations"));
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !is_ours(key) && key != LAST_APPLIED);
    }
    // Names are those of the plan, so that no body reaches beyond its object (SEC-6).
    metadata.insert("name".to_owned(), of.name.clone().into());
    if let Some(namespace) = &of.namespace {
        metadata.insert("namespace".to_owned(), namespace.clone().into());
    }
    fields.insert("metadata".to_owned(), metadata.into());
}

/// What `kubectl apply` remembers; it speaks of the hub's object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What a plan adds to the base.
#[derive(Debug, Clone, Copy)]
pub struct Share<'a> {
    /// The plan.
    pub plan: &'a AssignmentSpec,
    /// Names of the pods that the member object has.
    pub pods: &'a BTreeSet<String>,
    /// What is to be seen on the member object.
    pub marks: &'a Marks,
}

/// The member object.
pub fn member(base: &Value, share: Share<'_>) -> Result<Value, Fault> {
    let Share { plan, pods, marks } = share;
    let mut object = base.clone();
    let kind = plan.object.kind.as_str();
    let spec = object.as_object_mut().map(|it| it.entry("spec").or_insert_with(|| json!({})));
    match (&plan.slice, kind, spec.and_then(Value::as_object_mut)) {
        (Some(Slice::CloneSet(slice)), "CloneSet", Some(spec)) => cloneset::write(spec, slice, pods),
        (Some(Slice::ImagePullJob(slice)), "ImagePullJob", Some(spec)) => {
            pull_job::write(spec, slice);
            secrets::rename(spec, &plan.object.name, &plan.pull_secrets);
        }
        // Kinds without a spec must not get one.
        (Some(Slice::Whole(_)), _, _) => object = base.clone(),
        _ => return Err(Fault::OtherKind { kind: kind.to_owned() }),
    }
    let annotations = &mut object["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    for (key, value) in marks.annotations() {
        annotations[key] = value.into();
    }
    Ok(object)
}

/// What a member records for the pods of `base`, byte for byte: the template with the defaults that admission in the
/// member gives it. Nothing if the kind has no template.
pub fn recorded(base: &Value, gates: Gates) -> Option<RevisionData> {
    base.pointer("/spec/template")?;
    let mut object = base.clone();
    default(&mut object, None, Operation::Create, Version::V1Beta1, gates);
    object.pointer("/spec/template").map(RevisionData::of_template)
}

#[cfg(test)]
mod tests;
