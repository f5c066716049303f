//! What to report about a pod's containers, and which of them run with an environment of the past.

use crate::{
    api::common::keys::CONDITION_INPLACE_UPDATE_READY,
    daemon::cri::{Container, ContainerState, newest, split_id},
    pod::inplace::hashes::{RuntimeContainer, RuntimeContainers, RuntimeHashes, expected_env_hash},
    runtime::cache::pod::{ContainerLite, PodLite},
};

/// The group whose workloads need the report.
const GROUP: &str = "apps.kruise.io/";

/// Annotation of pods that a SidecarSet has injected into.
const SIDECARSET_HASH: &str = "kruise.io/sidecarset-hash";

/// Whether somebody reads the report of this pod.
pub fn is_ours(pod: &PodLite) -> bool {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let is_owned = owners.iter().any(|it| it.controller == Some(true) && it.api_version.starts_with(GROUP));
    is_owned || pod.annotations().contains_key(SIDECARSET_HASH)
}

/// Whether a change may need another report. `reads_env` says whether environments are looked at.
///
/// A pod that is seen for the first time and was never reported on waits for its next change: otherwise every start of
/// the daemon would write to every pod of the node.
pub fn is_worth_a_look(before: Option<&PodLite>, pod: &PodLite, reads_env: bool) -> bool {
    let statuses = &pod.status.container_statuses;
    if !is_ours(pod) || pod.is_terminating() || statuses.is_empty() {
        return false;
    }
    let reported = reported(pod);
    if before.is_none() && reported.is_none() {
        return false;
    }
    if before.is_some_and(|it| it.spec.containers.len() != pod.spec.containers.len()) {
        return true;
    }
    statuses.iter().any(|status| {
        let Some(id) = status.container_id.as_deref().filter(|it| !it.is_empty()) else { return false };
        let Some(reported) = &reported else { return true };
        let entry = reported.containers.iter().find(|it| it.name == status.name);
        let Some(entry) = entry.filter(|it| it.container_id == id) else { return true };
        if reported.containers.len() != statuses.len() {
            return true;
        }
        let Some(spec) = spec_of(pod, &status.name).filter(|_| reads_env) else { return false };
        let expected = expected(pod, spec);
        let old =
            before.and_then(|before| spec_of(before, &status.name).map(|it| self::expected(before, it)));
        expected != entry.hashes.extracted_env_from_metadata_hash || old.is_some_and(|it| it != expected)
    })
}

/// What is reported of a pod now; nothing if it cannot be read.
pub fn reported(pod: &PodLite) -> Option<RuntimeContainers> {
    RuntimeContainers::of(pod)?.ok()
}

/// The runtime of a pod's containers, by the first that has an id.
pub fn runtime_of(pod: &PodLite) -> Option<&str> {
    let ids = pod.status.container_statuses.iter().filter_map(|it| it.container_id.as_deref());
    ids.filter_map(split_id).map(|it| it.0).next()
}

/// One container to report.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The report, as far as it is known without looking into the container.
    pub report: RuntimeContainer,
    /// The runtime's id without scheme.
    pub id: String,
    /// The hash of the environment that the pod's metadata asks for.
    pub expected: u64,
    /// Whether the environment must still be read from the container.
    pub needs_env: bool,
}

/// The entries of a pod, in the order of its statuses; containers that the runtime or the spec does not know are left
/// out.
pub fn entries(pod: &PodLite, containers: &[Container], runtime: &str, reads_env: bool) -> Vec<Entry> {
    let before = reported(pod).unwrap_or_default().containers;
    let statuses = pod.status.container_statuses.iter();
    statuses
        .filter_map(|status| {
            let running = newest(containers, &status.name)?;
            let spec = spec_of(pod, &status.name)?;
            let container_id = format!("{runtime}://{}", running.id);
            let known = before.iter().find(|it| it.name == status.name && it.container_id == container_id);
            let report = known.cloned().unwrap_or_else(|| RuntimeContainer {
                name: status.name.to_string(),
                container_id,
                restart_count: running.restart_count,
                hashes: RuntimeHashes { plain_hash: running.hash, ..RuntimeHashes::default() },
            });
            let is_open = report.hashes.extracted_env_from_metadata_hash == 0;
            let needs_env = reads_env && is_open && running.state == ContainerState::Running;
            Some(Entry { report, id: running.id.clone(), expected: expected(pod, spec), needs_env })
        })
        .collect()
}

/// The containers that must be restarted: a workload updates the pod, and they run with an environment of the past.
pub fn outdated<'a>(pod: &PodLite, entries: &'a [Entry]) -> Vec<&'a Entry> {
    let is_updating = pod.condition(CONDITION_INPLACE_UPDATE_READY).is_some_and(|it| it.status == "False");
    let is_outdated = |it: &&Entry| {
        let current = it.report.hashes.extracted_env_from_metadata_hash;
        current > 0 && current != it.expected
    };
    if is_updating { entries.iter().filter(is_outdated).collect() } else { Vec::new() }
}

/// The report to write, if it differs from what is there.
pub fn report(pod: &PodLite, entries: &[Entry]) -> Option<RuntimeContainers> {
    let report = RuntimeContainers { containers: entries.iter().map(|it| it.report.clone()).collect() };
    (reported(pod).as_ref() != Some(&report)).then_some(report)
}

/// Variables in what `env` printed. A value may contain an equals sign; only the first one splits.
pub fn read_env(output: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(output);
    let lines = text.trim().lines().filter_map(|it| it.split_once('='));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn spec_of<'a>(pod: &'a PodLite, name: &str) -> Option<&'a ContainerLite> {
    pod.spec.containers.iter().find(|it| it.name == name)
}

fn expected(pod: &PodLite, spec: &ContainerLite) -> u64 {
    expected_env_hash(&spec.env, pod.labels(), pod.annotations())
}
