//! How many image pulls may each cluster run at once, and what does a job over the fleet come to?
//!
//! [`share`] is the static part of IPJ-1: the ledger holds the cap in between.

mod job;

pub use job::{Completion, Copy, LISTED, Time, Totals, nodes_of, removable, secret_name, total};

use crate::{
    names::ClusterName,
    numbers::{Error, Fault, IntOrPercent},
    webster::{Part, fill},
};

/// One cluster with nodes left to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Puller {
    /// Its name.
    pub name: ClusterName,
    /// Settles ties; see [`crate::rank::rank`].
    pub rank: u64,
    /// Nodes that have not finished.
    pub nodes_left: u32,
    /// Slots it was granted last.
    pub granted: u32,
    /// Whether its share can be changed.
    pub slots: Slots,
}

/// Whether a cluster's slots can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Slots {
    /// They follow what is left to do.
    #[default]
    Free,
    /// The cluster is out of reach: it keeps the slots it may be using.
    Held(u32),
}

/// The cap as an integer: 1 if not set, and 0 pauses the job. A percent is refused, as in a member.
pub fn parallelism(value: Option<IntOrPercent>) -> Result<u32, Error> {
    match value {
        None => Ok(1),
        Some(IntOrPercent::Int(slots)) => Ok(slots),
        Some(IntOrPercent::Percent(_)) => {
            Err(Error { field: "spec.parallelism", fault: Fault::PercentNotAllowed })
        }
    }
}

/// Divides the slots by nodes left, in the order of the input. A cluster keeps the slots it has as long as it has nodes
/// for them: with fewer slots than clusters they go round as clusters finish, and not at every single pull.
pub fn share(parallelism: u32, clusters: &[Puller]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..clusters.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&clusters[*a], &clusters[*b]);
        (a.rank, &a.name).cmp(&(b.rank, &b.name))
    });
    let part = |it: &usize| match clusters[*it] {
        Puller { slots: Slots::Held(held), .. } => Part { weight: 0, at: held, top: held },
        Puller { nodes_left, granted, .. } => {
            Part { weight: nodes_left, at: granted.min(nodes_left), top: nodes_left }
        }
    };
    let mut parts: Vec<Part> = order.iter().map(part).collect();
    let taken: u64 = parts.iter().map(|it| u64::from(it.at)).sum();
    if taken > u64::from(parallelism) {
        lower(&mut parts, clusters, &order, taken - u64::from(parallelism));
    } else {
        fill(&mut parts, u64::from(parallelism) - taken);
    }

    let mut shares = vec![0; clusters.len()];
    for (index, part) in order.into_iter().zip(parts) {
        shares[index] = part.at;
    }
    shares
}

/// Takes `excess` slots back, those last which would be given first. What is held out of reach stays.
fn lower(parts: &mut [Part], clusters: &[Puller], order: &[usize], excess: u64) {
    for (part, index) in parts.iter_mut().zip(order) {
        part.top = part.at;
        if clusters[*index].slots == Slots::Free {
            part.at = 0;
        }
    }
    let room: u64 = parts.iter().map(Part::room).sum();
    fill(parts, room.saturating_sub(excess));
}
