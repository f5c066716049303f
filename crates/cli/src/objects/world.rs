//! One object and everything that decides where it runs, read once; and the hub's planner over it.

use std::{collections::BTreeSet, sync::Arc};

use ::hub::{
    dispatch::plan::{self, Cluster, Observed, Round, Winner, caution::Word},
    placement::{
        matching::{self, Outcome, Policy, Subject},
        select::{ClusterFacts, Selection, select},
    },
};
use jiff::Timestamp;
use kruise_core::api::{
    APPS_GROUP,
    fleet::{
        FederatedObject,
        assignment::Assignment,
        binding::{FleetBinding, PolicyRef},
        member_cluster::{ClusterState, MemberCluster},
        policy::{ClusterPlacementPolicy, Placement, PlacementPolicy},
    },
};
use kube::{Resource, ResourceExt};
use scheduling::split::State;
use serde_json::Value;

/// One object and everything that decides where it runs.
#[derive(Debug, Clone)]
pub struct World {
    /// The object.
    pub object: Value,
    /// Which one it is.
    pub reference: FederatedObject,
    /// Policies of its namespace.
    pub policies: Vec<PlacementPolicy>,
    /// Policies for all namespaces.
    pub cluster_policies: Vec<ClusterPlacementPolicy>,
    /// What the hub has promised, if it has.
    pub binding: Option<FleetBinding>,
    /// The clusters.
    pub clusters: Vec<Cluster>,
    /// The time.
    pub now: Timestamp,
}

/// What became of one policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// `KIND/NAME`.
    pub policy: String,
    /// What became of it.
    pub outcome: Outcome,
}

impl World {
    /// Every policy with what became of it, and the one that wins.
    pub fn judge(&self) -> (Vec<Judged>, Option<Winner>) {
        let own = self.policies.iter().map(|it| entry("PlacementPolicy", it, &it.spec.placement));
        let all = self.cluster_policies.iter();
        let all = all.map(|it| entry("ClusterPlacementPolicy", it, &it.spec.placement));
        let entries: Vec<(Policy<'_>, PolicyRef)> = own.chain(all).collect();
        let policies: Vec<Policy<'_>> = entries.iter().map(|it| it.0.clone()).collect();
        let found = matching::find(&self.subject(), &policies);
        let judged = entries.iter().zip(&found.outcomes).map(|((_, reference), outcome)| Judged {
            policy: format!("{}/{}", reference.kind, reference.name),
            outcome: *outcome,
        });
        let winner = found.winner.map(|it| &entries[it]).map(|(policy, reference)| Winner {
            placement: Arc::new(policy.placement.clone()),
            reference: reference.clone(),
        });
        (judged.collect(), winner)
    }

    /// How a policy judges each cluster.
    pub fn selections(&self, placement: &Placement) -> Vec<(String, Selection)> {
        let judge = |it: &Cluster| select(placement, &it.facts, APPS_GROUP, &self.reference.kind);
        self.clusters.iter().map(|it| (it.facts.name.clone(), judge(it))).collect()
    }

    /// One round of the hub, `elapsed` seconds after the last.
    pub fn round(&self, winner: Option<&Winner>, elapsed: u32) -> Round {
        plan::plan(&self.observed(winner, elapsed))
    }

    /// What the hub's planner looks at.
    pub fn observed<'a>(&'a self, winner: Option<&'a Winner>, elapsed: u32) -> Observed<'a> {
        Observed {
            object: &self.object,
            reference: &self.reference,
            policy: winner,
            binding: self.binding.as_ref(),
            clusters: &self.clusters,
            key: None,
            secrets: None,
            elapsed,
            now: self.now,
        }
    }

    fn subject(&self) -> Subject {
        let texts = |field: &str| {
            let value = self.object.pointer(&format!("/metadata/{field}")).cloned().unwrap_or_default();
            serde_json::from_value(value).unwrap_or_default()
        };
        Subject {
            group: APPS_GROUP.to_owned(),
            kind: self.reference.kind.clone(),
            namespace: self.reference.namespace.clone(),
            name: self.reference.name.clone(),
            labels: texts("labels"),
            annotations: texts("annotations"),
        }
    }
}

fn entry<'a, P: Resource>(kind: &str, policy: &'a P, placement: &'a Placement) -> (Policy<'a>, PolicyRef) {
    let meta = policy.meta();
    let name = meta.name.as_deref().unwrap_or_default();
    // One that is not there yet is the youngest.
    let created = meta.creation_timestamp.as_ref().map_or(Timestamp::MAX, |it| it.0);
    let reference = PolicyRef {
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: meta.uid.clone().unwrap_or_default(),
        generation: meta.generation.unwrap_or_default(),
    };
    (Policy { namespace: meta.namespace.as_deref(), name, created, placement }, reference)
}

/// The clusters of the fleet, with their shares of one object, and those that have one and are no members any more.
pub fn clusters(
    members: &[MemberCluster],
    shares: &[Assignment],
    binding: Option<&FleetBinding>,
) -> Vec<Cluster> {
    let share = |name: &str| {
        let namespace = ::hub::names::cluster_namespace(name);
        let found = shares.iter().find(|it| it.metadata.namespace.as_deref() == Some(&namespace));
        found.cloned().map(Arc::new)
    };
    let mut clusters: Vec<Cluster> = members
        .iter()
        .map(|it| Cluster {
            facts: Arc::new(ClusterFacts::from(it)),
            is_member: true,
            shown: state(it),
            planning: planning(state(it)),
            assignment: share(&it.name_any()),
            // What is printed is about what is stored; whether that is so is the hub's to find out.
            word: Word::Heard,
            // Only the hub sees the shares of all objects.
            promised_to_others: 0,
            asked_for: 0,
        })
        .collect();
    let known: BTreeSet<&String> = binding.iter().flat_map(|it| it.spec.ledger.clusters.keys()).collect();
    for name in known {
        if !clusters.iter().any(|it| it.facts.name == *name) {
            clusters.push(Cluster {
                facts: Arc::new(ClusterFacts { name: name.clone(), ..ClusterFacts::default() }),
                is_member: false,
                shown: ClusterState::Offline,
                planning: State::Offline,
                assignment: share(name),
                word: Word::Heard,
                promised_to_others: 0,
                asked_for: 0,
            });
        }
    }
    clusters.sort_by(|a, b| a.facts.name.cmp(&b.facts.name));
    clusters
}

/// The state that the hub will show: what it last saw of the cluster, and what is asked of it now (STATE-5).
fn state(member: &MemberCluster) -> ClusterState {
    let seen = member.status.as_ref().and_then(|it| it.state).unwrap_or(ClusterState::Pending);
    let is_heard = matches!(seen, ClusterState::Ready | ClusterState::Cordoned | ClusterState::Draining);
    match (member.spec.accepted, is_heard, member.spec.drain, member.spec.unschedulable) {
        (false, ..) => ClusterState::Revoked,
        (true, true, true, _) => ClusterState::Draining,
        (true, true, false, true) => ClusterState::Cordoned,
        (true, true, false, false) => ClusterState::Ready,
        (true, false, ..) => seen,
    }
}

fn planning(state: ClusterState) -> State {
    match state {
        ClusterState::Ready => State::Ready,
        ClusterState::Cordoned => State::Cordoned,
        ClusterState::Draining => State::Draining,
        ClusterState::Pending => State::Pending,
        ClusterState::Returning => State::Returning,
        ClusterState::Lost => State::Lost,
        ClusterState::Offline | ClusterState::Revoked => State::Offline,
    }
}

#[cfg(test)]
mod tests {
    use kruise_core::api::fleet::member_cluster::{MemberClusterSpec, MemberClusterStatus};

    use super::*;

    #[test]
    fn state_5_what_is_asked_of_a_cluster_counts_while_it_is_heard() {
        let member = |seen, drain, accepted| {
            let spec = MemberClusterSpec { drain, accepted, unschedulable: true, ..Default::default() };
            let mut member = MemberCluster::new("a", spec);
            member.status = Some(MemberClusterStatus { state: Some(seen), ..Default::default() });
            state(&member)
        };
        assert_eq!(member(ClusterState::Ready, true, true), ClusterState::Draining);
        assert_eq!(member(ClusterState::Draining, false, true), ClusterState::Cordoned);
        assert_eq!(member(ClusterState::Offline, true, true), ClusterState::Offline);
        assert_eq!(member(ClusterState::Ready, false, false), ClusterState::Revoked);
    }
}
