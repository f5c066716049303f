//! What a pod is: active, ready, available, at which revision.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::common::keys,
    revision::hash::{self, short_hash},
    runtime::cache::pod::PodLite,
};

/// The lifecycle state in which a pod may be available; so may one without a state, which older releases left behind.
const NORMAL: &str = "Normal";

/// How long after the last second of `minReadySeconds` to look again: that second itself does not count yet.
const JUST_AFTER: SignedDuration = SignedDuration::from_millis(1);

/// Whether the pod counts at all: it has not ended and is not being deleted.
pub fn is_active(pod: &PodLite) -> bool {
    !matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed")) && !pod.is_terminating()
}

/// Whether the pod has its node.
pub fn has_node(pod: &PodLite) -> bool {
    pod.spec.node_name.as_ref().is_some_and(|it| !it.is_empty())
}

/// Whether kubelet calls the pod ready.
pub fn is_ready(pod: &PodLite) -> bool {
    pod.condition("Ready").is_some_and(|it| it.status == "True")
}

/// Since when the pod is ready. `None` if it is not, and if nobody wrote down since when.
pub fn ready_at(pod: &PodLite) -> Option<Timestamp> {
    let ready = pod.condition("Ready").filter(|it| it.status == "True")?;
    ready.last_transition_time.as_ref().map(|it| it.0)
}

/// What tells whether a pod is ready and available, at whatever time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Ready in our sense at this moment, however long it has been.
    serves: bool,
    /// In no lifecycle step.
    is_settled: bool,
    ready_at: Option<Timestamp>,
}

impl Standing {
    /// How `pod` stands.
    pub fn of(pod: &PodLite) -> Self {
        Self { serves: serves(pod), is_settled: is_settled(pod), ready_at: ready_at(pod) }
    }

    /// Whether the pod runs, has been ready for more than `min_ready_seconds`, and no in-place update is on its way into
    /// it.
    pub fn is_ready_for(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        let is_old_enough = || self.counts_from(min_ready_seconds).is_some_and(|it| it < now);
        self.serves && (min_ready_seconds <= 0 || is_old_enough())
    }

    /// Whether the pod counts as available: [`Self::is_ready_for`], and its lifecycle is not about to change it.
    pub fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        self.is_settled && self.is_ready_for(min_ready_seconds, now)
    }

    /// How long until the pod becomes available by the passing of time alone. `None` if it already is, and if something
    /// else has to happen first.
    pub fn available_in(&self, min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
        if !self.is_settled || !self.serves || self.is_ready_for(min_ready_seconds, now) {
            return None;
        }
        let wait = self.counts_from(min_ready_seconds)?.duration_since(now) + JUST_AFTER;
        wait.try_into().ok()
    }

    /// The moment after which the pod has been ready long enough.
    fn counts_from(&self, min_ready_seconds: i32) -> Option<Timestamp> {
        self.ready_at?.checked_add(SignedDuration::from_secs(min_ready_seconds.into())).ok()
    }
}

/// [`Standing::is_ready_for`] of `pod`.
pub fn is_ready_for(pod: &PodLite, min_ready_seconds: i32, now: Timestamp) -> bool {
    Standing::of(pod).is_ready_for(min_ready_seconds, now)
}

/// [`Standing::is_available`] of `pod`.
pub fn is_available(pod: &PodLite, min_ready_seconds: i32, now: Timestamp) -> bool {
    Standing::of(pod).is_available(min_ready_seconds, now)
}

/// [`Standing::available_in`] of `pod`.
pub fn available_in(pod: &PodLite, min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
    Standing::of(pod).available_in(min_ready_seconds, now)
}

/// Whether the pod was made from this revision. Pods carry its full name or only the hash.
pub fn is_at_revision(pod: &PodLite, revision: &str) -> bool {
    pod.labels().get(keys::CONTROLLER_REVISION_HASH).is_some_and(|it| hash::is_at_revision(it, revision))
}

/// Whether somebody has asked for exactly this pod to go.
pub fn is_marked_for_deletion(pod: &PodLite) -> bool {
    pod.labels().contains_key(keys::SPECIFIED_DELETE)
}

/// The labels that tie a pod to a revision. `short_hash_gate` is the gate `CloneSetShortHash`.
pub fn revision_labels(revision: &str, short_hash_gate: bool) -> BTreeMap<String, String> {
    let hash = short_hash(revision);
    let full = if short_hash_gate { hash } else { revision };
    BTreeMap::from([
        (keys::CONTROLLER_REVISION_HASH.to_owned(), full.to_owned()),
        (keys::POD_TEMPLATE_HASH.to_owned(), hash.to_owned()),
    ])
}

/// Whether the pod is ready in our sense at this moment, however long it has been.
fn serves(pod: &PodLite) -> bool {
    let updated = pod.condition(keys::CONDITION_INPLACE_UPDATE_READY).is_none_or(|it| it.status == "True");
    pod.status.phase.as_deref() == Some("Running") && is_ready(pod) && updated
}

fn is_settled(pod: &PodLite) -> bool {
    pod.labels().get(keys::LIFECYCLE_STATE).is_none_or(|it| it.is_empty() || it == NORMAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::sample::{noon, pod};

    fn seconds(count: i64) -> SignedDuration {
        SignedDuration::from_secs(count)
    }

    fn ready(since: i64) -> PodLite {
        pod("a").ready_since(Some(noon() - seconds(since)))
    }

    #[test]
    fn a_pod_that_ended_or_is_being_deleted_is_not_active() {
        assert!(is_active(&pod("a")) && is_active(&pod("a").in_phase("Pending")));
        for it in [pod("a").in_phase("Succeeded"), pod("a").in_phase("Failed"), pod("a").terminating()] {
            assert!(!is_active(&it), "{it:?}");
        }
    }

    #[test]
    fn readiness_counts_only_strictly_after_the_seconds_asked_for() {
        assert!(is_ready_for(&ready(0), 0, noon()) && is_ready_for(&ready(0), -1, noon()));
        assert!(!is_ready_for(&ready(10), 10, noon()));
        assert!(is_ready_for(&ready(10), 10, noon() + SignedDuration::from_nanos(1)));
        assert!(is_ready_for(&ready(11), 10, noon()));
    }

    #[test]
    fn a_ready_pod_without_a_time_never_becomes_available_after_seconds() {
        let it = pod("a").ready_since(None);
        assert!(is_ready_for(&it, 0, noon()) && !is_ready_for(&it, 1, noon()));
        assert_eq!((ready_at(&it), available_in(&it, 1, noon())), (None, None));
    }

    #[test]
    fn readiness_needs_a_running_pod_and_no_update_on_its_way() {
        assert!(!is_ready_for(&ready(60).in_phase("Pending"), 0, noon()));
        assert!(!is_ready_for(&pod("a"), 0, noon()));
        assert!(!is_ready_for(&pod("a").with_condition("Ready", "False", Some(noon())), 0, noon()));
        let updating = |status| ready(60).with_condition("InPlaceUpdateReady", status, None);
        assert!(is_ready_for(&updating("True"), 0, noon()));
        assert!(!is_ready_for(&updating("False"), 0, noon()) && !is_ready_for(&updating(""), 0, noon()));
    }

    #[test]
    fn only_a_settled_pod_is_available() {
        let in_state = |state| ready(60).with_label(keys::LIFECYCLE_STATE, state);
        for it in [ready(60), in_state(""), in_state("Normal")] {
            assert!(is_available(&it, 0, noon()), "{it:?}");
        }
        for state in ["PreparingNormal", "PreparingUpdate", "Updating", "Updated", "PreparingDelete", "?"] {
            assert!(is_ready_for(&in_state(state), 0, noon()) && !is_available(&in_state(state), 0, noon()));
            assert_eq!(available_in(&in_state(state), 300, noon()), None);
        }
    }

    #[test]
    fn waiting_as_long_as_told_makes_a_pod_available() {
        assert_eq!(available_in(&ready(11), 10, noon()), None);
        assert_eq!(available_in(&pod("a"), 10, noon()), None);
        for since in [0, 3, 10] {
            let wait = available_in(&ready(since), 10, noon()).unwrap();
            assert!(is_available(&ready(since), 10, noon() + SignedDuration::try_from(wait).unwrap()));
            assert!(wait <= Duration::from_millis(10_001));
        }
        // A time from a clock that runs ahead is waited for as well.
        assert_eq!(available_in(&ready(-5), 10, noon()), Some(Duration::from_millis(15_001)));
    }

    #[test]
    fn a_revision_is_told_by_its_name_or_its_hash() {
        assert_eq!((short_hash("foo-bar-5d8f"), short_hash("5d8f"), short_hash("")), ("5d8f", "5d8f", ""));
        let at = |label| pod("a").with_label(keys::CONTROLLER_REVISION_HASH, label);
        assert!(is_at_revision(&at("foo-5d8f"), "foo-5d8f") && is_at_revision(&at("5d8f"), "foo-5d8f"));
        assert!(!is_at_revision(&at("foo-5d8"), "foo-5d8f") && !is_at_revision(&pod("a"), "foo-5d8f"));
        assert!(!is_at_revision(&pod("a"), ""));
    }

    #[test]
    fn the_gate_shortens_only_the_revision_label() {
        let labels = |gate| revision_labels("foo-5d8f", gate).into_values().collect::<Vec<_>>();
        assert_eq!(labels(false), ["foo-5d8f", "5d8f"]);
        assert_eq!(labels(true), ["5d8f", "5d8f"]);
        for gate in [false, true] {
            let mut it = pod("a");
            it.metadata.labels = Some(revision_labels("foo-5d8f", gate));
            assert!(is_at_revision(&it, "foo-5d8f"), "toggling the gate must not trigger updates");
        }
    }

    #[test]
    fn the_presence_of_the_label_marks_a_pod_whatever_its_value() {
        assert!(is_marked_for_deletion(&pod("a").with_label(keys::SPECIFIED_DELETE, "false")));
        assert!(!is_marked_for_deletion(&pod("a")));
    }
}
