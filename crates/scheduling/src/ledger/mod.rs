//! What every cluster may be doing at this moment, as far as the hub can know.
//!
//! A limit over the fleet holds only if the hub counts what a member *could* be acting on, not what it was last told.
//! Each number handed out (replicas, updated pods, unavailable pods, surge pods, image pulls) is therefore a
//! [`Column`]: the value last written, and beside it the exposure, the largest value whose effect may still be there.
//! Writing raises the exposure at once; only a report that acknowledges the newest plan brings it down again, and
//! not below what the report shows to be still there. Sums over exposures are what limits are checked against.

mod report;
mod row;
#[cfg(test)]
mod tests;

pub use report::{Order, Report, ReportRefused, Taken};
pub use row::{PastTarget, Row, Share};

/// A fleet revision: the first eight bytes of the hash over the fields that make a member revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One number handed out to one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Column {
    /// The value last written.
    pub grant: u32,
    /// The largest value the member could still be acting on, or whose effect is still there.
    pub exposure: u32,
}

impl Column {
    /// Notes that `grant` is about to be written: from now on the member may act on it.
    pub fn write(&mut self, grant: u32) {
        self.grant = grant;
        self.exposure = self.exposure.max(grant);
    }

    /// Takes a report that acknowledges the newest plan and shows `effect` still there.
    ///
    /// Obeying an order is not the same as its effect being over: a surge pod or a pod to be deleted stays a while.
    pub fn acknowledge(&mut self, effect: u32) {
        self.exposure = self.grant.max(self.exposure.min(effect));
    }

    /// How much more exposure a grant of `value` would make.
    pub fn added_by(&self, value: u32) -> u32 {
        value.saturating_sub(self.exposure)
    }
}
