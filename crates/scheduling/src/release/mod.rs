//! When which cluster may have a new revision: waves, soak, gates and approvals.
//!
//! [`next`] is one step of a release: a function of what is saved, what the clusters show and how much time passed. The
//! user's partition stays the outer limit; waves decide where the updated pods are, never how many.

mod ahead;
mod step;
#[cfg(test)]
mod tests;

pub use ahead::{Ordered, PreDownload, Turn, turns};
pub use step::{ClusterView, Decision, Held, PrePullView, Step, View, next};

use std::fmt;

use crate::{ledger::Revision, names::ClusterName, numbers::IntOrPercent};

/// One wave as the policy writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wave {
    /// Its name; approvals name it.
    pub name: String,
    /// How many of its clusters may be at work at a time, or percent of them; all if not said.
    pub max_concurrency: Option<IntOrPercent>,
    /// Seconds to wait after the last cluster is done.
    pub soak: u32,
    /// Which approval it needs.
    pub approval: Approval,
    /// When it counts as failed.
    pub gate: Gate,
    /// Whether images are pulled ahead on its nodes before it starts.
    pub pre_pull: Option<PrePull>,
}

impl Wave {
    /// A wave with nothing but a name.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            max_concurrency: None,
            soak: 0,
            approval: Approval::None,
            gate: Gate::default(),
            pre_pull: None,
        }
    }
}

/// `approval` of a wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Approval {
    /// None is needed.
    #[default]
    None,
    /// Before its first plan.
    Before,
    /// After its soak.
    After,
}

/// When a wave has failed, and what is done then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// More clusters past the progress deadline than this fail it.
    pub max_failed: u32,
    /// More failing updated pods than this fail it.
    pub max_failing_pods: u32,
    /// What a failure leads to.
    pub on_failure: OnFailure,
}

impl Gate {
    /// Whether anything could fail it.
    pub fn can_fail(&self) -> bool {
        self.max_failed < u32::MAX || self.max_failing_pods < u32::MAX
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self { max_failed: u32::MAX, max_failing_pods: u32::MAX, on_failure: OnFailure::Pause }
    }
}

/// `onFailure` of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// Nothing grows further; what runs is kept.
    #[default]
    Pause,
    /// The stable revision becomes the target again.
    Rollback,
}

/// `prePull` of the policy (REL-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrePull {
    /// Percent of the nodes that must have the image.
    pub threshold: u32,
    /// Seconds after which the wave starts all the same.
    pub timeout: u32,
}

/// An approval a user has written: it names the wave and the revision it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approved {
    /// The wave.
    pub wave: String,
    /// The revision; an approval of another one does not count (REL-5, REL-8).
    pub target: Revision,
}

/// Where a wave is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// Not started: waiting for an approval or for images.
    #[default]
    Waiting,
    /// Its clusters are updated.
    Rolling,
    /// All are done; time passes.
    Soaking,
    /// All of it is over, approvals included.
    Over,
}

/// A release with waves: what is saved of it (REL-1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The revision it releases.
    pub target: Revision,
    /// The waves as they were when it began; a later policy does not change them.
    pub waves: Vec<Wave>,
    /// The wave at work.
    pub wave: usize,
    /// Where that wave is.
    pub stage: Stage,
    /// Seconds of its soak that have passed.
    pub soaked: u32,
    /// Seconds for which its images have been pulled.
    pub pulling: u32,
    /// Why it stands still, if it does.
    pub paused: Option<Paused>,
    /// Approvals taken over from the user.
    pub approvals: Vec<Approved>,
    /// Clusters whose unavailable pods are left out of the budget by the operator (REL-12).
    pub ignored: Vec<ClusterName>,
}

impl Release {
    /// Begins a release of `target` over `waves`.
    pub fn begin(target: Revision, waves: &[Wave]) -> Self {
        Self {
            target,
            waves: waves.to_vec(),
            wave: 0,
            stage: Stage::Waiting,
            soaked: 0,
            pulling: 0,
            paused: None,
            approvals: Vec::new(),
            ignored: Vec::new(),
        }
    }

    /// Whether a wave is between its first plan and the end of its soak and approvals (MOVE-4).
    pub fn gate_is_open(&self) -> bool {
        matches!(self.stage, Stage::Rolling | Stage::Soaking)
    }

    /// Whether the last wave is over, gate, soak and approvals included, and nothing stands still.
    pub fn is_over(&self) -> bool {
        self.paused.is_none() && self.stage == Stage::Over && self.wave + 1 >= self.waves.len()
    }

    /// Records an approval.
    pub fn approve(&mut self, approved: Approved) {
        if !self.approvals.contains(&approved) {
            self.approvals.push(approved);
        }
    }

    /// Goes back to `wave`, or stays in it, because more pods became due there.
    pub fn open_again(&mut self, wave: usize) {
        if wave < self.wave || (wave == self.wave && self.stage != Stage::Waiting) {
            (self.wave, self.stage, self.soaked) = (wave, Stage::Rolling, 0);
        }
    }

    /// Goes on after a pause, by the operator's word.
    pub fn resume(&mut self) {
        self.paused = None;
    }

    fn is_approved(&self, wave: &Wave) -> bool {
        self.approvals.iter().any(|it| it.wave == wave.name && it.target == self.target)
    }
}

/// Why a release stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paused {
    /// The operator said so.
    ByOperator,
    /// Too many clusters of a wave made no progress.
    ClustersFailed {
        /// How many.
        failed: u32,
    },
    /// Too many updated pods fail.
    PodsFailing {
        /// How many.
        failing: u32,
    },
}

impl fmt::Display for Paused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByOperator => f.write_str("paused by the operator"),
            Self::ClustersFailed { failed } => {
                write!(f, "{failed} of the clusters at work made no progress within the deadline")
            }
            Self::PodsFailing { failing } => write!(f, "{failing} updated pods are failing"),
        }
    }
}
