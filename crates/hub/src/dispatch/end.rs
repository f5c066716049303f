//! An object that is being deleted: every cluster is told what becomes of its part (DEL-1 to DEL-3). Pure.

use kruise_core::api::fleet::{
    assignment::{Assignment, AssignmentSpec, Intent},
    binding::FleetBindingSpec,
    policy::DeletionPolicy,
};

use super::{
    plan::{Observed, Write, is_over},
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
}

impl Ending {
    /// Whether nothing of the object is left in any cluster.
    pub fn is_over(&self) -> bool {
        self.writes.is_empty() && self.removals.is_empty() && self.waiting.is_empty()
    }
}

/// Plans the end of an object. Clusters that do not report are told as well: they carry it out when they are back (DEL-2).
pub fn end(observed: &Observed<'_>) -> Ending {
    let mut ending = Ending::default();
    let mut saved = observed.saved();
    for cluster in observed.clusters {
        let name = &cluster.facts.name;
        let Some(assignment) = &cluster.assignment else {
            // A share that a crash kept from being written never was.
            saved.clusters.remove(name);
            continue;
        };
        if is_over(assignment) {
            saved.clusters.remove(name);
            ending.removals.push(name.clone());
            continue;
        }
        let wanted = intent(observed, assignment);
        let Some(row) = saved.clusters.get_mut(name) else { continue };
        if assignment.spec.intent == wanted && assignment.spec.seq >= row.share.seq {
            ending.waiting.push(name.clone());
            continue;
        }
        // Above what the cluster knows as well: to a hub that was restored it may be more than is stored (HA-5).
        let said = assignment.status.as_ref().map_or(0, |it| it.applied_seq);
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
    let known = observed.binding.map(|it| &it.spec);
    if !ending.writes.is_empty() && known.map(|it| &it.ledger) != Some(&saved) {
        ending.save = Some(FleetBindingSpec {
            object: observed.reference.clone(),
            policy: known.and_then(|it| it.policy.clone()),
            ledger: saved,
        });
    }
    ending
}

/// By the policy that holds now; without one, by what was last said to the cluster.
fn intent(observed: &Observed<'_>, assignment: &Assignment) -> Intent {
    // What is under way is not turned round.
    if assignment.spec.intent != Intent::Apply {
        return assignment.spec.intent;
    }
    let policy = observed.policy.map(|it| it.placement.deletion);
    match policy.unwrap_or(assignment.spec.deletion) {
        DeletionPolicy::Delete => Intent::Delete,
        DeletionPolicy::Orphan => Intent::Orphan,
    }
}
