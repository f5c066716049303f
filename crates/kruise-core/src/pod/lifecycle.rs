//! Lifecycle states and the hooks that hold a pod back.
//!
//! A pod is made as PreparingNormal and becomes Normal. An in-place update takes it through PreparingUpdate, Updating
//! and Updated back to Normal; deletion through PreparingDelete. Hooks are labels and finalizers that outside
//! controllers put on pods: before deletion and before an update they hold a pod back while it carries *any* of them,
//! and on the way to Normal a pod waits until it carries *all* of them.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    api::common::{Lifecycle, LifecycleHook, keys},
    pod::{
        patch::{Part, Pin, PodPatch},
        readiness::{self, Key, rfc3339},
        state,
    },
    runtime::cache::pod::PodLite,
};

/// Where a pod stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Made, not available yet.
    PreparingNormal,
    /// In service.
    Normal,
    /// About to be updated in place; its hook may hold it.
    PreparingUpdate,
    /// Being updated in place.
    Updating,
    /// Updated in place, waits for its hook to come back.
    Updated,
    /// About to be deleted; its hook may hold it.
    PreparingDelete,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 6] = [
        Self::PreparingNormal,
        Self::Normal,
        Self::PreparingUpdate,
        Self::Updating,
        Self::Updated,
        Self::PreparingDelete,
    ];

    /// The label's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreparingNormal => "PreparingNormal",
            Self::Normal => "Normal",
            Self::PreparingUpdate => "PreparingUpdate",
            Self::Updating => "Updating",
            Self::Updated => "Updated",
            Self::PreparingDelete => "PreparingDelete",
        }
    }

    /// Reads a label's value; `None` for words we do not know.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }

    /// The state of a pod. Without the label it is Normal: pods had none at first. `None` for words we do not know.
    pub fn of(pod: &PodLite) -> Option<Self> {
        match label(pod) {
            "" => Some(Self::Normal),
            text => Self::parse(text),
        }
    }
}

/// Whether a pod is taken out of rotation while it is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marking {
    /// It stays in rotation.
    Leave,
    /// It is taken out.
    NotReady,
}

impl Marking {
    /// What a hook asks for; no hook asks for nothing.
    pub fn of(hook: Option<&LifecycleHook>) -> Self {
        if hook.is_some_and(|it| it.mark_pod_not_ready) { Self::NotReady } else { Self::Leave }
    }
}

/// Whether the pod carries any part of the hook.
pub fn is_hooked(hook: Option<&LifecycleHook>, pod: &PodLite) -> bool {
    hook.is_some_and(|it| {
        it.finalizers_handler.iter().any(|name| has_finalizer(pod, name))
            || it.labels_handler.iter().any(|(key, value)| pod.labels().get(key) == Some(value))
    })
}

/// Whether the pod carries every part of the hook. True for a hook without parts, false without a hook.
pub fn is_fully_hooked(hook: Option<&LifecycleHook>, pod: &PodLite) -> bool {
    hook.is_some_and(|it| {
        it.finalizers_handler.iter().all(|name| has_finalizer(pod, name))
            && it.labels_handler.iter().all(|(key, value)| pod.labels().get(key) == Some(value))
    })
}

/// Whether a deletion, once begun, cannot be taken back: a hook has taken the pod out of rotation for it.
pub fn is_deletion_final(lifecycle: Option<&Lifecycle>) -> bool {
    lifecycle.is_some_and(|it| {
        [it.pre_delete.as_ref(), it.in_place_update.as_ref()]
            .into_iter()
            .any(|it| Marking::of(it) == Marking::NotReady)
    })
}

/// Takes a pod to another state: its readiness first, then the state. Nothing if it is there already.
pub fn enter(pod: &PodLite, state: State, marking: Marking, now: Timestamp) -> Vec<PodPatch> {
    if label(pod) == state.as_str() {
        return Vec::new();
    }
    let main =
        PodPatch { part: Part::Main, pin: pin(pod, state), body: json!({"metadata": mark(state, now)}) };
    readiness_change(pod, state, marking, now).into_iter().chain([main]).collect()
}

/// Takes a pod to another state and puts all parts of the hook back on it, in one patch. For a pod that was updated,
/// has its hook off, and must be updated again. Nothing without a hook.
pub fn enter_hooked(
    pod: &PodLite,
    state: State,
    hook: Option<&LifecycleHook>,
    now: Timestamp,
) -> Vec<PodPatch> {
    let Some(hook) = hook else { return Vec::new() };
    let mut patches = enter(pod, state, Marking::of(Some(hook)), now);
    if let Some(main) = patches.last_mut() {
        let metadata = &mut main.body["metadata"];
        for (key, value) in &hook.labels_handler {
            metadata["labels"][key] = json!(value);
        }
        // Finalizers of a strategic merge patch are added to those that are there.
        if !hook.finalizers_handler.is_empty() {
            metadata["finalizers"] = json!(hook.finalizers_handler);
        }
    }
    patches
}

/// Where a pod goes by itself, if anywhere. `is_complete` is asked of pods that are Updating only, so it may be `false`
/// for all others.
pub fn next(
    pod: &PodLite,
    lifecycle: Option<&Lifecycle>,
    is_at_update_revision: bool,
    is_complete: bool,
) -> Option<State> {
    let update_hook = lifecycle.and_then(|it| it.in_place_update.as_ref());
    // Without a hook nothing is ever fully hooked, so with a lifecycle the pod passes through Updated for one look.
    let updated = || {
        if lifecycle.is_some() && !is_fully_hooked(update_hook, pod) { State::Updated } else { State::Normal }
    };
    match State::of(pod)? {
        State::PreparingNormal => {
            let may_go = match lifecycle.and_then(|it| it.pre_normal.as_ref()) {
                // A label written before the binding made old schedulers bind on a stale pod (kruise#1485).
                None => state::has_node(pod),
                hook => is_fully_hooked(hook, pod),
            };
            may_go.then_some(State::Normal)
        }
        State::PreparingUpdate => is_at_update_revision.then(updated),
        State::Updating => is_complete.then(updated),
        State::Updated => {
            (update_hook.is_none() || is_fully_hooked(update_hook, pod)).then_some(State::Normal)
        }
        State::Normal | State::PreparingDelete => None,
    }
}

/// The state label and its timestamp, as metadata to be merged.
pub(crate) fn mark(state: State, now: Timestamp) -> Value {
    json!({
        "labels": {keys::LIFECYCLE_STATE: state.as_str()},
        "annotations": {keys::LIFECYCLE_TIMESTAMP: rfc3339(now)},
    })
}

fn pre_update_key() -> Key {
    Key::new("Lifecycle", "preUpdateHook")
}

fn pre_delete_key() -> Key {
    Key::new("Lifecycle", "preDeleteHook")
}

/// What a move does to the pod's rotation. What was once taken out is put back on every way out of the state, also
/// Takes back what keeps a pod in service out of rotation on account of a hook: a step that broke off after its first
/// patch has left it there. `None` if there is nothing of the kind.
pub fn forgotten(pod: &PodLite, now: Timestamp) -> Option<PodPatch> {
    let is_in_service = matches!(State::of(pod), Some(State::Normal | State::PreparingNormal));
    (is_in_service && !readiness::is_in_rotation(pod))
        .then(|| readiness::remove_keys(pod, &[pre_update_key(), pre_delete_key()], now))
        .flatten()
}

/// where the hook does not ask for it any more: nobody else would ever do it.
fn readiness_change(pod: &PodLite, state: State, marking: Marking, now: Timestamp) -> Option<PodPatch> {
    match state {
        State::PreparingDelete if marking == Marking::NotReady => {
            readiness::add_key(pod, &pre_delete_key(), now)
        }
        State::PreparingUpdate if marking == Marking::NotReady => {
            readiness::add_key(pod, &pre_update_key(), now)
        }
        State::Updated => readiness::remove_key(pod, &pre_update_key(), now),
        State::Normal | State::PreparingNormal => {
            readiness::remove_keys(pod, &[pre_update_key(), pre_delete_key()], now)
        }
        State::PreparingDelete | State::PreparingUpdate | State::Updating => None,
    }
}

/// A pod that has its node, and a pod that must go, stay so whatever kubelet writes meanwhile. All other moves follow
/// from what the pod looked like.
fn pin(pod: &PodLite, to: State) -> Pin {
    match (State::of(pod), to) {
        (_, State::PreparingDelete) | (Some(State::PreparingNormal), State::Normal) => Pin::Uid,
        _ => Pin::Version,
    }
}

fn label(pod: &PodLite) -> &str {
    pod.labels().get(keys::LIFECYCLE_STATE).map_or("", String::as_str)
}

fn has_finalizer(pod: &PodLite, name: &str) -> bool {
    pod.metadata.finalizers.as_ref().is_some_and(|it| it.iter().any(|it| it == name))
}

#[cfg(test)]
mod tests;
