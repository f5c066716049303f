//! Objects that want the same room: who comes first (SPLIT-9). Pure.
//!
//! Rounds are of one object each, so an object does not see what others would take. It sees who comes before it and still wants
//! replicas: room that such a one could use is not there for it, until that one has it or cannot use it. Nothing that was granted is
//! taken back for that.

use std::cmp::Reverse;

use jiff::Timestamp;
use kruise_core::api::fleet::{
    Slice,
    assignment::Assignment,
    binding::FleetBinding,
    keys::{conditions, reasons},
    policy::Placement,
};
use scheduling::split::State;

use super::room;
use crate::placement::{
    kinds::PodNumbers,
    round::most,
    select::{ClusterFacts, Selection, select},
};

/// The place of an object among those that want the same room: smaller comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::dispatch) struct Rank {
    /// The priority of its policy: higher first.
    pub(in crate::dispatch) priority: Reverse<i32>,
    /// Older first.
    pub(in crate::dispatch) created: Timestamp,
    /// Settles the rest.
    pub(in crate::dispatch) uid: String,
}

/// An object that wants more replicas than it was granted.
#[derive(Debug, Clone)]
pub(in crate::dispatch) struct Contender<'a> {
    /// Group and kind.
    pub(in crate::dispatch) kind: (&'a str, &'a str),
    /// Its policy.
    pub(in crate::dispatch) placement: &'a Placement,
    /// Its numbers.
    pub(in crate::dispatch) numbers: &'a PodNumbers,
    /// Replicas that it is still to be granted.
    pub(in crate::dispatch) wanted: u64,
}

/// Whether an object may be about to be granted more: it waits for answers or for room. One whose binding says that it is not planned
/// at all waits for a person, and nobody waits for it.
pub(in crate::dispatch) fn is_short(binding: &FleetBinding, generation: i64) -> bool {
    let conditions = || binding.status.iter().flat_map(|it| &it.conditions);
    let is_held = conditions().any(|it| match it.type_.as_str() {
        conditions::SCHEDULED => it.status == "False" && it.reason != reasons::ASKING_FOR_ROOM,
        conditions::SUSPENDED => it.status == "True",
        _ => false,
    });
    let is_unplaced = || conditions().any(|it| it.type_ == conditions::UNPLACED && it.status == "True");
    !is_held && (binding.spec.ledger.generation != generation || is_unplaced())
}

impl Contender<'_> {
    /// Room in a cluster that it could use, as far as the cluster has said. Rules about groups of clusters may keep it from using any:
    /// where it has such rules nobody waits for it.
    pub(in crate::dispatch) fn claim(
        &self,
        facts: &ClusterFacts,
        planning: State,
        share: Option<&Assignment>,
    ) -> u64 {
        let can = matches!(planning, State::Ready | State::Unconfirmed)
            && matches!(select(self.placement, facts, self.kind.0, self.kind.1), Selection::Selected { .. })
            && self.numbers.needs().iter().all(|it| facts.can(it))
            && self.placement.spread.is_empty()
            && room::matters(self.placement);
        let Some(share) = share.filter(|_| can) else { return 0 };
        // Who is not asked has no say in it.
        let Some(question) = &share.spec.capacity_question else { return 0 };
        let granted = match &share.spec.slice {
            Some(Slice::CloneSet(slice)) => slice.replicas,
            _ => 0,
        };
        let status = share.status.as_ref();
        let unseen = u64::from(granted.saturating_sub(status.map_or(0, room::running)));
        let answer = status.and_then(|it| it.capacity.as_ref()).filter(|it| it.question == question.id);
        let free = answer.map_or(u64::MAX, |it| u64::from(it.fit_now).saturating_sub(unseen));
        let left = most(self.placement, facts).map_or(u64::MAX, |it| u64::from(it.saturating_sub(granted)));
        self.wanted.min(free).min(left)
    }
}

/// How much of the room that was claimed by those who come first is held back: growth only, never what was granted or runs.
pub(super) fn held_back(free: Option<u32>, running: u32, promised: u64, current: u32, claimed: u64) -> u64 {
    let Some(free) = free else { return 0 };
    let fit = u64::from(free).saturating_sub(promised) + u64::from(running);
    claimed.min(fit.saturating_sub(u64::from(current)))
}

#[cfg(test)]
mod tests {
    use kruise_core::api::fleet::{
        CloneSetSlice,
        assignment::{AssignmentSpec, AssignmentStatus, CapacityAnswer, CapacityQuestion},
    };
    use serde_json::json;

    use super::*;

    fn placement(more: serde_json::Value) -> Placement {
        let mut policy = json!({"targets": [], "replicas": {"whenShort": "Hold"}});
        for (name, value) in more.as_object().unwrap() {
            policy[name] = value.clone();
        }
        serde_json::from_value(policy).unwrap()
    }

    fn facts() -> ClusterFacts {
        ClusterFacts {
            name: "a".to_owned(),
            apis: vec!["apps.kruise.io/v1beta1/CloneSet".to_owned()],
            ..ClusterFacts::default()
        }
    }

    fn share(granted: u32, free: Option<u32>) -> Assignment {
        let question = CapacityQuestion { id: "q".to_owned(), ..CapacityQuestion::default() };
        let answer =
            |fit_now| CapacityAnswer { question: "q".to_owned(), fit_now, ..CapacityAnswer::default() };
        let slice = CloneSetSlice { replicas: granted, ..CloneSetSlice::default() };
        Assignment {
            spec: AssignmentSpec {
                slice: Some(Slice::CloneSet(slice)),
                capacity_question: Some(question),
                ..AssignmentSpec::default()
            },
            status: Some(AssignmentStatus { capacity: free.map(answer), ..AssignmentStatus::default() }),
            ..Assignment::default()
        }
    }

    fn claim(placement: &Placement, share: Option<&Assignment>) -> u64 {
        let numbers = PodNumbers::default();
        let kind = ("apps.kruise.io", "CloneSet");
        Contender { kind, placement, numbers: &numbers, wanted: 5 }.claim(&facts(), State::Ready, share)
    }

    #[test]
    fn split_9_higher_priority_comes_first_then_older_then_the_uid() {
        let rank = |priority, created, uid: &str| Rank {
            priority: Reverse(priority),
            created: Timestamp::from_second(created).unwrap(),
            uid: uid.to_owned(),
        };
        assert!(rank(2, 9, "z") < rank(1, 1, "a"));
        assert!(rank(1, 1, "z") < rank(1, 9, "a"));
        assert!(rank(1, 1, "a") < rank(1, 1, "b"));
    }

    #[test]
    fn split_9_room_is_claimed_as_far_as_it_could_be_used() {
        let plain = placement(json!({}));
        assert_eq!(claim(&plain, Some(&share(0, Some(3)))), 3);
        assert_eq!(claim(&plain, Some(&share(0, Some(9)))), 5, "no more than is wanted");
        assert_eq!(claim(&plain, Some(&share(2, Some(3)))), 1, "two were granted and take room already");
        assert_eq!(claim(&plain, Some(&share(0, None))), 5, "whoever has not said may have room");
        assert_eq!(claim(&plain, Some(&share(0, Some(0)))), 0, "where none is nobody waits");
        assert_eq!(claim(&plain, None), 0);
        let bounded =
            placement(json!({"replicas": {"whenShort": "Hold", "perCluster": [{"clusters": {}, "max": 2}]}}));
        assert_eq!(claim(&bounded, Some(&share(1, Some(9)))), 1, "its own limit");
        let elsewhere = placement(json!({"clusters": {"names": ["b"]}}));
        assert_eq!(claim(&elsewhere, Some(&share(0, Some(9)))), 0);
        let spread = placement(json!({"spread": [{"topologyKey": "region", "maxShare": "50%"}]}));
        assert_eq!(claim(&spread, Some(&share(0, Some(9)))), 0);
        let careless = placement(json!({"replicas": {"whenShort": "Overcommit"}}));
        assert_eq!(claim(&careless, Some(&share(0, Some(9)))), 0, "it does not ask for room");
    }

    #[test]
    fn split_9_what_was_granted_is_never_held_back() {
        assert_eq!(held_back(Some(6), 0, 0, 0, 4), 4);
        assert_eq!(held_back(Some(6), 0, 0, 5, 4), 1, "five were granted");
        assert_eq!(held_back(Some(6), 3, 2, 3, 9), 4, "three run, and two are promised anyway");
        assert_eq!(held_back(None, 0, 0, 0, 4), 0, "what is not known is unlimited");
    }

    #[test]
    fn split_9_nobody_waits_for_an_object_that_is_not_planned() {
        let binding = |generation: i64, condition: serde_json::Value| -> FleetBinding {
            let mut binding = FleetBinding::default();
            binding.spec.ledger.generation = generation;
            let mut condition = condition;
            condition["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
            condition["message"] = json!("");
            let status = json!({"conditions": [condition]});
            binding.status = Some(serde_json::from_value(status).unwrap());
            binding
        };
        let placed = json!({"type": "Scheduled", "status": "True", "reason": "Placed"});
        let asking = json!({"type": "Scheduled", "status": "False", "reason": "AskingForRoom"});
        let bad = json!({"type": "Scheduled", "status": "False", "reason": "BadNumbers"});
        let unplaced = json!({"type": "Unplaced", "status": "True", "reason": "NoRoom"});
        let suspended = json!({"type": "Suspended", "status": "True", "reason": "NoPolicy"});
        assert!(!is_short(&binding(2, placed.clone()), 2));
        assert!(is_short(&binding(1, placed), 2) && is_short(&binding(0, asking), 2));
        assert!(is_short(&binding(2, unplaced), 2));
        assert!(!is_short(&binding(1, bad), 2) && !is_short(&binding(1, suspended), 2));
    }
}
