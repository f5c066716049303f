//! A SidecarSet over the fleet: pods come and go by themselves, the fleet only says how many may be new (SC-1 to SC-7).

use scheduling::{
    ledger::{Report, Revision, Row, Share},
    names::ClusterName,
    partition::{Seeding, sidecar::member_partition},
    release::Wave,
    round::{Cluster, Ledger, Population, Rules, Spec, World, plan},
    split::{Candidate, Mode, State, WhenShort},
};

use crate::{
    dice::Dice,
    fleet::Broken,
    setting::{rules, spec},
};

#[derive(Debug, Clone, Copy)]
struct Pod {
    revision: Revision,
    available: bool,
    /// Down because we updated it, until it is reset after a hot upgrade.
    ours: bool,
    /// Whether the update's selector takes it (SC-7).
    selected: bool,
}

#[derive(Debug)]
struct Side {
    online: bool,
    exists: bool,
    share: Share,
    observed: bool,
    pods: Vec<Pod>,
    incarnation: u64,
    number: u64,
    outbox: Vec<Report>,
}

struct Sides {
    dice: Dice,
    spec: Spec,
    rules: Rules,
    percent: Option<u32>,
    /// How many of a thousand pods the update's selector leaves out.
    unselected: usize,
    sides: Vec<Side>,
    ledger: Ledger,
    saved: Ledger,
    written: Vec<Vec<Share>>,
    faults: bool,
    /// Pods that may be down on purpose.
    limit: u64,
    /// The largest G a round of the present target went by.
    most_asked: u64,
    /// Pods that came with the present target.
    born: u64,
    writes: u64,
    waves: Vec<Wave>,
    ledgers: Ledgers,
}

/// Whether the hub's ledger keeps what it must.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ledgers {
    /// It does.
    Keep,
    /// What a shrink of a share frees is used again before the member has acknowledged it.
    Forget,
}

/// Runs one seed to rest.
pub(crate) fn run(seed: u64, ledgers: Ledgers) -> Result<(), Broken> {
    let mut fleet = Sides::new(seed);
    fleet.ledgers = ledgers;
    for _ in 0..fleet.dice.between(100, 400) {
        fleet.edit();
        fleet.step()?;
    }
    fleet.faults = false;
    for side in &mut fleet.sides {
        side.online = true;
    }
    fleet.spec.paused = false;
    let (mut quiet, mut writes) = (0, fleet.writes);
    for turn in 0..8_000 {
        fleet.step()?;
        if turn % 20 == 19 {
            quiet = if fleet.is_exact() && fleet.writes == writes { quiet + 1 } else { 0 };
            writes = fleet.writes;
            if quiet > 10 {
                return Ok(());
            }
        }
    }
    Err(Broken(format!(
        "never exact: {:?} {:?}\n{:?}\n{:?}",
        fleet.spec, fleet.percent, fleet.ledger, fleet.sides
    )))
}

impl Sides {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut spec = spec();
        spec.population = Population::Matched;
        spec.unavailable = dice.between(1, 3);
        let clusters = dice.between(1, 5) as usize;
        let rows: Vec<Row> =
            (0..clusters).map(|it| Row::counted(ClusterName::from(format!("c{it}")))).collect();
        let ledger = Ledger { rows, ..Ledger::new(spec.target) };
        let unselected = dice.pick(&[0, 0, 0, 400]);
        let pod = |dice: &mut Dice| Pod {
            revision: spec.target,
            available: true,
            ours: false,
            selected: !dice.permille(unselected),
        };
        let side = |dice: &mut Dice| Side {
            online: true,
            exists: false,
            share: Share::default(),
            observed: false,
            pods: (0..dice.below(8)).map(|_| pod(dice)).collect(),
            incarnation: 1,
            number: 0,
            outbox: Vec::new(),
        };
        let mut waves = Vec::new();
        if dice.permille(300) {
            waves = vec![Wave { soak: dice.pick(&[0, 5]), ..Wave::named("first") }, Wave::named("second")];
        }
        Self {
            sides: (0..clusters).map(|_| side(&mut dice)).collect(),
            rules: rules(),
            percent: None,
            unselected,
            saved: ledger.clone(),
            ledger,
            written: vec![Vec::new(); clusters],
            faults: true,
            limit: u64::from(spec.unavailable),
            most_asked: 0,
            born: 0,
            writes: 0,
            waves,
            ledgers: Ledgers::Keep,
            spec,
            dice,
        }
    }

    fn edit(&mut self) {
        let index = self.dice.below(self.sides.len());
        match self.dice.below(100) {
            0..2 => self.sides[index].online ^= true,
            2..6 => self.come_and_go(index),
            6 if self.ledger.target == self.ledger.stable => {
                self.spec.target = Revision(self.spec.target.0 + 1);
                (self.most_asked, self.born) = (0, 0);
                self.repartition();
            }
            7 => self.repartition(),
            8 => self.spec.unavailable = self.dice.between(1, 3),
            9 => self.spec.paused ^= true,
            11 if self.dice.permille(300) => {
                self.unselected = 0;
                self.sides.iter_mut().flat_map(|it| &mut it.pods).for_each(|it| it.selected = true);
            }
            10 => {
                self.sides[index].incarnation += 1;
                self.sides[index].number = 0;
            }
            _ => {}
        }
    }

    fn repartition(&mut self) {
        self.percent = Some(self.dice.between(0, 100));
    }

    /// Pods matched by the SidecarSet are made and deleted by others. New ones get what the member injects.
    fn come_and_go(&mut self, index: usize) {
        let side = &mut self.sides[index];
        if self.dice.permille(600) {
            let revision = if side.exists { side.share.body } else { Revision(1) };
            self.born += u64::from(revision == self.spec.target);
            let selected = !self.dice.permille(self.unselected);
            side.pods.push(Pod { revision, available: true, ours: false, selected });
        } else if !side.pods.is_empty() {
            side.pods.swap_remove(self.dice.below(side.pods.len()));
        }
    }

    fn step(&mut self) -> Result<(), Broken> {
        let index = self.dice.below(self.sides.len());
        match self.dice.below(100) {
            0..22 => self.sides[index].reconcile(),
            22..40 => {
                for pod in self.sides[index].pods.iter_mut().filter(|it| !it.available) {
                    if self.dice.permille(500) {
                        (pod.available, pod.ours) = (true, false);
                    }
                }
            }
            40..55 => self.read(index),
            55..70 => self.sides[index].report(),
            70..85 => self.deliver(index),
            _ => self.round(),
        }
        let held: u64 = self.ledger.rows.iter().map(|it| u64::from(it.unavailable.exposure)).sum();
        self.limit = u64::from(self.spec.unavailable).max(self.limit.min(held));
        let down = self.sides.iter().flat_map(|it| &it.pods).filter(|it| it.ours).count() as u64;
        if down > self.limit {
            return Err(Broken(format!(
                "taken down {down} > {} (U = {})",
                self.limit, self.spec.unavailable
            )));
        }
        Ok(())
    }

    fn read(&mut self, index: usize) {
        let side = &mut self.sides[index];
        let written = &self.written[index];
        if !side.online || written.is_empty() {
            return;
        }
        let stale = self.faults && self.dice.permille(200);
        let share = if stale { self.dice.pick(written) } else { written[written.len() - 1] };
        if !side.exists || share.seq > side.share.seq {
            (side.exists, side.observed, side.share) = (true, false, share);
        }
    }

    fn deliver(&mut self, index: usize) {
        let side = &self.sides[index];
        if !side.online || side.outbox.is_empty() || (self.faults && self.dice.permille(100)) {
            return;
        }
        let place = if self.faults { self.dice.below(side.outbox.len()) } else { side.outbox.len() - 1 };
        let target = self.ledger.target;
        self.ledger.rows[index].take(side.outbox[place], target);
    }

    fn round(&mut self) {
        let matched: u64 =
            self.ledger.rows.iter().filter_map(|it| it.report).map(|it| u64::from(it.pods)).sum();
        self.spec.partition = self.partition(matched);
        self.most_asked = self.most_asked.max(matched - self.spec.partition);
        let clusters: Vec<Cluster> = (0..self.sides.len())
            .map(|it| {
                let mut candidate = Candidate::new(format!("c{it}"), it as u64);
                candidate.state = if self.sides[it].online { State::Ready } else { State::Offline };
                Cluster {
                    candidate,
                    wave: it % 2,
                    order: 0,
                    seeding: Seeding::Able,
                    names: 0,
                    dispatched: self.written[it].last().map_or(0, |it| it.seq),
                    stopped: false,
                    moves_stateful: false,
                }
            })
            .collect();
        let world = World {
            spec: self.spec,
            rules: self.rules,
            mode: Mode::Divided,
            selects_none: false,
            when_short: WhenShort::Overcommit,
            spread: &[],
            waves: &self.waves,
            after: None,
            pre_download: None,
            pre_pull: None,
            clusters: &clusters,
            elapsed: 1,
        };
        let mut plan = plan(&world, &self.ledger).expect("one row per cluster");
        if self.ledgers == Ledgers::Forget {
            plan.ledger.rows.iter_mut().for_each(|it| it.unavailable.exposure = it.unavailable.grant);
        }
        self.saved = plan.ledger.clone();
        self.ledger = plan.ledger;
        for (place, share) in plan.writes {
            if self.faults && self.dice.permille(60) {
                self.ledger = self.saved.clone();
                return;
            }
            self.written[place].push(share);
            self.writes += 1;
        }
    }

    /// P on the matched pods: percent rounds up, and all of several pods stay old only for exactly 100%.
    fn partition(&self, matched: u64) -> u64 {
        let Some(percent) = self.percent else { return 0 };
        let kept = (matched * u64::from(percent)).div_ceil(100);
        if kept == matched && matched > 1 && percent != 100 { matched - 1 } else { kept }
    }

    fn is_exact(&self) -> bool {
        let pods = || self.sides.iter().flat_map(|it| &it.pods);
        let matched = pods().count() as u64;
        let updated = pods().filter(|it| it.revision == self.ledger.target).count() as u64;
        // Pods that are old and not selected stay so.
        let reachable = pods().filter(|it| it.selected || it.revision == self.ledger.target).count() as u64;
        let asked = (matched - self.partition(matched)).min(reachable);
        // Pods that were made with the new sidecar, or updated before the partition was raised, stay new.
        let over = updated > asked && updated <= self.most_asked + self.born;
        let exact = self.ledger.target == self.ledger.stable || updated == asked || over;
        self.ledger.target == self.spec.target && exact && pods().all(|it| it.available)
    }
}

impl Side {
    /// The SidecarSet controller updates in place, deletes nothing, and knows no surge.
    fn reconcile(&mut self) {
        if !self.exists {
            return;
        }
        self.observed = true;
        if self.share.paused || self.share.unavailable == 0 {
            return;
        }
        let body = self.share.body;
        let reachable = self.pods.iter().filter(|it| it.selected || it.revision == body).count() as u32;
        let kept = member_partition(reachable, self.share.updated);
        let old = self.pods.iter().filter(|it| it.selected && it.revision != body).count() as u32;
        let down = self.pods.iter().filter(|it| !it.available).count() as u32;
        let mut left = old.saturating_sub(kept);
        let mut room = self.share.unavailable.saturating_sub(down);
        for pod in self.pods.iter_mut().filter(|it| it.selected && it.revision != body) {
            if left == 0 || (pod.available && room == 0) {
                break;
            }
            left -= 1;
            pod.revision = self.share.body;
            if pod.available {
                room -= 1;
                (pod.available, pod.ours) = (false, true);
            }
        }
    }

    fn report(&mut self) {
        if !self.online {
            return;
        }
        self.number += 1;
        let count = |it: &dyn Fn(&Pod) -> bool| self.pods.iter().filter(|pod| it(pod)).count() as u32;
        let (body, stable) = (self.share.body, self.share.stable);
        self.outbox.push(Report {
            incarnation: self.incarnation,
            number: self.number,
            seq: self.share.seq,
            observed: self.observed,
            replicas: self.pods.len() as u32,
            body,
            stable,
            pods: self.pods.len() as u32,
            available: count(&|it| it.available),
            updated: count(&|it| it.revision == body),
            updated_available: count(&|it| it.available && it.revision == body),
            at_stable: count(&|it| it.revision == stable),
            neither_unavailable: count(&|it| !it.available && it.revision != body && it.revision != stable),
            unselected: count(&|it| !it.selected),
            unselected_updated: count(&|it| !it.selected && it.revision == body),
            ..Report::default()
        });
        if self.outbox.len() > 4 {
            self.outbox.remove(0);
        }
    }
}
