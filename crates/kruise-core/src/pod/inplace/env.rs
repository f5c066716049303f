//! Environment variables that matter to an update.

use serde_json::Value;

use crate::{api::common::keys::ENV_CONTAINER_BARRIER, runtime::cache::pod::ContainerLite};

/// Set by SidecarSet on every update of a sidecar, and never a reason of its own to restart a container.
const IGNORED: [&str; 2] = ["SIDECARSET_VERSION", "SIDECARSET_VERSION_ALT"];

/// Which half of the metadata a variable comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Labels,
    Annotations,
}

/// A variable whose value is that of a label or an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FromMetadata<'a> {
    pub(super) name: &'a str,
    pub(super) source: Source,
    pub(super) key: &'a str,
}

/// The variables among these that come from one label or annotation.
pub(super) fn from_metadata(env: &[Value]) -> impl Iterator<Item = FromMetadata<'_>> {
    env.iter().filter_map(|it| {
        let name = it["name"].as_str()?;
        if IGNORED.contains(&name) || it["value"].as_str().is_some_and(|it| !it.is_empty()) {
            return None;
        }
        let path = it["valueFrom"]["fieldRef"]["fieldPath"].as_str()?;
        let (field, key) = path.strip_suffix("']")?.split_once("['")?;
        let source = match field {
            "metadata.labels" => Source::Labels,
            "metadata.annotations" => Source::Annotations,
            _ => return None,
        };
        Some(FromMetadata { name, source, key })
    })
}

/// In which order a container starts, the highest first; `None` if it does not take part in the order. Admission has
/// put it into the key of the config map that the container's start waits for.
pub(super) fn launch_priority(container: &ContainerLite) -> Option<i64> {
    let barrier = container.env.iter().find(|it| it["name"] == ENV_CONTAINER_BARRIER)?;
    let key = barrier["valueFrom"]["configMapKeyRef"]["key"].as_str();
    Some(key.and_then(|it| it.strip_prefix("p_")).and_then(|it| it.parse().ok()).unwrap_or(0))
}
