//! How much room clusters have for an object's pods: what is asked, and what the answers mean (PROTO-8, SPLIT-7). Pure.
//!
//! Only policies whose division depends on room ask. A cluster with a share is asked in its Assignment; one without gets an
//! Assignment that does nothing but ask, and that is in no ledger: nothing was promised by it.

use kruise_core::api::fleet::{
    Slice,
    assignment::{Assignment, AssignmentSpec, AssignmentStatus, CapacityQuestion, Intent},
    keys::features,
    policy::{DynamicWeights, Placement, ReplicasMode, WhenShort},
};
use scheduling::{numbers::MAX_REPLICAS, rank::sha256, split::State};
use serde_json::{Map, Value, json};

use super::{Cluster, Observed, Winner, Write, shares::is_heard};
use crate::placement::{
    overrides::{self, Changes},
    select::{Selection, select},
};

/// For how many seconds an object waits for an answer before it grows without it. An agent that has just taken over says
/// nothing for a little less (PROTO-12).
pub(in crate::dispatch) const PATIENCE: u32 = 90;
/// What of a container tells how much room it needs.
const OF_CONTAINERS: [&str; 2] = ["resources", "restartPolicy"];
/// What of a pod tells where it may run.
const OF_POD: [&str; 3] = ["nodeSelector", "tolerations", "overhead"];

/// Whether the division by this policy depends on how much room there is.
pub(in crate::dispatch) fn matters(placement: &Placement) -> bool {
    let replicas = &placement.replicas;
    replicas.mode != ReplicasMode::Duplicated
        && (replicas.mode == ReplicasMode::Aggregated
            || replicas.dynamic == DynamicWeights::FreeCapacity
            || replicas.when_short == WhenShort::Hold
            || !placement.tiers.is_empty())
}

/// Replicas of other objects that a cluster was granted and nobody has seen on a node yet. They are counted as pods, whatever
/// their size.
pub(in crate::dispatch) fn promised<'a>(shares: impl IntoIterator<Item = &'a Assignment>, but: &str) -> u64 {
    let unseen = |it: &Assignment| match &it.spec.slice {
        Some(Slice::CloneSet(slice)) if it.spec.object.uid != but => {
            u64::from(slice.replicas.saturating_sub(it.status.as_ref().map_or(0, running)))
        }
        _ => 0,
    };
    shares.into_iter().map(unseen).sum()
}

/// Pods of a share that have a node.
pub(super) fn running(status: &AssignmentStatus) -> u32 {
    status.counts.replicas.saturating_sub(status.counts.unscheduled)
}

/// What clusters are asked about one object's pods, in the order of the clusters.
#[derive(Debug, Default)]
pub(super) struct Room {
    asked: Vec<Asked>,
}

#[derive(Debug, Clone, Default)]
struct Asked {
    question: Option<CapacityQuestion>,
    /// Whether it has not answered yet, and is waited for.
    is_awaited: bool,
    /// Whether the policy selects it.
    is_selected: bool,
    /// Whether it would get a share now if there were room.
    is_candidate: bool,
}

impl Room {
    /// What is to be asked. `changes` are what differs in each cluster.
    pub(super) fn new(
        observed: &Observed<'_>,
        winner: &Winner,
        kind: (&str, &str),
        body: &Value,
        changes: &[Result<Changes, String>],
        replicas: u32,
    ) -> Self {
        let placement = &*winner.placement;
        if !matters(placement) {
            return Self { asked: vec![Asked::default(); observed.clusters.len()] };
        }
        let plain = question(placement, body, replicas);
        let asked = observed.clusters.iter().zip(changes).map(|(cluster, changes)| {
            let can_answer = cluster.facts.can(features::CAPACITY);
            let Some(changes) = changes.as_ref().ok().filter(|_| can_answer) else { return Asked::default() };
            // Which registry images come from takes no room.
            let question = match changes.patches.as_slice() {
                [] => plain.clone(),
                patches => {
                    let mut changed = body.clone();
                    // They were tried before; should they not apply, the cluster is left out anyway.
                    let _ = overrides::apply(&mut changed, patches);
                    question(placement, &changed, replicas)
                }
            };
            let selection = select(placement, &cluster.facts, kind.0, kind.1);
            let is_selected = matches!(selection, Selection::Selected { .. } | Selection::NothingNew { .. });
            let is_candidate = matches!(selection, Selection::Selected { .. })
                && matches!(cluster.planning, State::Ready | State::Unconfirmed);
            let is_answered = answer(cluster, &question).is_some();
            // Another question is not waited for any shorter because an older one went unanswered.
            let is_asked =
                cluster.stored().is_some_and(|it| it.capacity_question.as_ref() == Some(&question));
            let waited = if is_asked { cluster.asked_for } else { 0 };
            let is_awaited = is_candidate && !is_answered && waited < PATIENCE;
            Asked { question: Some(question), is_awaited, is_selected, is_candidate }
        });
        Self { asked: asked.collect() }
    }

    /// What a cluster is asked.
    pub(super) fn question(&self, place: usize) -> Option<&CapacityQuestion> {
        self.asked.get(place)?.question.as_ref()
    }

    /// Pods that would still fit into a cluster, as it says; unknown is unlimited.
    pub(super) fn free(&self, place: usize, cluster: &Cluster) -> Option<u32> {
        answer(cluster, self.question(place)?)
    }

    /// Whether a cluster is waited for.
    pub(super) fn is_awaited(&self, place: usize) -> bool {
        self.asked.get(place).is_some_and(|it| it.is_awaited)
    }

    /// Whether anybody is waited for.
    pub(super) fn is_waiting(&self) -> bool {
        self.asked.iter().any(|it| it.is_awaited)
    }

    /// The clusters that are waited for. Until they have answered nothing grows: replicas would stay where they were put for
    /// want of a better place.
    pub(super) fn awaited(&self, observed: &Observed<'_>) -> Vec<String> {
        let clusters = observed.clusters.iter().zip(&self.asked);
        clusters.filter(|it| it.1.is_awaited).map(|it| it.0.facts.name.clone()).collect()
    }

    /// Assignments that only ask: those to write, and clusters whose question is not asked any more.
    pub(super) fn questions(
        &self,
        observed: &Observed<'_>,
        has_share: impl Fn(&str) -> bool,
    ) -> (Vec<Write>, Vec<String>) {
        let (mut writes, mut removals) = (Vec::new(), Vec::new());
        for (cluster, asked) in observed.clusters.iter().zip(&self.asked) {
            let name = &cluster.facts.name;
            let stored = cluster.stored();
            if has_share(name) || stored.is_some_and(|it| it.intent != Intent::Ask) {
                continue;
            }
            let spec = || AssignmentSpec {
                object: observed.reference.clone(),
                intent: Intent::Ask,
                capacity_question: asked.question.clone(),
                ..AssignmentSpec::default()
            };
            match stored {
                None if asked.question.is_some() && asked.is_candidate => {
                    writes.push(Write { cluster: name.clone(), spec: spec(), grows: false });
                }
                Some(_) if !asked.is_selected => removals.push(name.clone()),
                Some(stored) if stored.capacity_question != asked.question && is_heard(cluster.planning) => {
                    writes.push(Write { cluster: name.clone(), spec: spec(), grows: false });
                }
                _ => {}
            }
        }
        (writes, removals)
    }
}

fn answer(cluster: &Cluster, question: &CapacityQuestion) -> Option<u32> {
    let capacity = cluster.status()?.capacity.as_ref()?;
    // More than was asked about is no use to anybody but one who boasts (SEC-5).
    let most = question.up_to.unwrap_or(MAX_REPLICAS);
    (capacity.question == question.id).then_some(capacity.fit_now.min(most))
}

/// The question about pods of `body`. Where only it matters whether they all fit, room for twice as many is as good as any.
fn question(placement: &Placement, body: &Value, replicas: u32) -> CapacityQuestion {
    let pod = shape(&body["spec"]["template"]["spec"]);
    let all_of_it = placement.replicas.mode == ReplicasMode::Aggregated
        || placement.replicas.dynamic == DynamicWeights::FreeCapacity;
    let up_to = (!all_of_it)
        .then(|| replicas.max(1).checked_next_power_of_two().unwrap_or(u32::MAX).saturating_mul(2));
    let digest = sha256(json!([pod, up_to]).to_string().as_bytes());
    let id = digest[..8].iter().map(|it| format!("{it:02x}")).collect();
    CapacityQuestion { id, pod, up_to }
}

/// What of a pod's spec tells how much room it needs, and where.
fn shape(spec: &Value) -> Value {
    let some = |from: &Value, fields: &[&str]| -> Map<String, Value> {
        let there = fields.iter().filter_map(|it| Some(((*it).to_owned(), from.get(it)?.clone())));
        there.filter(|it| is_something(&it.1)).collect()
    };
    let mut pod = some(spec, &OF_POD);
    for list in ["containers", "initContainers"] {
        let containers = spec[list].as_array().into_iter().flatten();
        let needs = containers.map(|it| some(it, &OF_CONTAINERS)).filter(|it| it.contains_key("resources"));
        let needs: Vec<Value> = needs.map(Value::Object).collect();
        if !needs.is_empty() {
            pod.insert(list.to_owned(), needs.into());
        }
    }
    let path = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    if let Some(required) = spec.pointer(path).filter(|it| is_something(it)) {
        let node = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
        pod.insert("affinity".to_owned(), json!({"nodeAffinity": node}));
    }
    Value::Object(pod)
}

fn is_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
