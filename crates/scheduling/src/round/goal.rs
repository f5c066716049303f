use super::{
    ClusterState, Population,
    draft::{Draft, Reach},
    reason::{Condition, Why},
};
use crate::webster::{Part, fill};

impl Draft<'_> {
    /// Asks the split what every cluster should have in the end, and notes what the user scaled down (MOVE-3).
    pub(super) fn set_goals(&mut self) {
        self.note_scale_down();
        if self.world.spec.population == Population::Matched {
            return;
        }
        let mut parts = Vec::with_capacity(self.lines.len());
        let live: Vec<usize> =
            self.by_rank.iter().copied().filter(|it| self.lines[*it].reach != Reach::Away).collect();
        for &place in &live {
            let (cluster, line) = (&self.world.clusters[place], &self.lines[place]);
            let top = cluster.max.min(cluster.fit.unwrap_or(u32::MAX));
            let (at, top) = match (line.reach, cluster.state) {
                (Reach::Frozen, _) => (line.before, line.before),
                (_, ClusterState::Draining) => (0, 0),
                (_, ClusterState::Cordoned) => (cluster.min.min(line.before.min(top)), line.before.min(top)),
                _ => (cluster.min.min(top), top),
            };
            parts.push(Part { weight: cluster.weight, at, top });
        }
        let bounds: Vec<(u32, u32)> = parts.iter().map(|it| (it.at, it.top)).collect();
        let wanted = u64::from(self.world.spec.replicas);
        let floor: u64 = parts.iter().map(|it| u64::from(it.at)).sum();
        fill(&mut parts, wanted.saturating_sub(floor));
        for (place, (part, bound)) in live.iter().zip(parts.iter().zip(bounds)) {
            let line = &mut self.lines[*place];
            line.goal = line.before.clamp(bound.0, bound.1);
            let _ = part;
        }
        let mut sum: u64 = live.iter().map(|it| u64::from(self.lines[*it].goal)).sum();
        while sum < wanted {
            let Some((i, _)) = live
                .iter()
                .enumerate()
                .filter(|(i, p)| self.lines[**p].goal < parts[*i].at)
                .max_by_key(|(i, p)| {
                    (
                        u64::from(parts[*i].weight) * 1_000_000 / (2 * u64::from(self.lines[**p].goal) + 1),
                        usize::MAX - i,
                    )
                })
            else {
                break;
            };
            self.lines[live[i]].goal += 1;
            sum += 1;
        }
        while sum > wanted {
            let Some((i, _)) = live
                .iter()
                .enumerate()
                .filter(|(i, p)| self.lines[**p].goal > parts[*i].at && self.lines[**p].reach == Reach::Heard)
                .min_by_key(|(i, p)| {
                    (
                        u64::from(parts[*i].weight) * 1_000_000 / (2 * u64::from(self.lines[**p].goal) - 1),
                        usize::MAX - i,
                    )
                })
            else {
                break;
            };
            self.lines[live[i]].goal -= 1;
            sum -= 1;
        }
        if self.world.rules.rebalance {
            for (i, place) in live.iter().enumerate() {
                self.lines[*place].goal = parts[i].at;
            }
        }
        let placed: u64 = live.iter().map(|it| u64::from(self.lines[*it].goal)).sum();
        self.unplaced = wanted.saturating_sub(placed);
        self.note_placement(placed);
    }

    fn note_placement(&mut self, placed: u64) {
        let wanted = u64::from(self.world.spec.replicas);
        if self.unplaced > 0 {
            self.conditions.push(Condition::Unplaced(self.unplaced));
        }
        if placed > wanted {
            self.conditions.push(Condition::SurplusFrozen(placed - wanted));
        }
        for place in 0..self.lines.len() {
            if self.lines[place].reach == Reach::Frozen && self.lines[place].before > 0 {
                self.decide(place, Why::Frozen);
            }
        }
    }

    fn note_scale_down(&mut self) {
        let wanted = self.world.spec.replicas;
        let granted: u64 = self.live().map(|it| u64::from(self.lines[it].before)).sum();
        let before = self.ledger.replicas;
        let credit = if wanted < before {
            self.ledger.scale_down.saturating_add(before - wanted)
        } else {
            self.ledger.scale_down.saturating_sub(wanted - before)
        };
        let most = granted.saturating_sub(u64::from(wanted));
        self.ledger.scale_down = credit.min(u32::try_from(most).unwrap_or(u32::MAX));
        self.ledger.replicas = wanted;
    }
}
