//! What a hub may not believe of its own data: it may have been restored from an older copy (HA-5). Pure.
//!
//! Terms do not help: a restored hub takes a new one, and its plans would count more than newer ones. So after a start nothing
//! is written for an object before each of its clusters has said, with a Lease that was renewed since, what it does, and that
//! is what is stored. Where a cluster then turns out to carry out a newer plan than the ledger knows, what it may be doing
//! counts as exposure, and the cluster is left alone until a person has looked at it (`kubectl fleet recover`).

use std::{collections::BTreeMap, time::Duration};

use kruise_core::api::fleet::{
    assignment::{Assignment, Intent, ShareState},
    binding::{FleetBinding, Ledger},
    keys, told,
};
use serde_json::Value;

use super::{Cluster, Observed, Round, shares::is_heard};
use crate::{
    dispatch::{status::Standing, term},
    members::roster,
};

/// How long a cluster is waited for whose word does not fit. After that it alone is left as it is: one agent that is mistaken,
/// or lies, must not hold the others up (SEC-5).
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How soon is looked again.
const SOON: Duration = Duration::from_secs(2);
/// How soon is looked again at a cluster whose word does not fit: it may do so any time, and that alone wakes nobody.
const LATER: Duration = Duration::from_secs(10);

/// Whether what is stored of a cluster is what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Word {
    /// It is, or was once since this process started: what was stored later is this process's own.
    #[default]
    Heard,
    /// That is not known yet.
    Awaited,
    /// It is not, for too long.
    Doubted,
}

/// What the hub has stored of a cluster's reports, in the word that its agent would use.
pub fn stored<'a>(assignments: impl IntoIterator<Item = &'a Assignment>) -> String {
    told::digest(assignments.into_iter().map(|it| {
        let (term, seq) = it.status.as_ref().map_or((0, 0), |it| (it.applied_term, it.applied_seq));
        (it.metadata.name.as_deref().unwrap_or_default(), term, seq)
    }))
}

/// Compares an agent's word, if there is one since this process started, with what is stored.
pub fn compare(said: Option<&roster::Word>, stored: impl FnOnce() -> String) -> Word {
    match said {
        None => Word::Awaited,
        // An agent of an older version: that its Lease changes has to do (HA-6).
        Some(roster::Word { told: None, .. }) => Word::Heard,
        Some(roster::Word { told: Some(told), up_for }) => match *told == stored() {
            true => Word::Heard,
            false if *up_for < PATIENCE => Word::Awaited,
            false => Word::Doubted,
        },
    }
}

/// The round, unless it would write something while a cluster that has a part of the object is awaited: then nothing is written,
/// and nothing is said either, as that may be as old.
pub(super) fn unless_awaited(observed: &Observed<'_>, mut round: Round) -> Round {
    let ledger = observed.binding.map(|it| &it.spec.ledger.clusters);
    let has_a_part = |it: &Cluster| {
        it.assignment.is_some() || ledger.is_some_and(|rows| rows.contains_key(&it.facts.name))
    };
    let is_awaited = |it: &Cluster| it.word == Word::Awaited && is_heard(it.planning) && has_a_part(it);
    let is_quiet =
        round.save.is_none() && round.writes.is_empty() && round.removals.is_empty() && !round.expires;
    if is_quiet || !observed.clusters.iter().any(is_awaited) {
        if observed.clusters.iter().any(|it| it.word == Word::Doubted) {
            round.look_again = Some(round.look_again.map_or(LATER, |it| it.min(LATER)));
        }
        return round;
    }
    let known = observed.binding.and_then(|it| it.status.clone()).unwrap_or_default();
    Round {
        standing: Standing { binding: known, ..Standing::default() },
        look_again: Some(SOON),
        ..Round::default()
    }
}

/// The ledger of an object that has none. One whose status was written had a ledger, which is lost.
pub(super) fn anew(object: &Value) -> Ledger {
    let has_finalizer = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    let has_finalizer = has_finalizer.is_some_and(|all| all.iter().any(|it| it == keys::FINALIZER));
    let has_status = object["status"].as_object().is_some_and(|it| !it.is_empty());
    Ledger { rebuilt: has_finalizer && has_status, ..Ledger::default() }
}

/// Whether the newer plan of a cluster is taken over: a person said so of exactly this plan, or the ledger was lost, and knows
/// nothing of the cluster or has not heard it since. A row that is merely new is not that: its cluster may say anything (SEC-5),
/// except that it has given the object up before. Then there is nothing to take over but a number, which went with an earlier
/// ledger of the object (PROTO-3).
pub(super) fn may_take_over(saved: &Ledger, binding: Option<&FleetBinding>, cluster: &Cluster) -> bool {
    let name = &cluster.facts.name;
    let is_asked = cluster.stored().is_some_and(|it| it.intent == Intent::Ask);
    let is_lost = match binding.and_then(|it| it.spec.ledger.clusters.get(name)) {
        // Nothing was granted to whoever is only asked, and that is known.
        None => saved.rebuilt || !is_asked,
        Some(row) => (saved.rebuilt || has_given_up(cluster)) && row.report.is_none() && !row.acknowledged,
    };
    let said = binding.and_then(|it| it.metadata.annotations.as_ref()?.get(keys::RECOVER));
    let said: BTreeMap<String, u64> = said.and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default();
    is_lost || said.get(name) == Some(&cluster.newest())
}

/// Whether a cluster refuses a share because the last plan that it knows was the end of the object there. What is out of reach is no
/// number that was ever written.
fn has_given_up(cluster: &Cluster) -> bool {
    let (Some(stored), Some(status)) = (cluster.stored(), cluster.status()) else { return false };
    stored.intent == Intent::Apply
        && matches!(status.state, Some(ShareState::Deleted | ShareState::Orphaned))
        && status.applied_seq > stored.seq
        && term::believable(status.applied_seq, stored.seq) == status.applied_seq
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(told: Option<&str>, seconds: u64) -> roster::Word {
        roster::Word { told: told.map(str::to_owned), up_for: Duration::from_secs(seconds) }
    }

    #[test]
    fn ha_5_a_cluster_is_heard_when_its_word_is_what_is_stored() {
        let compare = |said: Option<roster::Word>| compare(said.as_ref(), || "1-a".to_owned());
        assert_eq!(compare(None), Word::Awaited, "its Lease may be as old as the copy");
        assert_eq!(compare(Some(word(Some("1-a"), 10))), Word::Heard);
        assert_eq!(compare(Some(word(Some("1-b"), 10))), Word::Awaited);
        assert_eq!(compare(Some(word(Some(""), 10))), Word::Awaited, "the agent has not looked yet");
        assert_eq!(
            compare(Some(word(Some("1-b"), 60))),
            Word::Doubted,
            "SEC-5: it holds itself up, and no longer others"
        );
        assert_eq!(compare(Some(word(None, 10))), Word::Heard, "HA-6: an agent of an older version");
    }
}
