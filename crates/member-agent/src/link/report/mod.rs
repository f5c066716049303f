//! What a cluster tells the hub about its share. Pure.

pub mod cloneset;
pub mod coalesce;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kruise_core::{
    api::{
        fleet::{
            Counts, Slice,
            assignment::{
                AssignmentSpec, AssignmentStatus, CapacityAnswer, Corrected, LocalRevisions, PodsAnswer,
                ShareState,
            },
            keys::conditions,
        },
        image_pull_job::ImagePullJobStatus,
    },
    runtime::clock::whole_seconds,
};

use super::marks::Pair;

/// How many paths of drift a report names.
pub const MOST_DRIFT: usize = 20;
/// How many field managers a report names.
pub const MOST_MANAGERS: usize = 5;
/// How many nodes a report names.
pub const MOST_FAILURES: usize = 50;

/// The plan that the member object was given, and what that led to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Applied {
    /// The plan.
    pub plan: AssignmentSpec,
    /// Generation of the member object after it.
    pub generation: i64,
    /// Generation that its controller has seen.
    pub observed_generation: i64,
}

impl Applied {
    /// The number of the plan.
    pub fn pair(&self) -> Pair {
        Pair { term: self.plan.term, seq: self.plan.seq }
    }

    /// Whether the member's controller has seen what was applied: without that nothing counts as acknowledged (PROTO-4).
    pub fn is_observed(&self) -> bool {
        self.observed_generation >= self.generation
    }
}

/// What a share came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// What there is.
    pub counts: Counts,
    /// Pods at the target that do not get better by waiting.
    pub failing: u32,
    /// Names of the revisions.
    pub revisions: LocalRevisions,
    /// Places that pods on their way out leave to others of the object.
    pub vacated: u32,
    /// How many more pods there is room for, where that is asked.
    pub capacity: Option<CapacityAnswer>,
    /// Which of the pods asked for are here.
    pub pods: Option<PodsAnswer>,
    /// Whether a job is over.
    pub completed: bool,
    /// Where the member object differs from what was applied.
    pub drift: Vec<String>,
    /// Field managers that have claimed those places.
    pub drifted_by: Vec<String>,
    /// What was put right since the report before.
    pub corrected: Option<Corrected>,
    /// Whether the member object was there before the fleet.
    pub adopted: bool,
    /// Nodes that could not be served.
    pub failures: Vec<String>,
}

/// Why a share is not applied, or what is worth saying about one that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Where the share stands.
    pub state: ShareState,
    /// One word for why.
    pub reason: &'static str,
    /// The same for a person.
    pub message: String,
}

/// Which report this is, and from whom (PROTO-10).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sender {
    /// Which start of the agent.
    pub incarnation: u64,
    /// Which report.
    pub report: u64,
    /// The newest epoch that the agent knows its cluster to be in.
    pub known_epoch: u64,
}

/// The report about a share. `applied` is nothing as long as no plan of this object was ever applied here.
pub fn report(
    sender: Sender,
    applied: Option<&Applied>,
    facts: Facts,
    verdict: Verdict,
    before: Option<&AssignmentStatus>,
    now: Timestamp,
) -> AssignmentStatus {
    // As long as this plan is not applied, what was said of the one before still holds.
    let capacity = facts.capacity.clone();
    let corrected = facts.corrected.clone();
    let mut status = match applied {
        Some(applied) => told(applied, facts),
        None => before.cloned().unwrap_or_default(),
    };
    // Nor does what was done about changes by others, which is counted through all of them.
    status.corrected = counted(before.and_then(|it| it.corrected.as_ref()), corrected);
    // Room does not depend on plans.
    status.capacity = capacity.map(|it| CapacityAnswer { as_of: Some(whole_seconds(now)), ..it });
    status.incarnation = sender.incarnation;
    status.report = sender.report;
    status.reported_at = Some(whole_seconds(now));
    status.known_epoch = sender.known_epoch;
    status.state = Some(verdict.state);
    status.conditions = vec![condition(&verdict, before, now)];
    status
}

/// Corrections so far, and what the last of them were about.
fn counted(before: Option<&Corrected>, new: Option<Corrected>) -> Option<Corrected> {
    let Some(new) = new else { return before.cloned() };
    Some(Corrected { count: before.map_or(0, |it| it.count) + new.count, ..new })
}

/// What was applied, and what came of it.
fn told(applied: &Applied, facts: Facts) -> AssignmentStatus {
    let Facts {
        counts,
        failing,
        revisions,
        vacated: _,
        capacity: _,
        pods,
        completed,
        mut drift,
        mut drifted_by,
        corrected: _,
        adopted,
        mut failures,
    } = facts;
    drift.truncate(MOST_DRIFT);
    drifted_by.truncate(MOST_MANAGERS);
    failures.truncate(MOST_FAILURES);
    let Applied { plan, generation, observed_generation } = applied;
    AssignmentStatus {
        applied_term: plan.term,
        applied_seq: plan.seq,
        epoch: plan.epoch,
        generation: *generation,
        observed_generation: *observed_generation,
        applied: plan.slice.clone(),
        target: plan.target.clone(),
        stable: plan.stable.clone(),
        counts,
        failing,
        revisions,
        pods,
        completed,
        drift,
        drifted_by,
        adopted,
        failures,
        ..AssignmentStatus::default()
    }
}

fn condition(verdict: &Verdict, before: Option<&AssignmentStatus>, now: Timestamp) -> Condition {
    let Verdict { state, reason, message } = verdict;
    let status = match state {
        ShareState::Pending | ShareState::Failed | ShareState::Conflict => "False",
        _ => "True",
    };
    let known = before.and_then(|it| it.conditions.iter().find(|it| it.type_ == conditions::APPLIED));
    let since = known.filter(|it| it.status == status).map(|it| it.last_transition_time.clone());
    Condition {
        type_: conditions::APPLIED.to_owned(),
        status: status.to_owned(),
        reason: (*reason).to_owned(),
        message: message.clone(),
        last_transition_time: since.unwrap_or(Time(now)),
        observed_generation: None,
    }
}

/// Whether the member is as the plan says: `Settled`, or else `Applying`.
pub fn progress(applied: &Applied, counts: &Counts, completed: bool) -> ShareState {
    let is_there = match &applied.plan.slice {
        Some(Slice::CloneSet(it)) => {
            counts.replicas == it.replicas
                && counts.available == it.replicas
                && counts.updated_available >= it.updated
        }
        Some(Slice::ImagePullJob(_)) => completed,
        Some(Slice::Whole(_)) | None => true,
    };
    if applied.is_observed() && is_there { ShareState::Settled } else { ShareState::Applying }
}

/// What a job that downloads images came to.
pub fn pull_job(status: &ImagePullJobStatus) -> Facts {
    let number = |it: i32| Some(u32::try_from(it).unwrap_or(0));
    let counts = Counts {
        desired: number(status.desired),
        active: number(status.active),
        succeeded: number(status.succeeded),
        failed: number(status.failed),
        ..Counts::default()
    };
    let failures = status.failed_nodes.clone();
    Facts { counts, failures, completed: status.completion_time.is_some(), ..Facts::default() }
}

#[cfg(test)]
mod tests;
