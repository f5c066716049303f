//! Conditions of a binding (ST-4).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kruise_core::api::{
    cloneset,
    fleet::{
        FederatedObject,
        assignment::ShareState,
        keys::{conditions as types, events, reasons},
    },
};
use scheduling::{
    ledger::Revision,
    moves::Held,
    names::ClusterName,
    pulls::Completion,
    reason::{self, Condition as Division},
    release::Decision as Release,
    round::{Condition as Matter, Why},
};

use super::{Account, Totals, Trouble, happened, health::Health, is_silent};
use crate::dispatch::plan::{Observed, Pulls, caution::Word};

/// One aspect. The order of its list is its weight for the summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Aspect {
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

/// Why an object is not released that was taken back.
const ROLLED_BACK: &str = "RolledBack";

/// Types that say that something is the matter when they are true; the others when they are not.
const MATTERS: [&str; 10] = [
    types::SUSPENDED,
    types::CONFLICT,
    types::UNPLACED,
    types::SPREAD_UNSATISFIED,
    types::BUDGET_HELD,
    types::PARTITION_SHORT,
    types::SURPLUS_FROZEN,
    types::DRAIN_HELD,
    types::STALE,
    types::DRIFTED,
];

/// The word of the event when an aspect begins to hold.
pub(super) fn event(condition: &Condition) -> Option<&'static str> {
    Some(match condition.type_.as_str() {
        types::DRIFTED if condition.reason == events::SCALE_CONFLICT => events::SCALE_CONFLICT,
        types::DRIFTED if condition.reason == events::DRIFT_FIGHT => events::DRIFT_FIGHT,
        types::BUDGET_HELD => events::BUDGET_HELD,
        types::PARTITION_SHORT => events::PARTITION_SHORT,
        types::UNPLACED => events::UNPLACED,
        types::CONFLICT => events::CONFLICT,
        types::DRAIN_HELD => events::DRAIN_HELD,
        _ => return None,
    })
}

/// What matters most: the first thing that is the matter, else the first that is not yet so.
pub(super) fn summary(aspects: &[Aspect]) -> &'static str {
    let is_bad = |it: &&Aspect| it.holds == MATTERS.contains(&it.kind);
    match aspects.iter().find(is_bad) {
        Some(it) if it.holds => it.kind,
        Some(it) => it.reason,
        None => "Ready",
    }
}

/// The aspects of an object that is not planned.
pub(super) fn of_trouble(trouble: &Trouble, object: &FederatedObject) -> Vec<Aspect> {
    let not_scheduled = |reason, message: &String| aspect(types::SCHEDULED, false, reason, message.clone());
    match trouble {
        Trouble::Suspended => {
            let message = "no policy matches; members run on as they are".to_owned();
            vec![aspect(types::SUSPENDED, true, "NoPolicy", message)]
        }
        Trouble::SweptAlong(message) => {
            vec![aspect(types::SUSPENDED, true, "SweptAlong", message.clone())]
        }
        Trouble::Ending { because, .. } => {
            let message = trouble.awaited(object).unwrap_or_default();
            vec![aspect(types::APPLIED, false, because.event(), message)]
        }
        Trouble::BadNumbers(message) => vec![not_scheduled("BadNumbers", message)],
        Trouble::NotSupported(message) => vec![not_scheduled("NotSupported", message)],
    }
}

/// The aspects of an object after a round, weightiest first.
pub(super) fn of(account: &Account<'_>, totals: &Totals, health: Option<&Health>) -> Vec<Aspect> {
    let mut aspects = vec![scheduled(account)];
    aspects.extend(stuck(account));
    aspects.extend(account.planned.conditions.iter().filter_map(|it| matter(account, it)));
    aspects.extend(stale(account));
    aspects.extend(progress(account, totals, health));
    // Of one kind the first counts.
    let mut known = Vec::new();
    aspects.retain(|it| {
        let is_new = !known.contains(&it.kind);
        known.push(it.kind);
        is_new
    });
    aspects
}

fn scheduled(account: &Account<'_>) -> Aspect {
    let refusal = account.planned.conditions.iter().find_map(|it| match it {
        Matter::Refused(why) => Some(why.to_string()),
        Matter::PartitionRefused(why) => Some(why.to_string()),
        Matter::BudgetsRefused(why) => Some(why.to_string()),
        _ => None,
    });
    if let Some(message) = refusal {
        return aspect(types::SCHEDULED, false, "BadNumbers", message);
    }
    if !account.prepared.has_cluster() {
        let message = "the policy selects no cluster; nothing is changed".to_owned();
        return aspect(types::SCHEDULED, false, reasons::NO_CLUSTER, message);
    }
    if !account.awaited.is_empty() {
        let awaited: Vec<ClusterName> = account.awaited.iter().map(|it| it.as_str().into()).collect();
        let message = format!("how much room there is has not been said yet by {}", reason::list(&awaited));
        return aspect(types::SCHEDULED, false, reasons::ASKING_FOR_ROOM, message);
    }
    if let Some((is_placed, message)) = account.unsent {
        return aspect(types::SCHEDULED, *is_placed, reasons::PULL_SECRETS, message.clone());
    }
    let lacking: Vec<ClusterName> = account.lacking().map(|it| it.0.facts.cluster_name()).collect();
    if lacking.is_empty() {
        return aspect(types::SCHEDULED, true, "Placed", String::new());
    }
    let message =
        format!("{}: the kind is not served by {}", reasons::API_NOT_SUPPORTED, reason::list(&lacking));
    if account.is_served_nowhere() {
        return aspect(types::SCHEDULED, false, reasons::API_NOT_SUPPORTED, message);
    }
    aspect(types::SCHEDULED, true, "Placed", message)
}

/// Clusters that cannot carry out their share, and those that somebody else changes.
fn stuck(account: &Account<'_>) -> Vec<Aspect> {
    let of = |wanted: &dyn Fn(&super::Cluster) -> bool| -> Vec<ClusterName> {
        let found = account.given().filter(|(_, it)| wanted(it));
        found.map(|(row, _)| row.cluster.clone()).collect()
    };
    let status = |it: &super::Cluster| it.assignment.as_ref().and_then(|it| it.status.clone());
    let conflicts = of(&|it| status(it).is_some_and(|it| it.state == Some(ShareState::Conflict)));
    let mut aspects = Vec::new();
    if !conflicts.is_empty() {
        let message = format!("the object belongs to somebody else in {}", reason::list(&conflicts));
        aspects.push(aspect(types::CONFLICT, true, "NotOurs", message));
    }
    if let Some((reason, message)) = happened::drifted(account) {
        aspects.push(aspect(types::DRIFTED, true, reason, message));
    }
    aspects
}

fn matter(account: &Account<'_>, matter: &Matter) -> Option<Aspect> {
    let message = matter.to_string();
    let (kind, reason) = match matter {
        Matter::BudgetHeld { .. } => (types::BUDGET_HELD, "UsedUp"),
        Matter::DrainHeld { .. } => (types::DRAIN_HELD, "NoRoomElsewhere"),
        Matter::VolumesHeld { .. } => (types::DRAIN_HELD, "HasVolumes"),
        Matter::Division(Division::Unplaced(_)) if account.is_served_nowhere() => {
            (types::UNPLACED, reasons::API_NOT_SUPPORTED)
        }
        Matter::Division(Division::Unplaced(_)) => (types::UNPLACED, "NoRoom"),
        Matter::Division(Division::SurplusFrozen(_)) => (types::SURPLUS_FROZEN, "OutOfReach"),
        Matter::Division(Division::SpreadUnsatisfied { .. }) => (types::SPREAD_UNSATISFIED, "TooFewGroups"),
        Matter::Division(Division::PartitionShort { .. }) => (types::PARTITION_SHORT, "Held"),
        // Said by other conditions, or of no consequence.
        _ => return None,
    };
    Some(aspect(kind, true, reason, message))
}

/// What is known of clusters is not what they do: they know more than this hub, which was restored from an older copy or lost
/// its ledger, or they are silent.
fn stale(account: &Account<'_>) -> Option<Aspect> {
    let ahead: Vec<_> = account.ahead().map(|it| it.facts.cluster_name()).collect();
    if !ahead.is_empty() {
        let message = format!(
            "newer plans than this hub knows are carried out by {}: it seems to be restored from an older copy; see what \
             `kubectl fleet recover` says",
            reason::list(&ahead)
        );
        return Some(aspect(types::STALE, true, "Restored", message));
    }
    let doubted = account.given().filter(|(_, it)| it.word == Word::Doubted);
    let doubted: Vec<_> = doubted.map(|(row, _)| row.cluster.clone()).collect();
    if !doubted.is_empty() {
        let message = format!("what is stored here is not what is said by {}", reason::list(&doubted));
        return Some(aspect(types::STALE, true, "NotHeard", message));
    }
    let silent: Vec<_> =
        account.given().filter(|(_, it)| is_silent(it.shown)).map(|(row, _)| row.cluster.clone()).collect();
    let message = || format!("no word from {}", reason::list(&silent));
    (!silent.is_empty()).then(|| aspect(types::STALE, true, "Offline", message()))
}

/// From written to released, each as far as it has come.
fn progress(account: &Account<'_>, totals: &Totals, health: Option<&Health>) -> Vec<Aspect> {
    let waiting = |done: &dyn Fn(&super::Row, &super::Cluster) -> bool| -> Vec<ClusterName> {
        let rest = account.given().filter(|(row, cluster)| !done(row, cluster));
        rest.map(|(row, _)| row.cluster.clone()).collect()
    };
    let dispatched =
        waiting(&|row, it| it.assignment.as_ref().is_some_and(|it| it.spec.seq == row.share.seq));
    let applied = waiting(&|row, _| row.acknowledged);
    let named = |kind, waiting: &[ClusterName], yes, no| {
        let message =
            if waiting.is_empty() { String::new() } else { format!("waits for {}", reason::list(waiting)) };
        aspect(kind, waiting.is_empty(), if waiting.is_empty() { yes } else { no }, message)
    };
    let unfit: Vec<ClusterName> = account.unfit().map(|it| it.0.facts.cluster_name()).collect();
    let applied = if unfit.is_empty() {
        named(types::APPLIED, &applied, "Acknowledged", "Applying")
    } else {
        let message = format!("an override does not apply in {}", reason::list(&unfit));
        aspect(types::APPLIED, false, "OverrideDoesNotApply", message)
    };
    let dispatched = named(types::DISPATCHED, &dispatched, "Written", "Writing");
    if let Some(pulls) = account.pulls {
        return vec![dispatched, applied, pulled(pulls)];
    }
    let planned = account.planned;
    let message = format!("{} of {} pods are known to be available", totals.available, planned.population);
    let updated = format!("{} of {} pods are updated", totals.updated, totals.expected_updated);
    let health = health.map(|it| {
        let progressing = match stopped(account) {
            Some(why) => {
                let message = format!("{updated}; {why}");
                aspect(types::PROGRESSING, false, cloneset::progress::DEADLINE_EXCEEDED, message)
            }
            None => aspect(types::PROGRESSING, it.is_progressing, it.progressing, updated),
        };
        [aspect(types::AVAILABLE, it.is_available, it.available, message), progressing]
    });
    let mut aspects = vec![dispatched, applied];
    aspects.extend(health.into_iter().flatten());
    aspects.push(released(account, totals));
    aspects
}

/// Why no more replicas are evened out, if pods that were moved did not become available within the deadline (MOVE-5): nothing
/// brings it on by itself. To wait for the next interval is no news, and would be other news in every round.
fn stopped<'a>(account: &Account<'a>) -> Option<&'a Matter> {
    account.planned.conditions.iter().find(|it| matches!(it, Matter::RebalanceHeld(Held::Overdue(_))))
}

/// Whether the object's template is everywhere, and what became of its release if it is not (REL-7).
fn released(account: &Account<'_>, totals: &Totals) -> Aspect {
    let ledger = &account.planned.ledger;
    let updated = format!("{} of {} pods are updated", totals.updated, totals.expected_updated);
    if let Some(given_up) = ledger.rolled_back {
        return aspect(types::RELEASED, false, ROLLED_BACK, rolled_back(account, given_up));
    }
    match ledger.paused() {
        Some(why) => aspect(types::RELEASED, false, "Paused", format!("{updated}; {why}")),
        None if ledger.is_releasing() => aspect(types::RELEASED, false, "Releasing", updated),
        // A release that rests on its partition is not unwell (ST-5).
        None => aspect(types::RELEASED, true, "Everywhere", updated),
    }
}

/// Which revision was taken back, and why. Why is decided in one round and told in all that follow: those repeat what was said.
fn rolled_back(account: &Account<'_>, given_up: Revision) -> String {
    let begin = format!("revision {given_up} was taken back");
    let status = account.observed.binding.and_then(|it| it.status.as_ref());
    let mut told = status.iter().flat_map(|it| &it.conditions).filter(|it| it.type_ == types::RELEASED);
    let known = told.find(|it| it.reason == ROLLED_BACK && it.message.starts_with(&begin));
    let why = account.planned.decisions.iter().find_map(|it| match &it.why {
        Why::Release(Release::RolledBack(why)) => Some(why.to_string()),
        _ => None,
    });
    let end = format!("pods are of revision {} until the template is edited", account.planned.ledger.stable);
    match (why, known) {
        (Some(why), _) => format!("{begin}, as {why}; {end}"),
        (None, Some(known)) => known.message.clone(),
        (None, None) => format!("{begin}; {end}"),
    }
}

/// Whether every node of a job has its image, as far as there is one to serve.
fn pulled(pulls: &Pulls) -> Aspect {
    let (desired, succeeded, failed) = (pulls.totals.desired, pulls.totals.succeeded, pulls.totals.failed);
    let is_over = pulls.completed.is_some();
    let is_served =
        is_over || (pulls.numbers.completion == Completion::Never && succeeded + failed == desired);
    let mut message = format!("{succeeded} of {desired} nodes have the image");
    if failed > 0 {
        message.push_str(&format!(", {failed} failed"));
    }
    let reason = match () {
        () if is_served && failed > 0 => "Failed",
        () if is_served => "Everywhere",
        () if pulls.numbers.parallelism == 0 => "Paused",
        () => "Pulling",
    };
    aspect(types::RELEASED, is_served && failed == 0, reason, message)
}

fn aspect(kind: &'static str, holds: bool, reason: &'static str, message: String) -> Aspect {
    Aspect { kind, holds, reason, message }
}

/// As conditions, each since when it is so.
pub(super) fn written(aspects: Vec<Aspect>, known: &[Condition], observed: &Observed<'_>) -> Vec<Condition> {
    let written = |Aspect { kind, holds, reason, message }| {
        let status = if holds { "True" } else { "False" };
        let before = known.iter().find(|it| it.type_ == kind && it.status == status);
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: before.map_or(Time(observed.now), |it| it.last_transition_time.clone()),
            observed_generation: Some(observed.generation()),
        }
    };
    let mut conditions: Vec<_> = aspects.into_iter().map(written).collect();
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
    conditions
}
