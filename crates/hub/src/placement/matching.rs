//! Which policy wins for an object? (API-2)

use std::{cmp::Reverse, collections::BTreeMap, fmt};

use jiff::Timestamp;
use kruise_core::api::{
    APPS_GROUP,
    fleet::{
        keys,
        policy::{Placement, Target},
    },
};

use super::select::labels_match;

/// An object as policies see it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    /// API group of the object.
    pub group: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object; none for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
    /// Labels of the object.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the object.
    pub annotations: BTreeMap<String, String>,
}

/// A policy of either kind.
#[derive(Debug, Clone)]
pub struct Policy<'a> {
    /// Namespace of a PlacementPolicy; none for a ClusterPlacementPolicy.
    pub namespace: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
    /// When it was made.
    pub created: Timestamp,
    /// What it says.
    pub placement: &'a Placement,
}

/// How a policy came to match, best first: this order decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The object names it in its annotation.
    Annotated,
    /// A policy of the object's namespace names the object.
    NamespacedByName,
    /// A policy of the object's namespace selects the object's labels.
    NamespacedByLabel,
    /// A cluster policy names the object.
    ClusterByName,
    /// A cluster policy selects the object's labels.
    ClusterByLabel,
}

/// What became of one policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It wins.
    Won(Standing),
    /// It matches, but another one stands higher.
    Outranked(Standing, Outranked),
    /// It does not match.
    NoMatch(NoMatch),
}

/// In what another policy is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outranked {
    /// In the way it matches.
    Standing,
    /// In its priority.
    Priority,
    /// In its age.
    Age,
    /// In its name.
    Name,
}

/// Why a policy does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoMatch {
    /// It is of another namespace.
    OtherNamespace,
    /// Cluster-scoped objects are placed by cluster policies only.
    NeedsClusterPolicy,
    /// None of its targets is of this kind.
    OtherKind,
    /// None of its targets has this name or these labels.
    NotATarget,
    /// The object names another policy in its annotation.
    OtherAnnotated,
}

/// What was found, with a word about every policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Place of the winner in the input.
    pub winner: Option<usize>,
    /// The annotation names a policy that does not exist.
    pub missing: Option<String>,
    /// One per policy, in the order of the input.
    pub outcomes: Vec<Outcome>,
}

/// Finds the policy for an object. The order of the policies does not matter.
pub fn find(subject: &Subject, policies: &[Policy<'_>]) -> Found {
    let annotated = subject.annotations.get(keys::POLICY).map(String::as_str);
    let standings: Vec<Result<Standing, NoMatch>> =
        policies.iter().map(|it| standing(subject, it, annotated)).collect();
    let matching = standings.iter().enumerate().filter_map(|(place, it)| Some((place, (*it).ok()?)));
    let winner = matching.min_by_key(|(place, standing)| key(*standing, &policies[*place]));
    let outcome = |(place, it): (usize, &Result<Standing, NoMatch>)| match (*it, winner) {
        (Err(why), _) => Outcome::NoMatch(why),
        (Ok(standing), Some((first, best))) if first != place => {
            Outcome::Outranked(standing, outranked((best, &policies[first]), (standing, &policies[place])))
        }
        (Ok(standing), _) => Outcome::Won(standing),
    };
    Found {
        winner: winner.map(|(place, _)| place),
        missing: annotated.filter(|_| winner.is_none()).map(str::to_owned),
        outcomes: standings.iter().enumerate().map(outcome).collect(),
    }
}

/// Smaller is better. The field order is the priority; the name settles what is left.
fn key<'a>(standing: Standing, policy: &Policy<'a>) -> (Standing, bool, Reverse<i32>, Timestamp, &'a str) {
    // Of two policies that an annotation may mean, the one of the object's own namespace is meant.
    (standing, policy.namespace.is_none(), Reverse(policy.placement.priority), policy.created, policy.name)
}

fn standing(subject: &Subject, policy: &Policy<'_>, annotated: Option<&str>) -> Result<Standing, NoMatch> {
    match (policy.namespace, &subject.namespace) {
        (Some(_), None) => return Err(NoMatch::NeedsClusterPolicy),
        (Some(theirs), Some(ours)) if theirs != ours => return Err(NoMatch::OtherNamespace),
        _ => {}
    }
    if let Some(name) = annotated {
        return if name == policy.name { Ok(Standing::Annotated) } else { Err(NoMatch::OtherAnnotated) };
    }
    let targets = || policy.placement.targets.iter().filter(|it| is_of_kind(it, subject));
    if targets().next().is_none() {
        return Err(NoMatch::OtherKind);
    }
    let is_named = targets().any(|it| it.name.as_deref() == Some(&subject.name));
    let is_labelled =
        targets().filter_map(|it| it.label_selector.as_ref()).any(|it| labels_match(it, &subject.labels));
    match (is_named, is_labelled, policy.namespace) {
        (true, _, Some(_)) => Ok(Standing::NamespacedByName),
        (true, _, None) => Ok(Standing::ClusterByName),
        (false, true, Some(_)) => Ok(Standing::NamespacedByLabel),
        (false, true, None) => Ok(Standing::ClusterByLabel),
        (false, false, _) => Err(NoMatch::NotATarget),
    }
}

fn is_of_kind(target: &Target, subject: &Subject) -> bool {
    target.kind == subject.kind && target.group.as_deref().unwrap_or(APPS_GROUP) == subject.group
}

fn outranked(winner: (Standing, &Policy<'_>), other: (Standing, &Policy<'_>)) -> Outranked {
    let same_kind = winner.1.namespace.is_none() == other.1.namespace.is_none();
    if winner.0 != other.0 || !same_kind {
        Outranked::Standing
    } else if winner.1.placement.priority != other.1.placement.priority {
        Outranked::Priority
    } else if winner.1.created != other.1.created {
        Outranked::Age
    } else {
        Outranked::Name
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Annotated => "the object names it",
            Self::NamespacedByName => "it is of the object's namespace and names the object",
            Self::NamespacedByLabel => "it is of the object's namespace and selects the object's labels",
            Self::ClusterByName => "it is for all namespaces and names the object",
            Self::ClusterByLabel => "it is for all namespaces and selects the object's labels",
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Won(standing) => write!(f, "wins: {standing}"),
            Self::Outranked(standing, why) => write!(
                f,
                "matches ({standing}), but another policy {}",
                match why {
                    Outranked::Standing => "stands higher",
                    Outranked::Priority => "has a higher priority",
                    Outranked::Age => "is older",
                    Outranked::Name => "comes first by name",
                }
            ),
            Self::NoMatch(why) => f.write_str(match why {
                NoMatch::OtherNamespace => "is of another namespace",
                NoMatch::NeedsClusterPolicy => "is of a namespace, and the object is not",
                NoMatch::OtherKind => "has no target of this kind",
                NoMatch::NotATarget => "has no target with this name or these labels",
                NoMatch::OtherAnnotated => "is not the one that the object names",
            }),
        }
    }
}

#[cfg(test)]
mod tests;
