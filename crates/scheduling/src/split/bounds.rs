//! What each cluster may have (SPLIT-1), in the order that settles ties.

use super::{Candidate, Error, Request, State, WhenShort, slot::Slot};
use crate::{names::ClusterName, reason::Limit};

/// Places of the clusters, tier by tier, each tier by rank. The name settles equal ranks, so that the order of the
/// request never matters.
pub(super) fn order(request: &Request) -> Result<Vec<u32>, Error> {
    let clusters = &request.clusters;
    // Tier, rank and place in one number: comparing them is most of what a plan over many clusters costs.
    let key = |(place, it): (usize, &Candidate)| {
        u128::from(it.tier) << 96 | u128::from(it.rank) << 32 | place as u128
    };
    let mut keys: Vec<u128> = clusters.iter().enumerate().map(key).collect();
    keys.sort_unstable();
    let mut order: Vec<u32> = keys.iter().map(|it| *it as u32).collect();
    let mut rest = order.as_mut_slice();
    for run in keys.chunk_by(|a, b| a >> 32 == b >> 32) {
        let (equals, later) = rest.split_at_mut(run.len());
        rest = later;
        let name = |it: &u32| &clusters[*it as usize].name;
        equals.sort_unstable_by(|a, b| name(a).cmp(name(b)));
        if let Some(pair) = equals.windows(2).find(|it| name(&it[0]) == name(&it[1])) {
            return Err(Error::DuplicateCluster(name(&pair[0]).clone()));
        }
    }
    let has_tiers = clusters.windows(2).any(|it| it[0].tier != it[1].tier);
    match has_tiers.then(|| twice(clusters)).flatten() {
        Some(name) => Err(Error::DuplicateCluster(name.clone())),
        None => Ok(order),
    }
}

/// A cluster that is listed twice, in whatever tiers. The same name has the same rank.
fn twice(clusters: &[Candidate]) -> Option<&ClusterName> {
    let mut by_rank: Vec<(u64, &ClusterName)> = clusters.iter().map(|it| (it.rank, &it.name)).collect();
    by_rank.sort_unstable();
    by_rank.windows(2).find(|it| it[0] == it[1]).map(|it| it[0].1)
}

/// The clusters as slots, in their `order`. `now` says what each cluster of the request has and how much of that is
/// named for deletion.
pub(super) fn slots(request: &Request, order: &[u32], now: impl Fn(usize) -> (u32, u32)) -> Vec<Slot> {
    let slot = |it: &u32| {
        let place = *it as usize;
        slot(&request.clusters[place], *it, now(place), request.when_short)
    };
    order.iter().map(slot).collect()
}

fn slot(cluster: &Candidate, place: u32, (current, named): (u32, u32), when_short: WhenShort) -> Slot {
    let (low, high, limit) = bounds(cluster, current);
    let takes_more = matches!(cluster.state, State::Ready | State::Unconfirmed);
    let may_overcommit = takes_more && when_short == WhenShort::Overcommit;
    Slot {
        place,
        tier: cluster.tier,
        weight: cluster.weight,
        low: low.min(high),
        min: low.min(high),
        high,
        reach: if may_overcommit { cluster.max.unwrap_or(u32::MAX) } else { high },
        fit: cluster.fit.unwrap_or(u32::MAX),
        current,
        named,
        is_frozen: matches!(limit, Limit::Offline | Limit::Unsupported) && low == high && high == current,
        limit,
        ..Slot::default()
    }
}

/// The least and the most a cluster may have, and what makes the most no larger.
fn bounds(cluster: &Candidate, current: u32) -> (u32, u32, Limit) {
    let max = cluster.max.unwrap_or(u32::MAX);
    let fit = cluster.fit.unwrap_or(u32::MAX);
    let high = max.min(fit);
    let limit = match (high, fit < max) {
        (u32::MAX, _) => Limit::None,
        (_, true) => Limit::Fit(fit),
        (_, false) => Limit::Max(max),
    };
    match cluster.state {
        State::Ready | State::Unconfirmed => (cluster.min, high, limit),
        State::Cordoned => (cluster.min, high.min(current), Limit::Cordoned),
        State::Draining => (0, 0, Limit::Draining),
        State::Excluded => (0, 0, Limit::Excluded),
        State::Offline => (current, current, Limit::Offline),
        State::Unsupported if current > 0 => (current, current, Limit::Unsupported),
        State::Unsupported => (0, 0, Limit::Unsupported),
        State::Lost => (0, 0, Limit::Lost),
        State::Pending => (0, 0, Limit::Pending),
        State::Returning => (0, 0, Limit::Returning),
    }
}
