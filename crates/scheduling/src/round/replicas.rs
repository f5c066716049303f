use super::{
    Population, UnknownCountsAs,
    draft::{Draft, Reach},
    reason::{Condition, Why},
};
use crate::{
    moves::{Giver, GrowRoom, Growth, ShrinkRoom, Shrunk},
    split::{Mode, State},
    webster::{Part, fill},
};

impl Draft<'_> {
    /// Takes replicas a step towards their goals: shrinks first, then growth (section 9).
    pub(super) fn move_replicas(&mut self) {
        if self.world.spec.population == Population::Matched {
            return;
        }
        self.shrink();
        self.grow();
        self.count_moves();
        self.tell_of_drains();
    }

    /// Says which clusters cannot be emptied. A drain that is under way is not held: it takes a step whenever the one before
    /// it is done.
    fn tell_of_drains(&mut self) {
        let is_moving = self.is_moving();
        // By rank, and not as the clusters come: the order of what is told must not depend on that.
        for place in self.by_rank.clone() {
            let (line, cluster) = (&self.lines[place], &self.world.clusters[place]);
            let draining = match cluster.candidate.state {
                State::Draining => line.reach != Reach::Away && cluster.is_heard(),
                // Where the policy selects nobody that is the news, and not who is left out.
                State::Excluded => line.reach == Reach::Heard,
                _ => false,
            };
            if !draining || line.replicas == 0 {
                continue;
            }
            let (cluster, replicas) = (self.ledger.rows[place].cluster.clone(), line.replicas);
            if self.keeps_volumes(place) {
                self.conditions.push(Condition::VolumesHeld { cluster, replicas });
            } else if !is_moving {
                self.conditions.push(Condition::DrainHeld { cluster, replicas });
            }
        }
    }

    /// Whether replicas are on their way: granted or taken now, still starting, or not known to have left yet. What has been starting
    /// for too long finds no place where it was sent.
    fn is_moving(&self) -> bool {
        let deadline = self.world.rules.progress_deadline;
        self.heard().any(|place| {
            let (line, row) = (&self.lines[place], &self.ledger.rows[place]);
            let is_starting = line.starting > 0 && row.moving_for <= deadline;
            line.replicas != line.before || is_starting || row.replicas.exposure > row.replicas.grant
        })
    }

    fn shrink(&mut self) {
        let mut room = self.shrink_room();
        let mut givers = Vec::new();
        for place in self.heard().collect::<Vec<_>>() {
            let giver = self.giver(place);
            // The share such a member deletes by is granted first, by demand (BUD-9).
            if self.world.spec.in_place_only && self.ledger.rows[place].unavailable.grant == 0 {
                if giver.excess > 0 {
                    self.decide(place, Why::ShrinkHeld(giver.excess));
                }
            } else if giver.excess > 0 {
                givers.push((place, giver));
            }
        }
        let scaled_down: Vec<Shrunk> = givers.iter().map(|it| room.scale_down(&it.1)).collect();
        for ((place, giver), shrunk) in givers.into_iter().zip(scaled_down) {
            let shrunk = room.move_away(&giver, shrunk);
            let line = &mut self.lines[place];
            line.replicas -= shrunk.total();
            line.starting -= shrunk.taken_back;
            let steps = [
                (shrunk.taken_back, Why::TakenBack as fn(u32) -> Why),
                (shrunk.scaled_down, Why::ScaledDown),
                (shrunk.moved, Why::MovedAway),
                (giver.excess - shrunk.total(), Why::ShrinkHeld),
            ];
            for (by, why) in steps.into_iter().filter(|it| it.0 > 0) {
                self.decide(place, why(by));
            }
        }
        self.ledger.scale_down = room.scale_down as u64;
        self.ledger.move_hole = room.move_hole as u64;
    }

    fn giver(&self, place: usize) -> Giver {
        let (line, row) = (&self.lines[place], &self.ledger.rows[place]);
        let above = (line.before - line.starting).saturating_sub(self.world.spec.replicas);
        Giver {
            excess: line.before.saturating_sub(line.goal),
            moving: line.starting,
            acknowledged: row.acknowledged,
            not_available: row.report.map_or(0, |it| it.not_available()),
            own: (self.world.mode == Mode::Duplicated).then_some(above),
        }
    }

    fn shrink_room(&self) -> ShrinkRoom {
        let rules = &self.world.rules;
        let settled = self.live().map(|it| self.lines[it].settled()).sum();
        let moved_down = i64::from(rules.move_unavailable);
        ShrinkRoom {
            replicas: self.to_keep() as i64,
            move_unavailable: moved_down,
            // Shares that are each cluster's own are never free for a move: B comes on top of them.
            deepest: if self.is_per_cluster() {
                self.most_down() + moved_down
            } else {
                self.most_down().max(moved_down)
            },
            settled,
            sure: self.live().map(|it| self.surely_available(it)).sum(),
            held: self.live().map(|it| self.held(it).min(self.most_held(it))).sum(),
            scale_down: self.ledger.scale_down as i64,
            // Replicas without a place are missing for another reason than a move.
            move_hole: (self.ledger.move_hole as i64).min(self.hole()),
            coming: self.live().map(|it| self.lines[it].coming()).sum(),
        }
    }

    /// Where a share is each cluster's own it may be larger than the cluster.
    fn most_held(&self, place: usize) -> i64 {
        if self.is_per_cluster() { i64::from(self.lines[place].before) } else { i64::MAX }
    }

    /// Pods of a cluster that stay available whatever it does with the share it may be acting on (A of MOVE-2).
    fn surely_available(&self, place: usize) -> i64 {
        let row = &self.ledger.rows[place];
        let Some(report) = row.report else { return 0 };
        if self.lines[place].reach == Reach::Frozen
            && self.world.rules.unknown == UnknownCountsAs::Unavailable
        {
            return 0;
        }
        let kept =
            if row.acknowledged { row.replicas.grant } else { row.replicas.grant.min(report.replicas) };
        let at_risk = row.unavailable.exposure.saturating_sub(report.unavailable());
        i64::from(report.available.min(kept)).saturating_sub(i64::from(at_risk)).max(0)
    }

    fn grow(&mut self) {
        let (spec, rules) = (&self.world.spec, &self.world.rules);
        let exposed: i64 = self.ledger.rows.iter().map(|it| i64::from(it.replicas.exposure)).sum();
        let granted: i64 = self.live().map(|it| i64::from(self.lines[it].replicas)).sum();
        let lost: i64 = (0..self.lines.len())
            .filter(|it| self.lines[*it].reach == Reach::Away)
            .map(|it| i64::from(self.ledger.rows[it].replicas.exposure))
            .sum();
        let overlap = lost * i64::from(rules.max_overlap.min(100)) / 100;
        let replicas = self.population as i64;
        let mut room = GrowRoom {
            pods: replicas + i64::from(rules.move_surge) + overlap - exposed,
            grants: if rules.move_surge == 0 { (replicas - granted).max(0) } else { i64::MAX },
            starting: spec.scale_unavailable.map_or(i64::MAX, |it| i64::from(it) - self.starting()),
        };
        let own_limit = spec.scale_unavailable.filter(|_| self.is_per_cluster());
        for place in self.heard().collect::<Vec<_>>() {
            let line = &self.lines[place];
            let wanted = line.goal.saturating_sub(line.replicas);
            if wanted == 0 {
                continue;
            }
            // Its part is kept for it: placed elsewhere it would stay there (HA-2).
            if self.world.clusters[place].candidate.state == State::Unconfirmed {
                self.decide(place, Why::GrowthHeldUntilHeard(wanted));
                continue;
            }
            if let Some(limit) = own_limit {
                room.starting = i64::from(limit) - self.starting_at(place);
            }
            let exposure = self.ledger.rows[place].replicas.exposure;
            let grown = room.grow(&Growth { granted: line.replicas, exposure, goal: line.goal }, u32::MAX);
            let line = &mut self.lines[place];
            line.replicas += grown;
            line.grown = grown;
            if grown > 0 {
                self.decide(place, Why::Grown(grown));
            }
            if grown < wanted {
                let held = if room.starting <= 0 { Why::GrowthHeldByStarting } else { Why::GrowthHeldByPods };
                self.decide(place, held(wanted - grown));
            }
        }
    }

    /// Counts what a rebalance has begun (MOVE-5): growth, or shrinking where that comes first.
    fn count_moves(&mut self) {
        let (mut grown, mut shrunk) = (0, 0);
        for line in &self.lines {
            grown += u64::from(line.replicas.saturating_sub(line.before.max(line.least_move)));
            shrunk += u64::from(line.before.min(line.least_move).saturating_sub(line.replicas));
        }
        self.ledger.rebalance.count(grown.max(shrunk));
    }

    /// Pods starting, or down, that count against scaleStrategy.maxUnavailable (BUD-10).
    fn starting(&self) -> i64 {
        self.live().map(|it| self.starting_at(it)).sum()
    }

    fn starting_at(&self, place: usize) -> i64 {
        i64::from(self.lines[place].starting.max(self.ledger.rows[place].reported_unavailable()))
    }

    /// What each member carries as scaleStrategy.maxUnavailable (BUD-10): its share by replicas, or all of it where every
    /// cluster has the numbers for itself, and enough for what is starting there. 0 would forbid it to repair.
    pub(super) fn scale_shares(&self) -> Option<Vec<u32>> {
        let whole = self.world.spec.scale_unavailable?;
        let part = |it: &usize| {
            let away = self.lines[*it].reach == Reach::Away;
            let at = if self.is_per_cluster() { whole } else { 0 };
            Part { weight: if away { 0 } else { self.lines[*it].replicas }, at, top: whole }
        };
        let mut parts: Vec<Part> = self.by_rank.iter().map(part).collect();
        fill(&mut parts, u64::from(whole));
        let mut shares = vec![1; self.lines.len()];
        for (place, part) in self.by_rank.iter().zip(parts) {
            let line = &self.lines[*place];
            shares[*place] = part.at.max(line.starting + line.grown).max(1);
        }
        Some(shares)
    }
}
