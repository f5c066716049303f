//! Which plan to act on, and what to do about the member object. Pure.
//!
//! [`choose`] picks between the plan that the hub shows and the one that is kept in this cluster; [`judge`] says what the
//! chosen one asks for. [`adopt`] decides about objects that were there before, [`drift`] about changes by others, [`leave`]
//! which of them outlive a write.

pub mod adopt;
pub mod drift;
pub mod leave;

use kruise_core::api::fleet::{
    assignment::{AssignmentSpec, Intent},
    policy::DeletionPolicy,
};
use serde_json::Value;

use super::marks::{Marks, Pair};

/// Why a plan is not acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A newer one was seen already (PROTO-3).
    #[error("plan {offered} is older than {known}")]
    OlderPlan {
        /// The number of the plan.
        offered: Pair,
        /// The newest number that is known.
        known: Pair,
    },
    /// The cluster is in a newer epoch (FO-5).
    #[error("the plan is of epoch {offered}, and the cluster is in epoch {known}")]
    OlderEpoch {
        /// The plan's epoch.
        offered: u64,
        /// The newest epoch that is known.
        known: u64,
    },
}

/// The plan to act on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chosen<'a> {
    /// The plan; nothing if there is none that may be acted on.
    pub plan: Option<&'a AssignmentSpec>,
    /// Why the one that the hub shows is not it.
    pub refusal: Option<Refusal>,
}

/// Picks the plan. `offered` is what the hub shows, `kept` what was last taken on here, `known_epoch` the newest epoch that
/// any plan of this cluster was for.
///
/// A hub that shows nothing changes nothing: absence is not deletion, and the kept plan goes on (PROTO-6, PROTO-7).
pub fn choose<'a>(
    offered: Option<&'a AssignmentSpec>,
    kept: Option<&'a AssignmentSpec>,
    known_epoch: u64,
) -> Chosen<'a> {
    let Some(plan) = offered else { return Chosen { plan: kept, refusal: None } };
    let refusal = kept.and_then(|it| older(plan, it)).or_else(|| {
        let (offered, known) = (plan.epoch, known_epoch);
        (offered < known).then_some(Refusal::OlderEpoch { offered, known })
    });
    Chosen { plan: if refusal.is_some() { kept } else { offered }, refusal }
}

/// Why `offered` must not follow `kept`.
fn older(offered: &AssignmentSpec, kept: &AssignmentSpec) -> Option<Refusal> {
    let (new, old) = (pair(offered), pair(kept));
    // The hub counts the plans of each object from the beginning; only terms can be compared with those of a predecessor
    // of the same name.
    let is_same = offered.object.uid == kept.object.uid;
    let is_older = if is_same { !old.allows(new) } else { offered.term < kept.term };
    is_older.then_some(Refusal::OlderPlan { offered: new, known: old })
}

/// The number of a plan.
pub fn pair(plan: &AssignmentSpec) -> Pair {
    Pair { term: plan.term, seq: plan.seq }
}

/// What is known of the member object besides what is on it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known<'a> {
    /// UID of our hub.
    pub hub_uid: &'a str,
    /// UID of the member object that the kept plan was applied to.
    pub member_uid: Option<&'a str>,
    /// What the mark of that object said about its adoption.
    pub adopted: Option<DeletionPolicy>,
}

impl Known<'_> {
    /// What is known about the adoption of `member`: what its mark says, or else what the mark said before somebody took it off
    /// (`kubectl replace` does).
    pub fn adoption(self, member: &Value) -> Option<DeletionPolicy> {
        let is_same = self.member_uid.is_some_and(|it| member["metadata"]["uid"] == it);
        let marked = Marks::of(member).and_then(|it| it.adopted);
        marked.or_else(|| self.adopted.filter(|_| is_same))
    }
}

/// What to do about the member object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make it.
    Create,
    /// It was there before the fleet: see what taking it over would change, and then ask [`adopt::judge`].
    TryToAdopt,
    /// It is ours: keep it as the plan says. With these marks, or without any if somebody took them off.
    Keep(Option<Marks>),
    /// It is on its way out. Wait until it is gone.
    WaitForEnd,
    /// Delete it, and what it owns before it (DEL-1).
    Delete,
    /// Take our marks and our claim to fields off it, and leave it running (DEL-3).
    Release,
    /// There is nothing of ours (any more): the intent is carried out.
    Done,
    /// It is somebody else's (CF-1).
    Conflict(Conflict),
    /// It was given a newer plan (PROTO-3).
    Refuse(Refusal),
}

/// Why an object is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// Another hub manages it.
    #[error("the object is managed by another hub ({hub_uid})")]
    OtherHub {
        /// That hub.
        hub_uid: String,
    },
    /// The policy says to leave objects alone that are there already.
    #[error("the object is there already, and whenExists is Never")]
    Exists,
    /// Taking it over would change it.
    #[error("the object is there already and differs at {path}; whenExists is IfIdentical")]
    Differs {
        /// The first path that would change.
        path: String,
    },
    /// Its pods are chosen by other labels.
    #[error("the object is there already and selects other pods")]
    OtherSelector,
    /// A Secret that the job needs is somebody else's.
    #[error("the Secret {name} is there already and does not belong to the fleet; rename or delete it")]
    Secret {
        /// Its name.
        name: String,
    },
    /// It has more replicas than the plan grants: taking it over would delete pods.
    #[error(
        "the object is there already with {has} replicas, and {granted} are granted to this cluster: taking it over would \
         delete pods; grant it as many (spec.replicas of the hub's object, replicas.weights or replicas.perCluster of the policy) or scale it down first"
    )]
    WouldDelete {
        /// Replicas that it has.
        has: u64,
        /// Replicas that the plan grants.
        granted: u32,
    },
    /// Its pods do not all carry its template.
    #[error(
        "the object is there already and its pods are being updated; it is taken over when all of them carry its template"
    )]
    InUpdate,
    /// Taking it over would restart pods, and nothing paces that.
    #[error("the object is there already and taking it over would restart its pods")]
    WouldRestart,
}

impl Conflict {
    /// One word for conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::OtherHub { .. } => "OtherHub",
            Self::Exists => "Exists",
            Self::Differs { .. } => "Differs",
            Self::OtherSelector => "OtherSelector",
            Self::Secret { .. } => "SecretExists",
            Self::WouldDelete { .. } => "WouldDelete",
            Self::InUpdate => "InUpdate",
            Self::WouldRestart => "WouldRestart",
        }
    }
}

/// What `plan` asks for, with the member object as it is found.
pub fn judge(plan: &AssignmentSpec, member: Option<&Value>, known: Known<'_>) -> Step {
    let Some(member) = member else {
        return if plan.intent == Intent::Apply { Step::Create } else { Step::Done };
    };
    let is_ending = !member["metadata"]["deletionTimestamp"].is_null();
    let marks = match whose(plan, member, known) {
        Whose::OtherHub(hub_uid) if plan.intent == Intent::Apply => {
            return Step::Conflict(Conflict::OtherHub { hub_uid });
        }
        // It came after ours was gone.
        Whose::OtherHub(_) => return Step::Done,
        Whose::Nobody if plan.intent != Intent::Apply => return Step::Done,
        Whose::Nobody if is_ending => return Step::WaitForEnd,
        Whose::Nobody => return Step::TryToAdopt,
        Whose::Ours(marks) => marks,
    };
    if let Some(known) = marks.as_ref().map(|it| it.plan).filter(|it| !it.allows(pair(plan))) {
        return Step::Refuse(Refusal::OlderPlan { offered: pair(plan), known });
    }
    match plan.intent {
        Intent::Orphan => Step::Release,
        Intent::Delete if is_kept(plan, known.adoption(member)) => Step::Release,
        _ if is_ending => Step::WaitForEnd,
        Intent::Delete => Step::Delete,
        // A question is never taken on as a plan; whatever is there stays.
        Intent::Apply | Intent::Ask => Step::Keep(marks),
    }
}

enum Whose {
    Ours(Option<Marks>),
    OtherHub(String),
    Nobody,
}

fn whose(plan: &AssignmentSpec, member: &Value, known: Known<'_>) -> Whose {
    match Marks::of(member) {
        Some(it) if it.hub_uid != known.hub_uid => Whose::OtherHub(it.hub_uid),
        Some(it) if it.object_uid == plan.object.uid => Whose::Ours(Some(it)),
        // Of a predecessor on the hub: it runs on by itself, as an object does that was there before.
        Some(_) => Whose::Nobody,
        None if known.member_uid.is_some_and(|it| member["metadata"]["uid"] == it) => Whose::Ours(None),
        None => Whose::Nobody,
    }
}

/// Whether an object that is to be deleted is only let go of: it was there before the fleet, and nobody has asked since
/// for its deletion (AD-1).
fn is_kept(plan: &AssignmentSpec, adopted: Option<DeletionPolicy>) -> bool {
    match adopted {
        None => false,
        Some(DeletionPolicy::Delete) => true,
        Some(DeletionPolicy::Orphan) => plan.deletion == DeletionPolicy::Orphan,
    }
}

/// What the mark of a taken-over object becomes under `plan`: once the policy said `Orphan`, a later `Delete` is one that
/// was set after the adoption.
pub fn adopted(before: Option<DeletionPolicy>, plan: &AssignmentSpec) -> Option<DeletionPolicy> {
    match (before?, plan.deletion) {
        (_, DeletionPolicy::Orphan) => Some(DeletionPolicy::Orphan),
        (before, DeletionPolicy::Delete) => Some(before),
    }
}

/// Whether a new leader may acknowledge yet (PROTO-12): until a lease and the longest write after it are over, the leader
/// before may still be carrying out an older plan.
pub fn may_acknowledge(
    leading_for: std::time::Duration,
    lease: std::time::Duration,
    longest_write: std::time::Duration,
) -> bool {
    leading_for >= lease + longest_write
}

#[cfg(test)]
mod tests;
