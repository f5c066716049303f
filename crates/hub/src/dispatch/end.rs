//! An object that is being deleted or withdrawn: every cluster is told what becomes of its part (DEL-1 to DEL-3, DEL-5). Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_core::api::fleet::{
    FederatedObject,
    assignment::{Assignment, AssignmentSpec, Intent},
    binding::{FleetBindingSpec, LedgerRow},
    keys,
    policy::DeletionPolicy,
};
use serde_json::Value;

use super::{
    plan::{self, Cluster, Observed, Write, is_over},
    term,
};

/// What is left to do before the object may go.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ending {
    /// What to save before anything is written.
    pub save: Option<FleetBindingSpec>,
    /// Assignments to write.
    pub writes: Vec<Write>,
    /// Clusters whose Assignment has done its duty.
    pub removals: Vec<String>,
    /// Clusters that have not answered.
    pub waiting: Vec<String>,
    /// Those of them that are not heard.
    pub silent: Vec<String>,
    /// Those of them to whom nothing can be written.
    pub unwritable: Vec<String>,
}

impl Ending {
    /// Whether nothing of the object is left in any cluster.
    pub fn is_over(&self) -> bool {
        self.writes.is_empty() && self.removals.is_empty() && self.waiting.is_empty()
    }
}

/// What takes an object along, so that its deletion is nobody's wish (PROTO-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweptBy {
    /// Its kind: somebody deletes the CustomResourceDefinition.
    Kind,
    /// Its namespace, without the confirmation that this needs (DEL-4).
    Namespace,
}

impl SweptBy {
    /// What people are told.
    pub fn message(self) -> String {
        match self {
            Self::Kind => "its kind is being deleted on the hub; members run on as they are".to_owned(),
            Self::Namespace => format!(
                "its namespace is being deleted without confirmation; members run on as they are: annotate the namespace \
                 with {}=<its name> to have them emptied",
                keys::CONFIRM_DELETE
            ),
        }
    }
}

/// Whether an object that is being deleted is only swept along. One that was deleted before its kind or its namespace was
/// meant to go, and so was one of which every cluster was told already.
pub fn swept_by(
    observed: &Observed<'_>,
    kind: Option<&ObjectMeta>,
    namespace: Option<&ObjectMeta>,
) -> Option<SweptBy> {
    // Whoever was only asked has nothing to lose.
    let told = observed.clusters.iter().filter_map(|it| it.assignment.as_ref()).map(|it| it.spec.intent);
    let told: Vec<Intent> = told.filter(|it| *it != Intent::Ask).collect();
    // Assignments that went along as well say nothing, and the ledger still knows who was given something.
    let untold = observed.clusters.iter().filter(|it| is_untold(observed, it)).count();
    if untold == 0 && !told.contains(&Intent::Apply) {
        return None;
    }
    let since = |it: &ObjectMeta| it.deletion_timestamp.as_ref().map(|it| it.0);
    let own = observed.object.pointer("/metadata/deletionTimestamp").and_then(Value::as_str);
    let own: Option<Timestamp> = own.and_then(|it| it.parse().ok());
    let is_before = |it: Timestamp| own.is_some_and(|own| own < it);
    // A kind that is not there, or came after the deletion, was deleted as well: only what it held has outlived that.
    let came = kind.and_then(|it| it.creation_timestamp.as_ref()).map(|it| it.0);
    let is_another = kind.is_none() || came.zip(own).is_some_and(|(came, own)| own < came);
    if is_another || kind.and_then(since).is_some_and(|it| !is_before(it)) {
        return Some(SweptBy::Kind);
    }
    let namespace = namespace?;
    let annotation = namespace.annotations.as_ref().and_then(|it| it.get(keys::CONFIRM_DELETE));
    let is_confirmed = annotation.is_some() && annotation == namespace.name.as_ref();
    let is_swept = since(namespace).is_some_and(|it| !is_before(it));
    (is_swept && !is_confirmed && told.len() + untold > 1).then_some(SweptBy::Namespace)
}

/// Whether a cluster was given a share, and its Assignment is not there: somebody has deleted it, or a crash kept it from being
/// written. The row of one that has obeyed is gone before its Assignment is. A cluster that is no member any more reads nothing.
fn is_untold(observed: &Observed<'_>, cluster: &Cluster) -> bool {
    let row = observed.binding.and_then(|it| it.spec.ledger.clusters.get(&cluster.facts.name));
    cluster.is_member && cluster.assignment.is_none() && row.is_some_and(|it| it.share.seq > 0)
}

/// Clusters that have to be told, and have no Assignment to change.
pub fn untold(observed: &Observed<'_>) -> Vec<String> {
    let clusters = observed.clusters.iter().filter(|it| is_untold(observed, it));
    clusters.map(|it| it.facts.name.clone()).collect()
}

/// Those of them to whom nothing can be written now: the kind of Assignments, or their own namespace, is gone or going. That
/// is nobody's wish about what they run, so they are waited for until it is back (PROTO-7).
pub fn unwritable(
    untold: Vec<String>,
    kind: Option<&ObjectMeta>,
    namespaces: &BTreeMap<String, ObjectMeta>,
) -> BTreeSet<String> {
    let stands = |it: Option<&ObjectMeta>| it.is_some_and(|it| it.deletion_timestamp.is_none());
    untold.into_iter().filter(|it| !stands(kind) || !stands(namespaces.get(it))).collect()
}

/// Plans the end of an object. Clusters that do not report are told as well: they carry it out when they are back (DEL-2).
pub fn end(observed: &Observed<'_>, unwritable: &BTreeSet<String>) -> Ending {
    let mut ending = Ending::default();
    let mut saved = observed.saved();
    for cluster in observed.clusters {
        let name = &cluster.facts.name;
        let Some(assignment) = &cluster.assignment else {
            match saved.clusters.get_mut(name).filter(|_| is_untold(observed, cluster)) {
                Some(_) if unwritable.contains(name) && !is_force_detached(observed.object) => {
                    ending.waiting.push(name.clone());
                    ending.silent.extend((!plan::is_heard(cluster.planning)).then(|| name.clone()));
                    ending.unwritable.push(name.clone());
                }
                Some(_) if unwritable.contains(name) => drop(saved.clusters.remove(name)),
                // It runs on as it is (PROTO-7), or never began; either way it is told, and says when nothing is left.
                Some(row) => ending.writes.push(told_anew(observed, name, row)),
                None => drop(saved.clusters.remove(name)),
            }
            continue;
        };
        // A question may go at once, unless it is asked where a plan was forgotten that is still carried out.
        if is_over(assignment) || assignment.spec.intent == Intent::Ask && cluster.newest() == 0 {
            saved.clusters.remove(name);
            ending.removals.push(name.clone());
            continue;
        }
        let wanted = intent(observed, assignment);
        let Some(row) = saved.clusters.get_mut(name) else { continue };
        // A cluster that knows a newer plan has refused this one (HA-5).
        let status = assignment.status.as_ref();
        let said = status.map_or(0, |it| it.applied_seq);
        let is_refused = said > assignment.spec.seq
            || term::is_refused(status.map_or(0, |it| it.applied_term), assignment.spec.term);
        if assignment.spec.intent == wanted && assignment.spec.seq >= row.share.seq && !is_refused {
            let is_silent = !plan::is_heard(cluster.planning);
            // Somebody has said not to wait; the Assignment stays, and is obeyed when the cluster is back (DEL-2).
            if is_silent && is_force_detached(observed.object) {
                saved.clusters.remove(name);
                continue;
            }
            ending.waiting.push(name.clone());
            ending.silent.extend(is_silent.then(|| name.clone()));
            continue;
        }
        // Above what the cluster knows as well: to a hub that was restored it may be more than is stored (HA-5).
        let known = term::believable(said, assignment.spec.seq);
        if row.share.seq <= known {
            row.share.seq = known + 1;
            row.acknowledged = false;
        }
        let spec = AssignmentSpec {
            object: assignment.spec.object.clone(),
            seq: row.share.seq,
            epoch: row.share.epoch,
            intent: wanted,
            deletion: assignment.spec.deletion,
            ..AssignmentSpec::default()
        };
        ending.writes.push(Write { cluster: name.clone(), spec, grows: false });
    }
    // Without a binding nothing is saved: in a namespace that is going none can be made, and Assignments tell the rest.
    // The row of a cluster that has obeyed goes before its Assignment: one without an Assignment was not told.
    if let Some(known) = observed.binding.map(|it| &it.spec).filter(|it| it.ledger != saved)
        && !(ending.writes.is_empty() && ending.removals.is_empty())
    {
        ending.save = Some(FleetBindingSpec {
            object: observed.reference.clone(),
            policy: known.policy.clone(),
            ledger: saved,
        });
    }
    ending
}

/// Whether clusters that are not heard are not waited for.
pub fn is_force_detached(object: &Value) -> bool {
    annotation(object, keys::FORCE_DETACH) == Some("true")
}

/// Whether what members have of the object is taken back, and the object stays: somebody has said so of exactly this binding.
pub fn is_withdrawn(observed: &Observed<'_>) -> bool {
    let said = annotation(observed.object, keys::WITHDRAW);
    said.is_some() && observed.binding.is_some_and(|it| it.metadata.uid.as_deref() == said)
}

/// Whether an Assignment is the last word about another object that had the same name.
pub fn is_tombstone_of_another(assignment: &Assignment, object: &FederatedObject) -> bool {
    is_tombstone(assignment) && assignment.spec.object.uid != object.uid
}

/// Whether an Assignment tells a cluster to delete an object or to let go of it.
pub fn is_tombstone(assignment: &Assignment) -> bool {
    matches!(assignment.spec.intent, Intent::Delete | Intent::Orphan)
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// What a cluster is told by its Assignment.
fn intent(observed: &Observed<'_>, assignment: &Assignment) -> Intent {
    // What is under way is not turned round.
    match assignment.spec.intent {
        Intent::Apply => wanted(observed, assignment.spec.deletion),
        // A question says nothing of deletion, so that without a policy nothing is deleted.
        Intent::Ask => wanted(observed, DeletionPolicy::Orphan),
        under_way => under_way,
    }
}

/// By the policy that holds now; without one, by what was last `said`.
fn wanted(observed: &Observed<'_>, said: DeletionPolicy) -> Intent {
    // Copies of a job that is over are not left behind when its time to live is over (IPJ-2), nor are those of downloads that
    // nobody but the hub asked for (REL-11).
    if plan::is_outlived(observed) || plan::ahead::is_download(observed.object) {
        return Intent::Delete;
    }
    match observed.policy.map_or(said, |it| it.placement.deletion) {
        DeletionPolicy::Delete => Intent::Delete,
        DeletionPolicy::Orphan => Intent::Orphan,
    }
}

/// The last word to a cluster whose Assignment is not there. What that said is not known, so the word has a number of its own.
fn told_anew(observed: &Observed<'_>, cluster: &str, row: &mut LedgerRow) -> Write {
    // All clusters are told the same. If nobody knows any more what that was, nothing is deleted.
    let others = observed.clusters.iter().filter_map(|it| it.assignment.as_ref());
    // A question says nothing of deletion.
    let placed = others.map(|it| &it.spec).find(|it| it.intent != Intent::Ask);
    let said = placed.map_or(DeletionPolicy::Orphan, |it| it.deletion);
    row.share.seq += 1;
    row.acknowledged = false;
    let spec = AssignmentSpec {
        object: observed.reference.clone(),
        seq: row.share.seq,
        epoch: row.share.epoch,
        intent: wanted(observed, said),
        deletion: observed.policy.map_or(said, |it| it.placement.deletion),
        ..AssignmentSpec::default()
    };
    Write { cluster: cluster.to_owned(), spec, grows: false }
}
