//! Reading the caches: the only reader.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::core::Selector;

use super::{
    Caches,
    plan::{Doubts, World, glance::Glanced, limits::Limits, scale::spread_keys},
    sights::{Group, Kept, Sights},
};
use crate::{
    api::cloneset::{keys::INSTANCE_ID, v1beta1::CloneSet},
    pod::build,
    runtime::{
        cache::{claim::ClaimLite, pod::PodLite, revision::RevisionLite},
        key::{Key, controller_uid, uid},
        overlay::Intent,
    },
};

/// One read of the world.
#[derive(Debug, Default)]
pub struct Observed {
    /// All pods of ours, and what was read off them.
    pub pods: Sights,
    /// Pods that have ended or are on their way out.
    pub inactive: Vec<Arc<PodLite>>,
    /// Pods of ours whose labels do not match any more.
    pub strayed: Vec<Arc<PodLite>>,
    /// Claims of ours, those on their way out among them.
    pub claims: Vec<Arc<ClaimLite>>,
    /// Revisions of ours, and those of nobody.
    pub revisions: Vec<Arc<RevisionLite>>,
    /// Ids of claims that can serve no further pod: its name is taken by a pod that is not ours any more, or the claim may
    /// have been deleted.
    pub occupied: BTreeSet<String>,
    /// What was asked for without an answer.
    pub doubts: Doubts,
}

impl Observed {
    /// Pods that count.
    pub fn active(&self) -> Vec<Glanced<'_>> {
        self.pods.active().collect()
    }
}

/// Reads what there is about `cloneset`.
pub fn observe(cloneset: &CloneSet, selector: &Selector, caches: &Caches, kept: &Kept) -> Observed {
    let owner = uid(cloneset);
    let key = Key::of(cloneset);
    let mut observed = Observed {
        claims: caches.claims.owned_by(owner),
        revisions: caches.revisions.owned_by(owner),
        doubts: doubts(owner, &key.name, caches),
        ..Observed::default()
    };
    observed.revisions.extend(caches.revisions.orphans_in(&key.namespace));
    let is_taken = |id: &str| {
        let pod = caches.pods.get(&Key::new(&key.namespace, &build::name(&key.name, id)));
        pod.is_some_and(|it| controller_uid(&*it) != Some(owner))
    };
    let in_doubt = claims_in_doubt(owner, caches);
    let claims = observed.claims.iter().filter_map(|it| Some((it.labels().get(INSTANCE_ID)?, it.name())));
    let is_out = |(id, claim): &(&String, &str)| in_doubt.contains(*claim) || is_taken(id);
    observed.occupied = claims.filter(is_out).map(|it| it.0.clone()).collect();
    let pods = kept.look(owner, &cloneset.spec.selector, selector, caches.pods.rows_of(owner));
    for (group, it) in pods.all() {
        match group {
            Group::Active => {}
            Group::Inactive => observed.inactive.push(it.pod.clone()),
            Group::Strayed => observed.strayed.push(it.pod.clone()),
        }
    }
    observed.pods = pods;
    observed
}

/// The names of claims whose deletion was asked for without an answer.
fn claims_in_doubt(owner: &str, caches: &Caches) -> BTreeSet<String> {
    let doubts = caches.claims.doubts_of(owner).into_iter();
    doubts.filter(|it| it.intent.is_deletion()).map(|it| it.key.name.to_string()).collect()
}

fn doubts(owner: &str, name: &str, caches: &Caches) -> Doubts {
    let mut doubts = Doubts::default();
    for doubt in caches.pods.doubts_of(owner) {
        match doubt.intent {
            Intent::Create => {
                let id = doubt.key.name.strip_prefix(name).and_then(|it| it.strip_prefix('-'));
                doubts.created.extend(id.map(str::to_owned));
            }
            Intent::Delete => drop(doubts.deleted.insert(doubt.key.name.to_string())),
            Intent::DeleteAsSeen(_) => drop(doubts.deleted_as_seen.insert(doubt.key.name.to_string())),
            Intent::Update => drop(doubts.changed.insert(doubt.key.name.to_string())),
        }
    }
    doubts
}

/// Labels of the nodes that pods are on, where the template asks for spreading and there are too many pods.
pub fn nodes(
    world: &World<'_>,
    limits: &Limits,
    caches: &Caches,
) -> BTreeMap<String, BTreeMap<String, String>> {
    // Nodes matter only to which of too many pods go.
    if spread_keys(world).is_empty() || world.active.len() as i64 <= limits.replicas {
        return BTreeMap::new();
    }
    let names: BTreeSet<&str> =
        world.active.iter().filter_map(|it| it.pod.spec.node_name.as_deref()).collect();
    let labels = |name: &str| caches.nodes.get(&Key::new("", name))?.metadata.labels.clone();
    names.into_iter().filter_map(|it| Some((it.to_owned(), labels(it)?))).collect()
}
