//! Which priority may start next.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    pod::launch::{COMPLETED, barrier_name, waits_for},
    runtime::{cache::pod::PodLite, key::uid},
};

/// A barrier that belonged to an earlier pod of the same name may still be collected as garbage after we took it over:
/// its loss shows in no pod, so it is looked for.
const AFTER_TAKEOVER: Duration = Duration::from_secs(15);

/// A pod's barrier, as the API server has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Barrier {
    /// Its resourceVersion.
    pub version: String,
    /// The priorities that may start.
    pub released: BTreeSet<i64>,
    /// The pods that own it.
    pub pods: Vec<Owner>,
}

/// A pod that owns a barrier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Make the barrier, with this priority released.
    Create(i64),
    /// Take the barrier over from an earlier pod of the same name, with nothing but this priority released.
    TakeOver(i64),
    /// Release this priority.
    Release(i64),
    /// Note on the pod that everything is released.
    Complete,
}

/// What to do about one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// In this order: a pod is complete only after its last release.
    pub actions: Vec<Action>,
    /// When to look again although nothing changed.
    pub look_again_in: Option<Duration>,
}

/// Whether containers of `pod` wait for their turn, as far as the pod itself can tell.
pub fn waits_in_line(pod: &PodLite) -> bool {
    let is_completed = || {
        let annotations = pod.metadata.annotations.as_ref();
        annotations.and_then(|it| it.get(COMPLETED)).is_some_and(|it| it == "true")
    };
    let are_ready =
        || pod.status.conditions.iter().any(|it| it.kind == "ContainersReady" && it.status == "True");
    pod.metadata.deletion_timestamp.is_none() && !is_completed() && !are_ready() && !pending(pod).is_empty()
}

/// What to do about `pod`, whose barrier is `barrier`.
pub fn plan(pod: &PodLite, barrier: Option<&Barrier>) -> Plan {
    let pending = pending(pod);
    let (Some(&lowest), Some(&highest)) = (pending.first(), pending.last()) else { return Plan::default() };
    let mut plan = Plan::default();
    match barrier {
        None => plan.actions.push(Action::Create(highest)),
        Some(barrier) if is_of_predecessor(barrier, pod) => {
            plan.actions.push(Action::TakeOver(highest));
            plan.look_again_in = Some(AFTER_TAKEOVER);
        }
        Some(barrier) if barrier.released.contains(&lowest) => {
            plan.actions.push(Action::Complete);
            return plan;
        }
        Some(barrier) if barrier.released.contains(&highest) => {}
        Some(_) => plan.actions.push(Action::Release(highest)),
    }
    if highest == lowest {
        plan.actions.push(Action::Complete);
    }
    plan
}

/// The priorities of the containers that are not ready.
fn pending(pod: &PodLite) -> BTreeSet<i64> {
    let barrier = barrier_name(pod.metadata.name.as_deref().unwrap_or_default());
    let is_ready = |name: &str| pod.status.container_statuses.iter().any(|it| it.name == name && it.ready);
    pod.spec
        .containers
        .iter()
        .filter(|it| !is_ready(&it.name))
        .filter_map(|it| waits_for(&it.env, &barrier))
        .collect()
}

/// Whether the keys in `barrier` were meant for an earlier pod of the same name.
fn is_of_predecessor(barrier: &Barrier, pod: &PodLite) -> bool {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let is_ours = |it: &Owner| it.uid == uid(pod);
    !barrier.pods.iter().any(is_ours) && barrier.pods.iter().any(|it| it.name == name)
}

#[cfg(test)]
mod tests;
