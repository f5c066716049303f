//! What must hold whenever a release takes a step: waves open in order, after their soak, and no more clusters at a time
//! than the policy says (REL-2 to REL-4). Judged by the ledgers before and after the round, not by the step's own words.

use scheduling::{
    ledger::Row,
    numbers::concurrency,
    release::{Decision, Release, Stage},
    round::{Plan, Why},
};

use crate::fleet::{Broken, Fleet};

impl Fleet {
    pub(crate) fn check_waves(&mut self, plan: &Plan, elapsed: u32) -> Result<(), Broken> {
        let before = self.ledger.release.as_ref().filter(|it| plan.ledger.target == it.target);
        let (Some(before), Some(after)) = (before, plan.ledger.release.as_ref()) else {
            self.rested = None;
            return Ok(());
        };
        let passed = |it: &Why| matches!(it, Why::Release(Decision::WaveSoaking(_)));
        if plan.decisions.iter().any(|it| passed(&it.why)) {
            self.gate_opens_on_the_truth(before, plan)?;
        }
        let became_due = self.open(before).find(|it| self.more_is_due(*it, plan));
        let rested = match self.rested {
            _ if became_due.is_some() => None,
            Some(rested) => Some(rested.saturating_add(elapsed)),
            None => (!self.open(before).any(|it| self.is_at_work(it, plan))).then_some(0),
        };
        if after.wave > before.wave {
            self.next_wave_is_due(before, plan, rested.unwrap_or(0), became_due)?;
        }
        self.not_too_many_at_a_time(after, plan)?;
        self.rested = match after.stage {
            _ if after.wave == before.wave => rested,
            // Its clusters had done all that is due before it opened.
            Stage::Soaking => Some(0),
            _ => None,
        };
        Ok(())
    }

    /// Places of the clusters heard in the waves that are open.
    fn open(&self, release: &Release) -> impl Iterator<Item = usize> + '_ {
        let (wave, last) = (release.wave, release.waves.len() - 1);
        (0..self.ledger.rows.len()).filter(move |it| {
            let is_open = self.clusters[*it].wave.min(last) <= wave;
            is_open && self.clusters[*it].is_heard() && !self.ledger.rows[*it].lost
        })
    }

    fn granted(&self, row: &Row) -> u32 {
        if row.was_given(self.ledger.target) { row.updated.grant } else { 0 }
    }

    /// Replicas that are added in this round are no larger canary.
    fn granted_with_growth(&self, place: usize, plan: &Plan) -> u32 {
        let (before, after) = (&self.ledger.rows[place], &plan.ledger.rows[place]);
        self.granted(before) + after.replicas.grant.saturating_sub(before.replicas.grant)
    }

    fn more_is_due(&self, place: usize, plan: &Plan) -> bool {
        let row = &plan.ledger.rows[place];
        !row.lost && row.due.is_some_and(|due| due > self.granted_with_growth(place, plan))
    }

    fn next_wave_is_due(
        &self,
        before: &Release,
        plan: &Plan,
        rested: u32,
        became_due: Option<usize>,
    ) -> Result<(), Broken> {
        if let Some(place) = became_due {
            let cluster = &self.ledger.rows[place].cluster;
            return Err(Broken(format!("wave {} opened while more was due in {cluster}", before.wave + 1)));
        }
        let last = before.waves.len() - 1;
        let had_pods_due = |it: &usize| {
            let of_wave = self.clusters[*it].wave.min(last) == before.wave;
            of_wave && plan.ledger.rows[*it].due.is_some_and(|due| due > 0)
        };
        let soak = before.waves[before.wave].soak;
        if self.open(before).any(|it| had_pods_due(&it)) && rested < soak {
            return Err(Broken(format!("wave {} soaked for {rested} of {soak} s", before.wave)));
        }
        Ok(())
    }

    fn not_too_many_at_a_time(&self, after: &Release, plan: &Plan) -> Result<(), Broken> {
        for (number, wave) in after.waves.iter().enumerate() {
            let last = after.waves.len() - 1;
            let live =
                |it: &usize| self.clusters[*it].wave.min(last) == number && !plan.ledger.rows[*it].lost;
            let members: Vec<usize> = (0..self.clusters.len()).filter(live).collect();
            let admitted_now =
                |it: &&usize| !self.ledger.rows[**it].admitted && plan.ledger.rows[**it].admitted;
            let admitted = members.iter().filter(admitted_now).count();
            let busy = members.iter().filter(|it| self.is_at_work(**it, plan)).count();
            let limit = concurrency(wave.max_concurrency, members.len() as u64);
            if admitted > 0 && (admitted + busy) as u64 > limit {
                return Err(Broken(format!("{admitted} admitted beside {busy} at work, {limit} may be")));
            }
        }
        Ok(())
    }

    fn is_at_work(&self, place: usize, plan: &Plan) -> bool {
        let (row, due) = (&self.ledger.rows[place], plan.ledger.rows[place].due.unwrap_or(0));
        let granted = self.granted(row);
        let report = row.report.filter(|it| row.acknowledged && it.body == self.ledger.target);
        let is_well = report.is_some_and(|it| it.updated_available >= granted && it.failing == 0);
        // One that was lost is taken back first, and counts from the next round on.
        let counts = row.admitted && !row.lost && self.clusters[place].is_heard();
        counts && due > 0 && !(self.granted_with_growth(place, plan) >= due && is_well)
    }

    /// When a wave passes, every cluster of it has really done what its newest plan allows, at some time since.
    fn gate_opens_on_the_truth(&self, before: &Release, plan: &Plan) -> Result<(), Broken> {
        for place in self.open(before) {
            let row = &self.ledger.rows[place];
            let at_work = row.admitted && plan.ledger.rows[place].due.is_some_and(|it| it > 0);
            if at_work && self.members[place].fulfilled < row.share.seq {
                return Err(Broken(format!(
                    "a gate opened, but {} never did plan {}",
                    row.cluster, row.share.seq
                )));
            }
        }
        Ok(())
    }
}
