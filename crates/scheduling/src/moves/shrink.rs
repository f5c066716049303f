/// What the fleet can spare, before any shrink of the round.
///
/// All numbers are sums over the clusters that are not lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShrinkRoom {
    /// N.
    pub replicas: i64,
    /// B.
    pub move_unavailable: i64,
    /// max(U, B).
    pub deepest: i64,
    /// Sum of settled replicas.
    pub settled: i64,
    /// A of MOVE-2: pods that stay available whatever the members do with what they hold.
    pub sure: i64,
    /// Sum of max(exposure U, unavailable - moving).
    pub held: i64,
    /// Replicas the user took away and that are still granted (MOVE-3).
    pub scale_down: i64,
    /// h_B: how much of the hole was made by shrinking before growing.
    pub move_hole: i64,
    /// Replicas that are starting or that clusters have room for: what a hole can be filled with.
    pub coming: i64,
}

/// A cluster that has more replicas than it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Giver {
    /// How many it should give.
    pub excess: u32,
    /// How many of its replicas were granted by growth and never seen available.
    pub moving: u32,
    /// Whether its last report acknowledges its newest plan.
    pub acknowledged: bool,
    /// Pods of it that are not available.
    pub not_available: u32,
}

/// By how much a giver shrinks now, and by which right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shrunk {
    /// Growth of its own taken back (MOVE-6).
    pub taken_back: u32,
    /// Scale-down by the user (MOVE-3).
    pub scaled_down: u32,
    /// Given away by a move, a drain or a correction (MOVE-2).
    pub moved: u32,
}

impl Shrunk {
    /// All of it.
    pub fn total(&self) -> u32 {
        self.taken_back + self.scaled_down + self.moved
    }
}

impl ShrinkRoom {
    /// Shrinks one giver as far as it may be, and takes that out of the room.
    pub fn shrink(&mut self, giver: &Giver) -> Shrunk {
        let mut shrunk = Shrunk::default();
        // Without an acknowledgement the growth may have become available meanwhile: it is not ours to take back.
        if giver.moving > 0 && !giver.acknowledged {
            return shrunk;
        }
        shrunk.taken_back = giver.excess.min(giver.moving);
        let mut rest = i64::from(giver.excess - shrunk.taken_back);

        let spare = (self.settled - self.replicas).max(0);
        let scaled_down = rest.min(self.scale_down).min(spare);
        self.scale_down -= scaled_down;
        self.settled -= scaled_down;
        rest -= scaled_down;

        let moved =
            rest.min(self.movable()).min(self.affordable(giver, shrunk.taken_back, scaled_down)).max(0);
        let free = self.free_of_charge(giver, shrunk.taken_back, scaled_down);
        self.sure -= (moved - free).max(0);
        let below = |settled: i64| (self.replicas - settled).max(0);
        self.move_hole += below(self.settled - moved) - below(self.settled);
        self.settled -= moved;

        shrunk.scaled_down = scaled_down as u32;
        shrunk.moved = moved as u32;
        shrunk
    }

    /// MOVE-2(a): how far the settled replicas may fall.
    fn movable(&self) -> i64 {
        let without_hole = self.settled - self.replicas;
        let by_policy = without_hole + self.move_unavailable;
        let by_budget = without_hole + self.deepest - self.held;
        // Replicas without a place justify no shrink: a drain with no room elsewhere waits.
        let by_room = without_hole + self.coming;
        without_hole.max(by_policy.min(by_budget).min(by_room))
    }

    /// MOVE-2(b): how many may go before available pods fall too low. Pods that are down go for nothing.
    fn affordable(&self, giver: &Giver, taken_back: u32, scaled_down: i64) -> i64 {
        let above_floor = (self.sure - (self.replicas - self.deepest)).max(0);
        self.free_of_charge(giver, taken_back, scaled_down) + above_floor
    }

    fn free_of_charge(&self, giver: &Giver, taken_back: u32, scaled_down: i64) -> i64 {
        (i64::from(giver.not_available) - i64::from(taken_back) - scaled_down).max(0)
    }
}
