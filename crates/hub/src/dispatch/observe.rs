//! Caches -> one read of the world for one object. The only reader of caches.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use kruise_core::{
    api::fleet::{
        FederatedObject,
        assignment::Assignment,
        binding::{FleetBinding, PolicyRef},
        keys,
        member_cluster::ClusterState,
        policy::Placement,
    },
    runtime::{cache::Cached, key::Key},
};
use kube::{Resource, ResourceExt};
use scheduling::split::State;
use serde_json::Value;

use super::{
    Dispatcher, Error, Shared,
    plan::{Cluster, Observed, Winner},
    raw::Raw,
};
use crate::{
    names::{self, RevisionKey},
    placement::{
        matching::{self, Policy, Subject},
        select::ClusterFacts,
    },
};

/// What was read.
pub(super) struct Seen<K> {
    pub(super) object: Arc<Raw<K>>,
    json: Value,
    pub(super) reference: FederatedObject,
    policy: Option<Winner>,
    pub(super) binding: Option<Arc<super::Guarded<FleetBinding>>>,
    clusters: Vec<Cluster>,
    /// Whether it is being deleted.
    pub(super) is_ending: bool,
    /// Whether it has our finalizer: there may be something of it in a cluster.
    pub(super) is_ours: bool,
}

impl<K> Seen<K> {
    pub(super) fn observed<'a>(&'a self, key: &'a RevisionKey, elapsed: u32, now: Timestamp) -> Observed<'a> {
        Observed {
            object: &self.json,
            reference: &self.reference,
            policy: self.policy.as_ref(),
            binding: self.stored_binding(),
            clusters: &self.clusters,
            key: Some(key),
            elapsed,
            now,
        }
    }

    pub(super) fn stored_binding(&self) -> Option<&FleetBinding> {
        self.binding.as_ref().and_then(|it| it.0.as_ref().ok())
    }

    /// The status that the object has now.
    pub(super) fn status(&self) -> &Value {
        &self.json["status"]
    }

    /// The Assignment that is stored for a cluster.
    pub(super) fn assignment(&self, cluster: &str) -> Option<&Assignment> {
        self.clusters.iter().find(|it| it.facts.name == cluster)?.assignment.as_deref()
    }
}

impl<K> Dispatcher<K>
where
    K: Resource<DynamicType = ()> + 'static,
    Raw<K>: Cached,
{
    pub(super) fn observe(&self, object: &Arc<Raw<K>>) -> Result<Seen<K>, Error> {
        let reference = FederatedObject {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: object.namespace(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
        };
        let binding = self.binding(&reference)?;
        let ledger = binding.as_ref().and_then(|it| it.0.as_ref().ok()).map(|it| &it.spec.ledger);
        let known: BTreeSet<String> = ledger.iter().flat_map(|it| it.clusters.keys().cloned()).collect();
        let clusters = self.clusters(&reference, known)?;
        Ok(Seen {
            json: object.json(),
            policy: self.policy(object),
            is_ending: object.meta().deletion_timestamp.is_some(),
            is_ours: object.finalizers().iter().any(|it| it == keys::FINALIZER),
            object: object.clone(),
            reference,
            binding,
            clusters,
        })
    }

    fn binding(
        &self,
        reference: &FederatedObject,
    ) -> Result<Option<Arc<super::Guarded<FleetBinding>>>, Error> {
        let (namespace, name) = names::binding(reference);
        let Some(stored) = self.shared.bindings.get(&Key::new(&namespace, &name)) else { return Ok(None) };
        match &stored.0 {
            // A ledger that cannot be read must not be taken for none: everything in it would be granted again.
            Err(fault) => Err(Error::Unreadable { what: name, fault: fault.error.clone() }),
            Ok(binding) if binding.spec.object.uid != reference.uid => Err(Error::Predecessor),
            Ok(_) => Ok(Some(stored)),
        }
    }

    /// All clusters of the fleet, and those of the ledger that are not in it any more: what they hold still counts.
    fn clusters(&self, reference: &FederatedObject, known: BTreeSet<String>) -> Result<Vec<Cluster>, Error> {
        let mut clusters: Vec<Cluster> = self
            .shared
            .roster
            .standings()
            .into_iter()
            .map(|it| Cluster {
                facts: it.facts,
                is_member: true,
                shown: it.shown,
                planning: it.planning,
                assignment: None,
            })
            .collect();
        for name in known {
            if !clusters.iter().any(|it| it.facts.name == name) {
                clusters.push(Cluster {
                    facts: ClusterFacts { name, ..ClusterFacts::default() },
                    is_member: false,
                    shown: ClusterState::Offline,
                    planning: State::Offline,
                    assignment: None,
                });
            }
        }
        let name = names::assignment(reference);
        for cluster in &mut clusters {
            let key = Key::new(&names::cluster_namespace(&cluster.facts.name), &name);
            let Some(stored) = self.shared.assignments.get(&key) else { continue };
            match &stored.0 {
                Ok(assignment) => cluster.assignment = Some(Arc::new(assignment.clone())),
                Err(fault) => {
                    return Err(Error::Unreadable { what: key.to_string(), fault: fault.error.clone() });
                }
            }
        }
        Ok(clusters)
    }

    /// The policy that wins for the object. A job that was made from a list of images is placed as its list is.
    fn policy(&self, object: &Raw<K>) -> Option<Winner> {
        let own = Subject {
            group: K::group(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: object.namespace(),
            name: object.name_any(),
            labels: object.labels().clone(),
            annotations: object.annotations().clone(),
        };
        let list = self.shared.lists.holder(object);
        list.and_then(|it| winner(&self.shared, &it)).or_else(|| winner(&self.shared, &own))
    }
}

/// The policy that wins for what policies see of an object.
pub(super) fn winner(shared: &Shared, subject: &Subject) -> Option<Winner> {
    let namespace = subject.namespace.clone().unwrap_or_default();
    let of_namespace = shared.policies.in_namespace(&namespace);
    let of_all = shared.cluster_policies.all();
    let own = of_namespace.iter().filter_map(|it| it.0.as_ref().ok());
    let own = own.map(|it| Found::new("PlacementPolicy", it, &it.spec.placement));
    let all = of_all.iter().filter_map(|it| it.0.as_ref().ok());
    let all = all.map(|it| Found::new("ClusterPlacementPolicy", it, &it.spec.placement));
    let found: Vec<Found<'_>> = own.chain(all).collect();
    let policies: Vec<_> = found.iter().map(|it| it.policy.clone()).collect();
    let winner = &found[matching::find(subject, &policies).winner?];
    Some(Winner { placement: Arc::new(winner.policy.placement.clone()), reference: winner.reference.clone() })
}

/// A policy of either kind.
struct Found<'a> {
    policy: Policy<'a>,
    reference: PolicyRef,
}

impl<'a> Found<'a> {
    fn new<P: Resource>(kind: &str, policy: &'a P, placement: &'a Placement) -> Self {
        let meta = policy.meta();
        let created = meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |it| it.0);
        let name = meta.name.as_deref().unwrap_or_default();
        Self {
            policy: Policy { namespace: meta.namespace.as_deref(), name, created, placement },
            reference: PolicyRef {
                kind: kind.to_owned(),
                name: name.to_owned(),
                uid: meta.uid.clone().unwrap_or_default(),
                generation: meta.generation.unwrap_or_default(),
            },
        }
    }
}
