use std::cmp::Reverse;

use super::{
    Population, UnknownCountsAs,
    demand::Demand,
    draft::{Draft, Reach},
    reason::{BudgetUse, Condition, Holder, Why},
};
use crate::{
    ledger::Share,
    numbers::check_budgets,
    split::Mode,
    webster::{Part, fill},
};

/// The sums BUD-3 speaks of, kept up to date while shares grow.
#[derive(Debug, Clone, Copy)]
struct Sums {
    /// U.
    limit: i64,
    /// max(U, B).
    deepest: i64,
    /// Sum of what is granted after this round.
    granted: i64,
    /// Sum of that beyond what is starting anyway, and h_B.
    granted_deep: i64,
    /// Sum of exposures.
    exposed: i64,
    /// Sum of exposures beyond what is starting anyway, and h_B.
    deep: i64,
    /// Sum of what is down or may be taken down, and the hole.
    down: i64,
    /// The hole.
    hole: i64,
}

impl Draft<'_> {
    /// Shares out U and S by demand (section 8).
    pub(super) fn share_out_budgets(&mut self) {
        if self.refuses_budgets() {
            return;
        }
        if self.is_per_cluster() {
            self.copy_budgets();
            return;
        }
        self.keep_used_shares();
        let hole = self.hole();
        let mut sums = self.sums(hole);
        self.withdraw_idle(&sums);
        sums.granted = self.live().map(|it| i64::from(self.lines[it].unavailable)).sum();
        sums.granted_deep = self.live().map(|it| self.deep(it, self.lines[it].unavailable)).sum::<i64>()
            + self.ledger.move_hole as i64;
        self.grow_unavailable(&mut sums);
        self.grow_surge();
        self.note_held(hole);
    }

    /// BUD-1: with both budgets 0 no share is given, and what was is taken back. Without surge by a pause that is as
    /// it should be, and a SidecarSet knows no surge at all.
    fn refuses_budgets(&mut self) -> bool {
        let spec = self.world.spec;
        if spec.paused || spec.population == Population::Matched {
            return false;
        }
        // Such members can carry no surge (BUD-8).
        let surge = if spec.in_place_only { 0 } else { spec.surge };
        let checked = check_budgets(u64::from(spec.unavailable), u64::from(surge), u64::from(spec.replicas));
        let Err(error) = checked else { return false };
        self.conditions.push(Condition::BudgetsRefused(error));
        for line in self.lines.iter_mut().filter(|it| it.reach == Reach::Heard) {
            (line.unavailable, line.surge) = (0, 0);
        }
        true
    }

    /// Every cluster gets both budgets as the user wrote them (SPLIT-6).
    fn copy_budgets(&mut self) {
        let spec = self.world.spec;
        let surge = if spec.paused || spec.in_place_only { 0 } else { spec.surge };
        for line in self.lines.iter_mut().filter(|it| it.reach == Reach::Heard) {
            (line.unavailable, line.surge) = (spec.unavailable, surge);
        }
    }

    /// A share goes down only with its demand, with the limit, or unused for long (BUD-7, BUD-12).
    fn keep_used_shares(&mut self) {
        let spec = self.world.spec;
        // What a cluster that is not heard was granted cannot be taken back: it comes off first.
        let (mut unavailable_left, mut surge_left) = (spec.unavailable, spec.surge);
        for place in self.live().filter(|it| self.lines[*it].reach == Reach::Frozen) {
            let row = &self.ledger.rows[place];
            unavailable_left = unavailable_left.saturating_sub(row.unavailable.grant);
            surge_left = surge_left.saturating_sub(row.surge.grant);
        }
        let no_surge = self.is_paused() || spec.in_place_only;
        for place in self.in_order() {
            let idle = self.is_idle(place);
            let row = &self.ledger.rows[place];
            let line = &mut self.lines[place];
            let whole = line.demand.whole();
            line.unavailable = if idle { 0 } else { row.unavailable.grant.min(whole).min(unavailable_left) };
            // A member that deletes by its share keeps it until the pods are gone.
            if spec.in_place_only && line.replicas < line.before {
                line.unavailable = line.unavailable.max(row.unavailable.grant.min(1));
            }
            line.surge = if no_surge { 0 } else { row.surge.grant.min(whole).min(surge_left) };
            unavailable_left = unavailable_left.saturating_sub(line.unavailable);
            surge_left -= line.surge;
        }
    }

    /// Whether a cluster has held a share for longer than the deadline and not used it.
    fn is_idle(&self, place: usize) -> bool {
        self.ledger.rows[place].unused_for > self.world.rules.progress_deadline
    }

    /// Replicas that are between clusters: granted nowhere, or not yet available where they are granted.
    pub(super) fn hole(&self) -> i64 {
        let settled: i64 = self.live().map(|it| self.lines[it].settled()).sum();
        (self.population as i64 - self.homeless() as i64 - settled).max(0)
    }

    /// Replicas that have no place and do not run either. Those that run where they may not stay are not missing, unless
    /// every cluster has all replicas: what one has too many makes up for no other's lack (SPLIT-6).
    pub(super) fn homeless(&self) -> u64 {
        if self.world.mode == Mode::Duplicated {
            return self.unplaced;
        }
        let staying: u64 = self
            .live()
            .map(|it| u64::from(self.lines[it].replicas.saturating_sub(self.lines[it].goal)))
            .sum();
        self.unplaced.saturating_sub(staying)
    }

    fn sums(&self, hole: i64) -> Sums {
        let (spec, rules) = (&self.world.spec, &self.world.rules);
        Sums {
            limit: i64::from(spec.unavailable),
            deepest: i64::from(spec.unavailable.max(rules.move_unavailable)),
            granted: 0,
            granted_deep: 0,
            exposed: self.live().map(|it| i64::from(self.ledger.rows[it].unavailable.exposure)).sum(),
            deep: self.live().map(|it| self.deep(it, self.ledger.rows[it].unavailable.exposure)).sum::<i64>()
                + self.ledger.move_hole as i64,
            down: self.live().map(|it| self.held(it)).sum::<i64>() + hole,
            hole,
        }
    }

    /// What of an exposure could take down pods that are counted on.
    fn deep(&self, place: usize, exposure: u32) -> i64 {
        let line = &self.lines[place];
        i64::from(exposure.saturating_sub(line.starting.min(line.replicas)))
    }

    /// Pods of a cluster that are down, not counting those that are starting by growth (MOVE-7).
    pub(super) fn down(&self, place: usize) -> i64 {
        let row = &self.ledger.rows[place];
        let ignored = self.ledger.release.as_ref().is_some_and(|it| it.ignored.contains(&row.cluster));
        if ignored {
            return 0;
        }
        if row.report.is_none() {
            return 0;
        }
        if self.lines[place].reach == Reach::Frozen {
            return i64::from(match self.world.rules.unknown {
                UnknownCountsAs::Unavailable => row.replicas.grant,
                UnknownCountsAs::LastReported => row.reported_unavailable(),
            });
        }
        i64::from(row.reported_unavailable().saturating_sub(row.moving))
    }

    /// What a cluster takes of the budget: what is down, or what it may take down.
    pub(super) fn held(&self, place: usize) -> i64 {
        self.down(place).max(i64::from(self.ledger.rows[place].unavailable.exposure))
    }

    /// BUD-5: an incident in one cluster stops the others, last in order first.
    fn withdraw_idle(&mut self, sums: &Sums) {
        // What is on its way down already counts until it is acknowledged; it need not be taken twice.
        let on_its_way: i64 = self
            .heard()
            .map(|it| (self.held(it) - self.down(it).max(i64::from(self.lines[it].unavailable))).max(0))
            .sum();
        let mut excess = sums.down - sums.limit - on_its_way;
        for place in self.in_order().into_iter().rev() {
            if excess <= 0 {
                break;
            }
            let down = if self.ledger.move_hole > 0 {
                self.down(place)
            } else {
                i64::from(self.ledger.rows[place].reported_unavailable())
            };
            let idle = (i64::from(self.lines[place].unavailable) - down).max(0).min(excess);
            excess -= idle;
            if idle > 0 {
                self.lines[place].unavailable -= idle as u32;
                self.decide(place, Why::ShareWithdrawn(idle as u32));
            }
        }
    }

    /// Clusters that are planned for, by wave and rank; in a rollback the waves go backwards (REL-7).
    fn in_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = self.heard().collect();
        if self.world.waves.is_empty() {
            return order;
        }
        let wave = |it: &usize| self.world.clusters[*it].wave;
        if self.ledger.rolled_back.is_some() {
            order.sort_by_key(|it| Reverse(wave(it)));
        } else {
            order.sort_by_key(wave);
        }
        order
    }

    /// BUD-3, BUD-4, BUD-7: class by class, each wave first by Webster, then whoever can use what is left.
    fn grow_unavailable(&mut self, sums: &mut Sums) {
        let order = self.takers();
        for class in self.classes(&order) {
            let ideal = self.ideal(&order, class, |it| it.unavailable, sums.limit - sums.exposed);
            for share in [ideal.as_slice(), &[]] {
                for (index, &place) in order.iter().enumerate() {
                    let wanted = self.lines[place].demand.up_to(class);
                    let aim = share.get(index).copied().unwrap_or(wanted).min(wanted);
                    let most = self.most_unavailable(place, sums).min(i64::from(aim));
                    if most > i64::from(self.lines[place].unavailable) {
                        self.raise_unavailable(place, most as u32, sums);
                    }
                }
            }
        }
    }

    /// Clusters that may be given a share: those that let one lie idle only where nobody else could use it.
    fn takers(&mut self) -> Vec<usize> {
        let mut order = self.in_order();
        let wants = |it: &usize| self.lines[*it].demand.whole() > self.lines[*it].unavailable;
        if order.iter().any(|it| wants(it) && !self.is_idle(*it)) {
            order.retain(|it| !self.is_idle(*it));
        } else if !self.is_paused() {
            // While nothing is updated nobody asks, and the share would be as good as new when the release goes on.
            for place in &order {
                self.ledger.rows[*place].unused_for = 0;
            }
        }
        order
    }

    /// How far one share may grow now.
    fn most_unavailable(&self, place: usize, sums: &Sums) -> i64 {
        let (line, row) = (&self.lines[place], &self.ledger.rows[place]);
        let exposure = i64::from(row.unavailable.exposure.max(line.unavailable));
        let (spare, deep) = (sums.limit - sums.exposed, sums.deepest - sums.deep);
        // What its exposure counts anyway may be granted again, as long as grants alone keep the limit: after U was
        // lowered, pods that broke under the old one could else never be mended. With h_B they keep max(U, B) as well:
        // growth taken back no longer stands for the pod its share took down.
        let starting = i64::from(line.starting.min(line.replicas));
        let again = exposure
            .min(sums.limit - sums.granted + i64::from(line.unavailable))
            .min(starting + self.deep(place, line.unavailable) + sums.deepest - sums.granted_deep);
        let more =
            if spare < 0 || deep < 0 { 0 } else { (exposure + spare).min(exposure.max(starting) + deep) };
        // Pods that are down already cost nothing (BUD-4), but may be well again when the plan arrives: (a) holds.
        let free = i64::from(row.reported_unavailable());
        let room = sums.limit - sums.down;
        let mut by_down = if room < 0 { free } else { free.max(exposure.max(self.down(place)) + room) };
        // One share for a shrink that cannot finish: the hole may be waiting for just the pods that have to go here.
        if self.is_emptying(place) && room + sums.hole > 0 {
            by_down = by_down.max(1);
        }
        again.max(more).min(by_down).min(sums.limit)
    }

    /// Whether there are more pods than replicas, some of them down.
    fn is_emptying(&self, place: usize) -> bool {
        let report = self.ledger.rows[place].report;
        report.is_some_and(|it| it.pods > self.lines[place].replicas && it.not_available() > 0)
    }

    fn raise_unavailable(&mut self, place: usize, share: u32, sums: &mut Sums) {
        let down = self.down(place);
        let before = self.ledger.rows[place].unavailable.exposure.max(self.lines[place].unavailable);
        let after = before.max(share);
        sums.granted += i64::from(share - self.lines[place].unavailable);
        sums.granted_deep += self.deep(place, share) - self.deep(place, self.lines[place].unavailable);
        sums.exposed += i64::from(after - before);
        sums.deep += self.deep(place, after) - self.deep(place, before);
        sums.down += down.max(i64::from(after)) - down.max(i64::from(before));
        self.lines[place].unavailable = share;
    }

    /// BUD-8: surge likewise, with only its own sum to keep.
    fn grow_surge(&mut self) {
        let spec = self.world.spec;
        if self.is_paused() || spec.surge == 0 || spec.in_place_only {
            return;
        }
        let limit = i64::from(spec.surge);
        let exposed: i64 = self.ledger.rows.iter().map(|it| i64::from(it.surge.exposure)).sum();
        let mut granted: i64 = self.live().map(|it| i64::from(self.lines[it].surge)).sum();
        let mut spare = limit - exposed;
        let order = self.in_order();
        for class in self.classes(&order) {
            let ideal = self.ideal(&order, class, |it| it.surge, spare);
            for share in [ideal.as_slice(), &[]] {
                for (index, &place) in order.iter().enumerate() {
                    let wanted = self.lines[place].demand.up_to(class);
                    let aim = share.get(index).copied().unwrap_or(wanted).min(wanted);
                    let held = i64::from(self.lines[place].surge);
                    let exposure = i64::from(self.ledger.rows[place].surge.exposure).max(held);
                    let again = exposure.min(limit - granted + held);
                    let more = if spare < 0 { 0 } else { exposure + spare };
                    let most = i64::from(aim).min(again.max(more)).min(limit);
                    if most > held {
                        spare -= (most - exposure).max(0);
                        granted += most - held;
                        self.lines[place].surge = most as u32;
                    }
                }
            }
        }
    }

    /// What the share of a cluster is for, or why it is smaller than `before`.
    pub(super) fn budget_use(&self, place: usize, before: &Share) -> BudgetUse {
        let line = &self.lines[place];
        let Demand { marked, to_update, .. } = line.demand;
        let grows = line.unavailable > before.unavailable || line.surge > before.surge;
        match () {
            () if self.is_paused() && !grows => BudgetUse::Paused,
            () if self.is_per_cluster() => BudgetUse::Own,
            () if grows && marked > 0 => BudgetUse::Replaced(marked),
            () if grows && to_update > 0 => BudgetUse::ToUpdate(to_update),
            () if grows => BudgetUse::Shrink,
            () if line.demand.whole() < before.unavailable.max(before.surge) => BudgetUse::NothingLeft,
            () if self.is_idle(place) => BudgetUse::Unused,
            () => BudgetUse::Smaller,
        }
    }

    /// The classes of demand that ask for more than the ones before them. Any other would find all done.
    fn classes(&self, order: &[usize]) -> Vec<usize> {
        let more = |class: usize, it: usize| {
            let demand = &self.lines[it].demand;
            demand.up_to(class) > if class == 0 { 0 } else { demand.up_to(class - 1) }
        };
        (0..3).filter(|class| order.iter().any(|it| more(*class, *it))).collect()
    }

    /// Shares by demand over the first wave that has any; the rest follows as room comes free.
    fn ideal(
        &self,
        order: &[usize],
        class: usize,
        held: impl Fn(&super::draft::Line) -> u32,
        spare: i64,
    ) -> Vec<u32> {
        let mut parts: Vec<Part> = order
            .iter()
            .map(|it| {
                let line = &self.lines[*it];
                let wanted = line.demand.up_to(class);
                Part { weight: wanted, at: held(line).min(wanted), top: wanted }
            })
            .collect();
        let mut rest = u64::try_from(spare).unwrap_or(0);
        let wave =
            |it: usize| if self.world.waves.is_empty() { 0 } else { self.world.clusters[order[it]].wave };
        let mut start = 0;
        while start < parts.len() {
            let end = (start..parts.len()).find(|it| wave(*it) != wave(start)).unwrap_or(parts.len());
            rest = fill(&mut parts[start..end], rest);
            start = end;
        }
        parts.iter().map(|it| it.at).collect()
    }

    /// BudgetHeld: somebody could use a share, nobody gets one.
    fn note_held(&mut self, hole: i64) {
        let starved = self.heard().any(|it| {
            let line = &self.lines[it];
            line.demand.whole() > 0 && line.unavailable == 0 && line.surge == 0
        });
        if !starved {
            return;
        }
        let mut holders: Vec<Holder> = self
            .live()
            .filter(|it| self.held(*it) > 0)
            .map(|it| Holder { cluster: self.ledger.rows[it].cluster.clone(), pods: self.held(it) as u32 })
            .collect();
        holders.sort_by(|a, b| b.pods.cmp(&a.pods).then_with(|| a.cluster.cmp(&b.cluster)));
        let used: u64 = holders.iter().map(|it| u64::from(it.pods)).sum();
        if used == 0 && hole == 0 {
            return;
        }
        let limit = self.world.spec.unavailable;
        self.conditions.push(Condition::BudgetHeld { limit, used, hole: hole as u64, holders });
    }
}
