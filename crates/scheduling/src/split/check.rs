//! Requests that make no sense are refused before anything is computed.

use std::{error, fmt};

use super::{Candidate, Request};
use crate::{
    names::{ClusterName, TopologyKey},
    numbers::{MAX_CLUSTERS, MAX_REPLICAS, MAX_WEIGHT},
};

/// Why a request cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// More replicas than the limit.
    TooManyReplicas(u32),
    /// More clusters than the limit.
    TooManyClusters(usize),
    /// A weight above the limit.
    WeightTooLarge(ClusterName, u32),
    /// A minimum above its maximum.
    MinAboveMax(ClusterName),
    /// The same cluster twice.
    DuplicateCluster(ClusterName),
    /// Not one group entry per spread rule.
    GroupsMissing(ClusterName),
    /// A largest share of nothing.
    ShareZero(TopologyKey),
    /// No group may be used, or fewer than must be.
    GroupsContradict(TopologyKey),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyReplicas(got) => {
                write!(f, "spec.replicas {got} is above the limit of {MAX_REPLICAS}")
            }
            Self::TooManyClusters(got) => write!(f, "{got} clusters are above the limit of {MAX_CLUSTERS}"),
            Self::WeightTooLarge(cluster, got) => {
                write!(f, "replicas.weights: {got} for {cluster} is above the limit of {MAX_WEIGHT}")
            }
            Self::MinAboveMax(cluster) => write!(f, "replicas.perCluster: min is above max for {cluster}"),
            Self::DuplicateCluster(cluster) => write!(f, "cluster {cluster} is listed twice"),
            Self::GroupsMissing(cluster) => write!(f, "cluster {cluster} needs one group per spread rule"),
            Self::ShareZero(key) => write!(f, "spread[{key}].maxShare must be above 0%"),
            Self::GroupsContradict(key) => {
                write!(f, "spread[{key}].maxGroups must be at least 1 and at least minGroups")
            }
        }
    }
}

impl error::Error for Error {}

pub(super) fn check(request: &Request) -> Result<(), Error> {
    if request.replicas > MAX_REPLICAS {
        return Err(Error::TooManyReplicas(request.replicas));
    }
    if request.clusters.len() > MAX_CLUSTERS {
        return Err(Error::TooManyClusters(request.clusters.len()));
    }
    for rule in &request.spread {
        if rule.max_share.is_some_and(|it| it.is_zero()) {
            return Err(Error::ShareZero(rule.key.clone()));
        }
        if rule.max_groups.is_some_and(|it| it == 0 || it < rule.min_groups) {
            return Err(Error::GroupsContradict(rule.key.clone()));
        }
    }
    // Of several the one that comes first by name is told, whatever the order of the request.
    let wrong =
        |it: &Candidate| check_cluster(it, request.spread.len()).err().map(|why| (it.name.clone(), why));
    match request.clusters.iter().filter_map(wrong).min_by(|a, b| a.0.cmp(&b.0)) {
        Some((_, why)) => Err(why),
        None => Ok(()),
    }
}

fn check_cluster(cluster: &Candidate, rules: usize) -> Result<(), Error> {
    if cluster.weight > MAX_WEIGHT {
        return Err(Error::WeightTooLarge(cluster.name.clone(), cluster.weight));
    }
    if cluster.max.is_some_and(|it| it < cluster.min) {
        return Err(Error::MinAboveMax(cluster.name.clone()));
    }
    if cluster.groups.len() != rules {
        return Err(Error::GroupsMissing(cluster.name.clone()));
    }
    Ok(())
}
