//! The hub's planner, run to its end on paper: every cluster that is heard does at once what it is told, and reports it.

use std::{collections::BTreeMap, sync::Arc};

use ::hub::dispatch::{
    plan::{Cluster, Round, Winner},
    status::{Standing, Trouble},
};
use kruise_core::api::fleet::{
    CloneSetSlice, Counts, Slice,
    assignment::{Assignment, AssignmentSpec, AssignmentStatus, CapacityAnswer, Intent, ShareState},
    binding::FleetBinding,
    keys::features,
};
use scheduling::split::State;

use super::World;

/// Seconds between two rounds on paper: moves that wait for their interval come to their turn.
const PACE: u32 = 60;
/// Rounds without a write after which nothing more is expected: longer than any interval that moves wait for by default.
const QUIET: usize = 10;
/// No plan takes this many rounds.
const MOST: usize = 5_000;

/// What would come of an object.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rehearsal {
    /// Each cluster's share now.
    pub before: BTreeMap<String, CloneSetSlice>,
    /// Each cluster's share at the end.
    pub after: BTreeMap<String, CloneSetSlice>,
    /// How many times shares are written until then.
    pub rounds: usize,
    /// How the object stands at the end.
    pub standing: Standing,
}

impl Rehearsal {
    /// Pods that leave one cluster for another.
    pub fn moved(&self) -> u32 {
        let of = |shares: &BTreeMap<String, CloneSetSlice>, name: &String| {
            shares.get(name).map_or(0, |it| it.replicas)
        };
        let names = self.names();
        let grown: u32 =
            names.iter().map(|it| of(&self.after, it).saturating_sub(of(&self.before, it))).sum();
        let shrunk: u32 =
            names.iter().map(|it| of(&self.before, it).saturating_sub(of(&self.after, it))).sum();
        grown.min(shrunk)
    }

    /// The clusters of both, by name.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.before.keys().chain(self.after.keys()).cloned().collect();
        names.sort();
        names.dedup();
        names
    }

    /// Why it is not planned, if it is not.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.standing.trouble.as_ref()
    }
}

/// Plays all rounds.
pub fn rehearse(mut world: World, winner: Option<&Winner>) -> Rehearsal {
    let mut rehearsal = Rehearsal { before: shares(&world.clusters), ..Rehearsal::default() };
    let mut quiet = 0;
    for _ in 0..MOST {
        let round = world.round(winner, PACE);
        let is_rest = round.writes.is_empty() && round.removals.is_empty();
        quiet = if is_rest { quiet + 1 } else { 0 };
        rehearsal.rounds += usize::from(!is_rest);
        let is_over = is_rest && (round.is_settled || quiet >= QUIET);
        play(&mut world, &round);
        rehearsal.standing = round.standing;
        if is_over {
            break;
        }
    }
    rehearsal.after = shares(&world.clusters);
    rehearsal
}

/// Stores what a round says, and has every cluster that is heard do it.
pub(super) fn play(world: &mut World, round: &Round) {
    store(world, round);
    world.clusters.iter_mut().filter(|it| is_heard(it)).for_each(obey);
}

/// Each cluster's share as it is written.
fn shares(clusters: &[Cluster]) -> BTreeMap<String, CloneSetSlice> {
    let share = |it: &Cluster| match it.assignment.as_ref()?.spec.slice.as_ref()? {
        Slice::CloneSet(slice) => Some((it.facts.name.clone(), slice.clone())),
        _ => None,
    };
    clusters.iter().filter_map(share).collect()
}

fn is_heard(cluster: &Cluster) -> bool {
    matches!(cluster.planning, State::Ready | State::Cordoned | State::Draining)
}

fn store(world: &mut World, round: &Round) {
    if let Some(spec) = &round.save {
        let status = Some(round.standing.binding.clone());
        world.binding = Some(FleetBinding { spec: spec.clone(), status, ..FleetBinding::default() });
    }
    let term = world.binding.as_ref().map_or(1, |it| it.spec.ledger.term);
    for write in &round.writes {
        let Some(cluster) = world.clusters.iter_mut().find(|it| it.facts.name == write.cluster) else {
            continue;
        };
        let old = cluster.assignment.as_deref().cloned().unwrap_or_default();
        let spec = AssignmentSpec { term: term.max(old.spec.term), ..write.spec.clone() };
        cluster.assignment = Some(Arc::new(Assignment { spec, ..old }));
    }
    for name in &round.removals {
        let gone = world.clusters.iter_mut().filter(|it| it.facts.name == *name);
        gone.for_each(|it| it.assignment = None);
    }
}

/// A cluster does what its Assignment says, and reports it.
fn obey(cluster: &mut Cluster) {
    let Some(assignment) = &mut cluster.assignment else { return };
    let assignment = Arc::make_mut(assignment);
    let spec = &assignment.spec;
    let old = assignment.status.take().unwrap_or_default();
    let (counts, state) = match (&spec.slice, spec.intent) {
        (Some(Slice::CloneSet(slice)), Intent::Apply) => {
            let is_one = spec.target.as_ref().map(|it| &it.hash) == spec.stable.as_ref().map(|it| &it.hash);
            (carried_out(slice, is_one), ShareState::Settled)
        }
        (_, Intent::Orphan) => (Counts::default(), ShareState::Orphaned),
        (_, Intent::Delete) => (Counts::default(), ShareState::Deleted),
        _ => (old.counts.clone(), ShareState::Settled),
    };
    let generation = old.generation.max(1);
    // Its pods take up the room that it had for them. What it would say to another question nobody knows, and what is not known is
    // unlimited: it is not asked on paper.
    let asked = spec.capacity_question.as_ref().map(|it| it.id.as_str());
    let known = old.capacity.filter(|it| asked == Some(it.question.as_str()));
    if asked.is_some() && known.is_none() {
        Arc::make_mut(&mut cluster.facts).features.retain(|it| it != features::CAPACITY);
    }
    let capacity = known.map(|it| CapacityAnswer {
        fit_now: it.fit_now.saturating_add(old.counts.replicas).saturating_sub(counts.replicas),
        ..it
    });
    assignment.status = Some(AssignmentStatus {
        incarnation: old.incarnation.max(1),
        report: old.report + 1,
        applied_term: spec.term,
        applied_seq: spec.seq,
        epoch: spec.epoch,
        known_epoch: spec.epoch,
        generation,
        observed_generation: generation,
        applied: spec.slice.clone(),
        target: spec.target.clone(),
        stable: spec.stable.clone(),
        counts,
        capacity,
        state: Some(state),
        ..AssignmentStatus::default()
    });
}

/// All pods are there, and as many as may be are updated. Of two revisions that are one, all pods are of both.
fn carried_out(slice: &CloneSetSlice, is_one: bool) -> Counts {
    let CloneSetSlice { replicas, updated, .. } = *slice;
    let updated = if is_one { replicas } else { updated.min(replicas) };
    Counts {
        replicas,
        ready: replicas,
        available: replicas,
        updated,
        updated_ready: updated,
        updated_available: updated,
        stable: if is_one { replicas } else { replicas - updated },
        ..Counts::default()
    }
}
