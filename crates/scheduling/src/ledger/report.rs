use std::fmt;

use super::{Revision, Share};

/// What a member says about one object, read after its controller had observed the plan it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Which start of the agent wrote this; only grows. A counter, or a clock in seconds: see [`Order`].
    pub incarnation: u64,
    /// Number of the report within its incarnation; only grows.
    pub number: u64,
    /// The plan that was applied when the counts were read.
    pub seq: u64,
    /// The epoch of that plan.
    pub epoch: u64,
    /// The newest epoch the agent knows its cluster to be in.
    pub known_epoch: u64,
    /// Whether the local controller had observed the result of applying the plan.
    pub observed: bool,
    /// Echo of the applied replicas.
    pub replicas: u32,
    /// Echo of the applied body.
    pub body: Revision,
    /// Echo of the applied stable revision.
    pub stable: Revision,
    /// Pods there are.
    pub pods: u32,
    /// Pods that are available.
    pub available: u32,
    /// Pods of the body's revision.
    pub updated: u32,
    /// Pods of the body's revision that are available.
    pub updated_available: u32,
    /// Pods of the stable revision; the same as `updated` where body and stable are one.
    pub at_stable: u32,
    /// Pods of neither revision that are not available.
    pub neither_unavailable: u32,
    /// Pods marked for deletion: named by the user or being replaced.
    pub marked: u32,
    /// Pods of the body's revision that are failing: crash loop, image pull back-off, failed in-place update.
    pub failing: u32,
    /// Of a SidecarSet whose update names a selector: matched pods it leaves out (SC-7).
    pub unselected: u32,
    /// How many of those are of the body's revision all the same, because they were injected with it.
    pub unselected_updated: u32,
}

impl Report {
    /// Replicas asked for that are not available, pods not yet created included.
    pub fn unavailable(&self) -> u32 {
        self.replicas.saturating_sub(self.available)
    }

    /// Pods that exist and are not available.
    pub fn not_available(&self) -> u32 {
        self.pods.saturating_sub(self.available)
    }

    /// Pods that are of `revision` or may be brought to it: all that a selector does not leave out (SC-7).
    pub fn reachable(&self, revision: Revision) -> u32 {
        let there = if self.body == revision { self.unselected_updated } else { 0 };
        self.pods - self.unselected + there
    }

    /// Pods known to be of `revision`. A revision the report does not echo counts 0 (REV-14).
    pub fn of(&self, revision: Revision) -> u32 {
        if self.body == revision {
            self.updated
        } else if self.stable == revision {
            self.at_stable
        } else {
            0
        }
    }

    /// Pods there may be of `revision`: of one the report does not echo, all that are of neither it does.
    pub fn most_of(&self, revision: Revision) -> u32 {
        if revision == self.body || revision == self.stable { self.of(revision) } else { self.neither() }
    }

    /// Pods of neither the body's nor the stable revision.
    pub fn neither(&self) -> u32 {
        if self.body == self.stable {
            self.pods.saturating_sub(self.updated)
        } else {
            self.pods.saturating_sub(self.updated + self.at_stable)
        }
    }

    /// Pods that are not of the `stable` revision, and how many of them are not available.
    pub fn leftovers(&self, stable: Revision) -> (u32, u32) {
        if self.stable != stable {
            return (self.pods.saturating_sub(self.of(stable)), 0);
        }
        let broken_body = if self.body == stable { 0 } else { self.updated - self.updated_available };
        (self.pods.saturating_sub(self.at_stable), broken_body + self.neither_unavailable)
    }

    /// Pods of another revision than `target` that are not available.
    pub fn broken_old(&self, target: Revision) -> u32 {
        let broken_new = if self.body == target { self.updated - self.updated_available } else { 0 };
        self.not_available().saturating_sub(broken_new)
    }

    /// Whether the counts can be true of a member that was given at most `pods` pods and `replicas` replicas.
    pub(super) fn check(&self, pods: u64, replicas: u32, newest: &Share) -> Result<(), ReportRefused> {
        if self.seq > newest.seq || self.epoch > newest.epoch.max(self.known_epoch) {
            return Err(ReportRefused::UnknownPlan);
        }
        let at_stable = if self.body == self.stable { 0 } else { self.at_stable };
        let consistent = u64::from(self.updated) + u64::from(at_stable) <= u64::from(self.pods)
            && self.available <= self.pods
            && self.updated_available <= self.updated.min(self.available)
            && self.neither_unavailable <= self.neither().min(self.not_available())
            && self.marked <= self.pods
            && self.failing <= self.updated
            && self.unselected <= self.pods
            && self.unselected_updated <= self.unselected.min(self.updated)
            && self.replicas <= replicas;
        if !consistent {
            return Err(ReportRefused::Contradiction);
        }
        // A tenth above what was ever granted, for pods that were adopted or made by hand.
        if u64::from(self.pods) > pods + pods.div_ceil(10) {
            return Err(ReportRefused::TooManyPods);
        }
        Ok(())
    }
}

/// Reports that may be missing between two: of one start of an agent, and starts of it.
const FARTHEST: u64 = 1 << 32;

/// Whether a report comes after the last one taken (PROTO-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// It does.
    Newer,
    /// It does not.
    NotNewer,
    /// It is so far ahead that it can only be made up: taken, it would silence the true ones that follow.
    Absurd,
}

impl Order {
    /// Compares (incarnation, number) of a report with those of the last one taken. The first incarnation heard of may be
    /// any that leaves room for as many again; after that both go up in small steps.
    pub fn of(last: Option<(u64, u64)>, next: (u64, u64)) -> Self {
        let Some(last) = last else {
            let within = next.0 <= u64::MAX / 2 && next.1 <= FARTHEST;
            return if within { Self::Newer } else { Self::Absurd };
        };
        if next <= last {
            return Self::NotNewer;
        }
        let numbers = if next.0 == last.0 { next.1 - last.1 } else { next.1 };
        if next.0 - last.0 > FARTHEST || numbers > FARTHEST { Self::Absurd } else { Self::Newer }
    }
}

/// What became of a report that was handed to the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It acknowledges the newest plan: exposures were brought down.
    Acknowledged,
    /// It is news, but of an older plan or not yet observed: only the counts were taken.
    Noted,
    /// It is not newer than the last one taken.
    NotNewer,
    /// Its numbers cannot be true; the previous report stays.
    Refused(ReportRefused),
}

/// Why a report was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportRefused {
    /// It names a plan that was never written.
    UnknownPlan,
    /// Its counts contradict each other.
    Contradiction,
    /// It knows an epoch its cluster never was in.
    UnknownEpoch,
    /// Its incarnation or number is so large that none could follow.
    AbsurdNumber,
    /// It shows more pods than this cluster was ever granted.
    TooManyPods,
}

impl fmt::Display for ReportRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownPlan => "the report names a plan that was never written",
            Self::Contradiction => "the counts of the report contradict each other",
            Self::UnknownEpoch => "the report knows an epoch that was never given",
            Self::AbsurdNumber => "the number of the report leaves no room for another",
            Self::TooManyPods => "the report shows more pods than were ever granted",
        })
    }
}
