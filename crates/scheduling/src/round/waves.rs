use super::{
    Population, UnknownCountsAs,
    draft::{Draft, Reach},
    reason::{Condition, Why},
};
use crate::release::{self, ClusterView, Decision, Held, OnFailure, Release, View};

impl Draft<'_> {
    /// Takes up a new target (REV-10, REL-8).
    pub(super) fn follow_the_template(&mut self) {
        let asked = self.world.spec.target;
        // A rollback holds until the template is edited again (REL-7).
        if self.ledger.rolled_back != Some(asked) {
            if let Some(other) = self.world.after
                && asked != self.ledger.target
            {
                self.conditions.push(Condition::WaitsFor(other.to_owned()));
                return;
            }
            self.ledger.rolled_back = None;
            if self.ledger.is_releasing() && asked != self.ledger.target {
                self.decide_for_all(Why::Superseded(self.ledger.target));
            }
            self.retarget(asked);
        }
    }

    fn retarget(&mut self, new: crate::ledger::Revision) {
        let old = self.ledger.target;
        if old == new {
            return;
        }
        for row in &mut self.ledger.rows {
            row.retarget(old, new);
        }
        self.ledger.target = new;
        self.ledger.paused = None;
        let with_waves = self.ledger.is_releasing() && !self.world.waves.is_empty();
        self.ledger.release = with_waves.then(|| Release::begin(new, self.world.waves));
    }

    /// Declares the target stable once every cluster runs it (REV-13) and the last wave has passed its gate, soak and
    /// approvals.
    pub(super) fn end_release(&mut self) {
        if self.ledger.paused().is_some() || self.ledger.release.as_ref().is_some_and(|it| !it.is_over()) {
            return;
        }
        // Behind a gate a revision that fails must not become the one to go back to.
        let gated = self.world.rules.gate.can_fail();
        if !self.ledger.is_releasing() || !self.keeps_none_old() || self.live().next().is_none() {
            return;
        }
        let target = self.ledger.target;
        let granted: u64 = self.live().map(|it| u64::from(self.lines[it].before)).sum();
        let finished = self.live().all(|it| {
            let row = &self.ledger.rows[it];
            row.share.seq == 0
                || row.report.is_some_and(|report| {
                    let r = row.replicas.grant;
                    let there = report.body == target && row.share.body == target && report.updated == r;
                    let well = !gated || report.available == r;
                    row.acknowledged && report.pods == r && (there || r == 0) && well
                })
        });
        // Replicas without a place that run all the same are granted where they run.
        if finished && granted + self.homeless() == self.population {
            self.ledger.stable = target;
            self.ledger.release = None;
            for row in &mut self.ledger.rows {
                row.admitted = true;
            }
            self.decide_for_all(Why::Released(target));
        }
    }

    /// REL-11: has images pulled ahead once enough pods of the target are well. Waves have a rule of their own (REL-9).
    pub(super) fn pull_ahead(&mut self) {
        let target = self.ledger.target;
        if !self.ledger.is_releasing() || self.ledger.release.is_some() || self.ledger.rolled_back.is_some() {
            self.ledger.pre_download = None;
            return;
        }
        if self.ledger.pre_download == Some(target) {
            return;
        }
        // What cannot be heard is not counted as ready, here as in the status (ST-1).
        let reports = self.heard().filter_map(|it| self.ledger.rows[it].report);
        let ready =
            reports.filter(|it| it.body == target).map(|it| u64::from(it.updated_available)).sum::<u64>();
        let due = self.world.pre_download.is_some_and(|it| it.is_due(self.population, ready));
        self.ledger.pre_download = due.then_some(target);
        if due {
            self.decide_for_all(Why::PreDownload(target));
        }
    }

    /// Lets the release take its next step, and admits clusters.
    pub(super) fn step_waves(&mut self) {
        // A policy that turned to Proportional ends the waves of the present release (REL-12's way out).
        if self.world.waves.is_empty() {
            self.ledger.release = None;
        }
        // Nobody is planned for, so nobody shows how the release does: a gate would open on what is not looked at.
        if self.world.selects_none {
            return;
        }
        let live: Vec<usize> = self.live().collect();
        let Some(mut release) = self.ledger.release.take() else {
            self.pass_the_gate(&live);
            return;
        };
        let due = self.due();
        self.open_waves_again(&mut release, &due);
        let views: Vec<ClusterView<'_>> = live.iter().map(|it| self.cluster_view(*it, due[*it])).collect();
        let view = View {
            clusters: &views,
            wants_more_clusters: self.wants_more_clusters(&due),
            pre_pull: self.world.pre_pull,
            progress_deadline: self.world.rules.progress_deadline,
            elapsed: self.world.elapsed,
        };
        let done: Vec<bool> = views.iter().map(ClusterView::has_arrived).collect();
        let step = release::next(&release, &view);
        for (place, done) in live.iter().zip(done) {
            // A pause is no delay of the cluster's: its deadline runs anew when the release goes on.
            if done || release.paused.is_some() {
                self.ledger.rows[*place].busy_for = 0;
            }
        }
        for it in step.admit {
            self.ledger.rows[live[it]].admitted = true;
        }
        self.ledger.release = Some(step.release);
        self.decisions.extend(
            step.decisions.into_iter().map(|it| super::Decision { cluster: None, why: Why::Release(it) }),
        );
        if step.roll_back {
            self.roll_back();
        } else if let Some(held) = step.held {
            self.conditions.push(Condition::ReleaseHeld(held));
        }
    }

    /// Without waves every cluster is admitted, and one gate is over all of them (REL-7).
    fn pass_the_gate(&mut self, live: &[usize]) {
        let releasing = self.ledger.is_releasing();
        let due = |it: &usize| self.ledger.rows[*it].due;
        let views: Vec<ClusterView<'_>> = live.iter().map(|it| self.cluster_view(*it, due(it))).collect();
        let done: Vec<bool> = views.iter().map(ClusterView::has_arrived).collect();
        let gate = self.world.rules.gate;
        let failure = gate.failure(&views, self.world.rules.progress_deadline);
        let stands_still = self.ledger.paused.is_some();
        for (place, done) in live.iter().zip(done) {
            // A cluster that is done, at rest or made to stand still is not late.
            if done || stands_still || !releasing {
                self.ledger.rows[*place].busy_for = 0;
            }
        }
        for row in &mut self.ledger.rows {
            row.admitted = true;
        }
        if let Some(why) = failure.filter(|_| releasing && !stands_still) {
            let rolls_back = gate.on_failure == OnFailure::Rollback;
            let word = if rolls_back { Decision::RolledBack } else { Decision::ReleasePaused };
            self.decide_for_all(Why::Release(word(why)));
            if rolls_back {
                self.roll_back();
                // Nothing paces the way back but the budgets.
                self.ledger.rows.iter_mut().for_each(|it| it.admitted = true);
            } else {
                self.ledger.paused = Some(why);
            }
        }
        if let Some(why) = self.ledger.paused {
            self.conditions.push(Condition::ReleaseHeld(Held::Paused(why)));
        }
    }

    fn roll_back(&mut self) {
        let given_up = self.ledger.target;
        self.retarget(self.ledger.stable);
        self.ledger.rolled_back = Some(given_up);
        self.ledger.release = None;
    }

    fn cluster_view(&self, place: usize, due: Option<u32>) -> ClusterView<'_> {
        let (cluster, row) = (&self.world.clusters[place], &self.ledger.rows[place]);
        let line = &self.lines[place];
        let report = row.report.filter(|it| it.body == self.ledger.target);
        ClusterView {
            name: cluster.candidate.name.as_str(),
            wave: cluster.wave,
            order: cluster.order,
            admitted: row.admitted,
            busy_for: row.busy_for,
            heard: line.reach == Reach::Heard,
            may_be_passed_over: self.world.rules.unknown == UnknownCountsAs::LastReported,
            due,
            // What its newest plan says, whatever this round changes; "all" of matched pods is what an update can reach.
            granted: match self.world.spec.population {
                Population::Granted if row.was_given(self.ledger.target) => row.updated.grant,
                Population::Granted => 0,
                Population::Matched => self.granted_updated(place),
            },
            added: line.replicas.saturating_sub(line.before),
            is_empty: line.replicas == 0,
            updated_available: report.filter(|_| row.acknowledged).map(|it| it.updated_available),
            failing: report.map_or(0, |it| it.failing),
        }
    }

    /// With numbers per cluster every wave gets its part of what a partition leaves, so all of them may be open when it is
    /// lowered. What becomes due then goes through the waves once more.
    fn open_waves_again(&mut self, release: &mut Release, due: &[Option<u32>]) {
        if !self.is_per_cluster() || release.paused.is_some() || release.waves.is_empty() {
            return;
        }
        let has_more = |it: &usize| {
            let (line, row) = (&self.lines[*it], &self.ledger.rows[*it]);
            let added = line.replicas.saturating_sub(line.before);
            // What is due is granted in the same round, unless the release stood still meanwhile.
            let is_open = row.admitted && line.reach == Reach::Heard;
            is_open && due[*it] > Some(self.granted_updated(*it).saturating_add(added))
        };
        let last = release.waves.len() - 1;
        let wave = |it: usize| self.world.clusters[it].wave.min(last);
        let mut again: Vec<usize> = self.live().filter(has_more).collect();
        let Some(first) = again.iter().map(|it| wave(*it)).min() else { return };
        release.open_again(first);
        // Those at work in the wave that comes first go on: they have their turn.
        let has_arrived = |it: usize| self.cluster_view(it, Some(self.granted_updated(it))).has_arrived();
        again.retain(|it| wave(*it) > first || has_arrived(*it));
        again.iter().for_each(|it| self.ledger.rows[*it].admitted = false);
    }

    /// Whether the clusters admitted so far are too few for the pods that may be updated. Waves still to come are not
    /// opened for nothing: opened early, they would run without their gates once the partition is lowered.
    fn wants_more_clusters(&self, due: &[Option<u32>]) -> bool {
        if self.keeps_none_old() {
            return true;
        }
        // With numbers of its own every cluster has pods due, or none has.
        if self.is_per_cluster() {
            return self.kept() < u64::from(self.world.spec.replicas);
        }
        let reached: u64 = due.iter().flatten().map(|it| u64::from(*it)).sum();
        self.most_updated() > reached
    }

    /// Whether the user keeps no pod old. An object scaled to nothing keeps none, as in one cluster.
    fn keeps_none_old(&self) -> bool {
        let spec = &self.world.spec;
        let is_empty = spec.population == Population::Matched || spec.replicas == 0;
        (if is_empty { self.partition() } else { self.kept() }) == 0
    }
}
