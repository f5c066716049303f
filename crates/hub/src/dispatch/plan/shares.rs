//! From shares to Assignments.

use std::time::Duration;

use kruise_core::api::fleet::{
    Slice,
    assignment::{Assignment, AssignmentSpec, Intent, RevisionRef},
    binding::{FleetBindingSpec, Ledger as Saved, RebalanceProgress},
    keys::reasons,
    policy::{DynamicWeights, Placement, RebalanceTrigger},
    revision::FleetRevisionSpec,
};
use scheduling::{
    ledger::{Revision, Row},
    pulls::Time,
    round as arithmetic,
    split::State,
};
use serde_json::Value;

use super::{
    Body, Cluster, Observed, Pulls, Round, Stable, Unheard, Winner, Write, ahead, caution::Word, is_over,
    is_saved, keep_numbers, names::Names, room::Room, secrets::Deal, selection,
};
use crate::{
    dispatch::{
        pods::Routing,
        status::{self, Account},
        term,
    },
    ledger,
    placement::{
        kinds::{Granted, Kind},
        overrides::Changes,
        round::{Prepared, fingerprint},
        select::Selection,
    },
};

/// A round whose shares are decided.
pub(super) struct Draft<'a> {
    pub(super) observed: &'a Observed<'a>,
    pub(super) winner: &'a Winner,
    pub(super) kind: &'a dyn Kind,
    pub(super) body: &'a Value,
    pub(super) target: Revision,
    pub(super) saved: &'a Saved,
    pub(super) prepared: Prepared<'a>,
    pub(super) planned: arithmetic::Plan,
    pub(super) routing: &'a Routing,
    /// What clusters are asked about its pods.
    pub(super) room: &'a Room,
    /// What differs in each cluster, in the order of the clusters; or why that cannot be.
    pub(super) changes: &'a [Result<Changes, String>],
    /// What each gets of the Secrets that a job names.
    pub(super) secrets: &'a Deal,
    /// What a job has besides.
    pub(super) pulls: Option<Pulls>,
}

/// What becomes of one cluster's Assignment.
enum Fate {
    /// It stays as it is.
    Same,
    /// It is written.
    Write(Box<Write>),
    /// It has done its duty, and the row goes with it.
    Over,
    /// There is none, and nobody could read one: the row goes.
    Forgotten,
}

/// Whether a cluster gives an object up.
enum Leaving {
    No,
    Yes,
    Over,
    Nothing,
}

impl Draft<'_> {
    /// Makes the round. `before` is the ledger that was planned from.
    pub(super) fn finish(mut self, before: &arithmetic::Ledger, unheard: &Unheard) -> Round {
        let mut names = Names::known(self.observed, self.saved);
        let revision = match self.observed.key {
            Some(key) => RevisionRef {
                namespace: None,
                name: key.revision(&self.observed.reference.uid, self.body),
                hash: ledger::hash(self.target),
            },
            None => names.kept(self.target),
        };
        names.add(revision.clone());
        let mut round = Round::default();
        let mut rows = std::mem::take(&mut self.planned.ledger.rows);
        // In the order of the plan, which has shrinks first; then what changed besides the numbers.
        let planned: Vec<usize> = self.planned.writes.iter().map(|it| it.0).collect();
        let rest: Vec<usize> = (0..rows.len()).filter(|it| !planned.contains(it)).collect();
        let mut gone = Vec::new();
        for place in planned.into_iter().chain(rest) {
            match self.fate(&mut rows[place], &names) {
                Fate::Same => {}
                Fate::Write(write) => round.writes.push(*write),
                Fate::Over => {
                    round.removals.push(rows[place].cluster.to_string());
                    gone.push(place);
                }
                Fate::Forgotten => gone.push(place),
            }
        }
        let has_share = |name: &str| rows.iter().any(|it| it.cluster.as_str() == name && it.share.seq > 0);
        let (questions, unasked) = self.room.questions(self.observed, has_share);
        round.writes.extend(questions);
        round.removals.extend(unasked);
        round.writes.sort_by_key(|it| it.grows);
        if let Some(pulls) = &mut self.pulls {
            pulls.follow(&rows);
            pulls.mark(&mut round);
            if !pulls.is_over() {
                round.look_again = round.look_again.into_iter().chain(self.secrets.again()).min();
            }
        }
        let unsent = self.unsent();
        let account = Account {
            observed: self.observed,
            prepared: &self.prepared,
            before,
            planned: &self.planned,
            rows: &rows,
            routing: self.routing,
            unheard,
            unfit: &self.unfit(),
            awaited: &self.room.awaited(self.observed),
            unsent: unsent.as_ref(),
            pulls: self.pulls.as_ref(),
        };
        round.standing = status::standing(&account, self.kind);
        round.look_again = [round.look_again, round.standing.look_again].into_iter().flatten().min();
        let mut place = 0;
        rows.retain(|_| {
            place += 1;
            !gone.contains(&(place - 1))
        });
        self.planned.ledger.rows = rows;
        round.body = self.body_for(&round.writes, &revision);
        let after = self.ledger(&names);
        round.look_again = [round.look_again, self.weighs_again(&after)].into_iter().flatten().min();
        round.stable = self.stable_of(&after);
        round.is_settled = self.is_settled(&round, &after);
        round.ahead = ahead::step(self.saved, &after);
        round.save = self.save(after);
        round
    }

    fn fate(&self, row: &mut Row, names: &Names) -> Fate {
        let name = row.cluster.to_string();
        let Some(place) = self.observed.clusters.iter().position(|it| it.facts.name == name) else {
            return Fate::Same;
        };
        let cluster = &self.observed.clusters[place];
        if cluster.leaves_at_once().is_some() {
            return Fate::Same;
        }
        let stored = cluster.stored();
        let intent = match self.leaving(row, cluster) {
            Leaving::No => Intent::Apply,
            Leaving::Yes => Intent::Delete,
            Leaving::Over => return Fate::Over,
            Leaving::Nothing => return Fate::Forgotten,
        };
        if row.share.seq == 0
            || row.lost
            || cluster.is_ahead_of(row.share.seq)
            || cluster.word == Word::Doubted
        {
            return Fate::Same;
        }
        let Ok(changes) = &self.changes[place] else { return Fate::Same };
        let Some(mut spec) = self.spec(row, cluster, intent, changes, names) else { return Fate::Same };
        // A plan that was taken over is not ours: what follows it has a number of its own, or the reports about the one would
        // acknowledge the other (HA-5).
        let is_taken_over = stored.is_some_and(|it| it.seq < row.share.seq)
            && cluster.status().is_some_and(|it| it.applied_seq >= row.share.seq);
        // What the Assignment that is not there any more said under this number is not known: it may have been something else.
        // Once it has a number of its own, it keeps it until it is written.
        let is_said_anew = stored.is_none() && intent == Intent::Delete && row.acknowledged;
        // A cluster that gave the object up may not have seen that its Assignment went, and refuses whatever is below (PROTO-3).
        let is_first = stored.is_none_or(|it| it.intent == Intent::Ask);
        if is_first && row.share.seq <= self.saved.last_seq {
            row.share.seq = self.saved.last_seq + 1;
            row.acknowledged = false;
            spec.seq = row.share.seq;
        }
        if is_taken_over || is_said_anew {
            row.share.seq += 1;
            row.acknowledged = false;
            spec.seq = row.share.seq;
        }
        if intent == Intent::Apply {
            // Without them a copy would run and fail; what a cluster has stays as it is.
            let Some(secrets) = self.secrets.of(place) else { return Fate::Same };
            spec.pull_secrets = secrets.to_vec();
        }
        spec.capacity_question = self.room.question(place).filter(|_| intent == Intent::Apply).cloned();
        if let Some(stored) = stored.filter(|it| it.seq == row.share.seq) {
            let is_same = AssignmentSpec { term: stored.term, ..spec.clone() } == *stored
                && !cluster.status().is_some_and(|it| term::is_refused(it.applied_term, stored.term));
            // What a silent cluster may be acting on is left alone (STATE-4), and everything where no cluster is chosen (section 23).
            // A cluster that leaves the fleet is told to give up what is empty all the same.
            let is_left_alone = !self.prepared.has_cluster() && (cluster.stays() || intent == Intent::Apply);
            if is_same || !is_heard(cluster.planning) || is_left_alone {
                return Fate::Same;
            }
            row.share.seq += 1;
            row.acknowledged = false;
            spec.seq = row.share.seq;
        }
        let grows = grows(stored.and_then(|it| it.slice.as_ref()), spec.slice.as_ref());
        Fate::Write(Box::new(Write { cluster: name, spec, grows }))
    }

    /// Whether the cluster gives the object up: the policy does not select it any more, or it leaves the fleet, and it is empty
    /// (DEL-5, DEL-6, CS-6).
    fn leaving(&self, row: &Row, cluster: &Cluster) -> Leaving {
        let is_selected = cluster.stays()
            && !matches!(selection(&self.prepared, &row.cluster), None | Some(Selection::Not(_)));
        let (granted, exposure, has_none) = match &self.pulls {
            None => (row.share.replicas, row.replicas.exposure, row.report.is_some_and(|it| it.pods == 0)),
            // Slots of a job that is over are of no use to anybody.
            Some(it) if it.is_over() => (0, it.exposure(&row.cluster), it.is_idle(&row.cluster)),
            Some(it) => (it.granted(&row.cluster), it.exposure(&row.cluster), it.is_idle(&row.cluster)),
        };
        if is_selected || granted > 0 || row.share.seq == 0 {
            return Leaving::No;
        }
        let is_empty = row.acknowledged && has_none;
        match &cluster.assignment {
            // The row of one that has obeyed is gone before its Assignment is: this one was deleted by somebody else, and the cluster
            // may not even have heard of it. Forgetting its number now would mean that it refuses the next share (PROTO-7, PROTO-11).
            None if exposure == 0 && cluster.is_member => Leaving::Yes,
            None if exposure == 0 => Leaving::Nothing,
            None => Leaving::No,
            Some(it) if is_over(it) => Leaving::Over,
            Some(it) if it.spec.intent != Intent::Apply || is_empty => Leaving::Yes,
            Some(_) => Leaving::No,
        }
    }

    /// What a cluster's Assignment should say; nothing if one of its bodies is not known.
    fn spec(
        &self,
        row: &Row,
        cluster: &Cluster,
        intent: Intent,
        changes: &Changes,
        names: &Names,
    ) -> Option<AssignmentSpec> {
        let placement = &*self.winner.placement;
        let spec = AssignmentSpec {
            object: self.observed.reference.clone(),
            term: 0,
            seq: row.share.seq,
            epoch: row.share.epoch,
            intent,
            deletion: placement.deletion,
            ..AssignmentSpec::default()
        };
        if intent != Intent::Apply {
            return Some(spec);
        }
        let granted = Granted {
            cluster: &cluster.facts.name,
            share: &row.share,
            slots: self.pulls.as_ref().map_or(0, |it| it.granted(&row.cluster)),
            time: self.pulls.as_ref().map_or(Time::Unlimited, |it| it.time(&row.cluster)),
            pods_to_delete: self.pods_to_delete(row, cluster),
            nodes: self.pulls.as_ref().map_or(&[], |it| &it.numbers.nodes),
        };
        Some(AssignmentSpec {
            target: Some(names.get(row.share.body)?),
            stable: Some(names.get(row.share.stable)?),
            slice: Some(self.kind.slice(&granted)),
            overrides: changes.patches.clone(),
            image_registries: changes.registries.clone(),
            when_exists: placement.when_exists,
            drift: placement.drift.clone(),
            pods_asked: self.routing.asked(&cluster.facts.name).to_vec(),
            ..spec
        })
    }

    /// The pods that the plan lets the cluster delete: those named now, or still those that were named before (BUD-9).
    fn pods_to_delete<'a>(&'a self, row: &Row, cluster: &'a Cluster) -> &'a [String] {
        let named = self.routing.named(&cluster.facts.name);
        if row.share.named == fingerprint(named) {
            return named;
        }
        match cluster.stored().and_then(|it| it.slice.as_ref()) {
            Some(Slice::CloneSet(slice)) if row.share.named != 0 => &slice.pods_to_delete,
            _ => &[],
        }
    }

    fn body_for(&self, writes: &[Write], revision: &RevisionRef) -> Option<Body> {
        let names_it = |it: &Write| {
            [&it.spec.target, &it.spec.stable].into_iter().flatten().any(|it| it.name == revision.name)
        };
        // Somebody has deleted it: only a cluster that still needs it can know.
        let lacks_it = |it: &Cluster| lacks(it, &revision.name, |_| true);
        let is_missing = self.observed.clusters.iter().any(lacks_it);
        let reference = self.observed.reference;
        (is_missing || writes.iter().any(names_it)).then(|| Body {
            name: revision.name.clone(),
            is_missing,
            spec: FleetRevisionSpec {
                api_version: reference.api_version.clone(),
                kind: reference.kind.clone(),
                namespace: reference.namespace.clone(),
                name: reference.name.clone(),
                hash: revision.hash.clone(),
                body: Some(self.body.clone()),
                sealed: None,
            },
        })
    }

    /// When a continuous rebalance may look at room again: nobody else says that its interval is over (SPLIT-7).
    fn weighs_again(&self, after: &Saved) -> Option<Duration> {
        let Placement { replicas, rebalance, .. } = &*self.winner.placement;
        let follows = replicas.dynamic == DynamicWeights::FreeCapacity
            && rebalance.trigger == RebalanceTrigger::Continuous;
        let RebalanceProgress { moved, passed_seconds, .. } = after.rebalance;
        let passed = Duration::from_secs(passed_seconds.into());
        (follows && moved > 0).then(|| Duration::from(rebalance.interval).saturating_sub(passed))
    }

    /// The body that pods come from, if the target is another one and a name is known for it.
    fn stable_of(&self, after: &Saved) -> Option<Stable> {
        let RevisionRef { name, hash, .. } = after.stable.as_ref()?;
        if name.is_empty() || after.target.as_ref().is_some_and(|it| it.hash == *hash) {
            return None;
        }
        let lacking = self.observed.clusters.iter().filter(|it| lacks(it, name, |said| said.contains(name)));
        let lacking = lacking.map(|it| it.facts.name.clone()).collect();
        Some(Stable { name: name.clone(), hash: hash.clone(), lacking })
    }

    fn ledger(&self, names: &Names) -> Saved {
        let mut after = self.saved.clone();
        match &self.pulls {
            None => ledger::write(&mut after, &self.planned.ledger, None, |it| names.kept(it)),
            Some(pulls) => {
                (after.target, after.stable) = (Some(names.kept(self.target)), Some(names.kept(self.target)));
                pulls.write(&mut after, &self.planned.ledger.rows);
            }
        }
        after.ambiguous_pods.clone_from(&self.routing.undecided);
        // As long as somebody has not said how much room there is, this generation is not planned, and weights are a guess.
        if !self.room.is_waiting() {
            after.generation = self.observed.generation();
            after.weights.clone_from(&self.prepared.weights);
        }
        // A cluster that never got anything needs no row.
        after.clusters.retain(|_, it| it.share.seq > 0);
        keep_numbers(self.observed, &mut after);
        after.rebuilt &= !self.is_known_again(&after);
        after
    }

    /// Whether a ledger that was lost is whole again: everything is granted, and everybody has answered. From then on a row that is
    /// not acknowledged is new, and not forgotten.
    fn is_known_again(&self, after: &Saved) -> bool {
        let rows = || after.clusters.values();
        let granted: u64 = rows().map(|it| u64::from(it.share.replicas)).sum();
        rows().next().is_some()
            && rows().all(|it| it.acknowledged)
            && granted + self.planned.unplaced >= after.population
            && self.observed.clusters.iter().all(|it| is_heard(it.planning))
    }

    fn save(&self, ledger: Saved) -> Option<FleetBindingSpec> {
        // A policy that is not planned by yet is still a new one in the next round.
        let policy = match self.room.is_waiting() {
            true => self.observed.binding.and_then(|it| it.spec.policy.clone()),
            false => Some(self.winner.reference.clone()),
        };
        let object = self.observed.reference.clone();
        let spec = FleetBindingSpec { object, policy, ledger };
        (!is_saved(self.observed, &spec)).then_some(spec)
    }

    fn is_settled(&self, round: &Round, after: &Saved) -> bool {
        let is_waiting = |it: &Row| {
            let cluster = self.observed.clusters.iter().find(|one| one.facts.name == it.cluster.as_str());
            it.share.seq > 0 && cluster.is_some_and(|it| is_heard(it.planning)) && !it.acknowledged
        };
        let rows = &self.planned.ledger.rows;
        round.writes.is_empty()
            && round.removals.is_empty()
            && !self.routing.is_pending
            && !self.room.is_waiting()
            && !rows.iter().any(|it| it.moving > 0 || is_waiting(it))
            && self.planned.conditions.is_empty()
            && self.planned.unplaced == 0
            && after.scale_down == 0
            && !after.rebalance.asked
    }

    /// Why Secrets are not brought to clusters that should have them; nothing if the job is over.
    fn unsent(&self) -> Option<(bool, String)> {
        let is_open = self.pulls.as_ref().is_some_and(|it| !it.is_over());
        let is_selected = |it: &Cluster| {
            let judged = selection(&self.prepared, &it.facts.cluster_name());
            it.is_member && !matches!(judged, None | Some(Selection::Not(_)))
        };
        is_open.then(|| self.secrets.word(self.observed, is_selected)).flatten()
    }

    fn unfit(&self) -> Vec<(String, String)> {
        let clusters = self.observed.clusters.iter().zip(self.changes);
        clusters.filter_map(|(it, changes)| Some((it.facts.name.clone(), changes.clone().err()?))).collect()
    }
}

/// Whether a cluster that is heard says that a body of its plan is not to be had, in words that may be about this one.
fn lacks(cluster: &Cluster, body: &str, about: impl Fn(&str) -> bool) -> bool {
    let Some(Assignment { spec, status: Some(status), .. }) = cluster.assignment.as_deref() else {
        return false;
    };
    let mut named = [&spec.target, &spec.stable].into_iter().flatten();
    is_heard(cluster.planning)
        && status.conditions.iter().any(|it| it.reason == reasons::BODY_MISSING && about(&it.message))
        && named.any(|it| it.name == body)
}

/// Whether plans reach a cluster in this state. One that the policy does not select is asked to give away what it has.
pub(crate) fn is_heard(state: State) -> bool {
    !matches!(state, State::Offline | State::Lost | State::Pending | State::Unsupported)
}

/// Whether a cluster may do more by the new numbers than by the old ones.
fn grows(old: Option<&Slice>, new: Option<&Slice>) -> bool {
    match (old, new) {
        (_, None) => false,
        (Some(Slice::CloneSet(old)), Some(Slice::CloneSet(new))) => {
            new.replicas > old.replicas
                || new.updated > old.updated
                || new.max_unavailable > old.max_unavailable
                || new.max_surge > old.max_surge
        }
        (Some(Slice::ImagePullJob(old)), Some(Slice::ImagePullJob(new))) => new.parallelism > old.parallelism,
        _ => true,
    }
}
