//! Which pods of the fleet carry the new revision? (REV-2 to REV-7, REV-9, REV-10, REV-12, REV-15)
//!
//! The user's partition is one number over the fleet: so many pods stay old. [`plan`] turns it into one integer per
//! cluster whose sum is exact, keeps the new revision out of clusters that have no share of it, and says which
//! clusters must know the old revision before they get the new one.

mod floors;
pub mod sidecar;

use crate::{
    names::ClusterName,
    numbers::{self, IntOrPercent, MAX_REPLICAS, Pace},
    reason::{Condition, Share},
    webster::{Part, fill},
};

/// One object in the middle of a release, or at rest.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The population the partition is about: N, or N in each cluster if duplicated, or matched pods.
    pub population: u64,
    /// How many pods stay old; none is 0.
    pub partition: Option<IntOrPercent>,
    /// Whether there is a difference between old and new at all.
    pub release: Release,
    /// Whether existing pods may be updated.
    pub pace: Pace,
    /// Whether raising the partition takes updated pods back.
    pub rollback: Rollback,
    /// Whether unavailable pods leave room to take others down.
    pub room: Room,
    /// The clusters, in any order.
    pub clusters: Vec<Cluster>,
}

/// Where a release stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Release {
    /// The target differs from the stable revision.
    #[default]
    Underway,
    /// The target is the stable revision.
    Over,
}

/// Whether raising the partition takes updated pods back (REV-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rollback {
    /// Updated pods stay updated, as in one cluster.
    #[default]
    Off,
    /// They go back.
    On,
}

/// Whether the budget lets anything be taken down (REV-15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Room {
    /// It does.
    #[default]
    Free,
    /// Unavailable pods use it up, so that mending them comes first.
    Held,
}

/// One cluster as the partition sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Its name.
    pub name: ClusterName,
    /// Settles ties; see [`crate::rank::rank`].
    pub rank: u64,
    /// Replicas it is granted now.
    pub replicas: u32,
    /// Replicas it was granted before this round.
    pub previous: u32,
    /// Pods it reported at the target revision (REV-14).
    pub updated: u32,
    /// Updated pods it was granted last, for this target.
    pub granted: u32,
    /// Its place in the order of waves; all 0 without waves.
    pub wave: u32,
    /// Whether its wave may be updated already.
    pub admission: Admission,
    /// Whether it can be reached.
    pub link: Link,
    /// Whether it can run old pods beside new ones (REV-7).
    pub seeding: Seeding,
    /// Whether it was given this target before (REV-6).
    pub has_target: bool,
    /// Old pods in it that are not available (REV-15).
    pub broken_old: u32,
    /// Available pods of a superseded target (REV-10).
    pub leftovers: u32,
}

impl Cluster {
    /// A reachable, admitted cluster with nothing updated yet.
    pub fn new(name: impl Into<ClusterName>, rank: u64, replicas: u32) -> Self {
        Self {
            name: name.into(),
            rank,
            replicas,
            previous: replicas,
            updated: 0,
            granted: 0,
            wave: 0,
            admission: Admission::Admitted,
            link: Link::Reachable,
            seeding: Seeding::Able,
            has_target: false,
            broken_old: 0,
            leftovers: 0,
        }
    }
}

/// Whether a cluster's wave is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Admission {
    /// It may receive updated pods.
    #[default]
    Admitted,
    /// It keeps what it has until its wave comes.
    ToCome,
}

/// Whether a cluster can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Link {
    /// It can.
    #[default]
    Reachable,
    /// It cannot (Offline, or Lost and not known to be stopped): it holds what it may have been granted (REV-9).
    Frozen {
        /// The most updated pods it could be running.
        exposure: u32,
    },
}

/// Whether an agent can store the stable revision before it writes the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Seeding {
    /// It can.
    #[default]
    Able,
    /// It cannot: once it has the target, every pod it makes is new.
    Unable,
}

/// How many pods of each cluster may be new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// One row per cluster of the request, in its order.
    pub rows: Vec<Row>,
    /// Pods that stay old over the fleet, as an integer: P.
    pub kept: u64,
    /// Pods that are to be new over the fleet: G.
    pub due: u64,
    /// What the user should know.
    pub conditions: Vec<Condition>,
}

/// The answer for one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The cluster.
    pub name: ClusterName,
    /// Pods of it that may be new: u.
    pub updated: u32,
    /// The partition written into the member, always an integer: p.
    pub member_partition: u32,
    /// Which revision the member's object carries.
    pub body: Body,
    /// Why.
    pub why: Share,
}

/// Which revision a member's object carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// Withheld: the member does not receive the target (REV-6).
    Stable,
    /// The target. While a release is underway the agent seeds the stable revision first (REV-7).
    Target,
}

/// Why a request cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A cluster with more replicas than the limit.
    TooManyReplicas(ClusterName),
    /// More clusters than the limit.
    TooManyClusters(usize),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooManyReplicas(cluster) => {
                write!(f, "cluster {cluster} has more replicas than the limit of {MAX_REPLICAS}")
            }
            Self::TooManyClusters(got) => {
                write!(f, "{got} clusters are above the limit of {}", numbers::MAX_CLUSTERS)
            }
        }
    }
}

impl std::error::Error for Error {}

/// Divides the updated pods of one object.
pub fn plan(request: &Request) -> Result<Answer, Error> {
    // Of no pods none is kept old; that is not the same as asking for none to be.
    let least = u64::from(request.partition.is_some_and(|it| !it.is_zero()));
    plan_kept(request, numbers::partition(request.partition, request.population).max(least))
}

/// Divides the updated pods of one object of which `kept` stay old, whatever the request's own partition says. Over a
/// fleet that number may be larger than a partition can be written.
pub fn plan_kept(request: &Request, kept: u64) -> Result<Answer, Error> {
    check(request)?;
    let keeps_none = kept == 0;
    let kept = kept.min(request.population);
    let due = request.population - kept;
    if request.release == Release::Over {
        return Ok(at_rest(request, kept, due));
    }

    let mut slots = floors::slots(request);
    let held: u64 = slots.iter().map(|it| u64::from(it.part.at)).sum();
    // With nothing kept old there is no limit: a pod started by a move would else start old only to be updated
    // (REV-12).
    let mut left = if keeps_none { u64::MAX } else { due.saturating_sub(held) };
    if request.room == Room::Held {
        left = floors::mend_first(request, &mut slots, left);
    }
    let mut parts = Vec::with_capacity(slots.len());
    for wave in slots.chunk_by_mut(|a, b| a.wave == b.wave) {
        parts.clear();
        parts.extend(wave.iter().map(|it| it.part));
        left = fill(&mut parts, left);
        for (slot, part) in wave.iter_mut().zip(&parts) {
            slot.part = *part;
        }
    }
    // After all waves: they do not wait for such a cluster (REL-2), and if it came before them, a little more to give
    // would let it have all of that and take it from a later wave (REV-5).
    floors::give_whole(&mut slots, left);
    Ok(answer(request, &slots, kept, due))
}

fn check(request: &Request) -> Result<(), Error> {
    if request.clusters.len() > numbers::MAX_CLUSTERS {
        return Err(Error::TooManyClusters(request.clusters.len()));
    }
    let too_many = request.clusters.iter().filter(|it| it.replicas > MAX_REPLICAS);
    match too_many.map(|it| &it.name).min() {
        Some(name) => Err(Error::TooManyReplicas(name.clone())),
        None => Ok(()),
    }
}

/// Every pod may be of the one revision there is.
fn at_rest(request: &Request, kept: u64, due: u64) -> Answer {
    let row = |it: &Cluster| Row {
        name: it.name.clone(),
        updated: it.replicas,
        member_partition: 0,
        body: Body::Target,
        why: Share::Full,
    };
    Answer { rows: request.clusters.iter().map(row).collect(), kept, due, conditions: Vec::new() }
}

fn answer(request: &Request, slots: &[floors::Slot], kept: u64, due: u64) -> Answer {
    let mut slot_of = vec![0; slots.len()];
    for (index, slot) in slots.iter().enumerate() {
        slot_of[slot.place] = index;
    }
    let rows = request.clusters.iter().zip(slot_of).map(|(it, index)| slots[index].row(it)).collect();
    Answer { rows, kept, due, conditions: conditions(request, slots, due) }
}

/// Whether the sum is what was asked (REV-4). What waves still to come and a pause hold back is not missing.
fn conditions(request: &Request, slots: &[floors::Slot], due: u64) -> Vec<Condition> {
    let updated: u64 = slots.iter().map(|it| u64::from(it.part.at)).sum();
    let to_come: u64 = slots
        .iter()
        .filter(|it| request.clusters[it.place].admission == Admission::ToCome)
        .map(|it| u64::from(it.replicas.saturating_sub(it.part.at)))
        .sum();
    let missing = due.saturating_sub(updated).saturating_sub(to_come);
    let mut conditions = Vec::new();
    if missing > 0 && request.pace == Pace::Rolling {
        let held = slots.iter().filter(|it| it.is_frozen).map(|it| u64::from(it.part.at)).sum();
        conditions.push(Condition::PartitionShort { missing, held });
    }
    if updated > due && due < request.population {
        conditions.push(Condition::PartitionOver(updated - due));
    }
    conditions
}

/// One part per cluster, for [`fill`]; the floor is what it holds already.
fn part(weight: u32, floor: u32, top: u32) -> Part {
    Part { weight, at: floor, top: top.max(floor) }
}
