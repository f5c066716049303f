//! Policy, clusters and object as `scheduling` plans them.
//!
//! [`prepare`] decides nothing that the arithmetic decides: it resolves percentages on the fleet's N, finds each
//! cluster's weight, bounds, tier, groups and wave, and turns a policy's words into numbers.

mod rules;

use std::collections::BTreeMap;

use kruise_core::api::fleet::{
    keys,
    policy::{
        self, ClusterBounds, ClusterWeight, DynamicWeights, Placement, RebalanceTrigger, ReplicasMode,
        RolloutOrder,
    },
};
use scheduling::{
    ledger::Revision,
    moves::PolicyMark,
    names::{ClusterName, GroupName, TopologyKey},
    numbers::{self, Error, Pace, Percent, Rounding},
    partition::Seeding,
    rank::{rank, sha256},
    release::{PreDownload, PrePullView, Wave},
    round::{Cluster, Numbers, Population, Rules, Spec, World},
    split::{self, Candidate, Goal, Mode, Request, Spread, State, WhenShort, fit},
};

pub use rules::{read_number, waves};

use super::{
    kinds::PodNumbers,
    select::{ClusterFacts, Selection, select, selects},
};

/// One object that is to be planned.
#[derive(Debug, Clone)]
pub struct Object<'a> {
    /// Its UID, which settles ties.
    pub uid: &'a str,
    /// Group and kind.
    pub kind: (&'a str, &'a str),
    /// Its numbers.
    pub numbers: &'a PodNumbers,
    /// Whether its annotation copies partition and budgets to every cluster as they are.
    pub per_cluster: bool,
    /// The revision of its template.
    pub target: Revision,
    /// The policy that won.
    pub placement: &'a Placement,
    /// Which policy that is, and in which state.
    pub policy: PolicyMark,
    /// Why this round takes place; weights by free room follow it.
    pub cause: fit::Cause,
    /// The weights in use, by cluster, where they come from free room.
    pub weights_in_use: &'a BTreeMap<String, u32>,
    /// Whether a continuous rebalance may begin with new weights: nothing was moved in this interval, and all answers are there.
    pub may_weigh_anew: bool,
    /// Whether raising the partition takes updated pods back.
    pub partition_rollback: bool,
    /// The object it comes after, while that one is being released.
    pub after: Option<&'a str>,
    /// How far the images of the next wave are pulled.
    pub pre_pull: Option<PrePullView>,
    /// Seconds since the last round of this object; 0 after a restart.
    pub elapsed: u32,
}

/// One cluster of the fleet, as this object sees it.
#[derive(Debug, Clone)]
pub struct Member<'a> {
    /// What policies see of it.
    pub facts: &'a ClusterFacts,
    /// What can be done with it, for this object.
    pub state: State,
    /// Whether the ledger has a row for it.
    pub has_row: bool,
    /// Replicas last granted to it.
    pub current: u32,
    /// Pods of this object that would still fit, as it last answered; unknown is unlimited.
    pub free: Option<u32>,
    /// Its pods of this object that run.
    pub running: u32,
    /// Room there that other objects were promised and nobody has seen taken.
    pub promised_to_others: u64,
    /// Its pods that the user named for deletion.
    pub named: &'a [String],
    /// Whether its agent can run old pods beside new ones.
    pub seeding: Seeding,
    /// The number of the plan that is stored in its Assignment.
    pub dispatched: u64,
    /// Whether it is certain that nothing runs there any more.
    pub stopped: bool,
}

impl Member<'_> {
    fn fit(&self) -> Option<u32> {
        fit::effective(self.free, self.running, self.promised_to_others)
    }
}

/// What one round of `scheduling` looks at, and how each cluster was judged.
#[derive(Debug, Clone)]
pub struct Prepared<'a> {
    /// The object's numbers.
    pub spec: Spec,
    /// The policy's numbers.
    pub rules: Rules,
    /// How replicas are divided.
    pub mode: Mode,
    /// What to do when they do not fit.
    pub when_short: WhenShort,
    /// Rules about groups of clusters.
    pub spread: Vec<Spread>,
    /// The waves; none for order Proportional.
    pub waves: Vec<Wave>,
    /// The clusters that take part, by name.
    pub clusters: Vec<Cluster>,
    /// How each cluster of the fleet was judged, those left out included. For `explain`.
    pub selections: Vec<(ClusterName, Selection)>,
    /// The weights by free room that were used, by cluster; none where they are the policy's.
    pub weights: BTreeMap<String, u32>,
    /// What agents must be able to do for a share of this object.
    pub needs: Vec<&'static str>,
    after: Option<&'a str>,
    pre_download: Option<PreDownload>,
    pre_pull: Option<PrePullView>,
    elapsed: u32,
}

impl Prepared<'_> {
    /// The input of [`scheduling::round::plan`]. The ledger must have its rows in the order of [`Self::names`].
    pub fn world(&self) -> World<'_> {
        World {
            spec: self.spec,
            rules: self.rules,
            mode: self.mode,
            selects_none: !self.has_cluster(),
            when_short: self.when_short,
            spread: &self.spread,
            waves: &self.waves,
            after: self.after,
            pre_download: self.pre_download,
            pre_pull: self.pre_pull,
            clusters: &self.clusters,
            elapsed: self.elapsed,
        }
    }

    /// The clusters that take part, in order.
    pub fn names(&self) -> Vec<ClusterName> {
        self.clusters.iter().map(|it| it.candidate.name.clone()).collect()
    }

    /// Whether the policy selects a cluster at all.
    pub fn has_cluster(&self) -> bool {
        !selects_none(&self.selections)
    }
}

/// Prepares a round. The order of the clusters does not matter.
pub fn prepare<'a>(object: &Object<'a>, fleet: &[Member<'_>]) -> Result<Prepared<'a>, Error> {
    let mut fleet: Vec<&Member<'_>> = fleet.iter().collect();
    fleet.sort_by(|a, b| a.facts.name.cmp(&b.facts.name));
    let placement = object.placement;
    let judge = |it: &&Member<'_>| select(placement, it.facts, object.kind.0, object.kind.1);
    let judged: Vec<Selection> = fleet.iter().map(judge).collect();
    let selections: Vec<_> = fleet
        .iter()
        .zip(&judged)
        .map(|(it, selection)| (it.facts.cluster_name(), selection.clone()))
        .collect();

    // A cluster that the policy does not select stays while the ledger knows it: it has something to give away.
    let takes_part = |(member, selection): &(&Member<'_>, Selection)| {
        member.has_row || !matches!(selection, Selection::Not(_))
    };
    let parts: Vec<(&Member<'_>, Selection)> = fleet.into_iter().zip(judged).filter(takes_part).collect();
    let waves = match placement.rollout.order {
        RolloutOrder::Proportional => Vec::new(),
        RolloutOrder::Waves => rules::waves(&placement.rollout, parts.iter().map(|it| it.0.facts)),
    };
    let weighed = |by_room: &BTreeMap<String, u32>| -> Vec<Cluster> {
        parts.iter().map(|(member, selection)| cluster(object, member, selection, by_room)).collect()
    };
    let spread = spread(placement);
    let mode = match placement.replicas.mode {
        ReplicasMode::Divided => Mode::Divided,
        ReplicasMode::Duplicated => Mode::Duplicated,
        ReplicasMode::Aggregated => Mode::Aggregated,
    };
    let when_short = match placement.replicas.when_short {
        policy::WhenShort::Overcommit => WhenShort::Overcommit,
        policy::WhenShort::Hold => WhenShort::Hold,
    };
    let request = |clusters: &[Cluster]| Request {
        replicas: object.numbers.replicas,
        mode,
        selects_none: selects_none(&selections),
        when_short,
        goal: Goal::LeastMovement,
        spread: spread.clone(),
        clusters: clusters.iter().map(|it| it.candidate.clone()).collect(),
    };
    let mut by_room = weights_by_room(object, &parts, object.cause);
    let mut clusters = weighed(&by_room);
    if may_weigh_anew(object) {
        let anew = weights_by_room(object, &parts, fit::Cause::Rebalance);
        let other = weighed(&anew);
        if anew != by_room && rules::is_rebalance_due(object, &request(&other))? {
            (by_room, clusters) = (anew, other);
        }
    }
    let population = population(object, &request(&clusters));
    Ok(Prepared {
        spec: spec(object, mode, population)?,
        rules: rules::rules(object, population)?,
        mode,
        when_short,
        spread,
        waves,
        clusters,
        selections,
        weights: by_room,
        needs: object.numbers.needs(),
        after: object.after,
        pre_download: object.numbers.pre_download.map(|it| PreDownload { min_updated_ready: it.into() }),
        pre_pull: object.pre_pull,
        elapsed: object.elapsed,
    })
}

/// Fingerprint of pods named for deletion; 0 with none.
pub fn fingerprint(names: &[String]) -> u64 {
    if names.is_empty() {
        return 0;
    }
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.sort_unstable();
    let digest = sha256(names.join("\n").as_bytes());
    u64::from_be_bytes(std::array::from_fn(|it| digest[it])).max(1)
}

fn cluster(
    object: &Object<'_>,
    member: &Member<'_>,
    selection: &Selection,
    by_room: &BTreeMap<String, u32>,
) -> Cluster {
    let placement = object.placement;
    let facts = member.facts;
    let (tier, mut state) = state(member, selection);
    // An agent that does not know a field of the share would drop it (HA-6).
    if object.numbers.needs().iter().any(|it| !facts.can(it)) {
        state = State::strongest([state, State::Cordoned]);
    }
    let weight = match placement.replicas.dynamic {
        DynamicWeights::None => weight(&placement.replicas.weights, facts),
        // Whoever gives all away has no weight.
        DynamicWeights::FreeCapacity => by_room.get(&facts.name).copied().unwrap_or(0),
    };
    let (min, max) = bounds(&placement.replicas.per_cluster, facts);
    let group = |it: &Spread| facts.group(&it.key).map(GroupName::from);
    Cluster {
        candidate: Candidate {
            name: facts.cluster_name(),
            rank: rank(object.uid, &facts.name),
            state,
            tier,
            weight,
            min,
            max,
            fit: member.fit(),
            current: member.current,
            named_for_deletion: member.named.len() as u32,
            groups: spread(placement).iter().map(group).collect(),
        },
        wave: rules::wave_of(&placement.rollout, facts),
        order: facts.labels.get(keys::ORDER).and_then(|it| it.parse().ok()).unwrap_or(0),
        seeding: member.seeding,
        names: fingerprint(member.named),
        dispatched: member.dispatched,
        stopped: member.stopped,
        moves_stateful: facts.moves_stateful,
    }
}

/// The tier of a cluster, and what may be done with it.
fn state(member: &Member<'_>, selection: &Selection) -> (u32, State) {
    let (tier, by_policy) = match selection {
        Selection::Selected { tier } => (*tier, State::Ready),
        Selection::NothingNew { tier, .. } => (*tier, State::Cordoned),
        Selection::Unsupported { tier, .. } => (*tier, State::Unsupported),
        Selection::Not(_) => (0, State::Excluded),
    };
    (tier, State::strongest([member.state, by_policy]))
}

/// Weights by free room, of the clusters that keep what they have: while these are the same clusters and nothing but
/// estimates change, so are the weights (SPLIT-7).
fn weights_by_room(
    object: &Object<'_>,
    parts: &[(&Member<'_>, Selection)],
    cause: fit::Cause,
) -> BTreeMap<String, u32> {
    if object.placement.replicas.dynamic == DynamicWeights::None {
        return BTreeMap::new();
    }
    let keeps = |it: &&(&Member<'_>, Selection)| {
        matches!(state(it.0, &it.1).1, State::Ready | State::Unconfirmed | State::Cordoned | State::Offline)
    };
    let kept: Vec<&Member<'_>> = parts.iter().filter(keeps).map(|it| it.0).collect();
    let fits: Vec<_> = kept.iter().map(|it| it.fit()).collect();
    let known = object.weights_in_use;
    let in_use: Option<Vec<u32>> = kept.iter().map(|it| known.get(&it.facts.name).copied()).collect();
    let in_use = in_use.filter(|it| it.len() == known.len());
    let weights = fit::weights(in_use.as_deref(), &fits, cause);
    kept.iter().map(|it| it.facts.name.clone()).zip(weights).collect()
}

/// Whether a continuous rebalance may look at the room that there is now (SPLIT-7). It does so once in an interval at most: while it
/// moves, the weights that it began with stand.
fn may_weigh_anew(object: &Object<'_>) -> bool {
    let Placement { replicas, rebalance, .. } = object.placement;
    object.may_weigh_anew
        && object.cause == fit::Cause::Report
        && replicas.dynamic == DynamicWeights::FreeCapacity
        && rebalance.trigger == RebalanceTrigger::Continuous
        // Such pods are moved by no rebalance (CS-5).
        && !object.numbers.stateful
}

/// A cluster takes the largest weight that matches it, and 1 if none does.
fn weight(weights: &[ClusterWeight], cluster: &ClusterFacts) -> u32 {
    let matching = weights.iter().filter(|it| selects(&it.clusters, cluster));
    matching.map(|it| it.weight).max().unwrap_or(1)
}

/// The largest minimum and the smallest maximum that match. A minimum above the maximum is cut.
fn bounds(rules: &[ClusterBounds], cluster: &ClusterFacts) -> (u32, Option<u32>) {
    let matching = || rules.iter().filter(|it| selects(&it.clusters, cluster));
    let max = matching().filter_map(|it| it.max).min();
    let min = matching().filter_map(|it| it.min).max().unwrap_or(0);
    (max.map_or(min, |it| min.min(it)), max)
}

/// The most replicas that a policy lets a cluster have; none if there is no limit.
pub(crate) fn most(placement: &Placement, cluster: &ClusterFacts) -> Option<u32> {
    bounds(&placement.replicas.per_cluster, cluster).1
}

fn spread(placement: &Placement) -> Vec<Spread> {
    let rule = |it: &policy::SpreadRule| Spread {
        key: TopologyKey::from(it.topology_key.as_str()),
        min_groups: it.min_groups,
        max_groups: it.max_groups,
        max_share: it.max_share.as_deref().and_then(|it| Percent::parse(it).ok()),
        when_unsatisfiable: match it.when_unsatisfiable {
            policy::WhenUnsatisfiable::DoNotSchedule => split::WhenUnsatisfiable::DoNotSchedule,
            policy::WhenUnsatisfiable::ScheduleAnyway => split::WhenUnsatisfiable::ScheduleAnyway,
        },
    };
    placement.spread.iter().map(rule).collect()
}

/// N over the fleet: clusters x N where each has all of them (SPLIT-6).
fn population(object: &Object<'_>, request: &Request) -> u64 {
    let replicas = u64::from(object.numbers.replicas);
    if request.mode != Mode::Duplicated {
        return replicas;
    }
    // The split itself counts, so that both always mean the same population.
    split::plan(request).map_or(replicas, |it| it.population)
}

fn selects_none(selections: &[(ClusterName, Selection)]) -> bool {
    selections.iter().all(|(_, it)| matches!(it, Selection::Not(_)))
}

/// Percentages on the fleet's N, or on one cluster's where the object wants that.
fn spec(object: &Object<'_>, mode: Mode, population: u64) -> Result<Spec, Error> {
    let PodNumbers { replicas, partition, unavailable, surge, scale_unavailable, paused, .. } =
        object.numbers;
    let per_cluster = object.per_cluster && mode == Mode::Duplicated;
    let total = if per_cluster { u64::from(*replicas) } else { population };
    let pace = if *paused { Pace::Paused } else { Pace::Rolling };
    let (unavailable, surge) = numbers::budgets(*unavailable, *surge, total, pace)?;
    let fitted = |it: u64| u32::try_from(it).unwrap_or(u32::MAX);
    Ok(Spec {
        replicas: *replicas,
        partition: numbers::partition(*partition, total),
        unavailable: fitted(unavailable),
        surge: fitted(surge),
        scale_unavailable: scale_unavailable.map(|it| fitted(it.resolve(total, Rounding::Up)).max(1)),
        paused: *paused,
        target: object.target,
        in_place_only: object.numbers.in_place_only,
        stateful: object.numbers.stateful,
        population: Population::Granted,
        numbers: if per_cluster { Numbers::PerCluster } else { Numbers::Global },
    })
}

#[cfg(test)]
mod tests;
