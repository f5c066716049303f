//! How an object stands over the fleet: the binding's status, the object's own, and what is worth telling. Pure.

mod account;
mod conditions;
pub mod figures;
mod happened;
mod health;
mod held;
mod notes;
mod rows;
mod trouble;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_core::{
    api::{
        cloneset::progress,
        fleet::{
            FederatedObject, assignment::ShareState, binding::FleetBindingStatus, keys::conditions as types,
            member_cluster::ClusterState,
        },
    },
    runtime::clock::whole_seconds,
};
use scheduling::{ledger::Row, round::Numbers};
use serde_json::Value;

use super::plan::{Cluster, Observed};
use crate::{
    ledger,
    placement::kinds::{self, Kind, totals::Totals},
};
pub(super) use account::Account;
pub(super) use held::troubled;
pub(super) use notes::is_told_twice;
use notes::notes;
pub use notes::{Note, Told};
use rows::rows;
pub use trouble::{Because, Trouble};

/// How an object stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Standing {
    /// The status of its binding.
    pub binding: FleetBindingStatus,
    /// Its own status, as far as the fleet writes it.
    pub object: Value,
    /// What is worth telling.
    pub notes: Vec<Note>,
    /// Why it is not planned, if it is not.
    pub trouble: Option<Trouble>,
    /// When it will stand otherwise though nothing else changes: a deadline passes.
    pub look_again: Option<Duration>,
    /// The same in numbers; nothing if it is not planned.
    pub figures: Option<figures::Figures>,
}

/// How the object stands after a round.
pub(super) fn standing(account: &Account<'_>, kind: &dyn Kind) -> Standing {
    let observed = account.observed;
    let totals = totals(account);
    let fitted = |it: u64| u32::try_from(it).unwrap_or(u32::MAX);
    let known = observed.binding.and_then(|it| it.status.as_ref());
    let health = account.pulls.is_none().then(|| health(account, &totals, known));
    let held = conditions::of(account, &totals, health.as_ref());
    let binding = FleetBindingStatus {
        observed_generation: totals
            .observed_generation
            .unwrap_or_else(|| known.map_or(0, |it| it.observed_generation)),
        cluster_count: fitted(account.rows.iter().filter(|it| it.share.seq > 0).count() as u64),
        desired: fitted(account.pulls.map_or(account.planned.population, |it| it.totals.desired)),
        ready: fitted(account.pulls.map_or(totals.ready, |it| it.totals.succeeded)),
        available: fitted(account.pulls.map_or(totals.available, |it| it.totals.succeeded)),
        updated: fitted(account.pulls.map_or(totals.updated, |it| it.totals.succeeded)),
        unknown_replicas: fitted(totals.unknown),
        wave: String::new(),
        budget: budget(account),
        short_since: health.and_then(|it| it.short_since).map(whole_seconds),
        stalled_since: health.and_then(|it| it.stalled_since).map(whole_seconds),
        summary: conditions::summary(&held).to_owned(),
        clusters: rows(account),
        conditions: conditions::written(held, known.map_or(&[], |it| &it.conditions), observed),
    };
    let notes = notes(account, known.map_or(&[], |it| &it.conditions), &binding.conditions);
    let figures = Some(figures::of(account, &totals));
    let look_again = health.and_then(|it| it.look_again);
    let object = kind.status(observed.object, &totals);
    Standing { object, binding, notes, trouble: None, look_again, figures }
}

/// Whether enough pods serve and a release moves on, by what is stored of the round before (ST-5).
fn health(account: &Account<'_>, totals: &Totals, known: Option<&FleetBindingStatus>) -> health::Health {
    let (planned, spec) = (account.planned, &account.prepared.spec);
    let is_stuck = |it: &Cluster| {
        let status = it.assignment.as_ref().and_then(|it| it.status.as_ref());
        status.is_some_and(|it| matches!(it.state, Some(ShareState::Conflict | ShareState::Failed)))
    };
    let is_due = |row: &Row, it: &Cluster| !row.acknowledged && !is_silent(it.shown) && !is_stuck(it);
    let condition = |kind| known.and_then(|it| it.conditions.iter().find(|it| it.type_ == kind));
    let generation = condition(types::PROGRESSING).and_then(|it| it.observed_generation);
    let least = planned.population.saturating_sub(over_fleet(account, spec.unavailable.into()));
    // Whether they serve is judged over the fleet: U of them may be down.
    let has = |updated: u64| totals.updated >= updated && totals.available >= least;
    let rests = match () {
        () if !planned.ledger.is_releasing() && has(planned.population) => Some(progress::AVAILABLE),
        () if spec.paused => Some(progress::PAUSED),
        () if totals.expected_updated < planned.population && has(totals.expected_updated) => {
            Some(progress::PARTITION_AVAILABLE)
        }
        () => None,
    };
    health::judge(&health::Case {
        available: totals.available,
        least,
        in_flight: !planned.writes.is_empty() || account.given().any(|(row, it)| is_due(row, it)),
        was_available: condition(types::AVAILABLE).map(|it| it.status == "True"),
        short_since: known.and_then(|it| it.short_since.as_ref()).map(|it| it.0),
        rests,
        has_moved: generation != Some(account.observed.generation())
            || known.is_none_or(|it| u64::from(it.updated) != totals.updated),
        stalled_since: known.and_then(|it| it.stalled_since.as_ref()).map(|it| it.0),
        deadline: Duration::from_secs(account.prepared.rules.progress_deadline.into()),
        now: account.observed.now,
    })
}

/// How an object stands that was taken back from all members.
pub(super) fn withdrawn(observed: &Observed<'_>) -> Standing {
    let FederatedObject { api_version, kind, .. } = observed.reference;
    let kind = kinds::of(api_version.split_once('/').map_or("", |it| it.0), kind);
    let totals = Totals { observed_generation: Some(observed.generation()), ..Totals::default() };
    Standing { object: kind.status(observed.object, &totals), ..Standing::default() }
}

fn totals(account: &Account<'_>) -> Totals {
    let target = account.planned.ledger.target;
    let name = |it| format!("{}-{}", account.observed.reference.name, ledger::hash(it));
    // While it is not known whose the named pods are, the old number of replicas stands (SPLIT-8).
    let is_planned = !account.rows.is_empty() && !account.routing.is_awaited && account.awaited.is_empty();
    let planned = is_planned.then(|| account.observed.generation());
    Totals {
        expected_updated: expected_updated(account),
        target: name(account.planned.ledger.target),
        stable: name(account.planned.ledger.stable),
        pulls: account.pulls.map(|it| it.totals.clone()).unwrap_or_default(),
        started: account.pulls.and_then(|it| it.started),
        completed: account.pulls.and_then(|it| it.completed),
        is_late: account.pulls.is_some_and(|it| it.is_late),
        ..account.words().sum(target, planned)
    }
}

/// G: pods that should be at the target revision (REV-2). A rollback does not apply the partition (REL-7).
fn expected_updated(account: &Account<'_>) -> u64 {
    let planned = account.planned;
    let is_rolled_back = planned.ledger.rolled_back.is_some();
    let partition = if is_rolled_back { 0 } else { account.prepared.spec.partition };
    planned.population.saturating_sub(over_fleet(account, partition))
}

/// A partition or a budget of the spec over the fleet. Where every cluster has it for itself, it is about no more pods than the
/// cluster has (SPLIT-6).
fn over_fleet(account: &Account<'_>, number: u64) -> u64 {
    if account.prepared.spec.numbers == Numbers::Global {
        return number;
    }
    let own = |it: &Row| number.min(u64::from(it.replicas.grant));
    account.rows.iter().filter(|it| !it.lost).map(own).sum()
}

/// Pods that may be down on purpose, or are, or downloads that may be running: used and limit.
fn budget(account: &Account<'_>) -> String {
    if let Some(pulls) = account.pulls {
        return format!("{}/{}", pulls.exposed(), pulls.numbers.parallelism);
    }
    let limit = over_fleet(account, account.prepared.spec.unavailable.into());
    format!("{}/{limit}", unavailable(account.rows))
}

/// Pods that may be down on purpose, or are.
fn unavailable(rows: &[Row]) -> u64 {
    let used = |it: &Row| {
        // Where a share is each cluster's own it may be larger than the cluster (SPLIT-6).
        let exposed = it.unavailable.exposure.min(it.replicas.exposure);
        u64::from(exposed.max(it.reported_unavailable().saturating_sub(it.moving)))
    };
    rows.iter().filter(|it| !it.lost).map(used).sum()
}

/// Whether two statuses say the same, whenever it began.
pub(super) fn is_same(a: &FleetBindingStatus, b: &FleetBindingStatus) -> bool {
    let essence = |it: &FleetBindingStatus| {
        let mut it = it.clone();
        it.conditions.iter_mut().for_each(|it| it.last_transition_time = Time(Timestamp::UNIX_EPOCH));
        it
    };
    essence(a) == essence(b)
}

/// Whether a cluster does not report, so that what it has is not known.
fn is_silent(state: ClusterState) -> bool {
    matches!(state, ClusterState::Offline | ClusterState::Lost | ClusterState::Revoked)
}
