//! What a round of any kind begins with: the ledger, the body, and how every cluster is judged.

use kruise_core::api::fleet::{GROUP, PatchStep, binding::Ledger as Saved, keys};
use scheduling::{
    ledger::Revision,
    partition::Seeding,
    split::{State, fit},
};
use serde_json::Value;

use super::{Cluster, Observed, Winner};
use crate::{
    dispatch::{pods::Routing, status::Trouble},
    placement::{
        kinds::{self, Kind, PodNumbers},
        overrides,
        round::{self, Member, Prepared},
    },
};

/// The beginning of a round.
pub(super) struct Basis {
    /// The ledger.
    pub(super) saved: Saved,
    /// The revision of the object as it is.
    pub(super) target: Revision,
    /// What is stored once for all clusters.
    pub(super) body: Value,
    /// What differs in each cluster, in the order of the clusters; or why that cannot be.
    pub(super) patches: Vec<Result<Vec<PatchStep>, String>>,
}

impl Basis {
    pub(super) fn new(observed: &Observed<'_>, winner: &Winner, kind: &dyn Kind) -> Self {
        let body = kinds::body(kind, observed.object);
        let of = |it: &Cluster| overrides::for_cluster(&winner.placement, &it.facts, &body);
        let patches = observed.clusters.iter().map(|it| of(it).map_err(|it| it.to_string())).collect();
        Self { saved: observed.saved(), target: kinds::revision(kind, observed.object), body, patches }
    }

    /// Judges every cluster by the policy. Objects without pods have none in `numbers`.
    pub(super) fn prepare<'a>(
        &self,
        observed: &Observed<'a>,
        winner: &'a Winner,
        kind: (&'a str, &'a str),
        numbers: &'a PodNumbers,
        routing: &Routing,
    ) -> Result<Prepared<'a>, Trouble> {
        let members: Vec<_> = observed
            .clusters
            .iter()
            .zip(&self.patches)
            .map(|(it, patches)| member(it, &self.saved, routing, patches.is_err()))
            .collect();
        let object = round::Object {
            uid: &observed.reference.uid,
            kind,
            numbers,
            per_cluster: annotation(observed.object, keys::NUMBERS) == Some("PerCluster"),
            target: self.target,
            placement: &winner.placement,
            policy_generation: u64::try_from(winner.reference.generation).unwrap_or_default(),
            cause: cause(observed, &self.saved),
            partition_rollback: false,
            after: None,
            pre_pull: None,
            elapsed: observed.elapsed,
        };
        round::prepare(&object, &members).map_err(|it| Trouble::BadNumbers(it.to_string()))
    }
}

fn member<'a>(cluster: &'a Cluster, saved: &Saved, routing: &'a Routing, is_unfit: bool) -> Member<'a> {
    let row = saved.clusters.get(&cluster.facts.name);
    let mut states = vec![cluster.planning];
    states.extend(cluster.is_ahead_of(row.map_or(0, |it| it.share.seq)).then_some(State::Offline));
    states.extend(is_unfit.then_some(State::Unsupported));
    Member {
        facts: &cluster.facts,
        state: State::strongest(states),
        has_row: row.is_some(),
        current: row.map_or(0, |it| it.share.replicas),
        free: None,
        running: cluster.status().map_or(0, |it| it.counts.replicas),
        promised_to_others: 0,
        named: routing.named(&cluster.facts.name),
        seeding: Seeding::Able,
        dispatched: cluster.stored().map_or(0, |it| it.seq),
        stopped: false,
        weight_in_use: row.and_then(|it| it.weight),
    }
}

/// Why this round takes place, as far as it matters for weights.
fn cause(observed: &Observed<'_>, saved: &Saved) -> fit::Cause {
    let policy = observed.binding.and_then(|it| it.spec.policy.as_ref());
    let is_new = |it: &Cluster| it.is_member && !saved.clusters.contains_key(&it.facts.name);
    if saved.generation != observed.generation() {
        fit::Cause::Spec
    } else if policy != observed.policy.map(|it| &it.reference) {
        fit::Cause::Policy
    } else if observed.clusters.iter().any(is_new) {
        fit::Cause::ClusterSet
    } else {
        fit::Cause::Report
    }
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    debug_assert!(key.starts_with(GROUP), "only the fleet's own annotations are read");
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}
