//! What both orders look at, and the order in which Kubernetes itself looks at active pods.

use std::cmp::Reverse;

use jiff::Timestamp;

use crate::{pod::state, runtime::cache::pod::PodLite};

/// A time by which later comes first, and no time at all before that.
pub(super) type LatestFirst = Option<Reverse<Timestamp>>;

/// The order in which pods are updated if nobody asks for another one: those that serve least go first. Answers with
/// positions in `pods`.
pub fn order_for_update(pods: &[&PodLite]) -> Vec<usize> {
    let keys: Vec<_> = pods.iter().map(|it| UpdateKey::of(it)).collect();
    let mut order: Vec<_> = (0..pods.len()).collect();
    order.sort_by(|a, b| keys[*a].cmp(&keys[*b]));
    order
}

/// The order of the fields is the order of importance.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct UpdateKey<'a> {
    has_node: bool,
    phase: u8,
    ready: bool,
    ready_at: LatestFirst,
    restarts: Reverse<i32>,
    sidecar_restarts: Reverse<i32>,
    created: LatestFirst,
    name: &'a str,
}

impl<'a> UpdateKey<'a> {
    fn of(pod: &'a PodLite) -> Self {
        Self {
            has_node: has_node(pod),
            phase: phase(pod),
            ready: state::is_ready(pod),
            ready_at: state::ready_at(pod).map(Reverse),
            restarts: Reverse(restarts(pod)),
            sidecar_restarts: Reverse(sidecar_restarts(pod)),
            created: created(pod),
            name: name(pod),
        }
    }
}

pub(super) fn name(pod: &PodLite) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

pub(super) fn node(pod: &PodLite) -> Option<&str> {
    pod.spec.node_name.as_deref().filter(|it| !it.is_empty())
}

pub(super) fn has_node(pod: &PodLite) -> bool {
    node(pod).is_some()
}

/// Pending, then Unknown, then Running. Kubernetes takes any other phase for Pending here.
pub(super) fn phase(pod: &PodLite) -> u8 {
    match pod.status.phase.as_deref() {
        Some("Unknown") => 1,
        Some("Running") => 2,
        _ => 0,
    }
}

pub(super) fn created(pod: &PodLite) -> LatestFirst {
    pod.metadata.creation_timestamp.as_ref().map(|it| Reverse(it.0))
}

/// How often the container that was restarted most was restarted.
pub(super) fn restarts(pod: &PodLite) -> i32 {
    pod.status.container_statuses.iter().map(|it| it.restart_count).max().unwrap_or(0).max(0)
}

fn sidecar_restarts(pod: &PodLite) -> i32 {
    let is_sidecar = |name: &str| {
        let mut containers = pod.spec.init_containers.iter();
        containers.any(|it| it.name == name && it.restart_policy.as_deref() == Some("Always"))
    };
    let statuses = pod.status.init_container_statuses.iter().filter(|it| is_sidecar(&it.name));
    statuses.map(|it| it.restart_count).max().unwrap_or(0).max(0)
}
