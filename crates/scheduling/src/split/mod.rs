//! How many replicas does each cluster get? (SPLIT-1 to SPLIT-10)
//!
//! [`plan`] goes through the rules in their order: bounds of each cluster, which groups and clusters are used at all,
//! minimums that do not fit, the ideal division, and then the result closest to what runs today.

mod aggregate;
mod bounds;
mod check;
pub mod fit;
mod ideal;
mod mins;
mod settle;
mod slot;
mod spread;

use crate::{
    names::{ClusterName, GroupName, TopologyKey},
    numbers::Percent,
    reason::{Condition, Why},
};

pub use check::Error;

/// One object to be divided, and the clusters its policy selects.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Replicas wanted: over the fleet, or in each cluster with [`Mode::Duplicated`].
    pub replicas: u32,
    /// How they are divided.
    pub mode: Mode,
    /// Whether the policy selects no cluster at all, whatever state those listed are in: then nothing is changed.
    pub selects_none: bool,
    /// What to do when they do not fit.
    pub when_short: WhenShort,
    /// Whether clusters may be evened out in this round.
    pub goal: Goal,
    /// Rules about groups of clusters.
    pub spread: Vec<Spread>,
    /// The clusters, in any order.
    pub clusters: Vec<Candidate>,
}

/// How replicas are divided over clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The fleet runs N, by weight.
    #[default]
    Divided,
    /// Each cluster runs N.
    Duplicated,
    /// The fleet runs N, on as few clusters as hold it.
    Aggregated,
}

/// What to do with replicas beyond what the clusters say they can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenShort {
    /// Place them all the same; their pods may wait for nodes.
    #[default]
    Overcommit,
    /// Leave them out and report them.
    Hold,
}

/// What the result is to be (SPLIT-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Goal {
    /// As close to what runs today as the bounds allow.
    #[default]
    LeastMovement,
    /// The ideal division: a rebalance is due.
    Rebalance,
}

/// A rule about the groups that one topology key makes of the clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// The key whose values are the groups.
    pub key: TopologyKey,
    /// Use at least so many groups, as far as there are replicas for them. Fewer to choose from break the rule.
    pub min_groups: u32,
    /// Use no more groups than this.
    pub max_groups: Option<u32>,
    /// No group runs more than this part of N.
    pub max_share: Option<Percent>,
    /// What to do when the rule cannot be kept.
    pub when_unsatisfiable: WhenUnsatisfiable,
}

/// What to do when a spread rule cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenUnsatisfiable {
    /// Keep the rule: leave replicas out, or leave all as it is.
    #[default]
    DoNotSchedule,
    /// Keep it as far as possible, then place the rest all the same.
    ScheduleAnyway,
}

/// One cluster as the split sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub name: ClusterName,
    /// Settles ties; see [`crate::rank::rank`].
    pub rank: u64,
    /// What may be done with it.
    pub state: State,
    /// Its place in the policy's tiers; earlier tiers are filled first.
    pub tier: u32,
    /// Its claim in proportion to the others, 0 to 10,000.
    pub weight: u32,
    /// Replicas it should have at least.
    pub min: u32,
    /// Replicas it may have at most.
    pub max: Option<u32>,
    /// Pods of this object it says it can run, those running included; unknown is unlimited.
    pub fit: Option<u32>,
    /// Replicas granted to it last.
    pub current: u32,
    /// Pods in it that the user named for deletion (SPLIT-8).
    pub named_for_deletion: u32,
    /// Its group for each entry of [`Request::spread`], in that order; none where it lacks the key.
    pub groups: Vec<Option<GroupName>>,
}

impl Candidate {
    /// A Ready cluster of weight 1 without bounds, groups or replicas.
    pub fn new(name: impl Into<ClusterName>, rank: u64) -> Self {
        Self {
            name: name.into(),
            rank,
            state: State::Ready,
            tier: 0,
            weight: 1,
            min: 0,
            max: None,
            fit: None,
            current: 0,
            named_for_deletion: 0,
            groups: Vec::new(),
        }
    }
}

/// What a cluster's state allows (section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Takes and gives replicas.
    #[default]
    Ready,
    /// Was Ready before the hub restarted and has not been heard since: its part is kept for it, and granted when it is (HA-2).
    Unconfirmed,
    /// Keeps what it has and takes no more.
    Cordoned,
    /// Gives away all it has.
    Draining,
    /// Out of reach: what was granted stays as it is.
    Offline,
    /// Given up: its replicas are replaced elsewhere.
    Lost,
    /// Joined, but not reported yet.
    Pending,
    /// Was lost and is being reconciled.
    Returning,
    /// No longer selected by the policy: gives away all it has.
    Excluded,
    /// Lacks the kind or feature: frozen if it runs the object already, else left out.
    Unsupported,
}

impl State {
    /// The state that counts when several hold at once (STATE-5): Offline wins over Draining, Draining over Cordoned.
    pub fn strongest(states: impl IntoIterator<Item = Self>) -> Self {
        let strength = |it: &Self| match it {
            Self::Ready => 0,
            Self::Unconfirmed => 1,
            Self::Cordoned => 2,
            Self::Draining => 3,
            Self::Excluded => 4,
            Self::Unsupported => 5,
            Self::Offline => 6,
            Self::Pending => 7,
            Self::Returning => 8,
            Self::Lost => 9,
        };
        states.into_iter().max_by_key(strength).unwrap_or_default()
    }
}

/// What the fleet is to run. A goal: how fast it is reached is decided by the moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// One row per cluster of the request, in its order.
    pub rows: Vec<Row>,
    /// Replicas the whole fleet is asked for: N, or N in each cluster.
    pub population: u64,
    /// Replicas for which no place was found.
    pub unplaced: u64,
    /// What the user should know.
    pub conditions: Vec<Condition>,
}

/// The answer for one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The cluster.
    pub name: ClusterName,
    /// Replicas it is to have.
    pub replicas: u32,
    /// Replicas it would have if nothing ran yet.
    pub ideal: u32,
    /// The least it could be given in this round.
    pub floor: u32,
    /// The most it could be given in this round.
    pub ceiling: u32,
    /// Why.
    pub why: Why,
}

/// Divides the replicas of one object.
pub fn plan(request: &Request) -> Result<Answer, Error> {
    check::check(request)?;
    let now = |it: usize| (request.clusters[it].current, request.clusters[it].named_for_deletion);
    let order = bounds::order(request)?;
    let groups = spread::Groups::of(request, &order);
    let mut plan = once(request, &order, groups.clone(), now);
    if request.spread.is_empty() && request.mode != Mode::Aggregated {
        return Ok(plan.answer(request));
    }

    // Which groups and clusters are chosen depends on which are in use, so an answer may let the next round choose
    // differently. What the rounds come to is what is answered: planning twice must not move anything twice.
    for _ in 0..ROUNDS {
        let results = plan.results();
        // Pods that were named are gone by then.
        let next = once(request, &order, groups.clone(), |it| (results[it], 0));
        if next.results() == results {
            break;
        }
        plan = next.after(&plan);
    }
    Ok(plan.answer(request))
}

/// Rounds in which plans must come to rest. Two or three are usual.
const ROUNDS: usize = 8;

/// Goes through the rules once, with `now` as what each cluster of the request has and how much of it is named for
/// deletion.
fn once(
    request: &Request,
    order: &[u32],
    mut groups: spread::Groups,
    now: impl Fn(usize) -> (u32, u32),
) -> slot::Plan {
    let mut slots = bounds::slots(request, order, now);
    if request.selects_none || request.clusters.iter().all(|it| it.state == State::Excluded) {
        return slot::kept(slots, request.replicas, request.mode);
    }
    let mut conditions = groups.choose(request, &mut slots);
    if request.mode == Mode::Duplicated {
        let mut plan = slot::duplicated(slots, request.replicas, conditions);
        plan.conditions.extend(groups.exceeded(request, &plan.slots, plan.population));
        return plan;
    }
    if request.mode == Mode::Aggregated {
        aggregate::choose(&mut slots, &groups, request.replicas);
    }

    conditions.extend(mins::cut(&mut slots, &groups, request.replicas));
    let unplaced = ideal::solve(&mut slots, &mut groups, request, &mut conditions);
    settle::settle(&mut slots, &groups, request.goal);
    conditions.extend(groups.unsatisfied(request, &slots, &conditions));
    slot::Plan { slots, population: u64::from(request.replicas), unplaced, conditions }
}
