//! What is worth an event.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kruise_core::{
    api::fleet::keys::{conditions as types, events},
    runtime::events::Severity,
};
use scheduling::{ledger::Row, reason, release::Decision as Release, round::Why};

use super::{account::Account, conditions, happened};

/// Whether people are told what they were told before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It has happened, and when it happens again that is news: ten replicas may be placed in the same way twice.
    EveryTime,
    /// It is so, and may be found again in every round.
    Once,
    /// It happens again and again: once a minute is enough (DR-1).
    Rarely,
}

/// Something to tell people about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Whether it is told again when it was told before.
    pub told: Told,
    /// Whether somebody should look into it.
    pub severity: Severity,
    /// One word.
    pub reason: &'static str,
    /// The rest.
    pub message: String,
}

/// Whether people are told on the object's binding as well as on the object. What is held or went wrong is rare, and looked for in
/// both places. What went well comes with every object that is applied, scaled or moved, and many are at once: one write for each is
/// enough, and the binding's own status says the same.
pub(in crate::dispatch) fn is_told_twice(severity: Severity) -> bool {
    severity == Severity::Warning
}

/// What is worth an event: replicas that were placed or moved, and what began to be the matter.
pub(super) fn notes(account: &Account<'_>, before: &[Condition], after: &[Condition]) -> Vec<Note> {
    let mut notes = Vec::new();
    let was = |row: &Row| {
        account.before.rows.iter().find(|it| it.cluster == row.cluster).map_or(0, |it| it.share.replicas)
    };
    let changed: Vec<_> = account.rows.iter().filter(|it| was(it) != it.share.replicas).collect();
    if !changed.is_empty() {
        let placed: u64 = account.before.rows.iter().map(|it| u64::from(it.share.replicas)).sum();
        // What was due and had no place yet is placed, not moved.
        let is_move =
            account.before.population == account.planned.population && placed >= account.planned.population;
        let reason = if is_move { events::RESCHEDULED } else { events::SCHEDULED };
        let shown = |it: &&Row| format!("{} {} -> {}", it.cluster, was(it), it.share.replicas);
        let mut message = changed.iter().map(shown).collect::<Vec<_>>().join(", ");
        if is_move {
            message.push_str(&format!(": {}", happened::why_moved(account)));
        }
        notes.push(Note { told: Told::EveryTime, severity: Severity::Normal, reason, message });
    }
    let was_given =
        |row: &Row| account.before.rows.iter().any(|it| it.cluster == row.cluster && it.share.seq > 0);
    let given =
        account.rows.iter().filter(|it| account.pulls.is_some() && it.share.seq > 0 && !was_given(it));
    let given: Vec<_> = given.map(|it| it.cluster.clone()).collect();
    if !given.is_empty() {
        let (reason, message) = (events::SCHEDULED, format!("placed on {}", reason::list(&given)));
        notes.push(Note { told: Told::EveryTime, severity: Severity::Normal, reason, message });
    }
    for decision in &account.planned.decisions {
        let Why::Release(step) = &decision.why else { continue };
        let reason = match step {
            Release::RolledBack(_) => events::ROLLED_BACK,
            Release::ReleasePaused(_) => events::RELEASE_PAUSED,
            _ => continue,
        };
        let (told, message) = (Told::EveryTime, step.to_string());
        notes.push(Note { told, severity: Severity::Warning, reason, message });
    }
    for names in &account.routing.ambiguous {
        let message = format!("several pods have this name; say which: {}", names.join(", "));
        notes.push(Note {
            told: Told::Once,
            severity: Severity::Warning,
            reason: events::AMBIGUOUS_POD,
            message,
        });
    }
    for (cluster, why) in &account.unheard.refused {
        // A report about a newer plan cannot be true of the one that is known; that is told otherwise.
        if account.ahead().any(|it| it.facts.name == *cluster) {
            continue;
        }
        let status = account.cluster(cluster).and_then(|it| it.assignment.as_ref()?.status.as_ref());
        let number = status.map_or((0, 0), |it| (it.incarnation, it.report));
        let message =
            format!("report {}.{} of {cluster} cannot be true and is not counted: {why}", number.0, number.1);
        notes.push(Note {
            told: Told::Once,
            severity: Severity::Warning,
            reason: events::REPORT_REFUSED,
            message,
        });
    }
    if account.ahead().next().is_some() {
        let told = after.iter().find(|it| it.type_ == types::STALE).map(|it| it.message.clone());
        let (told, message) = (Told::Once, told.unwrap_or_default());
        notes.push(Note { told, severity: Severity::Warning, reason: events::RESTORED, message });
    }
    if let Some((_, message)) = account.unsent {
        let (told, message) = (Told::Once, message.clone());
        notes.push(Note { told, severity: Severity::Warning, reason: events::PULL_SECRETS, message });
    }
    let is_news = |it: &&Condition| {
        let known = before.iter().find(|known| known.type_ == it.type_);
        it.status == "True" && known.is_none_or(|known| known.status != "True")
    };
    for condition in after.iter().filter(is_news) {
        if let Some(reason) = conditions::event(condition) {
            let message = condition.message.clone();
            notes.push(Note { told: Told::Once, severity: Severity::Warning, reason, message });
        }
    }
    notes.extend(happened::adopted(account));
    notes.extend(happened::corrected(account));
    notes
}
