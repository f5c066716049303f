//! How much room this cluster has for pods that the hub asks about (PROTO-8).
//!
//! It is counted from the caches of pods and nodes that are there anyway, and only while somebody asks: `shape` is what a pod
//! asks of a node, `fit` counts. Both are pure.

mod fit;
mod shape;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dashmap::DashSet;
use kruise_core::{
    api::fleet::assignment::{CapacityAnswer, CapacityQuestion},
    runtime::{
        cache::{Cache, Change, node::NodeLite, pod::PodLite},
        controller::Triggers,
        key::Key,
    },
};
use tokio::sync::Notify;

use fit::Usage;
use shape::Shape;

pub(super) use fit::Turnover;

/// How long changes of the cluster are gathered before the answers are looked at again.
const GATHER: Duration = Duration::from_secs(3);

/// The room of this cluster.
#[derive(Clone)]
pub struct Room {
    pods: Cache<PodLite>,
    /// None where not all pods are seen: then nobody can tell.
    nodes: Option<Cache<NodeLite>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Assignments that ask.
    asked: DashSet<Key>,
    /// Counts changes of pods and nodes.
    changes: AtomicU64,
    /// What pods take up, and after how many changes.
    usage: Mutex<Option<(u64, Arc<Usage>)>>,
    changed: Notify,
}

impl Room {
    /// The room in the cluster of these pods and nodes. It follows them from now on.
    pub fn new(pods: &Cache<PodLite>, nodes: Option<&Cache<NodeLite>>) -> Self {
        let room = Self { pods: pods.clone(), nodes: nodes.cloned(), shared: Arc::default() };
        if let Some(nodes) = nodes {
            let shared = room.shared.clone();
            pods.on_change(move |change| {
                if takes_up_otherwise(change) {
                    shared.note();
                }
            });
            let shared = room.shared.clone();
            nodes.on_change(move |_| shared.note());
        }
        room
    }

    /// Notes whether an Assignment asks.
    pub(super) fn follow(&self, assignment: &Key, question: Option<&CapacityQuestion>) {
        match question {
            Some(_) => drop(self.shared.asked.insert(assignment.clone())),
            None => drop(self.shared.asked.remove(assignment)),
        }
    }

    /// Answers a question; nothing if that cannot be told. `before` is what was said last. Places that the object's own pods vacate
    /// are free to it: a pod that is replaced needs no room elsewhere.
    pub(super) fn answer(
        &self,
        question: &CapacityQuestion,
        before: Option<&CapacityAnswer>,
        vacated: u32,
    ) -> Option<CapacityAnswer> {
        let nodes = self.nodes.as_ref()?.all();
        let shape = Shape::read(&question.pod)?;
        let mut fit = fit::fit(&shape, nodes.iter().map(|it| &**it), &self.usage());
        fit.now = fit.now.saturating_add(vacated);
        Some(fit::told(question, fit, before))
    }

    /// How many of an object's pods wait for a node (section 26, a member out of capacity), or leave one.
    pub(super) fn turnover(&self, owner: &str) -> Turnover {
        let Some(nodes) = &self.nodes else { return Turnover::default() };
        let is_usable = |name: &str| nodes.get(&Key::new("", name)).is_some_and(|it| it.ready().is_some());
        fit::turnover(self.pods.owned_by(owner).iter().map(|it| &**it), is_usable)
    }

    /// Wakes whoever asks when there may be another answer, for ever.
    pub(super) async fn remind(&self, triggers: &Triggers) {
        loop {
            self.shared.changed.notified().await;
            tokio::time::sleep(GATHER).await;
            self.shared.asked.iter().for_each(|it| triggers.now(it.key().clone()));
        }
    }

    fn usage(&self) -> Arc<Usage> {
        let now = self.shared.changes.load(Ordering::Acquire);
        // Nothing panics under this lock.
        let mut known = self.shared.usage.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((at, usage)) if *at == now => usage.clone(),
            _ => {
                let usage = Arc::new(Usage::of(self.pods.all().iter().map(|it| &**it)));
                *known = Some((now, usage.clone()));
                usage
            }
        }
    }
}

impl Shared {
    fn note(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        if !self.asked.is_empty() {
            self.changed.notify_one();
        }
    }
}

/// Whether a pod takes up something else than before.
fn takes_up_otherwise(change: &Change<PodLite>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    before.spec.node_name != after.spec.node_name
        || fit::is_over(before) != fit::is_over(after)
        || !std::ptr::eq(&*before.spec.containers, &*after.spec.containers)
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Room").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
