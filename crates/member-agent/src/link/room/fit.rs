//! How many pods of a shape there is room for. Pure.

use std::collections::HashMap;

use kruise_core::{
    api::fleet::assignment::{CapacityAnswer, CapacityQuestion},
    pod::state,
    quantity::milli,
    runtime::cache::{node::NodeLite, pod::PodLite},
};

use super::shape::{Amounts, Shape, requests};

/// Every node has room for this many pods, whatever they request.
const PODS: &str = "pods";
/// Leading binary digits that large numbers are told with: steps of at most a sixteenth.
const DIGITS: u32 = 5;

/// What pods take up on each node.
#[derive(Debug, Default)]
pub(super) struct Usage(HashMap<String, Used>);

#[derive(Debug, Default, Clone)]
struct Used {
    pods: i128,
    amounts: Amounts,
}

impl Usage {
    /// What these pods take up. Those that are on their way out do until they are gone.
    pub(super) fn of<'a>(pods: impl IntoIterator<Item = &'a PodLite>) -> Self {
        let mut usage = Self::default();
        // Pods of one template share their containers: each list is read once.
        let mut known: HashMap<(usize, usize), Amounts> = HashMap::new();
        for pod in pods {
            let Some(node) = node(pod).filter(|_| !is_over(pod)) else { continue };
            let (containers, init) = (&*pod.spec.containers, &*pod.spec.init_containers);
            let place = (std::ptr::from_ref(containers).addr(), std::ptr::from_ref(init).addr());
            let amounts = known.entry(place).or_insert_with(|| requests(containers, init));
            let used = usage.0.entry(node.to_owned()).or_default();
            used.pods += 1;
            for (name, amount) in &*amounts {
                match used.amounts.get_mut(name) {
                    Some(total) => *total += amount,
                    None => drop(used.amounts.insert(name.clone(), *amount)),
                }
            }
        }
        usage
    }
}

/// The node of a pod, once it has one.
fn node(pod: &PodLite) -> Option<&str> {
    pod.spec.node_name.as_deref().filter(|it| !it.is_empty())
}

/// Whether a pod takes up nothing any more.
pub(super) fn is_over(pod: &PodLite) -> bool {
    matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

/// Room for pods of one shape.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Fit {
    /// Pods that would be scheduled now.
    pub(super) now: u32,
    /// Pods that nodes could hold if they were empty.
    pub(super) empty: u32,
}

/// How many pods of a shape fit.
pub(super) fn fit<'a>(shape: &Shape, nodes: impl IntoIterator<Item = &'a NodeLite>, usage: &Usage) -> Fit {
    let nothing = Used::default();
    let (mut now, mut empty) = (0_u64, 0_u64);
    for node in nodes.into_iter().filter(|it| shape.may_run_on(it)) {
        let used = usage.0.get(node.metadata.name.as_deref().unwrap_or_default()).unwrap_or(&nothing);
        now += on_node(shape, node, used);
        empty += on_node(shape, node, &nothing);
    }
    let fitted = |it: u64| u32::try_from(it).unwrap_or(u32::MAX);
    Fit { now: fitted(now), empty: fitted(empty) }
}

fn on_node(shape: &Shape, node: &NodeLite, used: &Used) -> u64 {
    let room = |name: &str| node.status.allocatable.get(name).and_then(|it| milli(&it.0)).unwrap_or(0);
    let taken = |name: &str| used.amounts.get(name).copied().unwrap_or_default();
    let slots = room(PODS) / 1000 - used.pods;
    let requested = shape.requests.iter().filter(|it| *it.1 > 0);
    let least = requested.map(|(name, each)| (room(name) - taken(name)) / each).fold(slots, i128::min);
    u64::try_from(least.max(0)).unwrap_or(u64::MAX)
}

/// Pods of an object that have a node too few or too many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::link) struct Turnover {
    /// Pods that wait for a node.
    pub(in crate::link) unscheduled: u32,
    /// Places that pods on their way out leave to others of the object.
    pub(in crate::link) vacated: u32,
}

/// How many of an object's pods wait for a node, and how many leave one. A pod on its way out will leave its place to one that
/// waits, if its node is there.
pub(super) fn turnover<'a>(
    pods: impl IntoIterator<Item = &'a PodLite>,
    is_usable: impl Fn(&str) -> bool,
) -> Turnover {
    let (mut waiting, mut leaving) = (0_u32, 0_u32);
    for pod in pods {
        match node(pod) {
            None => waiting += u32::from(state::is_active(pod)),
            Some(node) => leaving += u32::from(pod.is_terminating() && !is_over(pod) && is_usable(node)),
        }
    }
    Turnover { unscheduled: waiting.saturating_sub(leaving), vacated: leaving.saturating_sub(waiting) }
}

/// What is told: nothing beyond what makes a difference, large numbers rounded down, and what was told before as long as it
/// still holds, so that an estimate which moves a little is no news.
pub(super) fn told(question: &CapacityQuestion, fit: Fit, before: Option<&CapacityAnswer>) -> CapacityAnswer {
    let before = before.filter(|it| it.question == question.id);
    let number = |exact: u32, known: Option<u32>| {
        let exact = question.up_to.map_or(exact, |it| exact.min(it));
        known.filter(|it| still_holds(*it, exact)).unwrap_or_else(|| rounded(exact))
    };
    CapacityAnswer {
        question: question.id.clone(),
        fit_now: number(fit.now, before.map(|it| it.fit_now)),
        schedulable: number(fit.empty, before.map(|it| it.schedulable)),
        as_of: None,
    }
}

fn rounded(number: u32) -> u32 {
    number & !(step(number) - 1)
}

/// The distance of numbers of this size that are told.
fn step(number: u32) -> u32 {
    1 << (u32::BITS - number.leading_zeros()).saturating_sub(DIGITS)
}

/// Whether a large number that was told is not too much, and not too little by more than two steps.
fn still_holds(known: u32, exact: u32) -> bool {
    let step = step(known);
    step > 1 && known <= exact && exact - known < 2 * step
}
