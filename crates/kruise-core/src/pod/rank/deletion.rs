//! Which pods go first when there are too many.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    fmt,
};

use jiff::Timestamp;

use super::active::{self, LatestFirst};
use crate::{api::common::keys, pod::state, runtime::cache::pod::PodLite};

/// The label by which a constraint means single nodes.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Over what the pods that stay should be spread.
#[derive(Clone)]
pub struct Spread<'a> {
    /// The topology keys of the template's spread constraints. Without any, pods are spread over nodes.
    pub constraints: Vec<String>,
    /// The labels of the node with this name, if it is known.
    pub node_labels: &'a dyn Fn(&str) -> Option<&'a BTreeMap<String, String>>,
}

impl Spread<'static> {
    /// Over nodes: for templates without spread constraints.
    pub fn over_nodes() -> Self {
        Self { constraints: Vec::new(), node_labels: &|_| None }
    }
}

impl fmt::Debug for Spread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spread").field("constraints", &self.constraints).finish_non_exhaustive()
    }
}

/// The order in which these pods go if some of them must. Answers with positions in `pods`.
///
/// Pods that serve least go first, then cheap ones, then those whose place has most others, then the youngest. Ranks
/// are about these pods only: hand in the group that is to be trimmed.
pub fn order_for_deletion(
    pods: &[&PodLite],
    how: &Spread<'_>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Vec<usize> {
    let mut keys: Vec<_> = pods.iter().map(|it| DeletionKey::of(it, min_ready_seconds, now)).collect();
    if how.constraints.is_empty() {
        rank_within_nodes(pods, &mut keys);
    } else {
        rank_within_topologies(pods, how, &mut keys);
    }
    sorted((0..pods.len()).collect(), &keys)
}

/// The order of the fields is the order of importance.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct DeletionKey<'a> {
    has_node: bool,
    phase: u8,
    available: bool,
    ready: bool,
    cost: i32,
    rank: Reverse<Rank>,
    ready_at: LatestFirst,
    restarts: Reverse<i32>,
    created: LatestFirst,
    name: &'a str,
}

impl<'a> DeletionKey<'a> {
    fn of(pod: &'a PodLite, min_ready_seconds: i32, now: Timestamp) -> Self {
        Self {
            has_node: active::has_node(pod),
            phase: active::phase(pod),
            available: state::is_available(pod, min_ready_seconds, now),
            ready: state::is_ready(pod),
            cost: deletion_cost(pod),
            rank: Reverse(Rank(0.0)),
            ready_at: state::ready_at(pod).map(Reverse),
            restarts: Reverse(active::restarts(pod)),
            created: active::created(pod),
            name: active::name(pod),
        }
    }
}

/// How crowded a pod's place is; never negative and never NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rank(f64);

impl Eq for Rank {}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Every node keeps one pod before any node loses its last one: the last of a node's pods to go gets rank 0, the others
/// count down to 1.
fn rank_within_nodes(pods: &[&PodLite], keys: &mut [DeletionKey<'_>]) {
    for group in group_by(pods, active::node) {
        let group = sorted(group, keys);
        for (index, pod) in group.iter().enumerate() {
            keys[*pod].rank = Reverse(Rank((group.len() - 1 - index) as f64));
        }
    }
}

/// Each constraint adds to the rank how many pods of the same topology go after this one. Constraints with many values
/// weigh more, as they do in the scheduler.
fn rank_within_topologies(pods: &[&PodLite], how: &Spread<'_>, keys: &mut [DeletionKey<'_>]) {
    let unranked = keys.to_vec();
    let mut ranked = unranked.clone();
    rank_within_nodes(pods, &mut ranked);

    let mut nodes = HashMap::new();
    for name in pods.iter().filter_map(|it| active::node(it)) {
        nodes.entry(name).or_insert_with(|| (how.node_labels)(name));
    }

    let mut ranks = vec![0.0; pods.len()];
    for key in &how.constraints {
        let topology = |pod: &PodLite| {
            let labels = nodes.get(active::node(pod)?).copied().flatten()?;
            labels.get(key).map(String::as_str)
        };
        let by = if key == HOSTNAME { &unranked } else { &ranked };
        let groups = group_by(pods, topology);
        let weight = ((groups.len() + 2) as f64).ln();
        for group in groups {
            let group = sorted(group, by);
            for (index, pod) in group.iter().enumerate() {
                ranks[*pod] += (group.len() - index) as f64 * weight;
            }
        }
    }
    for (key, rank) in keys.iter_mut().zip(ranks) {
        key.rank = Reverse(Rank(rank));
    }
}

/// Positions of the pods with the same place; pods without one are in no group.
fn group_by<'a>(pods: &[&'a PodLite], place: impl Fn(&'a PodLite) -> Option<&'a str>) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, pod) in pods.iter().enumerate() {
        if let Some(place) = place(pod) {
            groups.entry(place).or_default().push(index);
        }
    }
    groups.into_values().collect()
}

fn sorted(mut pods: Vec<usize>, keys: &[DeletionKey<'_>]) -> Vec<usize> {
    pods.sort_by(|a, b| keys[*a].cmp(&keys[*b]));
    pods
}

/// What the annotation says, 0 where it does not say a number as Kubernetes reads it: no plus sign, no leading zeros.
fn deletion_cost(pod: &PodLite) -> i32 {
    let Some(text) = pod.annotations().get(keys::POD_DELETION_COST) else { return 0 };
    let is_number = text == "0" || text.starts_with('-') || text.starts_with(|it| matches!(it, '1'..='9'));
    if is_number { text.parse().unwrap_or(0) } else { 0 }
}
