//! A hub, its stored ledger and Assignments, and the members, under every fault we could think of.

use scheduling::{
    ledger::{Report, Revision, Row, Share, Taken},
    release::{Decision, PrePullView, Wave},
    round::{Cluster, Ledger, Plan, Rules, Spec, Why, World, plan},
    split::{Mode, Spread, State, WhenShort},
};

use crate::{
    check::{Check, order_does_not_matter},
    dice::Dice,
    member::Member,
    setting::Setting,
};

/// A rule put out of order on purpose, to see that the checks notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    /// The rules as they are.
    Sound,
    /// The first round of a target gives it to every pod of the clusters it admits.
    Floods,
    /// What a shrink of this column frees is used again before the member has acknowledged it.
    Forgets(Forgotten),
    /// Every cluster is given the budgets of all of them together.
    Pools,
    /// Every report acknowledges the newest plan.
    TakesAnyReport,
    /// No wave soaks.
    SkipsSoak,
    /// Agents said to seed do not.
    NeverSeeds,
    /// Pods of a cluster that returned count as available at once.
    TrustsReturned,
    /// A share that was given once is held for ever.
    Hoards,
}

/// A column whose exposure is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forgotten {
    Unavailable,
    Replicas,
    Updated,
    Surge,
}

pub(crate) struct Fleet {
    pub(crate) dice: Dice,
    pub(crate) spec: Spec,
    pub(crate) rules: Rules,
    pub(crate) waves: Vec<Wave>,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) members: Vec<Member>,
    /// What the operator says of each cluster.
    pub(crate) flags: Vec<State>,
    /// Judged lost by the operator.
    pub(crate) given_up: Vec<bool>,
    /// Whether a cluster has not been heard since the hub last crashed.
    pub(crate) unheard: Vec<bool>,
    /// What the hub has in memory, and what it has saved.
    pub(crate) ledger: Ledger,
    pub(crate) saved: Ledger,
    /// Every Assignment written, by cluster; the last is the one that is stored.
    pub(crate) written: Vec<Vec<Share>>,
    /// Revisions whose pods never become available.
    pub(crate) bad: Vec<Revision>,
    pub(crate) faults: bool,
    pub(crate) check: Check,
    pub(crate) writes: u64,
    pub(crate) when_short: WhenShort,
    pub(crate) spread: Vec<Spread>,
    /// Replicas the last round found no room for.
    pub(crate) unplaced: u64,
    pub(crate) uneven: bool,
    pub(crate) in_place: bool,
    pub(crate) mode: Mode,
    pub(crate) some_cannot_seed: bool,
    /// N over the fleet: as asked, or as the last round found it where every cluster has all of it.
    pub(crate) population: u64,
    /// For how many seconds the waves that are open have been done, since nothing became due in them.
    pub(crate) rested: Option<u32>,
    /// Nodes that have the images of the next wave, of ten.
    pulled: u32,
    pub(crate) variant: Variant,
    /// Seconds not yet handed to a round.
    elapsed: u32,
    pub(crate) next_revision: u64,
    pub(crate) rounds: u64,
    /// In which rounds the clusters are also planned in another order.
    pub(crate) turn_every: u64,
    trace: bool,
}

/// What went wrong in a run.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) String);

impl Fleet {
    pub(crate) fn new(seed: u64, setting: &Setting) -> Self {
        let mut fleet = Self {
            dice: Dice::new(seed),
            spec: setting.spec,
            rules: setting.rules,
            waves: setting.waves.clone(),
            clusters: Vec::new(),
            members: Vec::new(),
            flags: Vec::new(),
            given_up: Vec::new(),
            unheard: Vec::new(),
            ledger: Ledger::new(setting.spec.target),
            saved: Ledger::new(setting.spec.target),
            written: Vec::new(),
            bad: Vec::new(),
            faults: true,
            check: Check::new(setting, setting.variant == Variant::Sound),
            writes: 0,
            when_short: setting.when_short,
            spread: setting.spread.clone(),
            uneven: setting.uneven,
            unplaced: 0,
            in_place: setting.in_place,
            mode: setting.mode,
            some_cannot_seed: setting.some_cannot_seed,
            population: 0,
            rested: None,
            pulled: 0,
            variant: setting.variant,
            elapsed: 0,
            next_revision: setting.spec.target.0 + 1,
            rounds: 0,
            turn_every: 32,
            trace: std::env::var_os("FLEET_TRACE").is_some(),
        };
        for _ in 0..setting.clusters {
            fleet.join();
        }
        fleet
    }

    pub(crate) fn log(&self, what: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{}", what());
        }
    }

    /// One thing happens somewhere.
    pub(crate) fn step(&mut self) -> Result<(), Broken> {
        let chance = self.dice.below(100);
        let index = self.dice.below(self.members.len());
        match chance {
            0..22 => self.members[index].reconcile(),
            22..40 => self.pods_become_available(index),
            40..55 => self.read_plan(index),
            55..70 => {
                if self.members[index].online {
                    let bad = &self.bad;
                    self.members[index].report(|it| bad.contains(&it));
                }
            }
            70..85 => self.deliver_report(index),
            _ => self.round()?,
        }
        self.members[index].note_progress();
        if self.trace && chance < 55 {
            let member = &self.members[index];
            let word = if chance < 22 {
                "reconcile"
            } else if chance < 40 {
                "ready"
            } else {
                "read"
            };
            self.log(|| format!("{word} {index} {:?} {:?} {:?}", member.pods, member.share, member.missing));
        }
        let replicas = self.replicas();
        self.check.after_step(&self.spec, replicas, &self.rules, &self.ledger, &mut self.members)
    }

    /// N over the fleet.
    pub(crate) fn replicas(&self) -> u64 {
        if self.mode == Mode::Duplicated { self.population } else { u64::from(self.spec.replicas) }
    }

    fn pods_become_available(&mut self, index: usize) {
        let member = &mut self.members[index];
        for pod in &mut member.pods {
            if !pod.available && !self.bad.contains(&pod.revision) && self.dice.permille(500) {
                pod.available = true;
            }
        }
        member.square_missing();
    }

    fn read_plan(&mut self, index: usize) {
        let member = &mut self.members[index];
        if !member.online {
            return;
        }
        member.known_epoch = member.known_epoch.max(self.ledger.rows[index].epoch);
        let written = &self.written[index];
        // A stale read gives any plan ever written.
        let stale = self.faults && !written.is_empty() && self.dice.permille(200);
        let share = if stale { Some(self.dice.pick(written)) } else { written.last().copied() };
        if let Some(share) = share {
            member.apply(&share);
        }
    }

    fn deliver_report(&mut self, index: usize) {
        let member = &self.members[index];
        if !member.online {
            return;
        }
        // Its heart beats, whether it has something to report or not.
        self.unheard[index] = false;
        if member.outbox.is_empty() || (self.faults && self.dice.permille(100)) {
            return;
        }
        let place = if self.faults { self.dice.below(member.outbox.len()) } else { member.outbox.len() - 1 };
        self.take(index, member.outbox[place]);
    }

    fn take(&mut self, index: usize, report: Report) {
        let target = self.ledger.target;
        let exposure = self.ledger.rows[index].unavailable.exposure;
        let row = &mut self.ledger.rows[index];
        let taken = row.take(report, target);
        match self.variant {
            Variant::TakesAnyReport => row.acknowledged = !row.lost,
            Variant::Hoards => row.unavailable.exposure = exposure.max(row.unavailable.exposure),
            _ => {}
        }
        if let Taken::Refused(why) = taken {
            self.check.refuse(format!("an honest report of cluster {index} was refused: {why}: {report:?}"));
        }
    }

    /// A planning round, which may die after any single write.
    pub(crate) fn round(&mut self) -> Result<(), Broken> {
        for index in 0..self.clusters.len() {
            self.clusters[index].candidate.state = self.state(index);
            self.clusters[index].dispatched = self.written[index].last().map_or(0, |it| it.seq);
            self.clusters[index].stopped &= self.is_lost(index);
            let named = self.clusters[index].names;
            let member = &self.members[index];
            if named != 0 && member.online && !member.pods.iter().any(|it| it.id == named) {
                self.clusters[index].names = 0;
                self.clusters[index].candidate.named_for_deletion = 0;
            }
        }
        self.elapsed += self.dice.below(8) as u32;
        let world = World {
            spec: self.spec,
            rules: self.rules,
            mode: self.mode,
            selects_none: self.selects_none(),
            when_short: self.when_short,
            spread: &self.spread,
            waves: &self.waves,
            after: None,
            pre_download: None,
            pre_pull: Some(PrePullView { pulled: self.pulled, nodes: 10 }),
            clusters: &self.clusters,
            elapsed: self.elapsed,
        };
        let mut plan = plan(&world, &self.ledger).map_err(|it| Broken(it.to_string()))?;
        self.rounds += 1;
        if self.rounds.is_multiple_of(self.turn_every) {
            order_does_not_matter(&world, &self.ledger, &plan)?;
        }
        if self.variant == Variant::Floods && plan.ledger.target != self.ledger.target {
            flood(&mut plan);
        }
        if self.variant == Variant::Pools {
            pool(&mut plan);
        }
        if let (Variant::SkipsSoak, Some(release)) = (self.variant, &mut plan.ledger.release) {
            release.soaked = u32::MAX;
        }
        if self.variant == Variant::TrustsReturned {
            let returned =
                self.ledger.rows.iter().zip(&mut plan.ledger.rows).filter(|it| it.0.lost && !it.1.lost);
            returned.for_each(|it| it.1.moving = 0);
        }
        let elapsed = std::mem::take(&mut self.elapsed);
        self.nothing_moves_without_a_cluster(&plan)?;
        self.unplaced = plan.unplaced;
        self.population = plan.population;
        // A job is made for each wave, and its pulls take their time.
        let begins = |it: &Why| matches!(it, Why::Release(Decision::PrePull(_)));
        let begun = plan.decisions.iter().any(|it| begins(&it.why));
        self.pulled = if begun { 0 } else { (self.pulled + 1).min(10) };
        self.check.homeless = plan.homeless;
        for decision in &plan.decisions {
            let Some(cluster) = &decision.cluster else { continue };
            let place = self.clusters.iter().position(|it| it.candidate.name == *cluster);
            if let (Why::Returned { .. }, Some(place)) = (&decision.why, place) {
                self.members[place].count_as_growing();
            }
        }
        self.check_waves(&plan, elapsed)?;
        self.log(|| {
            let rows: Vec<_> = plan
                .ledger
                .rows
                .iter()
                .map(|it| {
                    format!(
                        "\n   {} r{:?} u{:?} U{:?} S{:?} mov {} {:?}",
                        it.cluster, it.replicas, it.updated, it.unavailable, it.surge, it.moving, it.share
                    )
                })
                .collect();
            format!(
                "round T{} st{} {:?}{}\n   {:?}",
                plan.ledger.target,
                plan.ledger.stable,
                plan.writes.len(),
                rows.concat(),
                plan.conditions
            )
        });
        if plan.ledger != self.saved {
            self.saved = plan.ledger.clone();
        }
        self.ledger = plan.ledger;
        if let Variant::Forgets(column) = self.variant {
            self.forget_exposures(column);
        }
        if !plan.writes.is_empty() && self.crashes() {
            return Ok(());
        }
        for (place, share) in plan.writes {
            self.written[place].push(share);
            self.writes += 1;
            if self.crashes() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn selects_none(&self) -> bool {
        self.flags.iter().all(|it| *it == State::Excluded)
    }

    /// Where the policy selects no cluster, nothing is changed.
    fn nothing_moves_without_a_cluster(&self, plan: &Plan) -> Result<(), Broken> {
        let moved = |(before, after): &(&Row, &Row)| {
            before.share.replicas != after.share.replicas && !before.lost && !after.lost
        };
        let moved = self.ledger.rows.iter().zip(&plan.ledger.rows).find(moved);
        match moved.filter(|_| self.selects_none()) {
            Some((row, _)) => {
                Err(Broken(format!("the policy selects no cluster, and {} changes", row.cluster)))
            }
            None => Ok(()),
        }
    }

    fn forget_exposures(&mut self, column: Forgotten) {
        for row in &mut self.ledger.rows {
            let column = match column {
                Forgotten::Unavailable => &mut row.unavailable,
                Forgotten::Replicas => &mut row.replicas,
                Forgotten::Updated => &mut row.updated,
                Forgotten::Surge => &mut row.surge,
            };
            column.exposure = column.grant;
        }
        self.saved = self.ledger.clone();
    }

    fn crashes(&mut self) -> bool {
        let crashed = self.faults && self.dice.permille(60);
        if crashed {
            self.ledger = self.saved.clone();
            self.elapsed = 0;
            self.unheard.fill(true);
        }
        crashed
    }

    fn state(&self, index: usize) -> State {
        match () {
            () if !self.members[index].online && self.given_up[index] => State::Lost,
            () if !self.members[index].online => State::Offline,
            () if self.is_returning(index) => State::Returning,
            () if self.flags[index] == State::Ready && self.unheard[index] => State::Unconfirmed,
            () => self.flags[index],
        }
    }

    /// From when a lost cluster is heard again until it has acknowledged the first plan of its new epoch.
    fn is_returning(&self, index: usize) -> bool {
        let row = &self.ledger.rows[index];
        let adopted = row.epoch > 0 && row.report.is_some_and(|it| it.epoch == row.epoch);
        self.flags[index] == State::Ready && row.epoch > 0 && (row.lost || !adopted)
    }

    pub(crate) fn is_lost(&self, index: usize) -> bool {
        self.ledger.rows[index].lost
    }
}

/// Grants the target to every pod of the admitted clusters, and lets them update all at once.
fn flood(plan: &mut Plan) {
    let target = plan.ledger.target;
    for (place, row) in plan.ledger.rows.iter_mut().enumerate() {
        if row.lost || !row.admitted || row.share.seq == 0 {
            continue;
        }
        let replicas = row.share.replicas;
        let all =
            Share { body: target, updated: replicas, unavailable: replicas, paused: false, ..row.share };
        row.write(all, target, row.moving);
        plan.writes.retain(|it| it.0 != place);
        plan.writes.push((place, row.share));
    }
}

/// Grants every cluster the budgets of all.
fn pool(plan: &mut Plan) {
    let target = plan.ledger.target;
    let clusters = plan.ledger.rows.len() as u32;
    for (place, share) in &mut plan.writes {
        let row = &mut plan.ledger.rows[*place];
        let (unavailable, surge) = (share.unavailable * clusters, share.surge * clusters);
        row.write(Share { seq: share.seq - 1, unavailable, surge, ..*share }, target, row.moving);
        row.share.seq = share.seq;
        *share = row.share;
    }
}
