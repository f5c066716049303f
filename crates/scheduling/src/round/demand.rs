use super::draft::Draft;

/// For how many pods a cluster could use a share, by what for (BUD-7). Each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Demand {
    /// Pods named for deletion or being replaced.
    pub(super) marked: u32,
    /// Pods left to update.
    pub(super) to_update: u32,
    /// A shrink that cannot finish while pods that are kept are down.
    pub(super) stuck: u32,
}

impl Demand {
    /// All of it.
    pub(super) fn whole(&self) -> u32 {
        self.stuck
    }

    /// The part of it in class 0, 1 or 2.
    pub(super) fn up_to(&self, class: usize) -> u32 {
        [self.marked, self.to_update, self.stuck][class]
    }
}

impl Draft<'_> {
    /// Works out what every cluster could use a share for.
    pub(super) fn work_out_demand(&mut self) {
        for place in self.heard().collect::<Vec<_>>() {
            self.lines[place].demand = self.demand(place);
        }
    }

    fn demand(&self, place: usize) -> Demand {
        let (line, row) = (&self.lines[place], &self.ledger.rows[place]);
        let Some(report) = row.report else { return Demand::default() };
        let marked =
            report.marked.max(self.world.clusters[place].candidate.named_for_deletion.min(report.pods));
        let left = if self.is_paused() { 0 } else { self.left_to_update(place) };
        let to_update = marked.max(left);
        let surplus =
            report.pods > line.replicas || (self.world.spec.in_place_only && line.goal < line.before);
        let stuck = u32::from(surplus && (report.not_available() > 0 || self.world.spec.in_place_only));
        Demand { marked, to_update, stuck: to_update.max(stuck) }
    }

    /// Pods the cluster has been granted to update, or to send back, and has not.
    pub(super) fn left_to_update(&self, place: usize) -> u32 {
        let (line, row) = (&self.lines[place], &self.ledger.rows[place]);
        let Some(report) = row.report else { return 0 };
        let target = self.ledger.target;
        if line.body != target {
            let (leftovers, broken) = report.leftovers(self.ledger.stable);
            return broken.min(leftovers);
        }
        let there = report.of(target);
        let due = if self.ledger.is_releasing() { line.updated } else { line.replicas };
        let forward = due.saturating_sub(there).min(report.reachable(target).saturating_sub(there));
        let back = if self.world.rules.partition_rollback { there.saturating_sub(due) } else { 0 };
        forward.max(back)
    }
}
