//! Counting the pods of a CloneSet.

use jiff::Timestamp;
use kruise_core::{
    api::{
        cloneset::v1beta1::CloneSet,
        fleet::{
            Counts,
            assignment::{LocalRevisions, PodsAnswer},
        },
    },
    pod::state,
    revision::data::RevisionData,
    runtime::cache::{pod::PodLite, revision::RevisionLite},
};

/// What there is of a CloneSet in this cluster, read through one set of caches: those that its controller reads. So
/// nothing here is older than what the controller has observed (PROTO-4).
#[derive(Debug, Clone, Copy)]
pub struct Population<'a> {
    /// The member object.
    pub cloneset: &'a CloneSet,
    /// Its pods that are neither over nor on their way out.
    pub pods: &'a [&'a PodLite],
    /// Its revisions.
    pub revisions: &'a [&'a RevisionLite],
    /// What the target is recorded as in this cluster.
    pub target: &'a RevisionData,
    /// What the stable revision is recorded as in this cluster.
    pub stable: &'a RevisionData,
    /// How many pods may carry the target, if the plan has a stable revision besides it.
    pub granted: Option<u32>,
    /// The time.
    pub now: Timestamp,
}

/// What the pods say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// The counts.
    pub counts: Counts,
    /// Pods at the target that crash, cannot get their image, or failed an update in place.
    pub failing: u32,
    /// Names of the two revisions.
    pub revisions: LocalRevisions,
}

/// Counts pods by fleet revision (REV-14): what a pod was made from is compared by content, not by what the member calls
/// its newest revision, which somebody may have changed since.
pub fn count(population: &Population<'_>, replicas: u32) -> Census {
    let Population { cloneset, pods, now, .. } = *population;
    let named = |data| population.revisions.iter().rfind(|it| it.data.means_same(data)).map(|it| it.name());
    let (target, stable) = (named(population.target), named(population.stable));
    let min_ready = cloneset.spec.min_ready_seconds;
    let to_delete = &cloneset.spec.scale_strategy.pods_to_delete;

    let mut census = Census::default();
    let counts = &mut census.counts;
    for pod in pods {
        let is_at = |name: Option<&str>| name.is_some_and(|it| state::is_at_revision(pod, it));
        let (is_target, is_stable) = (is_at(target), is_at(stable));
        let is_ready = state::is_ready_for(pod, 0, now);
        let is_available = state::is_available(pod, min_ready, now);
        let is_named = pod.metadata.name.as_ref().is_some_and(|it| to_delete.contains(it));
        let is_other = !is_target && !is_stable;
        counts.replicas += 1;
        counts.ready += u32::from(is_ready);
        counts.available += u32::from(is_available);
        counts.updated += u32::from(is_target);
        counts.updated_ready += u32::from(is_target && is_ready);
        counts.updated_available += u32::from(is_target && is_available);
        counts.stable += u32::from(is_stable);
        counts.other += u32::from(is_other);
        counts.other_unavailable += u32::from(is_other && !is_available);
        counts.marked_for_deletion += u32::from(is_named || state::is_marked_for_deletion(pod));
        census.failing += u32::from(is_target && !is_available && is_failing(pod));
    }
    if let Some(granted) = population.granted.filter(|_| target.is_some() && target == stable) {
        part(counts, granted);
        census.failing = census.failing.min(counts.updated);
    }
    // A pod that was deleted and is not replaced yet counts (PROTO-5).
    counts.unavailable = replicas.saturating_sub(counts.available);
    let text = |name: Option<&str>| name.unwrap_or_default().to_owned();
    census.revisions = LocalRevisions { current: text(stable), update: text(target) };
    census
}

/// Two revisions of the fleet may be one in this cluster: claims of volumes make no revision in a member, and an override may
/// undo what differs. Every pod is at both then, and none counts twice: as many as may carry the target do, those that serve
/// first, and the others are at the stable revision.
fn part(counts: &mut Counts, granted: u32) {
    let there = counts.updated;
    counts.updated = there.min(granted);
    counts.updated_ready = counts.updated_ready.min(counts.updated);
    counts.updated_available = counts.updated_available.min(counts.updated);
    counts.stable = there - counts.updated;
}

/// Which of the pods asked for are here (CS-1).
pub fn found(asked: &[String], pods: &[&PodLite]) -> Option<PodsAnswer> {
    let is_here = |name: &&String| pods.iter().any(|it| it.metadata.name.as_ref() == Some(name));
    let found = asked.iter().filter(is_here).cloned().collect();
    (!asked.is_empty()).then(|| PodsAnswer { asked: asked.to_vec(), found })
}

/// Reasons for which a container waits that do not pass by waiting.
const STUCK: [&str; 7] = [
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
];

/// An update in place that failed shows here too: its container cannot get its image, or crashes.
fn is_failing(pod: &PodLite) -> bool {
    let containers = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let mut reasons = containers.filter_map(|it| it.state.waiting.as_ref()?.reason.as_deref());
    reasons.any(|it| STUCK.contains(&it))
}
