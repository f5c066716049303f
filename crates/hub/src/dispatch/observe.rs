//! Caches -> one read of the world for one object. The only reader of caches.

use std::{
    cmp::Reverse,
    collections::BTreeSet,
    sync::{Arc, PoisonError},
};

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
    Dispatcher, Error, Question, Shared, ahead, end,
    plan::{
        Cluster, Observed, Winner,
        caution::{self, Word},
        order::{self, Contender, Rank},
        room,
    },
    raw::Raw,
};
use crate::{
    names::{self, RevisionKey},
    placement::{
        kinds::{self, Division},
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
            secrets: None,
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
        let policy = self.policy(object);
        let mut clusters = self.clusters(&reference, known, policy.as_ref())?;
        if policy.as_ref().is_some_and(|it| room::matters(&it.placement)) {
            clusters.iter_mut().for_each(|it| it.promised_to_others = self.promised(it, &reference));
            self.count_claims(object, policy.as_ref(), &mut clusters);
            let is_planned = ledger.is_some_and(|it| Some(it.generation) == object.meta().generation);
            self.count_waiting(&Key::of(&**object), &mut clusters, is_planned);
        }
        Ok(Seen {
            json: object.json(),
            policy,
            is_ending: object.meta().deletion_timestamp.is_some(),
            is_ours: object.finalizers().iter().any(|it| it == keys::FINALIZER),
            object: object.clone(),
            reference,
            binding,
            clusters,
        })
    }

    pub(super) fn binding(
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

    /// All clusters of the fleet that take part, and those of the ledger that are not in it any more: what they hold still
    /// counts.
    fn clusters(
        &self,
        reference: &FederatedObject,
        mut known: BTreeSet<String>,
        policy: Option<&Winner>,
    ) -> Result<Vec<Cluster>, Error> {
        let name = names::assignment(reference);
        let mut clusters = Vec::new();
        for standing in &*self.shared.roster.standings() {
            let is_known = known.remove(&standing.facts.name);
            let assignment = self.assignment(&standing.facts.name, &name)?;
            // The place is taken until the cluster has given up the object that had this name before (DEL-2).
            let is_taken = assignment.as_ref().is_some_and(|it| end::is_tombstone_of_another(it, reference));
            let cluster = Cluster {
                facts: standing.facts.clone(),
                is_member: true,
                shown: standing.shown,
                planning: if is_taken { State::Pending } else { standing.planning },
                assignment: assignment.filter(|_| !is_taken),
                word: self.word(&standing.facts.name),
                promised_to_others: 0,
                claimed_by_others: 0,
                asked_for: 0,
                departure: standing.departure,
            };
            if is_known || cluster.takes_part(policy, (&K::group(&()), &K::kind(&()))) {
                clusters.push(cluster);
            }
        }
        for gone in known {
            clusters.push(Cluster {
                assignment: self.assignment(&gone, &name)?,
                facts: Arc::new(ClusterFacts { name: gone, ..ClusterFacts::default() }),
                is_member: false,
                shown: ClusterState::Offline,
                planning: State::Offline,
                word: Word::Heard,
                promised_to_others: 0,
                claimed_by_others: 0,
                asked_for: 0,
                departure: None,
            });
        }
        Ok(clusters)
    }

    /// Whether what is stored of a cluster is what it does. Once that was so it stays: what is stored later is our own.
    fn word(&self, cluster: &str) -> Word {
        let heard = || self.shared.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if heard().contains(cluster) {
            return Word::Heard;
        }
        let stored = || {
            let all = self.shared.assignments.in_namespace(&names::cluster_namespace(cluster));
            caution::stored(all.iter().filter_map(|it| it.0.as_ref().ok()))
        };
        let word = caution::compare(self.shared.roster.word(cluster).as_ref(), stored);
        if word == Word::Heard {
            heard().insert(cluster.to_owned());
        }
        word
    }

    /// The Assignment of this name that is stored for a cluster.
    fn assignment(&self, cluster: &str, name: &str) -> Result<Option<Arc<Assignment>>, Error> {
        let key = Key::new(&names::cluster_namespace(cluster), name);
        let Some(stored) = self.shared.assignments.get(&key) else { return Ok(None) };
        match &stored.0 {
            Ok(assignment) => Ok(Some(Arc::new(assignment.clone()))),
            Err(fault) => Err(Error::Unreadable { what: key.to_string(), fault: fault.error.clone() }),
        }
    }

    /// Notes for how long clusters have been asked what they are asked. Questions that an earlier process asked are as old as that if
    /// the object was planned since: nobody is waited for again because the hub was restarted (HA-4).
    fn count_waiting(&self, key: &Key, clusters: &mut [Cluster], is_planned: bool) {
        let now = self.shared.clock.instant();
        let mut memory = self.memory();
        let asked = &mut memory.entry(key.clone()).or_default().asked;
        let since = if asked.is_none() && is_planned { None } else { Some(now) };
        let known = asked.get_or_insert_default();
        for cluster in clusters {
            let stored = cluster.assignment.as_ref().and_then(|it| it.spec.capacity_question.as_ref());
            let Some(id) = stored.map(|it| it.id.clone()) else {
                known.remove(&cluster.facts.name);
                continue;
            };
            let question = known
                .entry(cluster.facts.name.clone())
                .and_modify(|it| {
                    if it.id != id {
                        *it = Question { id: id.clone(), since };
                    }
                })
                .or_insert_with(|| Question { id: id.clone(), since });
            cluster.asked_for = question.since.map_or(u32::MAX, |it| {
                u32::try_from(now.saturating_duration_since(it).as_secs()).unwrap_or(u32::MAX)
            });
        }
    }

    /// What others were promised in a cluster and nobody has seen taken.
    fn promised(&self, cluster: &Cluster, reference: &FederatedObject) -> u64 {
        let shares = self.shared.assignments.in_namespace(&names::cluster_namespace(&cluster.facts.name));
        room::promised(shares.iter().filter_map(|it| it.0.as_ref().ok()), &reference.uid)
    }

    /// Notes what others that come first could use of the room in each cluster (SPLIT-9).
    fn count_claims(&self, object: &Raw<K>, policy: Option<&Winner>, clusters: &mut [Cluster]) {
        let own = policy.map(|it| rank(object, it));
        let group = K::group(&());
        for binding in self.shared.bindings.all() {
            let Ok(binding) = &binding.0 else { continue };
            let FederatedObject { kind, namespace, name, uid, .. } = &binding.spec.object;
            if *kind != K::kind(&()) || Some(uid) == object.meta().uid.as_ref() {
                continue;
            }
            let key = Key::new(namespace.as_deref().unwrap_or_default(), name);
            let Some(other) = self.objects.get(&key) else { continue };
            let generation = other.meta().generation.unwrap_or_default();
            if other.meta().deletion_timestamp.is_some() || !order::is_short(binding, generation) {
                continue;
            }
            let Some(winner) = self.policy(&other).filter(|it| own.as_ref() > Some(&rank(&*other, it)))
            else {
                continue;
            };
            let division = kinds::of(&group, kind).division(&other.json());
            let Ok(Division::Pods(numbers)) = division else { continue };
            let granted: u64 =
                binding.spec.ledger.clusters.values().map(|it| u64::from(it.share.replicas)).sum();
            let contender = Contender {
                kind: (&group, kind),
                placement: &winner.placement,
                numbers: &numbers,
                wanted: u64::from(numbers.replicas).saturating_sub(granted),
            };
            let name = names::assignment(&binding.spec.object);
            for cluster in &mut *clusters {
                let key = Key::new(&names::cluster_namespace(&cluster.facts.name), &name);
                let share = self.shared.assignments.get(&key);
                let share = share.as_ref().and_then(|it| it.0.as_ref().ok());
                let claim = contender.claim(&cluster.facts, cluster.planning, share);
                cluster.claimed_by_others = cluster.claimed_by_others.saturating_add(claim);
            }
        }
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
        if object.labels().contains_key(keys::DOWNLOADS_FOR) {
            return ahead::policy(&self.shared, object);
        }
        let list = self.shared.lists.holder(object);
        list.and_then(|it| winner(&self.shared, &it)).or_else(|| winner(&self.shared, &own))
    }
}

/// The place of an object among those that want the same room.
fn rank(object: &impl Resource, policy: &Winner) -> Rank {
    let meta = object.meta();
    Rank {
        priority: Reverse(policy.placement.priority),
        created: meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |it| it.0),
        uid: meta.uid.clone().unwrap_or_default(),
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
