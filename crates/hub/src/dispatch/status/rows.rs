//! How each cluster stands, and why.

use kruise_core::api::fleet::{assignment::ShareState, binding::ClusterRow};
use scheduling::{
    reason::Change,
    round::{Pulls as Slots, Why},
};

use super::account::{Account, Heard};

/// A row for each cluster that was given something, and for each that is left out though the policy selects it.
pub(super) fn rows(account: &Account<'_>) -> Vec<ClusterRow> {
    let given = account.given().map(|(row, cluster)| {
        let Heard { counts, applied_seq, reported_at, adopted, corrected, .. } =
            account.words().heard(row, cluster);
        let known = account.observed.last_told(&cluster.facts.name).map_or(0, |it| it.corrected);
        ClusterRow {
            cluster: cluster.facts.name.clone(),
            state: Some(cluster.shown),
            // What it has, not what is about to be written: that is seen when it is stored.
            slice: cluster.assignment.as_ref().and_then(|it| it.spec.slice.clone()),
            counts,
            seq: row.share.seq,
            applied_seq,
            reported_at,
            adopted,
            corrected: corrected.map_or(known, |it| it.count),
            reason: reason(account, &cluster.facts.name),
        }
    });
    let mut rows: Vec<ClusterRow> = given.collect();
    let lacking = account.lacking().map(|(cluster, why)| (cluster, why.to_string()));
    let unfit = account.unfit().map(|(cluster, why)| (cluster, why.clone()));
    let too_old = account.observed.clusters.iter().filter(|it| account.too_old(&it.facts.name).is_some());
    let too_old = too_old.map(|it| (it, reason(account, &it.facts.name)));
    for (cluster, reason) in lacking.chain(unfit).chain(too_old) {
        let name = &cluster.facts.name;
        if rows.iter().all(|it| it.cluster != *name) {
            let (cluster, state) = (name.clone(), Some(cluster.shown));
            rows.push(ClusterRow { cluster, state, reason, ..ClusterRow::default() });
        }
    }
    rows.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    rows
}

/// Why a cluster has what it has, in the words of whoever decided.
fn reason(account: &Account<'_>, cluster: &str) -> String {
    // Before its reports: a report about a newer plan cannot be true of the one that is known.
    if account.ahead().any(|it| it.facts.name == cluster) {
        return "it carries out a newer plan than this hub knows, and is left alone".to_owned();
    }
    if let Some((_, why)) = account.unfit.iter().chain(&account.unheard.refused).find(|it| it.0 == cluster) {
        return why.clone();
    }
    if let Some((_, why)) = account.lacking().find(|it| it.0.facts.name == cluster) {
        return why.to_string();
    }
    let status = account.cluster(cluster).and_then(|it| it.assignment.as_ref()?.status.as_ref());
    let stuck = status.filter(|it| matches!(it.state, Some(ShareState::Conflict | ShareState::Failed)));
    if let Some(condition) = stuck.and_then(|it| it.conditions.first()) {
        return condition.message.clone();
    }
    if let Some(feature) = account.too_old(cluster) {
        return format!(
            "gets nothing new: its agent is too old for {feature}, which this object needs; update the agent"
        );
    }
    let lasting = |it: &&Why| {
        let is_frozen = matches!(it, Why::Placed(why) if why.change == Change::Frozen);
        is_frozen
            || matches!(
                it,
                Why::GrowthHeldByPods(_)
                    | Why::GrowthHeldByStarting(_)
                    | Why::GrowthHeldUntilHeard(_)
                    | Why::ShrinkHeld(_)
                    | Why::Lost
                    | Why::Pulls(Slots::Wait(_) | Slots::Held(_))
            )
    };
    let ours = account
        .planned
        .decisions
        .iter()
        .filter(|it| it.cluster.as_ref().is_some_and(|it| it.as_str() == cluster));
    let words = |it: &Why| match it {
        Why::Placed(why) => why.limit.to_string(),
        other => other.to_string(),
    };
    ours.map(|it| &it.why).filter(lasting).map(words).collect::<Vec<_>>().join("; ")
}
