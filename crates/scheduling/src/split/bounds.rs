//! What each cluster may have (SPLIT-1), in the order that settles ties.

use super::{Candidate, Error, Request, State, WhenShort, slot::Slot};
use crate::reason::Limit;

/// The clusters as slots, tier by tier, each tier by rank. The name settles equal ranks, so that the order of the
/// request never matters. `now` says what each cluster of the request
/// has and how much of that is named for deletion.
pub(super) fn slots(request: &Request, now: impl Fn(usize) -> (u32, u32)) -> Result<Vec<Slot>, Error> {
    let clusters = &request.clusters;
    let mut order: Vec<(u32, u64, u32)> =
        clusters.iter().enumerate().map(|(place, it)| (it.tier, it.rank, place as u32)).collect();
    order.sort_unstable_by(|a, b| {
        let names = || clusters[a.2 as usize].name.cmp(&clusters[b.2 as usize].name);
        (a.0, a.1).cmp(&(b.0, b.1)).then_with(names)
    });
    let twice = order.windows(2).find(|it| {
        let (a, b) = (it[0], it[1]);
        (a.0, a.1) == (b.0, b.1) && clusters[a.2 as usize].name == clusters[b.2 as usize].name
    });
    if let Some(pair) = twice {
        return Err(Error::DuplicateCluster(clusters[pair[0].2 as usize].name.clone()));
    }
    let slot = |it: &(u32, u64, u32)| {
        let place = it.2 as usize;
        slot(&clusters[place], it.2, now(place), request.when_short)
    };
    Ok(order.iter().map(slot).collect())
}

fn slot(cluster: &Candidate, place: u32, (current, named): (u32, u32), when_short: WhenShort) -> Slot {
    let (low, high, limit) = bounds(cluster, current);
    let may_overcommit = cluster.state == State::Ready && when_short == WhenShort::Overcommit;
    Slot {
        place,
        tier: cluster.tier,
        weight: cluster.weight,
        low: low.min(high),
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
        State::Ready => (cluster.min, high, limit),
        State::Cordoned if current <= high => (cluster.min, current, Limit::Cordoned),
        State::Cordoned => (cluster.min, high, limit),
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
