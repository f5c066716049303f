//! What is written on a pod while it changes in place.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    api::common::{is_default, keys},
    runtime::cache::pod::PodLite,
};

/// A running or finished in-place update. It stays on the pod when it is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateState {
    /// The revision the pod changes to.
    pub revision: String,
    /// When the update began.
    #[serde(with = "seconds")]
    pub update_timestamp: Option<Timestamp>,
    /// What ran before, for the containers whose image has changed. Always written, `null` if there are none.
    pub last_container_statuses: Option<BTreeMap<String, LastStatus>>,
    /// Whether environment that comes from labels and annotations changes.
    #[serde(skip_serializing_if = "is_default")]
    pub update_env_from_metadata: bool,
    /// Whether cpu or memory change.
    #[serde(skip_serializing_if = "is_default")]
    pub update_resources: bool,
    /// Whether images change.
    #[serde(skip_serializing_if = "is_default")]
    pub update_images: bool,
    /// Images of later batches, by container.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub next_container_images: BTreeMap<String, String>,
    /// Labels and annotations of later batches, by container.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub next_container_ref_metadata: BTreeMap<String, RefMetadata>,
    /// Cpu and memory of later batches, by container.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub next_container_resources: BTreeMap<String, Resources>,
    /// What must hold before the next batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_check_before_next: Option<PreCheck>,
    /// The batches so far.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub container_batches_record: Vec<Batch>,
}

/// What ran in a container before its update.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastStatus {
    /// The image's digest.
    #[serde(rename = "imageID", skip_serializing_if = "String::is_empty")]
    pub image_id: String,
}

/// Labels and annotations that a container reads into its environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RefMetadata {
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub annotations: BTreeMap<String, String>,
}

/// New cpu and memory of a container, by resource name; only what changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Limits.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub limits: BTreeMap<String, String>,
    /// Requests.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub requests: BTreeMap<String, String>,
}

/// What must hold before the next batch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreCheck {
    /// Containers that must be ready.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub containers_required_ready: Vec<String>,
}

/// Containers that were changed together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Batch {
    /// When.
    #[serde(with = "seconds")]
    pub timestamp: Option<Timestamp>,
    /// Their names, sorted.
    #[serde(deserialize_with = "nullable")]
    pub containers: Vec<String>,
}

impl UpdateState {
    /// The state that stands on a pod, under the key of today or the one of old.
    pub fn of(pod: &PodLite) -> Option<Result<Self, serde_json::Error>> {
        annotation(pod, [keys::INPLACE_UPDATE_STATE, keys::INPLACE_UPDATE_STATE_LEGACY])
            .map(serde_json::from_str)
    }

    /// Whether containers are left for later batches.
    pub fn has_next(&self) -> bool {
        !(self.next_container_images.is_empty()
            && self.next_container_ref_metadata.is_empty()
            && self.next_container_resources.is_empty())
    }

    /// The annotation's text.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("maps of strings are always JSON")
    }
}

/// The first of these annotations that a pod has.
pub(super) fn annotation<'a>(pod: &'a PodLite, keys: [&str; 2]) -> Option<&'a str> {
    keys.into_iter().find_map(|it| pod.annotations().get(it)).map(String::as_str)
}

/// Drops what is not written, so that what was written reads back the same.
pub(super) fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Go writes an empty map that was never made as `null`.
pub(super) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Times in whole seconds, UTC; no time is `null`.
mod seconds {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::pod::readiness::rfc3339;

    #[expect(clippy::ref_option, reason = "serde hands the field over like this")]
    pub(super) fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(rfc3339).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        Option::deserialize(deserializer)
    }
}
