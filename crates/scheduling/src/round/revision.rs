use super::{
    draft::{Draft, Reach},
    reason::{Condition, Why},
};
use crate::webster::{Part, fill};

/// How many pods of the target a cluster may have at least and at most.
#[derive(Debug, Clone, Copy, Default)]
struct Bound {
    at: u32,
    top: u32,
}

impl Draft<'_> {
    /// Splits the pods that may carry the target (REV-3, REV-9, REV-11, REV-12).
    pub(super) fn split_updated(&mut self) {
        if !self.ledger.is_releasing() {
            for line in self.lines.iter_mut().filter(|it| it.reach == Reach::Heard) {
                line.updated = line.replicas;
            }
            return;
        }
        let mut bounds: Vec<Bound> = (0..self.lines.len()).map(|it| self.bound(it)).collect();
        let admitted: u64 = self
            .live()
            .filter(|it| self.ledger.rows[*it].admitted)
            .map(|it| u64::from(self.lines[it].replicas))
            .sum();
        let most = if self.partition() > 0 { self.most_updated().min(admitted) } else { admitted };
        self.put_broken_first(&mut bounds, most);
        let due = self.fill_waves(&bounds, most);
        self.grant_updated(&due);
        self.note_shortage(&due);
    }

    /// Floor and ceiling of one cluster. What may already be there is never counted away (REV-5, REV-9).
    fn bound(&self, place: usize) -> Bound {
        let (line, row) = (&self.lines[place], &self.ledger.rows[place]);
        match line.reach {
            Reach::Away => Bound::default(),
            Reach::Frozen => Bound { at: row.updated.exposure, top: row.updated.exposure },
            Reach::Heard => {
                let there = row.reported_updated(self.ledger.target);
                let leaving = line.before.saturating_sub(line.replicas);
                let floor = if self.world.rules.partition_rollback {
                    0
                } else {
                    line.replicas.min(there.saturating_sub(leaving))
                };
                Bound { at: floor, top: if row.admitted { line.replicas } else { floor } }
            }
        }
    }

    /// REV-15: where the budget leaves no room, broken old pods come first, for their update costs nothing.
    fn put_broken_first(&self, bounds: &mut [Bound], most: u64) {
        let held: u64 = self
            .live()
            .map(|it| {
                let row = &self.ledger.rows[it];
                u64::from(row.unavailable.exposure.max(row.report.map_or(0, |it| it.unavailable())))
            })
            .sum();
        if held < u64::from(self.world.spec.unavailable) {
            return;
        }
        let floors: u64 = bounds.iter().map(|it| u64::from(it.at)).sum();
        let mut room = most.saturating_sub(floors);
        for place in self.heard() {
            let row = &self.ledger.rows[place];
            let broken = row.report.map_or(0, |it| it.broken_old(self.ledger.target));
            if !row.admitted {
                continue;
            }
            let bound = &mut bounds[place];
            let more = u64::from(broken.min(bound.top - bound.at)).min(room);
            bound.at += more as u32;
            room -= more;
        }
    }

    /// Fills wave after wave; what later waves hold already is reserved for them.
    fn fill_waves(&self, bounds: &[Bound], most: u64) -> Vec<u32> {
        let mut due: Vec<u32> = bounds.iter().map(|it| it.at).collect();
        let reserved: u64 = due.iter().map(|it| u64::from(*it)).sum();
        let mut rest = most.saturating_sub(reserved);
        let with_waves = self.ledger.release.is_some();
        let wave = |place: usize| if with_waves { self.world.clusters[place].wave } else { 0 };
        let last = self.live().map(wave).max().unwrap_or(0);
        for number in 0..=last {
            let places: Vec<usize> = self
                .by_rank
                .iter()
                .copied()
                .filter(|it| self.lines[*it].reach != Reach::Away && wave(*it) == number)
                .collect();
            let mut parts: Vec<Part> = places
                .iter()
                .map(|it| Part {
                    weight: self.lines[*it].replicas.max(1),
                    at: bounds[*it].at,
                    top: bounds[*it].top,
                })
                .collect();
            rest = fill(&mut parts, rest);
            for (place, part) in places.iter().zip(&parts) {
                due[*place] = part.at;
            }
        }
        due
    }

    /// Grants what is due as far as the exposures allow (REV-11).
    fn grant_updated(&mut self, due: &[u32]) {
        let limited = self.partition() > 0;
        let target = self.ledger.target;
        let counted: u64 = self
            .ledger
            .rows
            .iter()
            .map(|it| u64::from(it.updated.exposure.max(it.reported_updated(target))))
            .sum();
        let mut room = self.most_updated() as i64 - counted as i64;
        let paused = self.is_paused();
        for place in self.by_rank.clone() {
            self.ledger.rows[place].due = Some(due[place]);
            let (line, row) = (&self.lines[place], &self.ledger.rows[place]);
            if line.reach != Reach::Heard {
                continue;
            }
            let granted = if row.was_given(target) { row.updated.grant.min(line.replicas) } else { 0 };
            let mut updated = due[place];
            if paused {
                updated = updated.min(granted + line.replicas.saturating_sub(line.before));
            }
            if updated > granted && limited {
                let covered = i64::from(row.updated.exposure);
                updated = i64::from(updated).min(covered + room).max(i64::from(granted)) as u32;
                room -= (i64::from(updated) - covered).max(0);
            }
            if updated < due[place] {
                let why = Why::UpdatedHeld { due: due[place], granted: updated };
                self.lines[place].updated = updated;
                self.decide(place, why);
            }
            self.lines[place].updated = updated;
        }
    }

    /// PartitionShort, but not for waves still to come (REL-2, ST-8).
    fn note_shortage(&mut self, due: &[u32]) {
        let waiting = self.live().any(|it| !self.ledger.rows[it].admitted);
        let placed: u64 = due.iter().map(|it| u64::from(*it)).sum();
        let missing = self.most_updated().saturating_sub(placed);
        if missing == 0 || waiting || self.partition() == 0 {
            return;
        }
        let held: u64 = (0..self.lines.len())
            .filter(|it| self.lines[*it].reach != Reach::Heard)
            .map(|it| u64::from(self.ledger.rows[it].updated.exposure))
            .sum();
        self.conditions.push(Condition::PartitionShort { missing, held: held.min(missing) });
    }

    /// Withholds the target where none of its pods is due (REV-6).
    pub(super) fn choose_bodies(&mut self) {
        let (target, stable) = (self.ledger.target, self.ledger.stable);
        let releasing = self.ledger.is_releasing();
        for place in self.heard().collect::<Vec<_>>() {
            let given = self.ledger.rows[place].was_given(target);
            let line = &mut self.lines[place];
            if !releasing || given || line.updated > 0 {
                line.body = target;
                if releasing && !given {
                    self.decide(place, Why::Given(target));
                }
            } else {
                line.body = stable;
                self.decide(place, Why::Withheld);
            }
        }
    }
}
