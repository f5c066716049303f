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
    /// Settled replicas it has above the object's own, where every cluster has all of them: its part of a scale-down,
    /// whatever others have or lack.
    pub own: Option<u32>,
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
    /// What goes of one giver without being counted on: growth of its own, and its part of the user's scale-down. This
    /// comes before any move of the round, as it takes pods the moves would count on.
    pub fn scale_down(&mut self, giver: &Giver) -> Shrunk {
        // Without an acknowledgement the growth may have become available meanwhile: it is not ours to take back.
        if giver.moving > 0 && !giver.acknowledged {
            return Shrunk::default();
        }
        let taken_back = giver.excess.min(giver.moving);
        let rest = i64::from(giver.excess - taken_back);
        let spare = (self.settled - self.replicas).max(0);
        let scaled_down = match giver.own {
            Some(own) => rest.min(i64::from(own)),
            None => rest.min(self.scale_down).min(spare),
        };
        self.scale_down = (self.scale_down - scaled_down).max(0);
        self.settled -= scaled_down;
        let shrunk = Shrunk { taken_back, scaled_down: scaled_down as u32, moved: 0 };
        // Pods that are down go first, and were not counted on.
        let free = free_of_charge(giver, &Shrunk { scaled_down: 0, ..shrunk });
        self.sure -= (scaled_down - free).max(0);
        shrunk
    }

    /// What one giver gives away besides, by a move, a drain or a correction.
    pub fn move_away(&mut self, giver: &Giver, shrunk: Shrunk) -> Shrunk {
        if giver.moving > 0 && !giver.acknowledged {
            return shrunk;
        }
        let rest = i64::from(giver.excess - shrunk.total());
        let free = free_of_charge(giver, &shrunk);
        let moved = rest.min(self.movable()).min(free + self.above_floor()).max(0);
        self.sure -= (moved - free).max(0);
        let below = |settled: i64| (self.replicas - settled).max(0);
        self.move_hole += below(self.settled - moved) - below(self.settled);
        self.settled -= moved;
        Shrunk { moved: moved as u32, ..shrunk }
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

    /// MOVE-2(b): how many that are counted on may go before available pods fall too low.
    fn above_floor(&self) -> i64 {
        (self.sure - (self.replicas - self.deepest)).max(0)
    }
}

/// Pods of a giver that are down and have not gone yet: they go for nothing.
fn free_of_charge(giver: &Giver, shrunk: &Shrunk) -> i64 {
    i64::from(giver.not_available.saturating_sub(shrunk.taken_back).saturating_sub(shrunk.scaled_down))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MOVE-2(b): what a scale-down takes in the same round is not there for a move.
    #[test]
    fn a_move_does_not_count_on_pods_that_are_scaled_down_beside_it() {
        let mut room = ShrinkRoom {
            replicas: 6,
            move_unavailable: 0,
            deepest: 1,
            settled: 12,
            sure: 8,
            held: 0,
            scale_down: 4,
            move_hole: 0,
            coming: 0,
        };
        let giver = Giver { excess: 4, moving: 0, acknowledged: true, not_available: 0, own: None };
        let other = Giver { excess: 2, ..giver };
        assert_eq!(room.scale_down(&giver), Shrunk { scaled_down: 4, ..Shrunk::default() });
        assert_eq!(room.scale_down(&other), Shrunk::default());
        assert_eq!(room.move_away(&other, Shrunk::default()), Shrunk::default());
    }
}
