//! One round of one object: what is saved, and then written. Pure.
//!
//! The arithmetic is `scheduling`'s. Around it: which clusters there are and what they last said, bodies and their names,
//! what an Assignment says besides its numbers, and clusters that leave. Every prefix of the writes is safe, because the
//! ledger is saved first and a share counts from then on (HA-3).

pub mod ahead;
mod basis;
pub mod caution;
mod farewell;
mod names;
pub(super) mod order;
mod pulls;
pub(super) mod room;
pub mod secrets;
mod shares;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kruise_core::api::fleet::{
    FederatedObject,
    assignment::{Assignment, AssignmentSpec, AssignmentStatus, Intent, ShareState},
    binding::{ClusterRow, FleetBinding, FleetBindingSpec, Ledger as Saved, PolicyRef},
    keys::reasons,
    member_cluster::ClusterState,
    policy::{Placement, ReplicasMode, RolloutOrder},
    revision::FleetRevisionSpec,
};
use scheduling::{
    ledger::{ReportRefused, Revision, Taken},
    names::ClusterName,
    round as arithmetic,
    split::State,
};
use serde_json::Value;

use super::{
    pods::{self, Routing},
    status::{self, Standing, Trouble},
};
use crate::{
    ledger,
    members::departure::Departure,
    names::RevisionKey,
    placement::{
        kinds::{self, Division, Kind, PodNumbers, is_possible, pods_report},
        round::Prepared,
        select::{self, ClusterFacts, Selection},
    },
};
use ahead::Ahead;
use basis::Basis;
use room::Room;
use secrets::Looks;

pub(super) use pulls::{Pulls, is_outlived};
pub(crate) use shares::is_heard;

/// How long counters of seconds may run before they are saved for their own sake.
const COUNTERS_KEPT_AFTER: u32 = 30;

/// The policy that won for an object.
#[derive(Debug, Clone)]
pub struct Winner {
    /// What it says.
    pub placement: Arc<Placement>,
    /// Which one it is.
    pub reference: PolicyRef,
}

/// One cluster, as the hub sees it for one object.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// What policies see of it.
    pub facts: Arc<ClusterFacts>,
    /// Whether there is a MemberCluster for it.
    pub is_member: bool,
    /// Its state, for people.
    pub shown: ClusterState,
    /// What can be done with it.
    pub planning: State,
    /// The Assignment that is stored for it.
    pub assignment: Option<Arc<Assignment>>,
    /// Whether what is stored of it is what it does.
    pub word: caution::Word,
    /// Replicas of other objects that it was granted and that nobody has seen on a node yet (SPLIT-7).
    pub promised_to_others: u64,
    /// Room there that objects which come first could use (SPLIT-9).
    pub claimed_by_others: u64,
    /// Seconds for which it has been asked how much room it has.
    pub asked_for: u32,
    /// How it leaves the fleet, if it does (DEL-6).
    pub departure: Option<Departure>,
}

impl Cluster {
    /// Whether a round of an object has to look at the cluster: the policy selects it, or it has a share. One that is in the
    /// ledger has to be looked at as well.
    pub fn takes_part(&self, winner: Option<&Winner>, (group, kind): (&str, &str)) -> bool {
        let selects = |it: &Winner| {
            !matches!(select::select(&it.placement, &self.facts, group, kind), Selection::Not(_))
        };
        self.assignment.is_some() || winner.is_some_and(selects)
    }

    /// What becomes of its shares if they are not drained first.
    fn leaves_at_once(&self) -> Option<Intent> {
        self.departure.and_then(Departure::at_once)
    }

    /// Whether it is in the fleet, and stays there.
    fn stays(&self) -> bool {
        self.is_member && self.departure.is_none()
    }

    fn status(&self) -> Option<&AssignmentStatus> {
        self.assignment.as_ref()?.status.as_ref()
    }

    fn stored(&self) -> Option<&AssignmentSpec> {
        self.assignment.as_ref().map(|it| &it.spec)
    }

    /// Whether it knows a newer plan than `seq`. Then this hub was restored from an older copy, and the cluster is left
    /// alone (HA-5).
    pub(super) fn is_ahead_of(&self, seq: u64) -> bool {
        self.newest() > seq
    }

    /// The number of the newest plan that is written for it, or that it says to carry out.
    pub(super) fn newest(&self) -> u64 {
        let stored = self.stored().map_or(0, |it| it.seq);
        stored.max(self.status().map_or(0, |it| it.applied_seq))
    }
}

/// One read of the world for one object.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// The object, as it is stored.
    pub object: &'a Value,
    /// Which one it is.
    pub reference: &'a FederatedObject,
    /// The policy that won.
    pub policy: Option<&'a Winner>,
    /// What was promised.
    pub binding: Option<&'a FleetBinding>,
    /// All clusters of the fleet that take part, and those that the ledger knows.
    pub clusters: &'a [Cluster],
    /// From which names of bodies are made. The hub alone has it: without it bodies keep the names that they have, and new ones
    /// get none.
    pub key: Option<&'a RevisionKey>,
    /// What is known of the Secrets that a job names. Without it nobody has looked, and they are supposed to be there.
    pub secrets: Option<&'a Looks>,
    /// Seconds since the ledger was last saved; 0 after a restart.
    pub elapsed: u32,
    /// The time, for conditions.
    pub now: Timestamp,
}

impl Observed<'_> {
    /// The object's generation.
    pub fn generation(&self) -> i64 {
        self.object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default()
    }

    /// What was last told of a cluster. It stands where what the cluster says now cannot be true (section 23).
    pub(super) fn last_told(&self, cluster: &str) -> Option<&ClusterRow> {
        let status = self.binding?.status.as_ref()?;
        status.clusters.iter().find(|it| it.cluster == cluster)
    }

    /// The ledger as it is stored, or a new one.
    fn known(&self) -> Saved {
        self.binding.map_or_else(|| caution::anew(self.object), |it| it.spec.ledger.clone())
    }

    /// The ledger, with a row for every cluster that has an Assignment.
    pub(super) fn saved(&self) -> Saved {
        let mut saved = self.with_all_shares();
        farewell::say(self, &mut saved);
        saved
    }

    /// The same before anybody is seen off.
    fn with_all_shares(&self) -> Saved {
        let mut saved = self.known();
        for cluster in self.clusters {
            let (name, Some(assignment)) = (&cluster.facts.name, &cluster.assignment) else { continue };
            ledger::adopt(&mut saved, name, assignment);
            // Whoever is only asked has no row. One that carries out a plan all the same has one that was forgotten.
            if assignment.spec.intent == Intent::Ask && cluster.newest() > 0 {
                saved.clusters.entry(name.clone()).or_default();
            }
            let Some(row) = saved.clusters.get(name) else { continue };
            if !cluster.is_ahead_of(row.share.seq) {
                continue;
            }
            // Whatever else is to be done about it: what it may be doing counts (HA-5).
            if caution::may_take_over(&saved, self.binding, cluster) {
                ledger::take_over(&mut saved, name, assignment);
            } else {
                ledger::expose(&mut saved, name, assignment);
            }
        }
        saved
    }
}

/// One Assignment to write. Its term is the writer's.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// For which cluster.
    pub cluster: String,
    /// What it says.
    pub spec: AssignmentSpec,
    /// Whether it lets the cluster do more than before: those come after all others (BUD-3).
    pub grows: bool,
}

/// A body to store before an Assignment names it.
#[derive(Debug, Clone, PartialEq)]
pub struct Body {
    /// The name of the FleetRevision.
    pub name: String,
    /// What it says.
    pub spec: FleetRevisionSpec,
    /// Whether some cluster says that it is not there.
    pub is_missing: bool,
}

/// The body that pods come from while a release is under way. The object does not say it any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stable {
    /// The name of the FleetRevision.
    pub name: String,
    /// The hash of the revision.
    pub hash: String,
    /// Clusters that say it is not to be had.
    pub lacking: Vec<String>,
}

/// What one round comes to, in the order in which it is carried out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Round {
    /// What to save before anything is written; nothing if it is saved already.
    pub save: Option<FleetBindingSpec>,
    /// The body to store, if an Assignment names it.
    pub body: Option<Body>,
    /// The body that has to be there as well, while a release is under way.
    pub stable: Option<Stable>,
    /// Assignments to write.
    pub writes: Vec<Write>,
    /// Clusters whose Assignment has done its duty.
    pub removals: Vec<String>,
    /// How the object stands.
    pub standing: Standing,
    /// What to do about downloads ahead of an update, before that is saved.
    pub ahead: Option<Ahead>,
    /// Whether nothing is under way that only time would bring on.
    pub is_settled: bool,
    /// Whether the object has outlived its time and is to be deleted (IPJ-2).
    pub expires: bool,
    /// When something happens that is known beforehand.
    pub look_again: Option<Duration>,
}

/// Plans one round of an object that is to run.
pub fn plan(observed: &Observed<'_>) -> Round {
    caution::unless_awaited(observed, farewell::with_writes(observed, freely(observed)))
}

/// The round as if every cluster had been heard.
fn freely(observed: &Observed<'_>) -> Round {
    let Some(winner) = observed.policy else { return held(observed, Trouble::Suspended) };
    let FederatedObject { api_version, kind: name, .. } = observed.reference;
    let group = api_version.split_once('/').map_or("", |it| it.0);
    let kind = kinds::of(group, name);
    match kind.division(observed.object) {
        Err(fault) => held(observed, Trouble::BadNumbers(fault.to_string())),
        Ok(Division::Pulls(numbers)) => pulls::plan(observed, winner, &*kind, (group, name), numbers),
        Ok(_) if winner.placement.rollout.order == RolloutOrder::Waves => {
            held(observed, Trouble::NotSupported("waves are not carried out yet".to_owned()))
        }
        Ok(Division::Pods(numbers)) => pods(observed, winner, &*kind, (group, name), &numbers),
        Ok(_) => held(observed, Trouble::NotSupported(format!("objects of kind {name} are not placed yet"))),
    }
}

/// Nothing is planned: everything stays as it is, and that is said.
fn held(observed: &Observed<'_>, trouble: Trouble) -> Round {
    let mut saved = observed.known();
    // Those that leave without being drained need no policy for it.
    farewell::say(observed, &mut saved);
    keep_numbers(observed, &mut saved);
    let spec = FleetBindingSpec {
        object: observed.reference.clone(),
        policy: observed.policy.map(|it| it.reference.clone()),
        ledger: saved,
    };
    Round {
        save: (observed.binding.map(|it| &it.spec) != Some(&spec)).then_some(spec),
        standing: status::troubled(trouble, observed),
        is_settled: true,
        ..Round::default()
    }
}

/// Keeps the highest number of those whose row goes: whatever they are given next has a higher one (PROTO-3).
fn keep_numbers(observed: &Observed<'_>, after: &mut Saved) {
    let known = observed.known();
    let left = known.clusters.iter().filter(|it| !after.clusters.contains_key(it.0));
    after.last_seq = left.map(|it| it.1.share.seq).chain([after.last_seq]).max().unwrap_or_default();
}

fn pods(
    observed: &Observed<'_>,
    winner: &Winner,
    kind: &dyn Kind,
    names: (&str, &str),
    numbers: &PodNumbers,
) -> Round {
    let basis = Basis::new(observed, winner, kind);
    let routing = route(observed, &basis, numbers);
    let room = basis.room(observed, winner, names, numbers.replicas);
    let numbers = &held_back(numbers, &routing, &room, &basis.saved, winner.placement.replicas.mode);
    let prepared = match basis.prepare(observed, winner, names, numbers, &routing, &room) {
        Ok(prepared) => prepared,
        Err(trouble) => return held(observed, trouble),
    };
    let Basis { saved, target, body, changes, secrets } = &basis;
    let (before, unheard) = told(observed, saved, &prepared.names(), *target);
    let planned = match arithmetic::plan(&prepared.world(), &before) {
        Ok(planned) => planned,
        Err(fault) => return held(observed, Trouble::BadNumbers(fault.to_string())),
    };
    let draft = shares::Draft {
        observed,
        winner,
        kind,
        body,
        target: *target,
        saved,
        prepared,
        planned,
        routing: &routing,
        room: &room,
        changes,
        secrets,
        pulls: None,
    };
    draft.finish(&before, &unheard)
}

/// Clusters whose last word is not counted.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    /// It cannot be true, and why.
    pub(super) refused: Vec<(String, String)>,
    /// It came after a newer one, or is not what that number said before (PROTO-10).
    pub(super) late: Vec<String>,
}

impl Unheard {
    pub(super) fn has(&self, cluster: &str) -> bool {
        self.refused.iter().map(|it| &it.0).chain(&self.late).any(|it| it == cluster)
    }
}

/// The ledger with what clusters have reported since.
pub(super) fn told(
    observed: &Observed<'_>,
    saved: &Saved,
    clusters: &[ClusterName],
    target: Revision,
) -> (arithmetic::Ledger, Unheard) {
    let mut ledger = ledger::read(saved, clusters, None);
    if saved.target.is_none() {
        (ledger.target, ledger.stable) = (target, target);
    }
    let mut unheard = Unheard::default();
    for row in &mut ledger.rows {
        let cluster = observed.clusters.iter().find(|it| it.facts.name == row.cluster.as_str());
        let Some(status) = cluster.and_then(Cluster::status) else { continue };
        // One that was only ever asked has no share to report about.
        if status.report == 0 || status.applied_seq == 0 && row.share.seq == 0 {
            continue;
        }
        let (name, report) = (row.cluster.to_string(), pods_report(status));
        if !is_possible(&status.counts) {
            unheard.refused.push((name, ReportRefused::Contradiction.to_string()));
            continue;
        }
        let last = row.report.map(|it| (it.incarnation, it.number));
        match row.take(report, ledger.target) {
            Taken::Refused(why) => unheard.refused.push((name, why.to_string())),
            // The one that was taken last is read again and again; what it says may have been changed since.
            Taken::NotNewer
                if last != Some((report.incarnation, report.number)) || row.check(&report).is_err() =>
            {
                unheard.late.push(name);
            }
            _ => {}
        }
    }
    (ledger, unheard)
}

fn route<'a>(observed: &Observed<'a>, basis: &Basis, numbers: &PodNumbers) -> Routing {
    let seq = |it: &Cluster| basis.saved.clusters.get(&it.facts.name).map_or(0, |it| it.share.seq);
    // One that cannot carry out its plan answers nothing until that is mended.
    let is_stuck = |it: &AssignmentStatus| {
        matches!(it.state, Some(ShareState::Failed | ShareState::Conflict))
            || it.conditions.iter().any(|it| it.reason == reasons::BODY_MISSING)
    };
    // Nor does one that is not asked: nothing is written for it now, or it is told to go.
    let is_asked = |place: usize, it: &Cluster| {
        basis.changes[place].is_ok()
            && !it.is_ahead_of(seq(it))
            && it.word != caution::Word::Doubted
            && it.leaves_at_once().is_none()
            && it.stored().is_none_or(|it| it.intent == Intent::Apply)
    };
    let candidate = |(place, it): (usize, &'a Cluster)| pods::Candidate {
        cluster: &it.facts.name,
        answer: it.status().and_then(|it| it.pods.as_ref()),
        is_heard: shares::is_heard(it.planning) && is_asked(place, it) && !it.status().is_some_and(is_stuck),
    };
    let holders = observed.clusters.iter().enumerate().filter(|it| seq(it.1) > 0);
    let candidates: Vec<_> = holders.map(candidate).collect();
    pods::route(&numbers.pods_to_delete, &candidates, &basis.saved.ambiguous_pods)
}

/// A scale-down that names pods waits until it is known whose they are: it begins with them, and other pods would go in
/// their place (SPLIT-8). A scale-up waits until it is known where there is room: replicas stay where they were put.
fn held_back(
    numbers: &PodNumbers,
    routing: &Routing,
    room: &Room,
    saved: &Saved,
    mode: ReplicasMode,
) -> PodNumbers {
    let mut numbers = numbers.clone();
    let before = u32::try_from(saved.population).unwrap_or(u32::MAX);
    if room.is_waiting() {
        numbers.replicas = numbers.replicas.min(before);
    }
    if routing.is_awaited && mode != ReplicasMode::Duplicated {
        numbers.replicas = numbers.replicas.max(before);
    }
    numbers
}

/// Whether an intent to delete or to let go was carried out, so that the Assignment may go (DEL-1, PROTO-11).
pub(super) fn is_over(assignment: &Assignment) -> bool {
    let Some(status) = &assignment.status else { return false };
    let is_applied = (status.applied_term, status.applied_seq) >= (assignment.spec.term, assignment.spec.seq);
    assignment.spec.intent != Intent::Apply
        && is_applied
        && matches!(status.state, Some(ShareState::Deleted | ShareState::Orphaned))
}

/// How a cluster was judged by the policy.
fn selection<'a>(prepared: &'a Prepared<'_>, cluster: &ClusterName) -> Option<&'a Selection> {
    prepared.selections.iter().find(|it| it.0 == *cluster).map(|it| &it.1)
}

/// Whether a binding says the same already.
pub(super) fn is_saved(observed: &Observed<'_>, spec: &FleetBindingSpec) -> bool {
    let FleetBindingSpec { object, policy, ledger } = spec;
    observed.binding.is_some_and(|it| {
        it.spec.object == *object
            && it.spec.policy == *policy
            && says_the_same(&it.spec.ledger, ledger, observed.elapsed)
    })
}

/// Whether nothing but what can be read again differs: reports, and seconds that were counted.
fn says_the_same(a: &Saved, b: &Saved, elapsed: u32) -> bool {
    // That the time of a rebalance is over is seen by whoever looks at it then; nobody has to note it.
    let is_over = (b.rebalance.moved, b.rebalance.passed_seconds) == (0, 0);
    let essence = |it: &Saved| {
        let mut it = it.clone();
        it.term = 0;
        if is_over {
            (it.rebalance.moved, it.rebalance.passed_seconds) = (0, 0);
        }
        if elapsed < COUNTERS_KEPT_AFTER {
            it.rebalance.passed_seconds = 0;
        }
        for row in it.clusters.values_mut() {
            row.report = None;
            if elapsed < COUNTERS_KEPT_AFTER {
                (row.moving_seconds, row.unused_seconds, row.busy_seconds) = (0, 0, 0);
            }
        }
        it
    };
    essence(a) == essence(b)
}

#[cfg(test)]
mod tests;
