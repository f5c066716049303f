//! Who may place where: writing a policy needs rights on the clusters that it can select (SEC-4).
//!
//! Placing is done by the hub, with the hub's rights. So that these never widen a user's, whoever writes a policy needs the
//! virtual verb `place` on every MemberCluster that the policy can select, and `override` on those in which it changes
//! objects. What a policy *can* select is what counts, not what it selects today: labels change and clusters join. Only
//! names are a bound; a policy without them needs the verb on all clusters.

use std::{collections::BTreeMap, collections::BTreeSet, fmt};

use kruise_core::{
    api::fleet::{
        GROUP,
        policy::{ClusterSelector, Placement},
    },
    runtime::webhook::{FieldError, FieldFault},
};

/// The resource on which the verbs are granted.
pub const RESOURCE: &str = "memberclusters";
/// How many clusters a refusal names.
const NAMED: usize = 5;

/// What a writer of policies needs on clusters. No request has these verbs: they exist for reviews only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// To have objects run there.
    Place,
    /// To have them differ there.
    Override,
}

impl Verb {
    /// The word in roles.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::Override => "override",
        }
    }

    fn field(self) -> &'static str {
        match self {
            Self::Place => "spec.clusters",
            Self::Override => "spec.overrides",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Clusters that something can select, now or later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clusters {
    /// Any, also those that join later.
    Any,
    /// These and no others, whether they have joined or not.
    Named(BTreeSet<String>),
}

impl Clusters {
    fn of(selector: &ClusterSelector) -> Self {
        if selector.names.is_empty() {
            Self::Any
        } else {
            Self::Named(selector.names.iter().cloned().collect())
        }
    }

    fn both(self, other: Self) -> Self {
        match (self, other) {
            (Self::Any, it) | (it, Self::Any) => it,
            (Self::Named(ours), Self::Named(theirs)) => Self::Named(&ours & &theirs),
        }
    }

    fn either(self, other: Self) -> Self {
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) => Self::Any,
            (Self::Named(ours), Self::Named(theirs)) => Self::Named(&ours | &theirs),
        }
    }

    fn without(self, excluded: &[String]) -> Self {
        match self {
            // There are always others.
            Self::Any => Self::Any,
            Self::Named(names) => {
                Self::Named(names.into_iter().filter(|it| !excluded.contains(it)).collect())
            }
        }
    }
}

/// One right that a write needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The verb.
    pub verb: Verb,
    /// On which clusters.
    pub clusters: Clusters,
}

/// One question to the API server: may the user do this to this cluster, or to all of them?
pub type Question = (Verb, Option<String>);

/// The clusters on which a policy can place something.
pub fn selectable(placement: &Placement) -> Clusters {
    let nobody = Clusters::Named(BTreeSet::new());
    let tiers = placement.tiers.iter().map(|it| Clusters::of(&it.clusters));
    // Where there are tiers, a cluster in none of them is not selected.
    let tiers = if placement.tiers.is_empty() { Clusters::Any } else { tiers.fold(nobody, Clusters::either) };
    Clusters::of(&placement.clusters.selector).both(tiers).without(&placement.clusters.exclude)
}

/// The clusters in which a policy can change what is placed.
pub fn overridable(placement: &Placement) -> Clusters {
    let has_effect =
        placement.overrides.iter().filter(|it| !it.patches.is_empty() || !it.image_registries.is_empty());
    let named = has_effect.map(|it| Clusters::of(&it.clusters));
    named.fold(Clusters::Named(BTreeSet::new()), Clusters::either).both(selectable(placement))
}

/// The rights that a write needs; `before` is what is stored, if that can be read. A write that leaves the spec as it is
/// (labels, finalizers) needs none. Every other one needs `place` on all that the policy can select afterwards: targets,
/// weights and the rest decide what runs there. `override` is needed where an override would come to apply otherwise
/// than before: to other clusters, to other objects, or with other words.
pub fn needs(before: Option<&Placement>, after: &Placement) -> Vec<Need> {
    if before == Some(after) {
        return Vec::new();
    }
    let is_same = |before: &Placement| {
        before.overrides == after.overrides
            && before.targets == after.targets
            && before.clusters == after.clusters
            && before.tiers == after.tiers
    };
    let place = Need { verb: Verb::Place, clusters: selectable(after) };
    let change = Need { verb: Verb::Override, clusters: overridable(after) };
    let change = (!before.is_some_and(is_same)).then_some(change);
    let is_something = |it: &Need| it.clusters != Clusters::Named(BTreeSet::new());
    [Some(place), change].into_iter().flatten().filter(is_something).collect()
}

/// What is still to be asked. The right to all clusters comes first, as most writers have that or only name a few.
pub fn open(needs: &[Need], answers: &BTreeMap<Question, bool>) -> Vec<Question> {
    let questions =
        needs.iter().flat_map(|Need { verb, clusters }| match (answers.get(&(*verb, None)), clusters) {
            (None, _) => vec![(*verb, None)],
            (Some(false), Clusters::Named(names)) => {
                names.iter().map(|it| (*verb, Some(it.clone()))).collect()
            }
            (Some(_), _) => Vec::new(),
        });
    questions.filter(|it| !answers.contains_key(it)).collect()
}

/// What `user` lacks. A question without an answer is refused.
pub fn faults(needs: &[Need], answers: &BTreeMap<Question, bool>, user: &str) -> Vec<FieldError> {
    let is_allowed =
        |verb: Verb, cluster: Option<&String>| answers.get(&(verb, cluster.cloned())) == Some(&true);
    let fault = |Need { verb, clusters }: &Need| {
        if is_allowed(*verb, None) {
            return None;
        }
        let detail = match clusters {
            Clusters::Any => format!(
                "user {user:?} needs the verb {verb} on all {RESOURCE}.{GROUP}, because the policy can select any cluster, \
                 also one that joins later: {}, or have the verb granted",
                match verb {
                    Verb::Place => "name clusters in spec.clusters.names",
                    Verb::Override =>
                        "name clusters in spec.clusters.names or in the override's clusters.names",
                }
            ),
            Clusters::Named(names) => {
                let refused: Vec<_> = names.iter().filter(|it| !is_allowed(*verb, Some(it))).collect();
                if refused.is_empty() {
                    return None;
                }
                let shown: Vec<_> = refused.iter().take(NAMED).map(|it| it.as_str()).collect();
                let more = refused.len().saturating_sub(NAMED);
                let more = if more == 0 { String::new() } else { format!(" and {more} more") };
                format!(
                    "user {user:?} needs the verb {verb} on {RESOURCE}.{GROUP} {}{more}: leave them out, or have the verb granted",
                    shown.join(", ")
                )
            }
        };
        Some(FieldError { path: verb.field().to_owned(), fault: FieldFault::Forbidden, value: None, detail })
    };
    needs.iter().filter_map(fault).collect()
}
