//! What a round of any kind begins with: the ledger, the body, and how every cluster is judged.

use std::time::Duration;

use kruise_core::api::fleet::{
    GROUP,
    binding::{Ledger as Saved, PolicyRef, RebalanceProgress},
    keys::{self, features},
};
use scheduling::{
    ledger::Revision,
    moves::PolicyMark,
    partition::Seeding,
    rank::sha256,
    split::{State, fit},
};
use serde_json::Value;

use super::{
    Cluster, Observed, Winner,
    caution::Word,
    order,
    room::{self, Room},
    secrets::Deal,
};
use crate::{
    dispatch::{pods::Routing, status::Trouble},
    placement::{
        kinds::{self, Kind, PodNumbers},
        overrides::{self, Changes},
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
    pub(super) changes: Vec<Result<Changes, String>>,
    /// What each gets of the Secrets that a job names.
    pub(super) secrets: Deal,
}

impl Basis {
    pub(super) fn new(observed: &Observed<'_>, winner: &Winner, kind: &dyn Kind) -> Self {
        let body = kinds::body(kind, observed.object);
        let of = |it: &Cluster| overrides::for_cluster(&winner.placement, &it.facts, &body);
        let changes = observed.clusters.iter().map(|it| of(it).map_err(|it| it.to_string())).collect();
        let target = kinds::revision(kind, observed.object);
        Self { saved: observed.saved(), target, body, changes, secrets: Deal::default() }
    }

    /// What clusters are asked about the object's pods.
    pub(super) fn room(
        &self,
        observed: &Observed<'_>,
        winner: &Winner,
        kind: (&str, &str),
        replicas: u32,
    ) -> Room {
        Room::new(observed, winner, kind, &self.body, &self.changes, replicas)
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
            policy: mark(&winner.reference),
            // Weights that are made before all answers are there would stand.
            cause: if room.is_waiting() { fit::Cause::Report } else { cause(observed, &self.saved) },
            weights_in_use: &self.saved.weights,
            may_weigh_anew: !room.is_waiting() && self.has_interval_passed(observed, winner),
            partition_rollback: rolls_back(observed),
            after: None,
            pre_pull: None,
            elapsed: observed.elapsed,
        };
        round::prepare(&object, &members).map_err(|it| Trouble::BadNumbers(it.to_string()))
    }

    /// Whether nothing was moved in this interval. That it is over is not written down.
    fn has_interval_passed(&self, observed: &Observed<'_>, winner: &Winner) -> bool {
        let RebalanceProgress { moved, passed_seconds, .. } = self.saved.rebalance;
        let interval: Duration = winner.placement.rebalance.interval.into();
        moved == 0 || u64::from(passed_seconds.saturating_add(observed.elapsed)) >= interval.as_secs()
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
        let current = row.map_or(0, |it| it.share.replicas);
        let (free, running) = (room.free(place, cluster), cluster.status().map_or(0, room::running));
        let promised = cluster.promised_to_others;
        let held_back = order::held_back(free, running, promised, current, cluster.claimed_by_others);
        let mut states = vec![cluster.planning];
        states.extend(cluster.is_ahead_of(row.map_or(0, |it| it.share.seq)).then_some(State::Offline));
        states.extend((cluster.word == Word::Doubted).then_some(State::Offline));
        // It is told to let go of everything; until it has, its share stands.
        states.extend(cluster.leaves_at_once().map(|_| State::Offline));
        states.extend(self.changes[place].is_err().then_some(State::Unsupported));
        states.extend(self.secrets.state(place));
        // It gets no more until it has said how much that can be.
        states.extend(room.is_awaited(place).then_some(State::Cordoned));
        Member {
            facts: &cluster.facts,
            state: State::strongest(states),
            has_row: row.is_some(),
            current,
            free,
            running,
            promised_to_others: promised + held_back,
            named: routing.named(&cluster.facts.name),
            // As old as the protocol: every agent can.
            seeding: Seeding::Able,
            dispatched: cluster.stored().map_or(0, |it| it.seq),
            stopped: false,
        }
    }
}

/// Whether raising the partition takes updated pods back (REV-5). That is a gate of each cluster's manager, which no object can set: a
/// cluster without it would keep the pods, so all must have it.
fn rolls_back(observed: &Observed<'_>) -> bool {
    observed.clusters.iter().all(|it| it.facts.can(features::PARTITION_ROLLBACK))
}

/// Which policy that is. A policy that was deleted and made again is another one, though both begin with generation 1.
fn mark(policy: &PolicyRef) -> PolicyMark {
    let digest = sha256(policy.uid.as_bytes());
    PolicyMark {
        id: u64::from_be_bytes(std::array::from_fn(|it| digest[it])).max(1),
        generation: u64::try_from(policy.generation).unwrap_or_default(),
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
        // Clusters that came or left are seen from the weights themselves, and whether a rebalance is due from the split.
        fit::Cause::Report
    }
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    debug_assert!(key.starts_with(GROUP), "only the fleet's own annotations are read");
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}
