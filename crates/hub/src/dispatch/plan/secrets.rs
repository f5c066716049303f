//! Secrets for the registry that a job names, on their way to clusters (IPJ-6). Pure.
//!
//! They travel inside each cluster's Assignment and nowhere else. What was brought to a cluster once stays until something else
//! can be read: a Secret that is gone, or that the hub may not read any more, takes nothing away.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kruise_core::api::fleet::{FederatedObject, assignment::PullSecret, keys::features};
use scheduling::{names::ClusterName, reason, split::State};

use super::{Cluster, Observed};
use crate::placement::kinds::{self, Division};

/// The types that travel, and the one key of each that matters. Whoever may write jobs must not be able to have other Secrets of
/// the namespace brought to clusters.
const TYPES: [(&str, &str); 2] =
    [("kubernetes.io/dockerconfigjson", ".dockerconfigjson"), ("kubernetes.io/dockercfg", ".dockercfg")];
/// How many bytes the Secrets of one job may have together.
const MOST_BYTES: usize = 64 * 1024;
/// How many Secrets a job may name.
const MOST: usize = 32;

/// What came of looking for a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// Here it is, as far as it travels.
    Found(PullSecret),
    /// It is not there.
    Missing,
    /// The hub may not read it.
    Denied,
    /// It could not be read for another reason.
    Failed(String),
    /// It is not for a registry; this is its type.
    OtherType(String),
    /// It lacks what its type promises.
    Lacks(&'static str),
}

impl Look {
    /// What is to be seen of a Secret.
    pub fn at(name: &str, secret: Secret) -> Self {
        let type_ = secret.type_.unwrap_or_default();
        let Some((_, key)) = TYPES.iter().find(|it| it.0 == type_) else { return Self::OtherType(type_) };
        let Some((key, value)) = secret.data.unwrap_or_default().remove_entry(*key) else {
            return Self::Lacks(key);
        };
        Self::Found(PullSecret { name: name.to_owned(), type_, data: BTreeMap::from([(key, value)]) })
    }

    /// Whether it is what it should be.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Found(_))
    }
}

/// What is known of the Secrets that a job names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Looks {
    /// By name.
    pub found: BTreeMap<String, Look>,
    /// When to look again.
    pub again: Option<Duration>,
}

/// The Secrets to look for: those of a job that is placed and not over. Nobody else's are ever read.
pub fn wanted(observed: &Observed<'_>) -> Vec<String> {
    let FederatedObject { api_version, kind, .. } = observed.reference;
    let group = api_version.split_once('/').map_or("", |it| it.0);
    let is_over = observed
        .binding
        .and_then(|it| it.spec.ledger.job.as_ref())
        .is_some_and(|it| it.completion_time.is_some());
    match kinds::of(group, kind).division(observed.object) {
        Ok(Division::Pulls(numbers)) if observed.policy.is_some() && !is_over => {
            let mut names = numbers.secrets;
            names.sort();
            names.dedup();
            // Too many are refused anyway.
            names.truncate(MOST + 1);
            names
        }
        _ => Vec::new(),
    }
}

/// Why a cluster gets no Secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lack {
    /// There is nothing to bring yet.
    Unread,
    /// Its agent would not know what to do with them (HA-6).
    TooOld,
}

/// What each cluster gets.
#[derive(Debug, Default)]
pub(super) struct Deal {
    /// In the order of the clusters.
    shares: Vec<Result<Vec<PullSecret>, Lack>>,
    /// Why there is nothing to bring.
    fault: Option<String>,
    again: Option<Duration>,
}

impl Deal {
    /// Deals the Secrets with these names.
    pub(super) fn new(observed: &Observed<'_>, names: &[String]) -> Self {
        let mut names = names.to_vec();
        names.sort();
        names.dedup();
        let fault = fault(observed, &names);
        let share = |it: &Cluster| share(observed, &names, it, fault.is_none());
        Self {
            shares: observed.clusters.iter().map(share).collect(),
            again: observed.secrets.and_then(|it| it.again),
            fault,
        }
    }

    /// What the cluster at this place gets; nothing at all if it cannot have what the job needs.
    pub(super) fn of(&self, place: usize) -> Option<&[PullSecret]> {
        match self.shares.get(place) {
            None => Some(&[]),
            Some(share) => share.as_deref().ok(),
        }
    }

    /// What a cluster without them counts as: one that is waited for, or one that is left out.
    pub(super) fn state(&self, place: usize) -> Option<State> {
        match self.shares.get(place)?.as_ref().err()? {
            Lack::Unread => Some(State::Pending),
            Lack::TooOld => Some(State::Unsupported),
        }
    }

    /// What people are told, of the clusters that `is_meant`: whether the job is placed all the same, and the rest.
    pub(super) fn word(
        &self,
        observed: &Observed<'_>,
        is_meant: impl Fn(&Cluster) -> bool,
    ) -> Option<(bool, String)> {
        let meant = observed.clusters.iter().zip(&self.shares).filter(|it| is_meant(it.0));
        let meant: Vec<_> = meant.collect();
        if meant.iter().any(|it| it.1 == &Err(Lack::Unread)) {
            return self.fault.clone().map(|it| (false, it));
        }
        let old = meant.iter().filter(|it| it.1 == &Err(Lack::TooOld));
        let old: Vec<ClusterName> = old.map(|it| it.0.facts.cluster_name()).collect();
        (!old.is_empty()).then(|| {
            let who = reason::list(&old);
            let message =
                format!("spec.pullSecrets: agents that are too old to bring them: {who}; upgrade them");
            (old.len() < meant.len(), message)
        })
    }

    /// When to look at them again.
    pub(super) fn again(&self) -> Option<Duration> {
        self.again
    }
}

fn share(
    observed: &Observed<'_>,
    names: &[String],
    cluster: &Cluster,
    is_good: bool,
) -> Result<Vec<PullSecret>, Lack> {
    let stored = cluster.stored().map_or(&[][..], |it| &it.pull_secrets);
    let can_bring = cluster.facts.features.iter().any(|it| it == features::PULL_SECRETS);
    if !names.is_empty() && stored.is_empty() && !can_bring {
        return Err(Lack::TooOld);
    }
    let one = |name: &String| {
        let known = stored.iter().find(|it| it.name == *name).cloned();
        match observed.secrets.map(|it| it.found.get(name)) {
            // All or nothing: half of what was changed may be worse than what was there.
            Some(Some(Look::Found(secret))) if is_good => Some(secret.clone()),
            Some(_) => known,
            // Nobody looks: they are supposed to be there.
            None => Some(known.unwrap_or_else(|| PullSecret { name: name.clone(), ..PullSecret::default() })),
        }
    };
    names.iter().map(one).collect::<Option<_>>().ok_or(Lack::Unread)
}

/// Why the Secrets cannot be brought to clusters, if they cannot, and what helps.
fn fault(observed: &Observed<'_>, names: &[String]) -> Option<String> {
    let looks = observed.secrets.filter(|_| !names.is_empty())?;
    let field = "spec.pullSecrets";
    if names.len() > MOST {
        return Some(format!(
            "{field}: {} Secrets are named; at most {MOST} are brought to clusters",
            names.len()
        ));
    }
    let namespace = observed.reference.namespace.as_deref().unwrap_or_default();
    let types = TYPES.map(|it| it.0).join(" and ");
    let mut bytes = 0;
    for name in names {
        let what = format!("the Secret {namespace}/{name}");
        let why = match looks.found.get(name) {
            Some(Look::Found(secret)) => {
                bytes += secret.size();
                continue;
            }
            Some(Look::Missing) => format!("{what} does not exist: create it on the hub"),
            Some(Look::Denied) => format!(
                "the hub may not read {what}: grant that with pullSecrets.enabled=true of the hub's chart, or with \
                 config/rbac/hub/pull-secrets"
            ),
            Some(Look::Failed(why)) => format!("{what} could not be read: {why}"),
            Some(Look::OtherType(type_)) => {
                format!("{what} is of type {type_:?}: only those of {types} are brought to clusters")
            }
            Some(Look::Lacks(key)) => format!("{what} has no key {key}"),
            None => format!("{what} has not been looked at"),
        };
        return Some(format!("{field}: {why}"));
    }
    (bytes > MOST_BYTES).then(|| {
        format!(
            "{field}: the Secrets have {bytes} bytes together; at most {MOST_BYTES} are brought to clusters"
        )
    })
}

#[cfg(test)]
mod tests;
