/// How many replicas the fleet may still be granted in a round, after its shrinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrowRoom {
    /// N + M + D less the sum of exposures, lost clusters included: pods that may be added (MOVE-1, FO-2).
    pub pods: i64,
    /// Growth that keeps the sum of grants at N; unlimited while M allows more than that.
    pub grants: i64,
    /// What scaleStrategy.maxUnavailable leaves (BUD-10); unlimited where the object has none.
    pub starting: i64,
}

/// A cluster that should have more replicas than it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// What it is granted now, after shrinks.
    pub granted: u32,
    /// Its exposure.
    pub exposure: u32,
    /// What it should have.
    pub goal: u32,
}

impl GrowRoom {
    /// Grows one receiver by at most `at_most`, takes that out of the room, and says by how much.
    pub fn grow(&mut self, receiver: &Growth, at_most: u32) -> u32 {
        let Growth { granted, exposure, goal } = *receiver;
        if self.pods < 0 {
            return 0;
        }
        // Up to the exposure the pods are counted already.
        let covered = i64::from(exposure.saturating_sub(granted));
        let step = i64::from(goal.saturating_sub(granted).min(at_most))
            .min(covered + self.pods)
            .min(self.grants)
            .min(self.starting)
            .max(0);
        self.pods -= (step - covered).max(0);
        self.grants -= step;
        self.starting -= step;
        step as u32
    }
}
