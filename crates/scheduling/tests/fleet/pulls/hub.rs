//! The hub's side of an ImagePullJob: the ledger of slots, the stored status, and what must hold after every step.

use scheduling::{
    names::ClusterName,
    pulls::{self, Completion, Copy, Time},
    round::{SlotCluster, SlotPlan, SlotReach, SlotRow, plan_slots},
};

use super::{
    Fault,
    member::{Node, Order, Puller},
};
use crate::{dice::Dice, fleet::Broken};

/// What the hub keeps of one job; a crash goes back to what was saved.
#[derive(Debug, Clone, Default)]
struct Kept {
    rows: Vec<SlotRow>,
    /// The last status of every copy.
    copies: Vec<(ClusterName, Copy)>,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) dice: Dice,
    pub(super) parallelism: u32,
    pub(super) pullers: Vec<Puller>,
    completion: Completion,
    fault: Fault,
    faults: bool,
    /// Seconds since the job's start.
    now: u64,
    kept: Kept,
    saved: Kept,
    /// Every plan written, by cluster; the last is the one that is stored.
    written: Vec<Vec<Order>>,
    /// Copies that are to be removed.
    removals: Vec<usize>,
    completed_at: Option<u64>,
    /// What may run: the parallelism, or what was granted before it was lowered.
    limit: u64,
}

impl Job {
    pub(super) fn new(mut dice: Dice, completion: Completion, fault: Fault) -> Self {
        let (clusters, parallelism) = (dice.between(1, 6), dice.between(0, 6));
        let mut job = Self {
            dice,
            parallelism,
            pullers: Vec::new(),
            completion,
            fault,
            faults: true,
            now: 0,
            kept: Kept::default(),
            saved: Kept::default(),
            written: Vec::new(),
            removals: Vec::new(),
            completed_at: None,
            limit: u64::from(parallelism),
        };
        for _ in 0..clusters {
            job.join();
        }
        job
    }

    /// A cluster joins and is served, unless the job is over (IPJ-5).
    pub(super) fn join(&mut self) {
        if !self.completion.takes_newcomers(self.completed_at.is_some()) {
            return;
        }
        let nodes = self.dice.between(0, 12) as usize;
        let name = ClusterName::from(format!("c{}", self.pullers.len()));
        let mut puller = Puller::new(nodes, self.completion == Completion::Never);
        puller.never_ends &= self.fault != Fault::EndsNever;
        self.pullers.push(puller);
        self.written.push(Vec::new());
        for kept in [&mut self.kept, &mut self.saved] {
            kept.rows.push(SlotRow::new(name.clone()));
            // How many nodes a cluster has is known before it says anything about the job.
            kept.copies.push((name.clone(), Copy { desired: nodes as u32, ..Copy::default() }));
        }
    }

    /// A cluster that is not heard is judged lost; one that is lost and heard again is taken back.
    pub(super) fn give_up(&mut self, index: usize) {
        let live = self.pullers.iter().filter(|it| !it.gone).count();
        let puller = &mut self.pullers[index];
        if !puller.online && live > 1 {
            puller.gone = true;
        } else if puller.online && puller.gone {
            puller.gone = false;
            // What it was granted before it was lost comes on top, until it is acknowledged gone.
            self.limit = self.limit.max(self.held());
        }
    }

    /// The hub starts anew: what it had not saved is forgotten.
    pub(super) fn restart(&mut self) {
        self.kept = self.saved.clone();
    }

    /// Faults stop, and the last of the lost come back.
    pub(super) fn calm_down(&mut self) {
        self.faults = false;
        self.parallelism = self.parallelism.max(1);
        for index in 0..self.pullers.len() {
            self.pullers[index].online = true;
            self.give_up(index);
        }
    }

    /// One thing happens somewhere.
    pub(super) fn step(&mut self) -> Result<(), Broken> {
        self.now += self.dice.below(2) as u64;
        let index = self.dice.below(self.pullers.len());
        let linked = self.pullers[index].online && !self.pullers[index].gone;
        match self.dice.below(100) {
            0..25 => self.pullers[index].reconcile(self.now),
            25..40 => self.pullers[index].finish_one(&mut self.dice),
            40..55 if linked => self.read(index)?,
            55..70 if linked => self.pullers[index].report(),
            70..85 if linked => self.deliver(index),
            85..100 => self.round(),
            _ => {}
        }
        self.check()
    }

    fn read(&mut self, index: usize) -> Result<(), Broken> {
        if self.removals.contains(&index) && !self.pullers[index].removed {
            return self.remove(index);
        }
        let written = &self.written[index];
        if written.is_empty() {
            return Ok(());
        }
        let stale = self.faults && self.dice.permille(200);
        let order = if stale { self.dice.pick(written) } else { written[written.len() - 1] };
        self.pullers[index].apply(order, self.now);
        Ok(())
    }

    /// IPJ-2: when a copy goes, the hub has its last word.
    fn remove(&mut self, index: usize) -> Result<(), Broken> {
        let (stored, truth) = (&self.saved.copies[index].1, self.pullers[index].copy());
        self.pullers[index].removed = true;
        if *stored != truth || !truth.is_final {
            return Err(Broken(format!("copy {index} removed as {truth:?}, stored is {stored:?}")));
        }
        Ok(())
    }

    fn deliver(&mut self, index: usize) {
        let outbox = &self.pullers[index].outbox;
        if outbox.is_empty() || (self.faults && self.dice.permille(100)) {
            return;
        }
        let place = if self.faults { self.dice.below(outbox.len()) } else { outbox.len() - 1 };
        let word = &outbox[place];
        let before = self.kept.rows[index].report;
        self.kept.rows[index].take(word.slots);
        if self.kept.rows[index].report != before {
            self.kept.copies[index].1 = word.copy.clone();
        }
    }

    fn slot_cluster(&self, index: usize, time: Time) -> SlotCluster {
        let puller = &self.pullers[index];
        let reach = match () {
            () if puller.gone || time == Time::Over => SlotReach::Lost,
            () if puller.online => SlotReach::Heard,
            () if self.fault == Fault::FreesOffline => SlotReach::Lost,
            () => SlotReach::Offline,
        };
        SlotCluster { rank: index as u64, reach, nodes: self.kept.copies[index].1.desired }
    }

    /// A planning round, which may die after any single write.
    fn round(&mut self) {
        let time = self.completion.time_left(self.now as u32);
        let clusters: Vec<SlotCluster> =
            (0..self.pullers.len()).map(|it| self.slot_cluster(it, time)).collect();
        let planned = plan_slots(self.parallelism, &clusters, &self.kept.rows);
        let SlotPlan { rows, written: changed, .. } = planned.expect("one row per cluster");
        self.kept.rows = rows;
        if self.fault == Fault::ForgetsExposure {
            for row in &mut self.kept.rows {
                row.slots.exposure = row.slots.grant;
            }
        }
        for (puller, copy) in self.pullers.iter().zip(&mut self.kept.copies) {
            copy.1.is_lost = puller.gone;
        }
        self.saved = self.kept.clone();
        self.note_completion();
        // What a crash kept from being written is written now, as is what is left of the time where nothing began.
        let unwritten = (0..clusters.len()).filter(|it| {
            let row = &self.kept.rows[*it];
            let last = self.written[*it].last();
            let begun = row.report.is_some_and(|it| it.seq > 0);
            let stale = last.is_some_and(|last| !begun && last.seconds != seconds(time));
            // A cluster that was never reached is told at least that it is too late.
            let missed = last.is_none() && time == Time::Over;
            !changed.contains(it) && (row.seq > last.map_or(0, |it| it.seq) || stale || missed)
        });
        let places: Vec<usize> = unwritten.chain(changed.iter().copied()).collect();
        for place in places {
            if self.faults && self.dice.permille(60) {
                self.kept = self.saved.clone();
                return;
            }
            self.write(place, time);
        }
    }

    fn write(&mut self, place: usize, time: Time) {
        let row = &self.kept.rows[place];
        let whole = match self.completion {
            Completion::Always { deadline, .. } if self.fault == Fault::GivesFullTime => deadline,
            _ => seconds(time),
        };
        // Nothing is started any more where the time is over (IPJ-3).
        let slots = if time == Time::Over { 0 } else { row.slots.grant };
        let order = Order { seq: row.seq, slots, seconds: whole, written_at: self.now };
        self.written[place].push(order);
    }

    /// IPJ-4 and IPJ-2: when the job is over, and which copies go.
    fn note_completion(&mut self) {
        if pulls::total(&self.completion, &self.saved.copies).is_complete {
            self.completed_at.get_or_insert(self.now);
        }
        let over_for = self.completed_at.map(|it| (self.now - it) as u32);
        self.removals = match self.fault {
            Fault::RemovesUnfinished if self.completion.is_outlived(Some(self.now as u32)) => {
                (0..self.pullers.len()).collect()
            }
            _ => pulls::removable(&self.completion, over_for, &self.saved.copies),
        };
    }

    /// Slots that may be in use by the ledger.
    fn held(&self) -> u64 {
        let live = self.pullers.iter().zip(&self.kept.rows).filter(|(it, _)| !it.gone);
        live.map(|(_, row)| u64::from(row.slots.exposure)).sum()
    }

    fn check(&mut self) -> Result<(), Broken> {
        self.limit = u64::from(self.parallelism).max(self.limit.min(self.held()));
        let live = || self.pullers.iter().zip(&self.kept.rows).filter(|(it, _)| !it.gone);
        let active: u64 = live().map(|(it, _)| u64::from(it.count(Node::Pulling))).sum();
        if active > self.limit {
            return Err(Broken(format!(
                "{active} pulls at a time > {} (parallelism {})",
                self.limit, self.parallelism
            )));
        }
        for (puller, row) in live().filter(|_| self.fault == Fault::None) {
            let slots = puller.running.map_or(0, |it| it.order.slots);
            let truth = slots.max(puller.count(Node::Pulling));
            if truth > row.slots.exposure && !puller.removed && !puller.ended {
                let known = row.slots.exposure;
                return Err(Broken(format!("{}: {truth} slots, the ledger knows {known}", row.cluster)));
            }
        }
        self.check_time()
    }

    /// IPJ-3: a pull that is begun ends with the fleet's deadline, but for what the plan was under way.
    fn check_time(&self) -> Result<(), Broken> {
        let Completion::Always { deadline: Some(deadline), .. } = self.completion else { return Ok(()) };
        for (index, puller) in self.pullers.iter().enumerate() {
            let Some(running) = puller.running else { continue };
            // One that is made too late ends with that.
            let last = (u64::from(deadline) + running.late_by).max(running.made_at);
            if running.ends_at.is_none_or(|it| it > last) {
                return Err(Broken(format!("copy {index} runs until {:?}, time is {last}", running.ends_at)));
            }
        }
        Ok(())
    }

    /// Whether all is served, and for a job that ends, known and tidied up.
    pub(super) fn is_at_rest(&self) -> bool {
        let served = self.pullers.iter().all(Puller::is_served);
        let known = self.pullers.iter().zip(&self.saved.copies).all(|(it, kept)| it.copy() == kept.1);
        let tidy = match self.completion {
            Completion::Always { ttl: Some(_), .. } => self.pullers.iter().all(|it| it.removed),
            Completion::Always { ttl: None, .. } => self.completed_at.is_some(),
            Completion::Never => true,
        };
        served && known && tidy
    }

    /// IPJ-4: the sums are those of all nodes, and a job that never ends is not over.
    pub(super) fn check_end(&self) -> Result<(), Broken> {
        let totals = pulls::total(&self.completion, &self.saved.copies);
        let nodes = |of: Node| self.pullers.iter().map(|it| u64::from(it.count(of))).sum::<u64>();
        let sums = (totals.active, totals.succeeded, totals.failed);
        let listed = totals.failed_nodes.len() as u64 + totals.unlisted;
        let ends = self.completion != Completion::Never;
        if sums == (0, nodes(Node::Done), nodes(Node::Failed))
            && totals.desired == totals.succeeded + totals.failed
            && listed == totals.failed
            && (totals.is_complete, self.completed_at.is_some()) == (ends, ends)
        {
            return Ok(());
        }
        Err(Broken(format!("the sums are not those of the nodes: {totals:?}")))
    }
}

fn seconds(time: Time) -> Option<u32> {
    match time {
        Time::Unlimited => None,
        Time::Left(seconds) => Some(seconds),
        Time::Over => Some(0),
    }
}
