//! What a round of any kind begins with: the ledger, the body, and how every cluster is judged.

use kruise_core::api::fleet::{GROUP, PatchStep, binding::Ledger as Saved, keys};
use scheduling::{
    ledger::Revision,
    partition::Seeding,
    split::{State, fit},
};
use serde_json::Value;

use super::{
    Cluster, Observed, Winner,
    caution::Word,
    room::{self, Room},
    secrets::Deal,
};
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
    /// What each gets of the Secrets that a job names.
    pub(super) secrets: Deal,
}

impl Basis {
    pub(super) fn new(observed: &Observed<'_>, winner: &Winner, kind: &dyn Kind) -> Self {
        let body = kinds::body(kind, observed.object);
        let of = |it: &Cluster| overrides::for_cluster(&winner.placement, &it.facts, &body);
        let patches = observed.clusters.iter().map(|it| of(it).map_err(|it| it.to_string())).collect();
        let target = kinds::revision(kind, observed.object);
        Self { saved: observed.saved(), target, body, patches, secrets: Deal::default() }
    }

    /// What clusters are asked about the object's pods.
    pub(super) fn room(
        &self,
        observed: &Observed<'_>,
        winner: &Winner,
        kind: (&str, &str),
        replicas: u32,
    ) -> Room {
        Room::new(observed, winner, kind, &self.body, &self.patches, replicas)
    }

    /// Judges every cluster by the policy. Objects without pods have none in `numbers`.
    pub(super) fn prepare<'a>(
        &'a self,
        observed: &Observed<'a>,
        winner: &'a Winner,
        kind: (&'a str, &'a str),
        numbers: &'a PodNumbers,
        routing: &Routing,
        room: &Room,
    ) -> Result<Prepared<'a>, Trouble> {
        let members: Vec<_> =
            (0..observed.clusters.len()).map(|it| self.member(observed, it, routing, room)).collect();
        let object = round::Object {
            uid: &observed.reference.uid,
            kind,
            numbers,
            per_cluster: annotation(observed.object, keys::NUMBERS) == Some("PerCluster"),
            target: self.target,
            placement: &winner.placement,
            policy_generation: u64::try_from(winner.reference.generation).unwrap_or_default(),
            // Weights that are made before all answers are there would stand.
            cause: if room.is_waiting() { fit::Cause::Report } else { cause(observed, &self.saved) },
            weights_in_use: &self.saved.weights,
            partition_rollback: false,
            after: None,
            pre_pull: None,
            elapsed: observed.elapsed,
        };
        round::prepare(&object, &members).map_err(|it| Trouble::BadNumbers(it.to_string()))
    }

    fn member<'a>(
        &self,
        observed: &Observed<'a>,
        place: usize,
        routing: &'a Routing,
        room: &Room,
    ) -> Member<'a> {
        let cluster = &observed.clusters[place];
        let row = self.saved.clusters.get(&cluster.facts.name);
        let mut states = vec![cluster.planning];
        states.extend(cluster.is_ahead_of(row.map_or(0, |it| it.share.seq)).then_some(State::Offline));
        states.extend((cluster.word == Word::Doubted).then_some(State::Offline));
        states.extend(self.patches[place].is_err().then_some(State::Unsupported));
        states.extend(self.secrets.state(place));
        // It gets no more until it has said how much that can be.
        states.extend(room.is_awaited(place).then_some(State::Cordoned));
        Member {
            facts: &cluster.facts,
            state: State::strongest(states),
            has_row: row.is_some(),
            current: row.map_or(0, |it| it.share.replicas),
            free: room.free(place, cluster),
            running: cluster.status().map_or(0, room::running),
            promised_to_others: cluster.promised_to_others,
            named: routing.named(&cluster.facts.name),
            seeding: Seeding::Able,
            dispatched: cluster.stored().map_or(0, |it| it.seq),
            stopped: false,
        }
    }
}

/// Why this round takes place, as far as it matters for weights.
fn cause(observed: &Observed<'_>, saved: &Saved) -> fit::Cause {
    let policy = observed.binding.and_then(|it| it.spec.policy.as_ref());
    if saved.generation != observed.generation() {
        fit::Cause::Spec
    } else if policy != observed.policy.map(|it| &it.reference) {
        fit::Cause::Policy
    } else {
        // Clusters that came or left are seen from the weights themselves.
        fit::Cause::Report
    }
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    debug_assert!(key.starts_with(GROUP), "only the fleet's own annotations are read");
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}
