use super::{
    Population,
    draft::{Draft, Reach},
    reason::{Condition, Why},
};
use crate::{
    numbers::Pace,
    partition::{self, Admission, Cluster, Link, Release, Request, Rollback, Room},
    reason::Share,
};

/// The part of one cluster whose numbers are its own.
struct OwnPart {
    due: u32,
    updated: u32,
    why: Share,
}

impl Draft<'_> {
    /// Splits the pods that may carry the target, and grants of that what is safe now (section 7).
    pub(super) fn split_updated(&mut self) {
        let target = self.ledger.target;
        if !self.ledger.is_releasing() {
            for line in self.lines.iter_mut().filter(|it| it.reach == Reach::Heard) {
                line.updated = line.replicas;
                line.body = target;
                line.kept_old = 0;
            }
            return;
        }
        if self.is_per_cluster() {
            self.copy_partition();
            return;
        }
        match partition::plan_kept(&self.partition_request(), self.kept()) {
            Ok(answer) => self.grant_updated(&answer),
            Err(error) => {
                self.conditions.push(Condition::PartitionRefused(error));
                self.keep_updated();
            }
        }
    }

    /// Pods of the target due in each cluster with the clusters admitted so far. A release takes its step by these: by
    /// those of an earlier round it would take a wave for done that a lower partition has just given more to do.
    pub(super) fn due(&self) -> Vec<Option<u32>> {
        let places = 0..self.lines.len();
        if self.is_per_cluster() {
            return places.map(|it| Some(self.own_part(it).due)).collect();
        }
        match partition::plan_kept(&self.partition_request(), self.kept()) {
            Ok(answer) => answer.rows.iter().map(|it| Some(it.updated)).collect(),
            Err(_) => places.map(|it| self.ledger.rows[it].due).collect(),
        }
    }

    /// Every admitted cluster keeps as many pods old as the user says, and no sum is looked at (SPLIT-6).
    fn copy_partition(&mut self) {
        for place in self.by_rank.clone() {
            let OwnPart { due, updated, why } = self.own_part(place);
            self.ledger.rows[place].due = Some(due);
            if self.lines[place].reach == Reach::Heard {
                self.decide(place, Why::Updated(why));
                self.set_body(place, updated);
            }
        }
    }

    fn own_part(&self, place: usize) -> OwnPart {
        let kept = u32::try_from(self.kept()).unwrap_or(u32::MAX);
        let (line, row) = (&self.lines[place], &self.ledger.rows[place]);
        let granted = self.granted_updated(place);
        // Replicas the user took away that are still there are no reason to update more (REV-11).
        let whole = if kept > 0 { line.replicas.min(self.world.spec.replicas) } else { line.replicas };
        let due = if row.admitted { whole.saturating_sub(kept) } else { granted };
        let while_paused = granted + line.replicas.saturating_sub(line.before);
        let (updated, why) = match () {
            () if line.reach != Reach::Heard => (row.updated.exposure, Share::Frozen),
            () if self.is_one_sided(place) && granted > 0 => (line.replicas, Share::CannotSeed),
            () if self.is_one_sided(place) && due < line.replicas => (0, Share::CannotSeed),
            () if self.is_paused() && due > while_paused => (while_paused, Share::Paused),
            () if !row.admitted => (due, Share::WaveToCome),
            () if due == line.replicas => (due, Share::Full),
            () => (due, if due == 0 { Share::NotDue } else { Share::Due }),
        };
        // What is due does not change with a pause. One that waits for all of it has nothing due, and holds no wave.
        OwnPart { due: if why == Share::Paused { due } else { updated }, updated, why }
    }

    fn partition_request(&self) -> Request {
        let with_waves = self.ledger.release.is_some();
        let cluster = |place: usize| {
            let (world, line, row) =
                (&self.world.clusters[place], &self.lines[place], &self.ledger.rows[place]);
            let report = row.report.unwrap_or_default();
            let (leftovers, broken) = report.leftovers(self.ledger.stable);
            // Of matched pods only the selected ones are divided, and those that are new anyway (SC-7).
            let (replicas, previous) = match self.world.spec.population {
                Population::Granted => (line.replicas, line.before),
                Population::Matched => (report.reachable(self.ledger.target).min(line.replicas), 0),
            };
            Cluster {
                name: row.cluster.clone(),
                rank: world.candidate.rank,
                replicas: if line.reach == Reach::Away { 0 } else { replicas },
                previous,
                updated: row.reported_updated(self.ledger.target),
                granted: self.granted_updated(place),
                wave: if with_waves { world.wave as u32 } else { 0 },
                admission: if row.admitted { Admission::Admitted } else { Admission::ToCome },
                link: match line.reach {
                    Reach::Heard => Link::Reachable,
                    _ => Link::Frozen { exposure: self.exposed_updated(place) },
                },
                seeding: world.seeding,
                has_target: row.was_given(self.ledger.target),
                broken_old: report.broken_old(self.ledger.target),
                leftovers: leftovers.saturating_sub(broken),
            }
        };
        Request {
            population: self.population,
            partition: None,
            release: Release::Underway,
            // What is due does not change with a pause, or waves would pass while nothing is updated.
            pace: Pace::Rolling,
            rollback: if self.world.rules.partition_rollback { Rollback::On } else { Rollback::Off },
            room: if self.budget_is_held() { Room::Held } else { Room::Free },
            clusters: (0..self.lines.len()).map(cluster).collect(),
        }
    }

    /// REV-15: whether BUD-3(b) leaves no room: what is down, may be taken down, or is between clusters.
    fn budget_is_held(&self) -> bool {
        let held: i64 = self.live().map(|it| self.held(it)).sum();
        held + self.hole() >= i64::from(self.world.spec.unavailable)
    }

    /// Pods of the target a cluster may have (REV-9). Of matched pods it cannot have more than it matches, and those of a
    /// cluster that was given up are not counted at all.
    fn exposed_updated(&self, place: usize) -> u32 {
        let (exposure, line) = (self.ledger.rows[place].updated.exposure, &self.lines[place]);
        match self.world.spec.population {
            Population::Granted => exposure,
            Population::Matched if line.reach == Reach::Away => 0,
            Population::Matched => exposure.min(line.before),
        }
    }

    /// Pods of the target it was granted: of matched pods no more than an update can reach.
    pub(super) fn granted_updated(&self, place: usize) -> u32 {
        let (row, line) = (&self.ledger.rows[place], &self.lines[place]);
        let target = self.ledger.target;
        let most = match self.world.spec.population {
            Population::Granted => line.replicas,
            Population::Matched => {
                row.report.map_or(line.replicas, |it| it.reachable(target).min(line.replicas))
            }
        };
        if row.was_given(target) { row.updated.grant.min(most) } else { 0 }
    }

    /// Grants what is due as far as the exposures allow (REV-11), and withholds the target elsewhere (REV-6).
    fn grant_updated(&mut self, answer: &partition::Answer) {
        let counted: u64 = (0..self.lines.len()).map(|it| u64::from(self.counted_updated(it))).sum();
        let paused = self.is_paused();
        let mut room = answer.due as i64 - counted as i64;
        for place in self.by_rank.clone() {
            let row = &answer.rows[place];
            self.ledger.rows[place].due = Some(row.updated);
            if self.lines[place].reach != Reach::Heard {
                continue;
            }
            let granted = self.granted_updated(place);
            let (mut updated, mut why) = (row.updated, row.why);
            if paused {
                let line = &self.lines[place];
                let added = line.replicas.saturating_sub(line.before);
                if updated > granted + added {
                    (updated, why) = (granted + added, Share::Paused);
                }
            }
            if updated > granted && self.kept() > 0 {
                let covered = i64::from(self.exposed_updated(place));
                updated = i64::from(updated).min(covered + room).max(i64::from(granted)) as u32;
                // One that cannot run old pods beside new ones waits until all of it may be new. Given the target
                // once, as when it was lost meanwhile, it has both all the same.
                let given = self.ledger.rows[place].was_given(self.ledger.target);
                if self.is_one_sided(place) && !given && updated < row.updated {
                    updated = 0;
                }
                room -= (i64::from(updated) - covered).max(0);
            }
            self.decide(place, Why::Updated(why));
            if updated < row.updated && why != Share::Paused {
                self.decide(place, Why::UpdatedHeld { due: row.updated, granted: updated });
            }
            self.set_body(place, updated);
        }
        self.conditions.extend(answer.conditions.iter().cloned().map(Condition::Division));
    }

    /// What a cluster counts for against G (REV-11).
    fn counted_updated(&self, place: usize) -> u32 {
        let reported = self.ledger.rows[place].reported_updated(self.ledger.target);
        let gone =
            self.world.spec.population == Population::Matched && self.lines[place].reach == Reach::Away;
        self.exposed_updated(place).max(if gone { 0 } else { reported })
    }

    fn set_body(&mut self, place: usize, updated: u32) {
        let (target, stable) = (self.ledger.target, self.ledger.stable);
        let row = &self.ledger.rows[place];
        let given = row.was_given(target);
        let (leftovers, broken) = row.report.map_or((0, 0), |it| it.leftovers(stable));
        let line = &mut self.lines[place];
        line.updated = updated;
        if given || updated > 0 {
            line.body = target;
            line.kept_old = line.replicas - updated;
            if !given {
                self.decide(place, Why::Given(target));
            }
        } else {
            // What is left of an older target and well is kept; the rest goes back (REV-10).
            line.body = stable;
            line.kept_old = leftovers.saturating_sub(broken).min(line.replicas);
        }
    }

    fn keep_updated(&mut self) {
        for (line, row) in self.lines.iter_mut().zip(&self.ledger.rows) {
            line.kept_old = line.replicas.saturating_sub(row.share.updated);
        }
    }
}
