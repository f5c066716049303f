//! Jobs that download images: slots in place of replicas, a time, and an end (IPJ-1 to IPJ-5).

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use kruise_core::{
    api::fleet::{
        Counts, FederatedObject,
        assignment::{AssignmentStatus, ShareState},
        binding::{JobTimes, Ledger as Saved},
    },
    runtime::clock::whole_seconds,
};
use scheduling::{
    ledger::{Revision, Row, Share, Taken},
    names::ClusterName,
    pulls::{self, Completion, Copy, Time, Totals},
    round::{self as arithmetic, Decision, SlotCluster, SlotPlan, SlotReach, SlotRow, plan_slots},
    split::State,
};
use serde_json::Value;

use super::{
    Cluster, Observed, Round, Unheard, Winner, basis::Basis, held, room::Room, secrets::Deal, selection,
    shares, shares::is_heard,
};
use crate::{
    dispatch::pods::Routing,
    ledger,
    placement::{
        kinds::{self, Division, Kind, PodNumbers, PullNumbers, pulls_report},
        round::Prepared,
        select::Selection,
    },
};

/// No cluster has more nodes than this, whatever it says: one must not draw all slots (SEC-5).
const MOST_NODES: u32 = 50_000;
/// Names of nodes are no longer.
const LONGEST_NAME: usize = 253;
/// How many seconds a plan may be under way before a cluster that has not begun is told how many are left by now.
const STALE_AFTER: u32 = 10;
/// How soon to look again when what is waited for is about to be written.
const SOON: Duration = Duration::from_secs(1);

/// A job, beside what all kinds have.
#[derive(Debug)]
pub(in crate::dispatch) struct Pulls {
    pub(in crate::dispatch) numbers: PullNumbers,
    /// Slots, in the order of the clusters that take part.
    pub(in crate::dispatch) rows: Vec<SlotRow>,
    /// Seconds that had passed when a cluster was given its share, by name.
    late: BTreeMap<ClusterName, u32>,
    /// When it began over the fleet.
    pub(in crate::dispatch) started: Option<Timestamp>,
    /// When it ended.
    pub(in crate::dispatch) completed: Option<Timestamp>,
    /// What it comes to.
    pub(in crate::dispatch) totals: Totals,
    /// Whether its deadline has passed.
    pub(in crate::dispatch) is_late: bool,
    /// Whether its time to live is over and its end is stored (IPJ-2).
    is_outlived: bool,
    look_again: Option<Duration>,
}

/// Plans one round of a job.
pub(super) fn plan(
    observed: &Observed<'_>,
    winner: &Winner,
    kind: &dyn Kind,
    names: (&str, &str),
    numbers: PullNumbers,
) -> Round {
    let (routing, no_pods) = (Routing::default(), PodNumbers::default());
    // Downloads need no room for pods.
    let room = Room::default();
    let secrets = Deal::new(observed, &numbers.secrets);
    let basis = Basis { secrets, ..Basis::new(observed, winner, kind) };
    let prepared = match basis.prepare(observed, winner, names, &no_pods, &routing, &room) {
        Ok(prepared) => prepared,
        Err(trouble) => return held(observed, trouble),
    };
    let Basis { saved, target, body, changes, secrets } = &basis;
    let target = *target;
    let (job, decisions, before, unheard) = job(observed, saved, &prepared, numbers, target);
    let rows = job.rows.iter().zip(&prepared.clusters).map(|(slots, cluster)| row(slots, cluster, target));
    let ledger = arithmetic::Ledger { rows: rows.collect(), ..before.clone() };
    let planned = arithmetic::Plan {
        ledger,
        writes: Vec::new(),
        population: 0,
        unplaced: 0,
        homeless: 0,
        decisions,
        conditions: Vec::new(),
    };
    let draft = shares::Draft {
        observed,
        winner,
        kind,
        body,
        target,
        saved,
        prepared,
        planned,
        routing: &routing,
        room: &room,
        changes,
        secrets,
        pulls: Some(job),
    };
    draft.finish(&before, &unheard)
}

type Planned = (Pulls, Vec<Decision>, arithmetic::Ledger, Unheard);

/// The job after this round, and the ledger as it was before.
fn job(
    observed: &Observed<'_>,
    saved: &Saved,
    prepared: &Prepared<'_>,
    numbers: PullNumbers,
    target: Revision,
) -> Planned {
    let mut rows = ledger::read_slots(saved, &prepared.names());
    let unheard = take_reports(observed, &mut rows);
    let before = arithmetic::Ledger {
        rows: rows.iter().zip(&prepared.clusters).map(|(it, cluster)| row(it, cluster, target)).collect(),
        ..arithmetic::Ledger::new(target)
    };
    let (started, mut completed) = times(observed, saved);
    let running = started.map_or(0, |it| seconds(it, observed.now));
    let is_late = numbers.completion.time_left(running) == Time::Over;
    let known: BTreeMap<ClusterName, u32> = rows
        .iter()
        .filter(|it| it.seq > 0)
        .map(|it| {
            (it.cluster.clone(), saved.clusters.get(it.cluster.as_str()).map_or(0, |it| it.late_seconds))
        })
        .collect();
    let mut decisions = Vec::new();
    // A job that is over is over: whoever joins now is not served any more (IPJ-5).
    if completed.is_none() {
        let clusters = clusters(observed, prepared, &rows, is_late);
        if let Ok(SlotPlan { rows: planned, decisions: why, .. }) =
            plan_slots(numbers.parallelism, &clusters, &rows)
        {
            (rows, decisions) = (planned, why);
        }
    }
    let has_deadline = matches!(numbers.completion, Completion::Always { deadline: Some(_), .. });
    let late = |it: &SlotRow| match known.get(&it.cluster) {
        None => running,
        Some(known) if has_deadline && is_to_be_told(observed, it, running.saturating_sub(*known)) => running,
        Some(known) => *known,
    };
    let late = rows.iter().map(|it| (it.cluster.clone(), late(it))).collect();
    let copies = copies(observed, prepared, &rows, &unheard, is_late);
    let totals = pulls::total(&numbers.completion, &copies);
    let is_given = rows.iter().any(|it| it.seq > 0);
    if totals.is_complete && is_given {
        completed.get_or_insert(whole_seconds(observed.now).0);
    }
    let over_for = completed.map(|it| seconds(it, observed.now));
    let is_outlived = numbers.completion.is_outlived(over_for) && is_end_stored(observed);
    let look_again = look_again(&numbers.completion, running, over_for);
    let started = started.or_else(|| is_given.then(|| whole_seconds(observed.now).0));
    let job = Pulls { numbers, rows, late, started, completed, totals, is_late, is_outlived, look_again };
    (job, decisions, before, unheard)
}

impl Pulls {
    fn slots(&self, cluster: &ClusterName) -> Option<&SlotRow> {
        self.rows.iter().find(|it| it.cluster == *cluster)
    }

    /// Downloads at a time that a cluster was granted.
    pub(super) fn granted(&self, cluster: &ClusterName) -> u32 {
        self.slots(cluster).map_or(0, |it| it.slots.grant)
    }

    /// Whether nothing is begun any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_late || self.completed.is_some()
    }

    /// Downloads that it may be running.
    pub(super) fn exposure(&self, cluster: &ClusterName) -> u32 {
        self.slots(cluster).map_or(0, |it| it.slots.exposure)
    }

    /// Whether it has said that it runs none.
    pub(super) fn is_idle(&self, cluster: &ClusterName) -> bool {
        self.slots(cluster).and_then(|it| it.report).is_some_and(|it| it.active == 0)
    }

    /// How long its copy may run (IPJ-3).
    pub(super) fn time(&self, cluster: &ClusterName) -> Time {
        self.numbers.completion.time_left(self.late.get(cluster).copied().unwrap_or_default())
    }

    /// Takes over what became of the numbers of plans: a plan is written for other reasons as well.
    pub(super) fn follow(&mut self, rows: &[Row]) {
        for row in rows {
            if let Some(slots) = self.rows.iter_mut().find(|it| it.cluster == row.cluster) {
                (slots.seq, slots.acknowledged) = (row.share.seq, row.acknowledged);
            }
        }
    }

    /// Writes what has to outlive the hub; `rows` are those that stay.
    pub(super) fn write(&self, saved: &mut Saved, rows: &[Row]) {
        let stays = |it: &&SlotRow| rows.iter().any(|row| row.cluster == it.cluster);
        let slots: Vec<SlotRow> = self.rows.iter().filter(stays).cloned().collect();
        ledger::write_slots(saved, &slots);
        for (cluster, late) in &self.late {
            if let Some(row) = saved.clusters.get_mut(cluster.as_str()) {
                row.late_seconds = *late;
            }
        }
        let completion_time = self.completed.map(whole_seconds);
        saved.job = self.started.map(|it| JobTimes { start_time: whole_seconds(it), completion_time });
    }

    /// What is special about the round of a job.
    pub(super) fn mark(&self, round: &mut Round) {
        round.expires = self.is_outlived;
        round.look_again = self.look_again;
    }

    /// Downloads that may be running over the fleet.
    pub(in crate::dispatch) fn exposed(&self) -> u64 {
        self.rows.iter().map(|it| u64::from(it.slots.exposure)).sum()
    }
}

/// The row that all kinds have.
fn row(slots: &SlotRow, cluster: &arithmetic::Cluster, target: Revision) -> Row {
    let share = Share { seq: slots.seq, body: target, stable: target, ..Share::default() };
    Row {
        share,
        lost: cluster.candidate.state == State::Lost,
        acknowledged: slots.acknowledged,
        ..Row::new(slots.cluster.clone())
    }
}

fn find<'a>(observed: &Observed<'a>, cluster: &ClusterName) -> Option<&'a Cluster> {
    observed.clusters.iter().find(|it| it.facts.name == cluster.as_str())
}

fn status<'a>(observed: &Observed<'a>, cluster: &ClusterName) -> Option<&'a AssignmentStatus> {
    find(observed, cluster)?.status().filter(|it| it.report > 0)
}

/// Takes what clusters have reported since.
fn take_reports(observed: &Observed<'_>, rows: &mut [SlotRow]) -> Unheard {
    let mut unheard = Unheard::default();
    for row in rows.iter_mut().filter(|it| it.seq > 0) {
        let Some(status) = status(observed, &row.cluster) else { continue };
        let last = row.report.map(|it| (it.incarnation, it.number));
        let (name, report) = (row.cluster.to_string(), pulls_report(status));
        match row.take(report) {
            Taken::Refused(why) => unheard.refused.push((name, why.to_string())),
            Taken::NotNewer if last != Some((report.incarnation, report.number)) => unheard.late.push(name),
            _ => {}
        }
    }
    unheard
}

/// When the job began and ended: by the ledger, or, if that was lost, by what people were told.
fn times(observed: &Observed<'_>, saved: &Saved) -> (Option<Timestamp>, Option<Timestamp>) {
    let told = |field: &str| observed.object["status"][field].as_str()?.parse::<Timestamp>().ok();
    match &saved.job {
        Some(it) => (Some(it.start_time.0), it.completion_time.as_ref().map(|it| it.0)),
        // Only where there was a share is anything lost.
        None if saved.clusters.is_empty() => (None, None),
        None => (told("startTime"), told("completionTime")),
    }
}

/// Whether it is stored how the job ended, where the hub and where people look (IPJ-2).
fn is_end_stored(observed: &Observed<'_>) -> bool {
    let saved = observed.binding.and_then(|it| it.spec.ledger.job.as_ref());
    let is_told = observed.object.pointer("/status/completionTime").is_some_and(Value::is_string);
    is_told && saved.is_some_and(|it| it.completion_time.is_some())
}

/// Whether the object is a job whose time to live is over and whose end is stored: then its copies go, whatever the policy
/// says about objects that somebody deletes (IPJ-2).
pub(in crate::dispatch) fn is_outlived(observed: &Observed<'_>) -> bool {
    let FederatedObject { api_version, kind, .. } = observed.reference;
    let group = api_version.split_once('/').map_or("", |it| it.0);
    let Ok(Division::Pulls(numbers)) = kinds::of(group, kind).division(observed.object) else { return false };
    let ended = observed.binding.and_then(|it| it.spec.ledger.job.as_ref()?.completion_time.as_ref());
    let over_for = ended.map(|it| seconds(it.0, observed.now));
    numbers.completion.is_outlived(over_for) && is_end_stored(observed)
}

fn clusters(
    observed: &Observed<'_>,
    prepared: &Prepared<'_>,
    rows: &[SlotRow],
    is_late: bool,
) -> Vec<SlotCluster> {
    let cluster = |(it, row): (&arithmetic::Cluster, &SlotRow)| {
        let state = it.candidate.state;
        // How many nodes there are to serve is known when the cluster has looked: until then it has no slots.
        let nodes = status(observed, &row.cluster).and_then(|it| it.counts.desired).unwrap_or_default();
        let is_served = state != State::Excluded && stays(observed, &row.cluster);
        let nodes = if is_served { nodes.min(MOST_NODES) } else { 0 };
        let reach = if is_member(observed, &row.cluster) {
            reach(state, row.seq > 0, is_late)
        } else {
            // What is not in the fleet any more has no part in its numbers; nobody would ever hear of its end.
            SlotReach::Lost
        };
        SlotCluster { rank: it.candidate.rank, reach, nodes }
    };
    prepared.clusters.iter().zip(rows).map(cluster).collect()
}

/// Whether a cluster is in the fleet.
fn is_member(observed: &Observed<'_>, cluster: &ClusterName) -> bool {
    find(observed, cluster).is_some_and(|it| it.is_member)
}

/// Whether a cluster is in the fleet, and stays there.
fn stays(observed: &Observed<'_>, cluster: &ClusterName) -> bool {
    find(observed, cluster).is_some_and(Cluster::stays)
}

/// What can be done with a cluster's slots.
fn reach(state: State, is_given: bool, is_late: bool) -> SlotReach {
    match state {
        State::Lost => SlotReach::Lost,
        // Nothing is begun any more, and what runs ends by itself.
        _ if is_late => SlotReach::Lost,
        State::Ready | State::Excluded => SlotReach::Heard,
        // They finish what they have begun.
        State::Cordoned | State::Draining if is_given => SlotReach::Heard,
        _ => SlotReach::Offline,
    }
}

/// Whether a cluster that has not begun is told how many seconds are left by now. One that cannot begin is not told again.
fn is_to_be_told(observed: &Observed<'_>, row: &SlotRow, under_way: u32) -> bool {
    let has_begun = row.report.is_some_and(|it| it.seq > 0);
    let state = status(observed, &row.cluster).and_then(|it| it.state);
    let is_stuck = matches!(state, Some(ShareState::Failed | ShareState::Conflict));
    let is_reached = find(observed, &row.cluster).is_some_and(|it| is_heard(it.planning));
    !has_begun && is_reached && !is_stuck && under_way >= STALE_AFTER
}

/// What every cluster that counts has said.
fn copies(
    observed: &Observed<'_>,
    prepared: &Prepared<'_>,
    rows: &[SlotRow],
    unheard: &Unheard,
    is_late: bool,
) -> Vec<(ClusterName, Copy)> {
    let mut copies = Vec::new();
    for (row, cluster) in rows.iter().zip(&prepared.clusters) {
        let is_selected = stays(observed, &row.cluster)
            && !matches!(selection(prepared, &row.cluster), None | Some(Selection::Not(_)));
        let state = cluster.candidate.state;
        if !is_selected {
            continue;
        }
        if row.seq == 0 {
            // Whoever is still to be given its share is waited for, as long as there is time.
            let is_to_come =
                matches!(state, State::Ready | State::Unconfirmed | State::Offline | State::Pending);
            if is_to_come && !is_late {
                copies.push((row.cluster.clone(), Copy::default()));
            }
            continue;
        }
        let said = if unheard.has(row.cluster.as_str()) {
            let told = observed.last_told(row.cluster.as_str());
            told.map(|it| Copy { failed_nodes: told_nodes(observed, &row.cluster), ..counted(&it.counts) })
        } else {
            status(observed, &row.cluster).map(|it| copy(it, is_late))
        };
        copies
            .push((row.cluster.clone(), Copy { is_lost: state == State::Lost, ..said.unwrap_or_default() }));
    }
    copies
}

fn copy(status: &AssignmentStatus, is_late: bool) -> Copy {
    // Once time is over, one that could not begin will not: nothing more is to be heard of it.
    let is_stuck = matches!(status.state, Some(ShareState::Failed | ShareState::Conflict));
    let is_idle = status.counts.active.unwrap_or_default() == 0;
    Copy {
        failed_nodes: status.failures.iter().filter(|it| it.len() <= LONGEST_NAME).cloned().collect(),
        is_final: status.completed || is_late && is_stuck && is_idle,
        ..counted(&status.counts)
    }
}

/// The nodes of a cluster that people were told have failed.
fn told_nodes(observed: &Observed<'_>, cluster: &ClusterName) -> Vec<String> {
    let told = observed.object.pointer("/status/failedNodes").and_then(Value::as_array);
    let nodes = told.into_iter().flatten().filter_map(|it| it.as_str()?.split_once('/'));
    nodes.filter(|it| it.0 == cluster.as_str()).map(|it| it.1.to_owned()).collect()
}

fn counted(counts: &Counts) -> Copy {
    let of = |it: Option<u32>| it.unwrap_or_default();
    Copy {
        desired: of(counts.desired),
        active: of(counts.active),
        succeeded: of(counts.succeeded),
        failed: of(counts.failed),
        ..Copy::default()
    }
}

/// When something happens that only time brings on: the deadline, or the end of the time to live.
fn look_again(completion: &Completion, running: u32, over_for: Option<u32>) -> Option<Duration> {
    let Completion::Always { deadline, ttl } = completion else { return None };
    let left = |limit: u32, passed: u32| Duration::from_secs(limit.saturating_sub(passed).into()).max(SOON);
    match over_for {
        Some(over_for) => ttl.map(|it| left(it, over_for)),
        None => deadline.filter(|it| *it > running).map(|it| left(it, running)),
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> u32 {
    u32::try_from(to.duration_since(from).as_secs().max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
