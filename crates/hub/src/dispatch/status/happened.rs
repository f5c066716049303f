//! What happened to shares that is worth an event on the hub: taken over, put right, moved. Pure.

use kruise_core::{
    api::fleet::{
        assignment::{AssignmentStatus, Corrected},
        keys::events,
        policy::DriftMode,
    },
    runtime::events::Severity,
};
use scheduling::{names::ClusterName, reason, round::Why, split::State};

use super::{Account, Note, Told};
use crate::placement::select::Selection;

/// What an autoscaler in a member would change (CS-3).
const REPLICAS: &str = "/spec/replicas";

/// How many clusters an event tells the details of.
const MOST: usize = 5;

/// Clusters that took an object over that was there before, since that was last told (AD-1).
pub(super) fn adopted(account: &Account<'_>) -> Option<Note> {
    let is_told = |cluster: &str| account.observed.last_told(cluster).is_some_and(|it| it.adopted);
    let new = account.given().filter(|(row, cluster)| {
        account.words().heard(row, cluster).adopted && !is_told(&cluster.facts.name)
    });
    let new: Vec<ClusterName> = new.map(|(row, _)| row.cluster.clone()).collect();
    let message = || format!("the object was there before and was taken over in {}", reason::list(&new));
    (!new.is_empty()).then(|| note(Told::Once, Severity::Normal, events::ADOPTED, message()))
}

/// Changes by others that were undone since that was last told (DR-1, CS-3).
pub(super) fn corrected(account: &Account<'_>) -> Option<Note> {
    let mut news = Vec::new();
    for (row, cluster) in account.given() {
        let Some(corrected) = account.words().heard(row, cluster).corrected else { continue };
        let told = account.observed.last_told(&cluster.facts.name).map_or(0, |it| it.corrected);
        if corrected.count > 0 && corrected.count != told {
            news.push((cluster.facts.name.clone(), corrected));
        }
    }
    if news.is_empty() {
        return None;
    }
    let is_scaled = news.iter().any(|it| it.1.paths.iter().any(|it| it == REPLICAS));
    let (severity, reason) = match is_scaled {
        true => (Severity::Warning, events::SCALE_CONFLICT),
        false => (Severity::Normal, events::DRIFT_CORRECTED),
    };
    let mut words: Vec<String> = news.iter().take(MOST).map(|(name, it)| undone(name, it)).collect();
    if news.len() > MOST {
        words.push(format!("{} more clusters", news.len() - MOST));
    }
    Some(note(Told::Rarely, severity, reason, format!("put right {}", words.join("; "))))
}

fn undone(cluster: &str, corrected: &Corrected) -> String {
    let Corrected { count, paths, by } = corrected;
    let whom = if by.is_empty() { String::new() } else { format!(" changed by {}", by.join(", ")) };
    format!("in {cluster}: {}{whom} ({count} times so far)", paths.join(", "))
}

/// Why replicas leave the clusters that they leave.
pub(super) fn why_moved(account: &Account<'_>) -> String {
    let mut why: Vec<String> = Vec::new();
    for decision in &account.planned.decisions {
        let Some(name) = &decision.cluster else { continue };
        let is_leaving =
            matches!(decision.why, Why::MovedAway(_) | Why::ShrinkHeld(_) | Why::TakenBack(_) | Why::Lost);
        let words = match decision.why {
            _ if !is_leaving => continue,
            Why::TakenBack(_) => format!("pods in {name} never became available"),
            Why::Lost => format!("{name} is given up"),
            _ => left(account, name),
        };
        if !why.contains(&words) && why.len() < MOST {
            why.push(words);
        }
    }
    if why.is_empty() { "the split has changed".to_owned() } else { why.join("; ") }
}

fn left(account: &Account<'_>, name: &ClusterName) -> String {
    let is_selected =
        account.prepared.selections.iter().any(|it| it.0 == *name && !matches!(it.1, Selection::Not(_)));
    match account.cluster(name.as_str()).map(|it| it.planning) {
        Some(State::Draining) => format!("{name} is being drained"),
        _ if !is_selected => format!("the policy does not select {name} any more"),
        _ => format!("the split gives {name} fewer"),
    }
}

/// What somebody else changed and what is left so, or fought for: the reason and the words of the condition.
pub(super) fn drifted(account: &Account<'_>) -> Option<(&'static str, String)> {
    let status = |it: &super::Cluster| -> Option<AssignmentStatus> {
        let status = it.assignment.as_ref()?.status.clone()?;
        (!status.drift.is_empty()).then_some(status)
    };
    let drifted: Vec<(ClusterName, DriftMode, AssignmentStatus)> = account
        .given()
        .filter_map(|(row, it)| {
            let mode = it.assignment.as_ref().map(|it| it.spec.drift.mode).unwrap_or_default();
            Some((row.cluster.clone(), mode, status(it)?))
        })
        .collect();
    if drifted.is_empty() {
        return None;
    }
    let names: Vec<ClusterName> = drifted.iter().map(|it| it.0.clone()).collect();
    let mut by: Vec<String> = drifted.iter().flat_map(|it| it.2.drifted_by.clone()).collect();
    by.sort_unstable();
    by.dedup();
    by.truncate(MOST);
    let whom = if by.is_empty() { "somebody else".to_owned() } else { by.join(", ") };
    let is_scaled = drifted.iter().any(|it| it.2.drift.iter().any(|it| it == REPLICAS));
    let is_fought = drifted.iter().any(|it| it.1 == DriftMode::Correct);
    let clusters = reason::list(&names);
    Some(match () {
        () if is_scaled => {
            (events::SCALE_CONFLICT, format!("{whom} scales the object in {clusters}; only the hub may"))
        }
        () if is_fought => {
            (events::DRIFT_FIGHT, format!("{whom} changes the object again and again in {clusters}"))
        }
        () => ("Changed", format!("{whom} changed the object in {clusters}")),
    })
}

fn note(told: Told, severity: Severity, reason: &'static str, message: String) -> Note {
    Note { told, severity, reason, message }
}
