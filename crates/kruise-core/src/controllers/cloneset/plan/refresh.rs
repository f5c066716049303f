//! Carrying on what was begun on pods: also for paused CloneSets and those that wait for deletions. Without it no new pod
//! would ever become ready (openkruise/kruise#892, #2291).

use std::time::Duration;

use serde_json::json;

use super::{Action, Change, Fact, Why, World};
use crate::{
    api::common::keys::POD_TEMPLATE_HASH,
    pod::{
        inplace,
        lifecycle::{self, Marking, State},
        patch::{Part, Pin, PodPatch},
    },
    revision::hash::short_hash,
};

/// The next steps of pods.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub(super) actions: Vec<Action>,
    /// Whether a lifecycle state or a label changes; whoever counts pods should look again afterwards.
    pub(super) moves_states: bool,
    pub(super) look_again: Option<Duration>,
}

/// The next step of each of these pods.
pub(super) fn plan<'f, 'a: 'f>(world: &World<'_>, facts: impl Iterator<Item = &'f Fact<'a>>) -> Steps {
    let mut steps = Steps::default();
    for fact in facts.filter(|it| !is_at_rest(it)) {
        let refresh = inplace::refresh(fact.pod, &world.inplace());
        steps.look_again = steps.look_again.into_iter().chain(refresh.look_again).min();
        let moves = moves(world, fact);
        steps.moves_states |= !moves.is_empty();
        let patches: Vec<_> = refresh.patches.into_iter().chain(moves).collect();
        if !patches.is_empty() {
            steps.actions.push(Action::Change(Change { pod: fact.pod.clone(), patches, why: Why::Refresh }));
        }
    }
    steps
}

/// Whether nothing was begun on this pod that has not ended. Most pods are at rest most of the time, and opening what is
/// written down on each of them would be most of the work of a pass.
fn is_at_rest(fact: &Fact<'_>) -> bool {
    fact.state == Some(State::Normal)
        && inplace::is_in_rotation(fact.pod)
        && !inplace::is_in_grace(fact.pod)
        && fact.pod.labels().contains_key(POD_TEMPLATE_HASH)
}

/// Lifecycle step and missing label of one pod.
fn moves(world: &World<'_>, fact: &Fact<'_>) -> Vec<PodPatch> {
    let lifecycle = world.cloneset.spec.lifecycle.as_ref();
    let is_complete = fact.state == Some(State::Updating) && inplace::is_complete(fact.pod, &world.inplace());
    let marking = Marking::of(lifecycle.and_then(|it| it.in_place_update.as_ref()));
    let step = lifecycle::next(fact.pod, lifecycle, fact.is_updated, is_complete)
        .map(|it| lifecycle::enter(fact.pod, it, marking, world.now))
        .unwrap_or_default();
    step.into_iter().chain(missing_hash(world, fact)).collect()
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
