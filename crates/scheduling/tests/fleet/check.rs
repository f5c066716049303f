//! What must hold after every single step of a run (section 28).

use std::collections::BTreeMap;

use scheduling::{
    round::{Ledger, Numbers, Plan, Rules, Spec, World, plan},
    split::Mode,
};

use crate::{
    each::{Each, times},
    fleet::Broken,
    member::Member,
    setting::Setting,
};

/// Limits in force. After a limit was lowered, what was granted before may stay until it is acknowledged gone.
#[derive(Debug)]
pub(crate) struct Check {
    /// Pods of the target.
    updated: u64,
    target: u64,
    /// G at the last step.
    asked: u64,
    /// Pods of earlier targets there could be, by the ledger at the last step.
    kept: BTreeMap<u64, u64>,
    /// Whether more pods than G may stay updated: G fell, or the target was there before.
    pub(crate) may_be_over: bool,
    /// N over the fleet.
    wanted: u64,
    /// Replicas granted.
    replicas: u64,
    /// Pods above them.
    surge: u64,
    /// Pods taken down on purpose.
    down: u64,
    /// How far below the settled level availability may be.
    deep: u64,
    /// Replicas starting by growth, where the object limits them.
    starting: u64,
    /// Replicas that have been available at a time.
    settled: u64,
    /// Replicas that have no place and do not run, by the last round.
    pub(crate) homeless: u64,
    /// Whether every cluster has all replicas: what one has too many makes up for no other's lack (SPLIT-6).
    each_has_all: bool,
    /// N of each cluster at the last step, where that is so.
    asked_of_each: u32,
    /// Whether the ledger itself is checked too, not only what comes of it.
    looks_inside: bool,
    /// Where every cluster has the numbers for itself.
    pub(crate) each: Each,
    lost: Vec<bool>,
    refused: Option<String>,
}

const NO_LIMIT: u64 = u64::MAX;

impl Check {
    pub(crate) fn new(setting: &Setting, looks_inside: bool) -> Self {
        let Setting { spec, rules, .. } = setting;
        Self {
            each_has_all: setting.mode == Mode::Duplicated,
            updated: NO_LIMIT,
            target: spec.target.0,
            asked: NO_LIMIT,
            kept: BTreeMap::new(),
            may_be_over: false,
            wanted: u64::from(spec.replicas),
            replicas: u64::from(spec.replicas + rules.move_surge),
            surge: u64::from(spec.surge),
            down: u64::from(spec.unavailable),
            deep: u64::from(spec.unavailable.max(rules.move_unavailable)),
            starting: 0,
            settled: 0,
            homeless: 0,
            asked_of_each: 0,
            looks_inside,
            each: Each::default(),
            lost: Vec::new(),
            refused: None,
        }
    }

    /// Something was refused that must not be.
    pub(crate) fn refuse(&mut self, why: String) {
        self.refused = Some(why);
    }

    pub(crate) fn after_step(
        &mut self,
        spec: &Spec,
        replicas: u64,
        rules: &Rules,
        ledger: &Ledger,
        members: &mut [Member],
    ) -> Result<(), Broken> {
        self.wanted = replicas;
        if let Some(why) = self.refused.take() {
            return Err(Broken(why));
        }
        self.note_losses(ledger, members);
        if self.looks_inside {
            exposures_cover_the_truth(ledger, members)?;
        }
        if spec.numbers == Numbers::PerCluster {
            self.each.after_step(spec, ledger, members)?;
        } else {
            self.canary(spec, ledger, members)?;
            self.starting(spec, ledger)?;
        }
        self.flood(spec, rules, ledger, members)?;
        self.availability(spec, rules, ledger, members)
    }

    /// The pods of a lost cluster no longer count in the settled level.
    fn note_losses(&mut self, ledger: &Ledger, members: &[Member]) {
        self.lost.resize(members.len(), false);
        for (index, row) in ledger.rows.iter().enumerate() {
            if row.lost && !self.lost[index] {
                self.settled = self.settled.saturating_sub(u64::from(members[index].share.replicas));
            }
            self.lost[index] = row.lost;
        }
    }

    /// Updated pods, lost clusters included, never above G. A pod on its way out, whose successor is there already, is
    /// not counted: one cluster makes that successor too.
    fn canary(&mut self, spec: &Spec, ledger: &Ledger, members: &[Member]) -> Result<(), Broken> {
        let limited = ledger.target != ledger.stable && spec.partition > 0 && ledger.rolled_back.is_none();
        let asked = if limited { self.wanted.saturating_sub(spec.partition) } else { NO_LIMIT };
        if self.target != ledger.target.0 {
            self.target = ledger.target.0;
            // What a round grants in one go with a new target gives it no right to more: only what could be there before.
            self.updated = self.kept.get(&self.target).copied().unwrap_or(0);
            self.may_be_over = self.updated > asked;
        } else if asked < self.asked {
            self.may_be_over = true;
        }
        self.asked = asked;
        let exposed = ledger.rows.iter().map(|it| u64::from(it.updated.exposure)).sum();
        self.updated = asked.max(self.updated.min(exposed));
        self.kept = kept_per_target(ledger);
        let updated: u64 = members.iter().map(|it| u64::from(it.staying(ledger.target))).sum();
        if limited && updated > self.updated {
            return Err(Broken(format!("updated {updated} > {} (G = {asked})", self.updated)));
        }
        Ok(())
    }

    /// Pods alive never above N + S + M + D.
    fn flood(
        &mut self,
        spec: &Spec,
        rules: &Rules,
        ledger: &Ledger,
        members: &[Member],
    ) -> Result<(), Broken> {
        let lost: u64 =
            ledger.rows.iter().filter(|it| it.lost).map(|it| u64::from(it.replicas.exposure)).sum();
        let overlap = lost * u64::from(rules.max_overlap) / 100;
        let asked = self.wanted + u64::from(rules.move_surge) + overlap;
        let granted = ledger.rows.iter().map(|it| u64::from(it.replicas.exposure)).sum();
        self.replicas = asked.max(self.replicas.min(granted));
        let extra = ledger.rows.iter().map(|it| u64::from(it.surge.exposure)).sum();
        let surge = u64::from(spec.surge) * times(spec, members.len());
        self.surge = surge.max(self.surge.min(extra));
        let alive: u64 = members.iter().map(|it| it.pods.len() as u64).sum();
        if alive > self.replicas + self.surge {
            let most = format!("{} + {}", self.replicas, self.surge);
            return Err(Broken(format!("alive {alive} > {most} (N + M + D = {asked}, S = {surge})")));
        }
        Ok(())
    }

    /// Growth never has more replicas starting than scaleStrategy.maxUnavailable (BUD-10). A returned cluster brings its own.
    fn starting(&mut self, spec: &Spec, ledger: &Ledger) -> Result<(), Broken> {
        let starting: u64 = ledger.rows.iter().map(|it| u64::from(it.moving)).sum();
        let limit = spec.scale_unavailable.map_or(NO_LIMIT, u64::from);
        let back = ledger.rows.iter().any(|it| it.epoch > 0);
        if starting > limit.max(self.starting) && !back {
            return Err(Broken(format!("{starting} replicas are starting > {limit}")));
        }
        self.starting = starting;
        Ok(())
    }

    /// Pods taken down on purpose never above U, and availability never below the settled level less max(U, B).
    fn availability(
        &mut self,
        spec: &Spec,
        rules: &Rules,
        ledger: &Ledger,
        members: &[Member],
    ) -> Result<(), Broken> {
        let live = || ledger.rows.iter().zip(members).filter(|(row, _)| !row.lost);
        let exposed: u64 = live().map(|(row, _)| u64::from(row.unavailable.exposure)).sum();
        let unavailable = u64::from(spec.unavailable) * times(spec, live().count());
        self.down = unavailable.max(self.down.min(exposed));
        let down: u64 = live().map(|(_, it)| u64::from(it.taken_down())).sum();
        if down > self.down {
            return Err(Broken(format!("taken down {down} > {} (U = {unavailable})", self.down)));
        }

        let replicas: u64 = live().map(|(_, it)| u64::from(it.share.replicas)).sum();
        let growing: u64 = live().map(|(_, it)| u64::from(it.growing())).sum();
        let spare: u64 = live().map(|(_, it)| u64::from(it.spare())).sum();
        let most = if self.each_has_all { spec.replicas } else { u32::MAX };
        let settled: u64 = live().map(|(row, _)| u64::from(row.settled().min(most))).sum();
        let wanted = self.wanted.saturating_sub(self.homeless);
        if self.each_has_all && spec.replicas < self.asked_of_each {
            // Clusters that have not grown yet are no reason for others to keep what the user takes away.
            self.settled = self.settled.min(settled);
        }
        self.asked_of_each = spec.replicas;
        self.settled = self.settled.max(settled).min(wanted);
        let moved_down = u64::from(rules.move_unavailable);
        // Shares that are each cluster's own are there beside what a move takes.
        let asked = match spec.numbers {
            Numbers::Global => unavailable.max(moved_down),
            Numbers::PerCluster => unavailable + moved_down,
        };
        let hole = self.settled.saturating_sub(settled);
        self.deep = asked.max(self.deep.min(exposed + hole));
        if replicas + spare + self.deep < self.settled + growing + down {
            return Err(Broken(format!(
                "availability: replicas {replicas} growing {growing} down {down} spare {spare} < settled {} - {}",
                self.settled, self.deep
            )));
        }
        Ok(())
    }
}

/// Pods of each superseded target that could be there.
fn kept_per_target(ledger: &Ledger) -> BTreeMap<u64, u64> {
    let mut kept = BTreeMap::new();
    for past in ledger.rows.iter().flat_map(|it| &it.past) {
        *kept.entry(past.revision.0).or_insert(0) += u64::from(past.exposure);
    }
    kept
}

/// Nothing a member does goes beyond what the ledger believes possible: the invariant all sums rest on.
fn exposures_cover_the_truth(ledger: &Ledger, members: &[Member]) -> Result<(), Broken> {
    for (row, member) in ledger.rows.iter().zip(members) {
        if !member.exists {
            continue;
        }
        let share = &member.share;
        // A cluster that was given up holds no share of unavailability, and does not act on its plan once it knows.
        let acts = share.epoch >= member.known_epoch;
        let releasing = ledger.target != ledger.stable;
        let checks = [
            ("replicas", if acts { share.replicas } else { 0 }, row.replicas.exposure),
            ("surge", if acts { share.surge } else { 0 }, row.surge.exposure),
            ("pods", member.pods.len() as u32, row.replicas.exposure + row.surge.exposure),
            ("unavailable", if acts && !row.lost { share.unavailable } else { 0 }, row.unavailable.exposure),
            ("updated", if releasing { member.staying(ledger.target) } else { 0 }, row.updated.exposure),
        ];
        for (column, truth, exposure) in checks {
            if truth > exposure {
                return Err(Broken(format!(
                    "{}: {column} is {truth}, the ledger knows {exposure}",
                    row.cluster
                )));
            }
        }
    }
    Ok(())
}

/// The same round with the clusters turned round comes to the same ledger and the same writes.
pub(crate) fn order_does_not_matter(
    world: &World<'_>,
    ledger: &Ledger,
    planned: &Plan,
) -> Result<(), Broken> {
    let by = ledger.rows.len() / 2;
    let (mut clusters, mut turned) = (world.clusters.to_vec(), ledger.clone());
    clusters.reverse();
    clusters.rotate_left(by);
    turned.rows.reverse();
    turned.rows.rotate_left(by);
    let other = plan(&World { clusters: &clusters, ..world.clone() }, &turned);
    let mut other = other.map_err(|it| Broken(it.to_string()))?;
    let writes = |plan: &Plan| {
        let mut writes: Vec<_> =
            plan.writes.iter().map(|it| (plan.ledger.rows[it.0].cluster.clone(), it.1)).collect();
        writes.sort_by(|a, b| a.0.cmp(&b.0));
        writes
    };
    let same_words = other.decisions == planned.decisions && other.conditions == planned.conditions;
    let same_writes = writes(&other) == writes(planned) && same_words;
    other.ledger.rows.rotate_right(by);
    other.ledger.rows.reverse();
    if same_writes && other.ledger == planned.ledger {
        return Ok(());
    }
    Err(Broken(format!(
        "the order of the clusters changes the round: {:?} {:?} or {:?} {:?}",
        planned.ledger, planned.decisions, other.ledger, other.decisions
    )))
}
