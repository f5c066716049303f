//! One planning round of one federated object: what every cluster is granted next, and why.
//!
//! [`plan`] is a function of the object's numbers, the policy's numbers, the clusters' states and the saved [`Ledger`].
//! Its answer is the ledger to save, the shares to write after it was saved, and the reasons. Every prefix of those
//! writes is safe: a share is counted as held from the moment the ledger knows it, whether it was written or not.

mod budget;
mod demand;
mod draft;
mod goal;
mod reason;
mod replicas;
mod returning;
mod revision;
mod slots;
#[cfg(test)]
mod tests;
mod waves;
mod world;

pub use reason::{BudgetUse, Condition, Decision, Holder, Pulls, Why};
pub use slots::{SlotCluster, SlotPlan, SlotReach, SlotReport, SlotRow, plan_slots};
pub use world::{Cluster, Ledger, Numbers, OnReturn, Population, Rules, Spec, UnknownCountsAs, World};

use std::fmt;

use crate::ledger::Share;
use draft::Draft;

/// What one round comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The ledger, to be saved before any share is written.
    pub ledger: Ledger,
    /// Places of the clusters whose share is to be written, and the shares: those that only shrink come first.
    pub writes: Vec<(usize, Share)>,
    /// N over the fleet.
    pub population: u64,
    /// Replicas no cluster has room for.
    pub unplaced: u64,
    /// How many of those do not run anywhere either.
    pub homeless: u64,
    /// What was decided.
    pub decisions: Vec<Decision>,
    /// What is the matter with the object as a whole.
    pub conditions: Vec<Condition>,
}

/// The rows of a ledger are not those of the clusters to plan for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// The first place at which they differ.
    pub place: usize,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} of the ledger is not of the cluster at that place", self.place)
    }
}

impl std::error::Error for Mismatch {}

/// Plans one round. The clusters of `world` and the rows of `ledger` must be the same, in the same order.
pub fn plan(world: &World<'_>, ledger: &Ledger) -> Result<Plan, Mismatch> {
    let same = |place: &usize| {
        let name = world.clusters.get(*place).map(|it| &it.candidate.name);
        name == ledger.rows.get(*place).map(|it| &it.cluster)
    };
    let places = world.clusters.len().max(ledger.rows.len());
    if let Some(place) = (0..places).find(|it| !same(it)) {
        return Err(Mismatch { place });
    }
    let mut draft = Draft::new(world, ledger);
    draft.note_losses();
    draft.take_back_returned();
    draft.follow_the_template();
    draft.set_goals();
    draft.move_replicas();
    draft.step_waves();
    draft.end_release();
    draft.split_updated();
    draft.pull_ahead();
    draft.work_out_demand();
    draft.share_out_budgets();
    Ok(draft.finish())
}
