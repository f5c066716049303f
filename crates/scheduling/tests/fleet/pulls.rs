//! Image pulls over the fleet: never more at a time than the job allows (IPJ-1), and in the end all are done.

use scheduling::{
    names::ClusterName,
    round::{SlotCluster, SlotReach, SlotReport, SlotRow, plan_slots},
};

use crate::{dice::Dice, fleet::Broken};

#[derive(Debug, Default)]
struct Puller {
    online: bool,
    gone: bool,
    seq: u64,
    slots: u32,
    observed: bool,
    active: u32,
    waiting: u32,
    incarnation: u64,
    number: u64,
    outbox: Vec<SlotReport>,
}

struct Job {
    dice: Dice,
    parallelism: u32,
    /// What may run: the parallelism, or what was granted before it was lowered.
    limit: u64,
    pullers: Vec<Puller>,
    rows: Vec<SlotRow>,
    saved: Vec<SlotRow>,
    written: Vec<Vec<(u64, u32)>>,
    nodes: Vec<u32>,
    faults: bool,
}

/// Runs one seed; true if the fault of using slots before they are acknowledged free is built in.
pub(crate) fn run(seed: u64, forgets: bool) -> Result<(), Broken> {
    let mut job = Job::new(seed);
    for _ in 0..job.dice.between(100, 400) {
        job.edit();
        job.step(forgets)?;
    }
    job.faults = false;
    job.parallelism = job.parallelism.max(1);
    for it in job.pullers.iter_mut().filter(|it| !it.gone) {
        it.online = true;
    }
    for _ in 0..20_000 {
        job.step(forgets)?;
        if job.pullers.iter().all(|it| it.gone || it.active + it.waiting == 0) {
            return Ok(());
        }
    }
    Err(Broken(format!("pulls never end: {:?} {:?}", job.rows, job.pullers)))
}

impl Job {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let clusters = dice.between(1, 6) as usize;
        let nodes: Vec<u32> = (0..clusters).map(|_| dice.between(0, 12)).collect();
        let rows: Vec<SlotRow> =
            (0..clusters).map(|it| SlotRow::new(ClusterName::from(format!("c{it}")))).collect();
        let parallelism = dice.between(0, 6);
        Self {
            limit: u64::from(parallelism),
            parallelism,
            pullers: nodes
                .iter()
                .map(|it| Puller { online: true, waiting: *it, ..Puller::default() })
                .collect(),
            saved: rows.clone(),
            rows,
            written: vec![Vec::new(); clusters],
            nodes,
            faults: true,
            dice,
        }
    }

    fn edit(&mut self) {
        let index = self.dice.below(self.pullers.len());
        match self.dice.below(100) {
            0..3 => self.pullers[index].online ^= true,
            3..5 => self.parallelism = self.dice.between(0, 6),
            5 if !self.pullers[index].online && self.pullers.iter().filter(|it| !it.gone).count() > 1 => {
                self.pullers[index].gone = true;
            }
            6 => {
                self.pullers[index].incarnation += 1;
                self.pullers[index].number = 0;
            }
            _ => {}
        }
    }

    fn step(&mut self, forgets: bool) -> Result<(), Broken> {
        let index = self.dice.below(self.pullers.len());
        let chance = self.dice.below(100);
        let puller = &mut self.pullers[index];
        let linked = puller.online && !puller.gone;
        match chance {
            0..20 => {
                puller.observed = true;
                let start = puller.slots.saturating_sub(puller.active).min(puller.waiting);
                puller.active += start;
                puller.waiting -= start;
            }
            20..40 => {
                let done = self.dice.below(puller.active as usize + 1) as u32;
                puller.active -= done;
            }
            40..55 if linked => self.read(index),
            55..70 if linked => self.report(index),
            70..85 if linked => self.deliver(index),
            85..100 => self.round(forgets),
            _ => {}
        }
        self.check()
    }

    fn read(&mut self, index: usize) {
        let written = &self.written[index];
        if written.is_empty() {
            return;
        }
        let stale = self.faults && self.dice.permille(200);
        let (seq, slots) = if stale { self.dice.pick(written) } else { written[written.len() - 1] };
        let puller = &mut self.pullers[index];
        if seq > puller.seq {
            (puller.seq, puller.slots, puller.observed) = (seq, slots, false);
        }
    }

    fn report(&mut self, index: usize) {
        let puller = &mut self.pullers[index];
        puller.number += 1;
        puller.outbox.push(SlotReport {
            incarnation: puller.incarnation,
            number: puller.number,
            seq: puller.seq,
            observed: puller.observed,
            active: puller.active,
            left: puller.active + puller.waiting,
        });
        if puller.outbox.len() > 4 {
            puller.outbox.remove(0);
        }
    }

    fn deliver(&mut self, index: usize) {
        let outbox = &self.pullers[index].outbox;
        if outbox.is_empty() || (self.faults && self.dice.permille(100)) {
            return;
        }
        let place = if self.faults { self.dice.below(outbox.len()) } else { outbox.len() - 1 };
        self.rows[index].take(outbox[place]);
    }

    fn round(&mut self, forgets: bool) {
        let clusters: Vec<SlotCluster> = (0..self.pullers.len())
            .map(|it| SlotCluster {
                rank: it as u64,
                reach: match (self.pullers[it].gone, self.pullers[it].online) {
                    (true, _) => SlotReach::Lost,
                    (_, true) => SlotReach::Heard,
                    _ => SlotReach::Offline,
                },
                nodes: self.nodes[it],
            })
            .collect();
        let (rows, changed) = plan_slots(self.parallelism, &clusters, &self.rows);
        self.rows = rows;
        if forgets {
            for row in &mut self.rows {
                row.slots.exposure = row.slots.grant;
            }
        }
        self.saved = self.rows.clone();
        // What a crash kept from being written is written now.
        let unwritten = (0..self.rows.len()).filter(|it| {
            self.rows[*it].seq > self.written[*it].last().map_or(0, |it| it.0) && !changed.contains(it)
        });
        let order: Vec<usize> = unwritten.chain(changed.iter().copied()).collect();
        for place in order {
            if self.faults && self.dice.permille(60) {
                self.rows = self.saved.clone();
                return;
            }
            self.written[place].push((self.rows[place].seq, self.rows[place].slots.grant));
        }
    }

    fn check(&mut self) -> Result<(), Broken> {
        let held: u64 = (0..self.rows.len())
            .filter(|it| !self.pullers[*it].gone)
            .map(|it| u64::from(self.rows[it].slots.exposure))
            .sum();
        self.limit = u64::from(self.parallelism).max(self.limit.min(held));
        let active: u64 = self.pullers.iter().filter(|it| !it.gone).map(|it| u64::from(it.active)).sum();
        if active > self.limit {
            return Err(Broken(format!(
                "{active} pulls at a time > {} (parallelism {})",
                self.limit, self.parallelism
            )));
        }
        Ok(())
    }
}
