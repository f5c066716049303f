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

pub use reason::{Condition, Decision, Holder, Why};
pub use slots::{SlotCluster, SlotReach, SlotReport, SlotRow, plan_slots};
pub use world::{Cluster, Ledger, OnReturn, Population, Rules, Spec, UnknownCountsAs, World};

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

/// Plans one round. The clusters of `world` and the rows of `ledger` are the same, in the same order.
pub fn plan(world: &World<'_>, ledger: &Ledger) -> Plan {
    debug_assert!(
        world.clusters.iter().map(|it| &it.candidate.name).eq(ledger.rows.iter().map(|it| &it.cluster))
    );
    let mut draft = Draft::new(world, ledger);
    draft.note_losses();
    draft.take_back_returned();
    draft.follow_the_template();
    draft.set_goals();
    draft.end_release();
    draft.step_waves();
    draft.move_replicas();
    draft.split_updated();
    draft.work_out_demand();
    draft.share_out_budgets();
    draft.finish()
}
