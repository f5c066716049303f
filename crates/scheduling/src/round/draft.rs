use super::{
    Condition, Decision, Ledger, Numbers, Plan, Population, Spec, World, demand::Demand, reason::Why,
};
use crate::{
    ledger::{Report, Revision, Row, Share},
    split::{Mode, State},
};

/// A round in the making.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) world: &'a World<'a>,
    pub(super) ledger: Ledger,
    /// One per cluster.
    pub(super) lines: Vec<Line>,
    /// Places of the clusters, by rank.
    pub(super) by_rank: Vec<usize>,
    /// N over the fleet.
    pub(super) population: u64,
    /// Replicas no cluster has room for.
    pub(super) unplaced: u64,
    pub(super) decisions: Vec<Decision>,
    pub(super) conditions: Vec<Condition>,
}

/// What is being decided for one cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) reach: Reach,
    /// Replicas granted when the round began.
    pub(super) before: u32,
    /// Replicas it should have in the end.
    pub(super) goal: u32,
    /// What the ideal split would give it.
    pub(super) ideal: u32,
    /// Replicas it should have in the end if no rebalance were due.
    pub(super) least_move: u32,
    /// Replicas it is granted now.
    pub(super) replicas: u32,
    /// Replicas still starting from earlier growth.
    pub(super) starting: u32,
    /// Replicas added now.
    pub(super) grown: u32,
    /// Pods that may carry the target.
    pub(super) updated: u32,
    /// Pods the member keeps at its other revision.
    pub(super) kept_old: u32,
    pub(super) body: Revision,
    pub(super) demand: Demand,
    pub(super) unavailable: u32,
    pub(super) surge: u32,
}

/// Whether plans reach a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// It is heard and planned for.
    Heard,
    /// It is not heard, or nothing may be planned: it keeps its share, and its exposure counts.
    Frozen,
    /// It is lost, or was never given anything: only its exposure counts.
    Away,
}

impl<'a> Draft<'a> {
    pub(super) fn new(world: &'a World<'a>, ledger: &Ledger) -> Self {
        let mut by_rank: Vec<usize> = (0..world.clusters.len()).collect();
        by_rank.sort_unstable_by_key(|it| {
            let candidate = &world.clusters[*it].candidate;
            (candidate.rank, &candidate.name)
        });
        Self {
            world,
            ledger: ledger.clone(),
            lines: Vec::with_capacity(world.clusters.len()),
            by_rank,
            population: 0,
            unplaced: 0,
            decisions: Vec::new(),
            conditions: Vec::new(),
        }
    }

    /// Fills in the lines once it is known who is lost.
    pub(super) fn open_lines(&mut self) {
        for (cluster, row) in self.world.clusters.iter().zip(&mut self.ledger.rows) {
            let reach = match () {
                () if row.lost => Reach::Away,
                // One that was never given anything holds nothing. One that was may be acting on it, whatever it is
                // called now.
                () if cluster.candidate.state == State::Pending && row.share.seq == 0 => Reach::Away,
                // With a policy that selects no cluster nothing changes in members, whatever the user writes (section 23).
                () if cluster.is_heard() && !self.world.selects_none => Reach::Heard,
                () => Reach::Frozen,
            };
            if self.world.spec.population == Population::Matched && reach != Reach::Away {
                count_matched(row);
            }
            row.in_place_only = self.world.spec.in_place_only;
            self.lines.push(Line::opened(row, reach));
        }
    }

    /// Places of the clusters that are not away.
    pub(super) fn live(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.lines.len()).filter(|it| self.lines[*it].reach != Reach::Away)
    }

    /// Places of the clusters that are planned for, by rank.
    pub(super) fn heard(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.by_rank.iter().copied().filter(|it| self.lines[*it].reach == Reach::Heard)
    }

    pub(super) fn decide(&mut self, place: usize, why: Why) {
        let cluster = Some(self.ledger.rows[place].cluster.clone());
        self.decisions.push(Decision { cluster, why });
    }

    pub(super) fn decide_for_all(&mut self, why: Why) {
        self.decisions.push(Decision { cluster: None, why });
    }

    /// G: pods that may carry the target.
    pub(super) fn most_updated(&self) -> u64 {
        self.population - self.partition()
    }

    /// P, which a rollback does not apply (REL-7).
    pub(super) fn partition(&self) -> u64 {
        self.kept().min(self.population)
    }

    /// P before it is cut to the population. Nothing is limited where this is 0 (REV-12); a population of 0 is another
    /// thing, as there may be pods that have to leave.
    pub(super) fn kept(&self) -> u64 {
        if self.ledger.rolled_back.is_some() { 0 } else { self.world.spec.partition }
    }

    /// Whether every cluster has the object's numbers for itself (SPLIT-6).
    pub(super) fn is_per_cluster(&self) -> bool {
        let Spec { numbers, population, .. } = self.world.spec;
        let duplicated = self.world.mode == Mode::Duplicated && population == Population::Granted;
        numbers == Numbers::PerCluster && duplicated
    }

    /// Replicas that no shrink may take. Those without a place are among them, as they may run where they cannot stay,
    /// but not where every cluster has all replicas (SPLIT-6).
    pub(super) fn to_keep(&self) -> u64 {
        let missing = if self.world.mode == Mode::Duplicated { self.unplaced } else { 0 };
        self.population.saturating_sub(missing)
    }

    /// Pods that may be down on purpose over the fleet.
    pub(super) fn most_down(&self) -> i64 {
        let each = i64::from(self.world.spec.unavailable);
        if self.is_per_cluster() {
            self.live().map(|it| each.min(i64::from(self.lines[it].before))).sum()
        } else {
            each
        }
    }

    /// Whether updates are to stand still, by the user or by a failed gate.
    pub(super) fn is_paused(&self) -> bool {
        self.world.spec.paused || self.ledger.paused().is_some()
    }

    /// Writes down what changed, and orders the writes.
    pub(super) fn finish(mut self) -> Plan {
        let target = self.ledger.target;
        let scale_shares = self.scale_shares();
        let mut growing = Vec::new();
        for place in self.heard().collect::<Vec<_>>() {
            let line = self.lines[place];
            let share = Share {
                scale_unavailable: scale_shares.as_ref().map(|it| it[place]),
                ..self.share(place, &line)
            };
            let stands_still = self.ledger.paused().is_some();
            let row = &mut self.ledger.rows[place];
            let never_given = row.share.seq == 0 && share.replicas == 0 && !row.counted;
            if never_given || (row.share.seq > 0 && row.share.asks_the_same(&share)) {
                row.moving = line.starting;
                continue;
            }
            let before = row.share;
            if share.replicas > before.replicas
                || share.updated > before.updated
                || share.unavailable > before.unavailable
                || share.surge > before.surge
            {
                growing.push(place);
            }
            row.write(
                Share { seq: before.seq, ..share },
                target,
                line.starting.min(share.replicas) + line.grown,
            );
            if stands_still && share.paused && !before.paused && before.seq > 0 {
                self.decide(place, Why::Stopped);
            }
            if (share.unavailable, share.surge) != (before.unavailable, before.surge) {
                let to = self.budget_use(place, &before);
                let Share { unavailable, surge, .. } = share;
                self.decide(place, Why::Budget { unavailable, surge, to });
            }
        }
        self.into_plan(&growing)
    }

    pub(super) fn into_plan(self, growing: &[usize]) -> Plan {
        let homeless = self.homeless();
        // Shares the ledger knows and a crash kept from being written go out with the rest.
        let unwritten = |place: &usize| {
            let row = &self.ledger.rows[*place];
            !row.lost && row.share.seq > 0 && row.share.seq != self.world.clusters[*place].dispatched
        };
        let mut grows = vec![false; self.ledger.rows.len()];
        for place in growing {
            grows[*place] = true;
        }
        let of = |kind: bool| {
            (0..grows.len()).filter({
                let grows = &grows;
                move |it| grows[*it] == kind
            })
        };
        let writes =
            of(false).chain(of(true)).filter(unwritten).map(|it| (it, self.ledger.rows[it].share)).collect();
        Plan {
            writes,
            ledger: self.ledger,
            population: self.population,
            unplaced: self.unplaced,
            homeless,
            decisions: self.decisions,
            conditions: self.conditions,
        }
    }

    fn share(&self, place: usize, line: &Line) -> Share {
        let row = &self.ledger.rows[place];
        let updated = if self.is_unlimited(line) {
            self.all_updated(line)
        } else {
            line.replicas.saturating_sub(line.kept_old)
        };
        Share {
            seq: 0,
            epoch: row.epoch,
            replicas: if self.world.spec.population == Population::Matched { 0 } else { line.replicas },
            updated,
            unavailable: line.unavailable,
            surge: line.surge,
            scale_unavailable: None,
            paused: self.world.spec.paused
                || (line.unavailable == 0 && line.surge == 0)
                || self.is_stopped(place, line),
            body: line.body,
            stable: self.ledger.stable,
            named: if self.may_delete(place, line) {
                self.world.clusters[place].names
            } else {
                row.share.named
            },
        }
    }

    /// Whether a failed gate, or the operator, stops this member.
    ///
    /// One that is through is left alone: the write would only put off its acknowledgement, for the want of which it
    /// would be late as soon as the release goes on, and the gate would fail again without end.
    fn is_stopped(&self, place: usize, line: &Line) -> bool {
        let row = &self.ledger.rows[place];
        let is_well = |it: Report| {
            it.body != self.ledger.target || (it.updated_available >= line.updated && it.failing == 0)
        };
        let is_through = self.left_to_update(place) == 0 && row.report.is_some_and(is_well);
        self.ledger.paused().is_some() && (!is_through || row.share.paused)
    }

    /// Whether a plan may ask this cluster to delete pods. A member without maxSurge needs a share for that (BUD-9).
    pub(super) fn may_delete(&self, place: usize, line: &Line) -> bool {
        !self.world.spec.in_place_only || line.unavailable.max(self.ledger.rows[place].unavailable.grant) > 0
    }

    /// Whether every pod of a cluster may carry its body (REV-12).
    fn is_unlimited(&self, line: &Line) -> bool {
        let withheld = line.body != self.ledger.target;
        let no_limit = withheld || !self.ledger.is_releasing() || self.kept() == 0;
        no_limit && line.kept_old == 0
    }

    /// What "all" is written as. Pods counted by matching come and go between rounds: there it is no number at all.
    pub(super) fn all_updated(&self, line: &Line) -> u32 {
        match self.world.spec.population {
            Population::Granted => line.replicas,
            Population::Matched => u32::MAX,
        }
    }
}

impl Line {
    fn opened(row: &Row, reach: Reach) -> Self {
        Self {
            reach,
            before: row.replicas.grant,
            goal: row.replicas.grant,
            ideal: row.replicas.grant,
            least_move: row.replicas.grant,
            replicas: row.replicas.grant,
            starting: row.moving.min(row.replicas.grant),
            grown: 0,
            updated: row.updated.grant,
            kept_old: 0,
            body: row.share.body,
            demand: Demand::default(),
            unavailable: row.unavailable.grant,
            surge: row.surge.grant,
        }
    }

    /// Replicas that start here and stay, or are still to be placed here.
    pub(super) fn coming(&self) -> i64 {
        i64::from(self.goal.saturating_sub(self.before)) + i64::from(self.starting.min(self.goal))
    }

    /// Replicas that are granted and have been available, after this round.
    pub(super) fn settled(&self) -> i64 {
        i64::from(self.replicas) - i64::from(self.starting) - i64::from(self.grown)
    }
}

/// SC-1: the population is what the members count.
fn count_matched(row: &mut Row) {
    let matched = row.report.map_or(0, |it| it.pods);
    row.replicas.grant = matched;
    row.replicas.exposure = matched;
    row.moving = 0;
}
