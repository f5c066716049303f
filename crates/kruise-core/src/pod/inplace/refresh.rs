//! Carrying an update on.

use std::time::Duration;

use super::{
    Context, batches, body::Body, complete::consistency, grace, spec::UpdateSpec, state::UpdateState,
    update::record,
};
use crate::{
    api::common::keys,
    pod::{patch::PodPatch, readiness, state},
    runtime::cache::pod::PodLite,
};

/// What to do about a pod now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Refresh {
    /// Patches, in order.
    pub patches: Vec<PodPatch>,
    /// When to look again, should the pod not change until then.
    pub look_again: Option<Duration>,
    /// Why the update does not go on.
    pub hold: Option<Hold>,
}

/// Why an update does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Its grace period has not ended.
    Grace,
    /// Changed containers do not run yet what they should.
    Containers,
    /// Changed containers are not ready, and others wait for that.
    NotReady,
    /// A grace period without an update: somebody has changed our annotations.
    GraceWithoutState,
    /// An annotation of ours that cannot be read.
    Unreadable,
}

impl Refresh {
    pub(super) fn held(hold: Hold) -> Self {
        Self { hold: Some(hold), ..Self::default() }
    }
}

/// Takes an update one step further: ends its grace period, changes the next batch of containers, or puts the pod back
/// into rotation. Also for pods that were never updated: it says the first `InPlaceUpdateReady` of their lives.
pub fn refresh(pod: &PodLite, ctx: &Context) -> Refresh {
    if let Some(text) = grace::text(pod) {
        return grace::finish(pod, text, ctx);
    }
    match UpdateState::of(pod) {
        None => {}
        Some(Err(_)) => return Refresh::held(Hold::Unreadable),
        Some(Ok(state)) => {
            if let Err(pending) = consistency(pod, &state, ctx) {
                return Refresh { look_again: pending.look_again, ..Refresh::held(Hold::Containers) };
            }
            if state.has_next() {
                return next_batch(pod, state, ctx);
            }
        }
    }
    Refresh { patches: return_to_rotation(pod, ctx).into_iter().collect(), ..Refresh::default() }
}

fn next_batch(pod: &PodLite, mut state: UpdateState, ctx: &Context) -> Refresh {
    let required = state.pre_check_before_next.take().unwrap_or_default().containers_required_ready;
    let is_ready =
        |name: &String| pod.status.container_statuses.iter().any(|it| it.name == *name && it.ready);
    if !required.iter().all(is_ready) {
        return Refresh::held(Hold::NotReady);
    }
    let spec = UpdateSpec {
        container_images: state.next_container_images.clone(),
        container_ref_metadata: state.next_container_ref_metadata.clone(),
        container_resources: state.next_container_resources.clone(),
        ..UpdateSpec::default()
    };
    let mut body = Body::default();
    let resize = batches::apply(pod, &spec, &mut state, ctx, &mut body);
    record(pod, &state, &mut body);
    Refresh { patches: resize.into_iter().chain([body.into_main()]).collect(), ..Refresh::default() }
}

/// Only ever on the very pod that was looked at: a newer one may have begun its next update (kruise#2274). Ready itself
/// is kubelet's to turn back.
fn return_to_rotation(pod: &PodLite, ctx: &Context) -> Option<PodPatch> {
    let kind = keys::CONDITION_INPLACE_UPDATE_READY;
    // The first word on a new pod waits for its node: more is to be said then, and it cannot be ready before.
    let is_too_early = pod.condition(kind).is_none() && !state::has_node(pod);
    (!is_in_rotation(pod) && !is_too_early).then(|| readiness::turn_true(kind, ctx.now))
}

/// Whether no update keeps the pod out of rotation. Cheap: a pod whose lifecycle is at rest and that is in rotation needs
/// no [`refresh`], and there may be thousands of them.
pub fn is_in_rotation(pod: &PodLite) -> bool {
    let kind = keys::CONDITION_INPLACE_UPDATE_READY;
    let is_empty = |it: Option<&str>| it.unwrap_or_default().is_empty();
    let says_so = pod.condition(kind).is_some_and(|it| {
        it.status == "True" && is_empty(it.reason.as_deref()) && is_empty(it.message.as_deref())
    });
    says_so || !readiness::has_gate(pod, kind)
}
