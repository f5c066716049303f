//! What is done about one MemberCluster: whether it may go, and what is waited for (DEL-6). Pure.

use std::{collections::BTreeSet, time::Duration};

use kruise_core::{
    api::fleet::{
        FederatedObject,
        assignment::{Assignment, Intent},
        binding::FleetBinding,
        keys::{self, conditions as types},
        member_cluster::MemberCluster,
    },
    runtime::{events::Severity, key::uid},
};
use kube::ResourceExt;

use super::Departure;

/// For so long after a cluster was first seen to leave it is not let go of: a round that had begun before may still be under way,
/// and give it something.
pub const SETTLED_AFTER: Duration = Duration::from_secs(10);
/// How many objects are named.
const NAMED: usize = 5;

/// One look at a member that is being deleted.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    /// The member.
    pub member: &'a MemberCluster,
    /// How it leaves.
    pub departure: Departure,
    /// Whether plans reach it.
    pub is_heard: bool,
    /// For how long this process has seen it leave.
    pub leaving_for: Duration,
    /// Assignments and bindings that cannot be read.
    pub unreadable: usize,
    /// The Assignments in its namespace.
    pub shares: Vec<&'a Assignment>,
    /// All bindings.
    pub bindings: Vec<&'a FleetBinding>,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// One word.
    pub reason: &'static str,
    /// The rest, and what helps.
    pub message: String,
    /// Whether somebody should look into it.
    pub severity: Severity,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Rest,
    /// Our finalizer is put on.
    Claim,
    /// It is waited for something.
    Wait(Hold),
    /// Our finalizer is taken off; before that, these questions are deleted: names and UIDs.
    LetGo {
        /// The Assignments that only ask.
        questions: Vec<(String, String)>,
    },
}

/// What is done about a member that stays.
pub fn staying(member: &MemberCluster) -> Step {
    if is_claimed(member) { Step::Rest } else { Step::Claim }
}

/// What is done about a member that is being deleted.
pub fn leaving(observed: &Observed<'_>) -> Step {
    let Observed { member, departure, is_heard, .. } = observed;
    if !is_claimed(member) {
        return Step::Rest;
    }
    let left = Left::of(observed);
    if left.is_nothing() && observed.leaving_for >= SETTLED_AFTER {
        let questions = observed.shares.iter().filter(|it| it.spec.intent == Intent::Ask);
        return Step::LetGo { questions: questions.map(|it| (it.name_any(), uid(*it).to_owned())).collect() };
    }
    let name = member.name_any();
    let objects = listed(&left.objects);
    let hold = |reason, message, severity| Step::Wait(Hold { reason, message, severity });
    if left.is_nothing() {
        let message = "nothing of the fleet is left there".to_owned();
        return hold("Empty", message, Severity::Normal);
    }
    if left.unreadable > 0 && left.objects.is_empty() {
        let message =
            format!("{} bindings or Assignments cannot be read: the hub's log names them", left.unreadable);
        return hold("Unreadable", message, Severity::Warning);
    }
    if !is_heard && !departure.force {
        let message = format!(
            "it does not report and cannot be emptied of {objects}; `kubectl fleet remove {name} --force` gives it up: replicas are \
             placed elsewhere, and what it runs is deleted when it is let in again under this name"
        );
        return hold("Unreachable", message, Severity::Warning);
    }
    match departure.at_once() {
        Some(Intent::Orphan) => hold("Orphaning", format!("lets go of {objects}"), Severity::Normal),
        Some(_) => hold("Deleting", format!("deletes {objects}"), Severity::Normal),
        None if !left.unplanned.is_empty() => {
            let message = format!(
                "no policy says where else to run {}: give it one, withdraw it, or say `kubectl fleet remove {name} --orphan`",
                listed(&left.unplanned)
            );
            hold("NotPlanned", message, Severity::Warning)
        }
        None if !left.held.is_empty() => {
            let message = format!(
                "{}; `kubectl fleet remove {name} --force` deletes what is there without waiting for replacements",
                listed(&left.held)
            );
            hold(types::DRAIN_HELD, message, Severity::Warning)
        }
        None => hold("Draining", format!("moves away {objects}"), Severity::Normal),
    }
}

/// What is told when a cluster has left.
pub fn last_word(departure: Departure) -> (Severity, &'static str) {
    match (departure.orphan, departure.force) {
        (true, _) => (Severity::Normal, "it has left the fleet; what it ran goes on by itself"),
        (false, true) => (Severity::Warning, "it has left the fleet without being waited for"),
        (false, false) => (Severity::Normal, "it is empty and has left the fleet"),
    }
}

/// What is left of the fleet in a cluster.
#[derive(Debug, Default)]
struct Left {
    /// Objects that keep the cluster, in words.
    objects: BTreeSet<String>,
    /// Those of them that nobody moves away.
    unplanned: BTreeSet<String>,
    /// Those of them that cannot be moved now, and why.
    held: BTreeSet<String>,
    unreadable: usize,
}

impl Left {
    fn of(observed: &Observed<'_>) -> Self {
        let Observed { member, departure, is_heard, shares, bindings, unreadable, .. } = observed;
        let cluster = member.name_any();
        let mut left = Self { unreadable: *unreadable, ..Self::default() };
        for binding in bindings.iter().filter(|it| it.spec.ledger.clusters.contains_key(&cluster)) {
            let object = shown(&binding.spec.object);
            left.objects.insert(object.clone());
            let holds = |kind: &str| {
                let conditions = binding.status.iter().flat_map(|it| &it.conditions);
                conditions.into_iter().find(|it| it.type_ == kind && it.status == "True")
            };
            // What says most about a drain comes first.
            let held = [types::DRAIN_HELD, types::UNPLACED, types::SPREAD_UNSATISFIED, types::BUDGET_HELD];
            if holds(types::SUSPENDED).is_some() {
                left.unplanned.insert(object);
            } else if let Some(why) = held.into_iter().find_map(holds) {
                left.held.insert(format!("{object} ({}: {})", why.type_, why.message));
            }
        }
        for share in shares {
            let is_bound = bindings.iter().any(|it| it.spec.object.uid == share.spec.object.uid);
            let is_left = match share.spec.intent {
                Intent::Ask => false,
                // Nobody plans it any more, and a cluster that is not told goes on by itself (PROTO-7).
                Intent::Apply if !is_bound => departure.at_once().is_none(),
                Intent::Apply => true,
                // A tombstone stays where nobody waits for the cluster.
                Intent::Delete | Intent::Orphan => *is_heard || !departure.force,
            };
            if is_left {
                left.objects.insert(shown(&share.spec.object));
                if share.spec.intent == Intent::Apply && !is_bound {
                    left.unplanned.insert(shown(&share.spec.object));
                }
            }
        }
        left
    }

    fn is_nothing(&self) -> bool {
        self.objects.is_empty() && self.unreadable == 0
    }
}

fn is_claimed(member: &MemberCluster) -> bool {
    member.finalizers().iter().any(|it| it == keys::MEMBER_FINALIZER)
}

fn shown(object: &FederatedObject) -> String {
    let place = object.namespace.as_ref().map_or_else(String::new, |it| format!("{it}/"));
    format!("{} {place}{}", object.kind, object.name)
}

/// The first few, and how many more there are.
fn listed(names: &BTreeSet<String>) -> String {
    let named: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    match names.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests;
