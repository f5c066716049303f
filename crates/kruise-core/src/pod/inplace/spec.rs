//! Whether the difference between two revisions can be brought into a running pod, and what it consists of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    diff::{Kind, changes},
    metadata,
    resize::{RESIZABLE, qos, quantity_text},
    state::{RefMetadata, Resources, nullable},
};
use crate::api::common::is_default;

/// A revision, as far as it is read here.
#[derive(Debug, Clone, Copy)]
pub struct RevisionView<'a> {
    /// Its name, as it is to be recorded on pods.
    pub name: &'a str,
    /// Its content: `{"spec": {"template": ..}}`.
    pub data: &'a Value,
    /// The hash of the volume claim templates that were in force, if it was recorded.
    pub claims_hash: Option<&'a str>,
}

/// What is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Gate `InPlaceUpdateEnvFromMetadata`: containers restart for labels and annotations in their environment.
    pub env_from_metadata: bool,
    /// Gate `InPlaceWorkloadVerticalScaling`: cpu and memory change in place.
    pub vertical_scaling: bool,
    /// Gate `RecreatePodWhenChangeVCTInCloneSetGate`: other claim templates need other pods.
    pub recreate_for_claims: bool,
    /// The user wants pods updated in place or not at all.
    pub in_place_only: bool,
    /// Seconds between taking a pod out of rotation and changing it.
    pub grace_seconds: i32,
}

/// What an in-place update changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateSpec {
    /// The new revision.
    pub revision: String,
    /// New images, by container.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub container_images: BTreeMap<String, String>,
    /// New labels and annotations that containers read into their environment, by container.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub container_ref_metadata: BTreeMap<String, RefMetadata>,
    /// New cpu and memory, by container.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub container_resources: BTreeMap<String, Resources>,
    /// All other changes of metadata, as a strategic merge patch.
    #[serde(with = "packed", skip_serializing_if = "Option::is_none")]
    pub meta_data_patch: Option<Value>,
    /// Whether containers restart for their environment.
    #[serde(skip_serializing_if = "is_default")]
    pub update_env_from_metadata: bool,
    /// Seconds between taking the pod out of rotation and changing it.
    #[serde(skip_serializing_if = "is_default")]
    pub grace_seconds: i32,
}

impl UpdateSpec {
    /// Whether only cpu and memory change.
    pub fn is_resize_only(&self) -> bool {
        !self.container_resources.is_empty()
            && self.container_images.is_empty()
            && !self.update_env_from_metadata
    }
}

/// Whether no container changes, only labels, annotations and finalizers that none reads. Such an update takes no pod
/// out of service, so it needs no surge (kruise#2369).
pub fn is_metadata_only(spec: &UpdateSpec) -> bool {
    spec.container_images.is_empty()
        && spec.container_resources.is_empty()
        && spec.container_ref_metadata.is_empty()
}

/// What must change to bring pods from one revision to another in place; `None` if that is not possible.
pub fn calculate(old: &RevisionView<'_>, new: &RevisionView<'_>, options: &Options) -> Option<UpdateSpec> {
    if options.recreate_for_claims
        && !options.in_place_only
        && let (Some(old), Some(new)) = (old.claims_hash, new.claims_hash)
        && old != new
    {
        return None;
    }
    let (old_template, new_template) = (template(old)?, template(new)?);

    let mut spec = UpdateSpec {
        revision: new.name.into(),
        grace_seconds: options.grace_seconds,
        ..UpdateSpec::default()
    };
    let mut metadata_changed = false;
    for change in changes(old.data, new.data) {
        let path: Vec<&str> = change.path.iter().map(AsRef::as_ref).collect();
        match (path.strip_prefix(&["spec", "template"][..]).unwrap_or(&path), change.kind) {
            (["metadata", _, ..], _) => metadata_changed = true,
            (["spec", "containers", index, "image"], Kind::Replace(Value::String(image))) => {
                let (_, container) = container(old_template, index)?;
                spec.container_images.insert(container.into(), image.clone());
            }
            (["spec", "containers", index, "resources", list, name], Kind::Replace(value))
                if options.vertical_scaling && RESIZABLE.contains(name) =>
            {
                let (index, container) = container(old_template, index)?;
                let requests = &new_template["spec"]["containers"][index]["resources"]["requests"];
                let resources = spec.container_resources.entry(container.into()).or_default();
                resize(resources, list, name, quantity_text(value)?, requests)?;
            }
            _ => return None,
        }
    }
    if !spec.container_resources.is_empty() && qos(&old_template["spec"]) != qos(&new_template["spec"]) {
        return None;
    }
    if metadata_changed {
        metadata::split(old_template, new_template, options.env_from_metadata, &mut spec)?;
    }
    Some(spec)
}

fn resize(resources: &mut Resources, list: &str, name: &str, amount: String, requests: &Value) -> Option<()> {
    match list {
        "limits" => {
            // The API server once took the limit for the missing request, so the request has to follow.
            if requests[name].is_null() {
                resources.requests.insert(name.into(), amount.clone());
            }
            resources.limits.insert(name.into(), amount);
        }
        "requests" => {
            resources.requests.insert(name.into(), amount);
        }
        _ => return None,
    }
    Some(())
}

fn template<'a>(revision: &RevisionView<'a>) -> Option<&'a Value> {
    Some(&revision.data["spec"]["template"]).filter(|it| it.is_object())
}

/// A container of a template, by the index in a path: the index and its name.
fn container<'a>(template: &'a Value, index: &str) -> Option<(usize, &'a str)> {
    let index: usize = index.parse().ok()?;
    Some((index, template["spec"]["containers"][index]["name"].as_str()?))
}

/// JSON inside base64, which is how Go writes bytes.
mod packed {
    use k8s_openapi::ByteString;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
    use serde_json::Value;

    #[expect(clippy::ref_option, reason = "serde hands the field over like this")]
    pub(super) fn serialize<S: Serializer>(patch: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = patch.as_ref().map(serde_json::to_vec).transpose().map_err(ser::Error::custom)?;
        bytes.map(ByteString).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
        let bytes = Option::<ByteString>::deserialize(deserializer)?;
        bytes.map(|it| serde_json::from_slice(&it.0)).transpose().map_err(de::Error::custom)
    }
}
