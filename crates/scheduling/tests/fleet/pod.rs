//! Pods of a member, and replicas that have none.

use scheduling::ledger::Revision;

/// Why a pod is down, or why it is missing. Only the checks look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Taken down on purpose, by an update or a deletion.
    Update,
    /// Starting because replicas were granted by growth.
    Growth,
    /// It failed, or was evicted.
    Failure,
    /// Starting for no reason that counts: a surge pod, a repair.
    Start,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Pod {
    pub(crate) id: u64,
    pub(crate) revision: Revision,
    pub(crate) available: bool,
    /// To be deleted: named by the user, or being replaced.
    pub(crate) marked: bool,
    pub(crate) cause: Cause,
}

/// Replicas that have no pod, by the reason.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Missing {
    pub(crate) update: u32,
    pub(crate) growth: u32,
    pub(crate) failure: u32,
    pub(crate) start: u32,
}

impl Missing {
    pub(crate) fn of(&mut self, cause: Cause) -> &mut u32 {
        match cause {
            Cause::Update => &mut self.update,
            Cause::Growth => &mut self.growth,
            Cause::Failure => &mut self.failure,
            Cause::Start => &mut self.start,
        }
    }

    pub(crate) fn total(&self) -> u32 {
        self.update + self.growth + self.failure + self.start
    }
}
