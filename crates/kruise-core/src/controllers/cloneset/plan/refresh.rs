//! Carrying on what was begun on pods: also for paused CloneSets and those that wait for deletions. Without it no new pod
//! would ever become ready (openkruise/kruise#892, #2291).

use std::time::Duration;

use serde_json::json;

use super::{Action, Change, Fact, Why, World};
use crate::{
    api::common::keys::{INPLACE_UPDATE_GRACE, INPLACE_UPDATE_STATE, POD_TEMPLATE_HASH},
    pod::{
        inplace::{self, Hold},
        lifecycle::{self, Marking, State},
        patch::{Part, Pin, PodPatch},
        readiness, state,
    },
    revision::hash::short_hash,
    runtime::cache::pod::PodLite,
};

/// The next steps of pods.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub(super) actions: Vec<Action>,
    /// Whether a lifecycle state or a label changes; whoever counts pods should look again afterwards.
    pub(super) moves_states: bool,
    pub(super) look_again: Option<Duration>,
    /// What keeps a step from being taken for good.
    pub(super) trouble: Option<String>,
}

/// The next step of each of these pods. `takes_back`: pods are on their way from the update to the current revision.
pub(super) fn plan<'f, 'a: 'f>(
    world: &World<'_>,
    facts: impl Iterator<Item = &'f Fact<'a>>,
    takes_back: bool,
) -> Steps {
    let mut steps = Steps::default();
    for fact in facts.filter(|it| !it.is_at_rest) {
        let refresh = inplace::refresh(fact.pod, &world.inplace());
        steps.look_again = steps.look_again.into_iter().chain(refresh.look_again).min();
        steps.trouble = steps.trouble.or_else(|| trouble(fact.pod, refresh.hold));
        let moves = moves(world, fact, takes_back);
        steps.moves_states |= !moves.is_empty();
        let patches: Vec<_> =
            refresh.patches.into_iter().chain(first_word(world, fact)).chain(moves).collect();
        if !patches.is_empty() {
            steps.actions.push(Action::Change(Change { pod: fact.pod.clone(), patches, why: Why::Refresh }));
        }
    }
    steps
}

/// Whether nothing was begun on this pod that has not ended. Most pods are at rest most of the time, and opening what is
/// written down on each of them would be most of the work of a pass.
pub(super) fn is_at_rest(pod: &PodLite, state: Option<State>) -> bool {
    state == Some(State::Normal)
        && inplace::is_in_rotation(pod)
        && readiness::is_in_rotation(pod)
        && !inplace::is_in_grace(pod)
        && !readiness::awaits_first_word(pod)
        && pod.labels().contains_key(POD_TEMPLATE_HASH)
}

/// Opens our readiness gate, together with whatever else is due on a new pod once it has its node.
fn first_word(world: &World<'_>, fact: &Fact<'_>) -> Option<PodPatch> {
    state::has_node(fact.pod).then(|| readiness::initial(fact.pod, world.now)).flatten()
}

/// Lifecycle step and missing label of one pod.
fn moves(world: &World<'_>, fact: &Fact<'_>, takes_back: bool) -> Vec<PodPatch> {
    let lifecycle = world.cloneset.spec.lifecycle.as_ref();
    let is_complete = fact.state == Some(State::Updating) && inplace::is_complete(fact.pod, &world.inplace());
    let marking = Marking::of(lifecycle.and_then(|it| it.in_place_update.as_ref()));
    // A pod that waits for an update is through with it where it need not move any more: at the revision that pods go to.
    let has_arrived = fact.is_updated != takes_back;
    let step = match lifecycle::next(fact.pod, lifecycle, has_arrived, is_complete) {
        Some(state) => lifecycle::enter(fact.pod, state, marking, world.now),
        None => lifecycle::forgotten(fact.pod, world.now).into_iter().collect(),
    };
    step.into_iter().chain(missing_hash(world, fact)).collect()
}

/// Why a pod will never go on by itself: somebody has changed what we wrote on it.
fn trouble(pod: &PodLite, hold: Option<Hold>) -> Option<String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    match hold? {
        Hold::GraceWithoutState => Some(format!(
            "pod {name} has annotation {INPLACE_UPDATE_GRACE} but lacks {INPLACE_UPDATE_STATE}: remove the former"
        )),
        Hold::Unreadable => {
            Some(format!("annotation {INPLACE_UPDATE_STATE} of pod {name} cannot be read: remove it"))
        }
        Hold::Grace | Hold::Containers | Hold::NotReady => None,
    }
}

/// Pods of early releases lack the short hash.
fn missing_hash(world: &World<'_>, fact: &Fact<'_>) -> Option<PodPatch> {
    if fact.pod.labels().contains_key(POD_TEMPLATE_HASH) {
        return None;
    }
    let version = world.version_of(fact.pod)?;
    let hash = short_hash(&version.name);
    let body = json!({"metadata": {"labels": {POD_TEMPLATE_HASH: hash}}});
    Some(PodPatch { part: Part::Main, pin: Pin::Uid, body })
}
