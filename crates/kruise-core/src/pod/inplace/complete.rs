//! When an update has reached the containers.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{
    Context,
    grace::is_in_grace,
    hashes::{RuntimeContainer, RuntimeContainers, expected_env_hash, plain_hash},
    image::full_name,
    resize::is_resized,
    state::UpdateState,
};
use crate::runtime::cache::pod::{ContainerLite, ContainerStatusLite, PodLite};

/// After this time a container that started in the second of its change is taken for the changed one. Kubelet has then
/// long seen the change, and would have replaced an older one.
const SETTLED: SignedDuration = SignedDuration::from_secs(60);

/// Whether nothing of an update is left to be done: no grace period, no batch, no container.
pub fn is_complete(pod: &PodLite, ctx: &Context) -> bool {
    if is_in_grace(pod) {
        return false;
    }
    match UpdateState::of(pod) {
        None => true,
        Some(Ok(state)) => !state.has_next() && is_consistent(pod, &state, ctx),
        Some(Err(_)) => false,
    }
}

/// Whether the containers that have been changed so far run what they should.
pub fn is_consistent(pod: &PodLite, state: &UpdateState, ctx: &Context) -> bool {
    consistency(pod, state, ctx).is_ok()
}

/// Containers that do not run what they should.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pending {
    /// When to look again, should the pod not change until then.
    pub(super) look_again: Option<Duration>,
}

/// As [`is_consistent`], with the time after which it may be otherwise.
pub(super) fn consistency(pod: &PodLite, state: &UpdateState, ctx: &Context) -> Result<(), Pending> {
    let pending = || Pending { look_again: None };
    let reported = RuntimeContainers::of(pod).transpose().map_err(|_| pending())?;
    let matches = |accepts: &dyn Fn(&ContainerLite, &RuntimeContainer) -> bool| {
        reported.as_ref().is_some_and(|it| is_reported(pod, it, accepts))
    };

    if state.update_env_from_metadata
        && !matches(&|container, it| {
            let expected = expected_env_hash(&container.env, pod.labels(), pod.annotations());
            it.hashes.extracted_env_from_metadata_hash == expected
        })
    {
        return Err(pending());
    }
    if ctx.vertical_scaling && state.update_resources && !is_resized(pod) {
        return Err(pending());
    }
    // A mismatch proves nothing: the daemon may be late or gone.
    if matches(&|container, it| {
        let image = container.image.as_deref().unwrap_or_default();
        it.hashes.plain_hash == plain_hash(&container.name, image)
    }) {
        return Ok(());
    }
    for (name, last) in state.last_container_statuses.iter().flatten() {
        let status = pod.status.container_statuses.iter().find(|it| it.name == *name).ok_or_else(pending)?;
        if status.image_id == last.image_id && !runs_named_image(pod, status) {
            has_restarted(pod, state, status, ctx.now)?;
        }
    }
    Ok(())
}

/// Whether the daemon's report is about exactly these containers, and each is accepted.
fn is_reported(
    pod: &PodLite,
    reported: &RuntimeContainers,
    accepts: &dyn Fn(&ContainerLite, &RuntimeContainer) -> bool,
) -> bool {
    pod.spec.containers.iter().all(|container| {
        let status = pod.status.container_statuses.iter().find(|it| it.name == container.name);
        let report = reported.containers.iter().find(|it| it.name == container.name);
        match (status, report) {
            (Some(status), Some(report)) => {
                status.container_id.as_deref().unwrap_or_default() == report.container_id
                    && accepts(container, report)
            }
            _ => false,
        }
    })
}

/// Whether the runtime names the image as the spec does: the new image may have the digest of the old one.
fn runs_named_image(pod: &PodLite, status: &ContainerStatusLite) -> bool {
    let image =
        pod.spec.containers.iter().find(|it| it.name == status.name).and_then(|it| it.image.as_deref());
    image.is_some_and(|it| full_name(it) == full_name(&status.image))
}

/// Whether a container has started since it was changed. Runtimes may report any of the names that a digest has, so
/// neither name nor digest need ever change (kruise#635, kruise#2297); a start with the new spec tells as well.
fn has_restarted(
    pod: &PodLite,
    state: &UpdateState,
    status: &ContainerStatusLite,
    now: Timestamp,
) -> Result<(), Pending> {
    let pending = |look_again| Err(Pending { look_again });
    let changed = state
        .container_batches_record
        .iter()
        .rev()
        .find(|it| it.containers.iter().any(|it| *it == status.name))
        .and_then(|it| it.timestamp);
    let started = status.state.running.as_ref().and_then(|it| it.started_at.as_ref());
    let (Some(changed), Some(started)) = (changed, started) else { return pending(None) };
    // Where kubelet says which spec it has seen, a restart of the old spec is told apart.
    let is_seen = match (pod.status.observed_generation, pod.metadata.generation) {
        (Some(observed), Some(generation)) => observed >= generation,
        _ => true,
    };
    match started.0.as_second().cmp(&changed.as_second()) {
        _ if !is_seen => pending(None),
        std::cmp::Ordering::Less => pending(None),
        std::cmp::Ordering::Greater => Ok(()),
        // Both times are whole seconds: which came first shows only in that nothing happens any more.
        std::cmp::Ordering::Equal => match SETTLED - now.duration_since(changed) {
            wait if wait.is_positive() => pending(Some(wait.unsigned_abs())),
            _ => Ok(()),
        },
    }
}
