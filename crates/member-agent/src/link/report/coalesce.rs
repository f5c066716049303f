//! When a report is sent: at most one in a second for an object, but at once when the hub may be waiting for it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_core::api::fleet::{Slice, assignment::AssignmentStatus};
use tokio::time::Instant;

/// How long after a report the next one waits (PROTO-5).
pub const PAUSE: Duration = Duration::from_secs(1);

/// The report that was sent last.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a> {
    /// What it said.
    pub status: &'a AssignmentStatus,
    /// When it was sent.
    pub at: Instant,
}

/// When to send a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Not at all: the hub knows all of it.
    Never,
    /// At once.
    Now,
    /// After this long, with whatever is true then.
    After(Duration),
}

/// When to send `new`.
pub fn due(last: Option<Sent<'_>>, new: &AssignmentStatus, now: Instant) -> Due {
    let Some(Sent { status, at }) = last else { return Due::Now };
    if says_the_same(status, new) {
        return Due::Never;
    }
    let passed = now.saturating_duration_since(at);
    if passed >= PAUSE || may_open_a_gate(status, new) { Due::Now } else { Due::After(PAUSE - passed) }
}

/// Whether both tell the hub the same: numbers of reports, times and restarts are no news, so an agent that starts at rest
/// writes nothing.
fn says_the_same(old: &AssignmentStatus, new: &AssignmentStatus) -> bool {
    let essence = |it: &AssignmentStatus| {
        let mut it = it.clone();
        (it.incarnation, it.report) = (0, 0);
        it.reported_at = None;
        it.conditions.iter_mut().for_each(|it| it.last_transition_time = Time(Timestamp::UNIX_EPOCH));
        if let Some(capacity) = &mut it.capacity {
            capacity.as_of = None;
        }
        it
    };
    essence(old) == essence(new)
}

/// Whether the hub may go on because of `new`. These are moments, not counts that creep: a rollout of a thousand pods
/// passes each of them once.
fn may_open_a_gate(old: &AssignmentStatus, new: &AssignmentStatus) -> bool {
    let is_new = |reached: fn(&AssignmentStatus) -> bool| reached(new) && !reached(old);
    let is_newer_plan = (new.applied_term, new.applied_seq) > (old.applied_term, old.applied_seq);
    (is_observed(new) && (is_newer_plan || !is_observed(old)))
        || old.state != new.state
        || is_new(|it| it.completed)
        || is_new(|it| it.counts.unavailable == 0)
        || is_new(is_updated)
        || is_new(is_without_surplus)
        || old.pods != new.pods
}

/// Whether the member's controller has seen what was applied (PROTO-4).
fn is_observed(status: &AssignmentStatus) -> bool {
    status.applied_seq > 0 && status.observed_generation >= status.generation
}

/// Whether as many pods as may carry the target do, and serve.
fn is_updated(status: &AssignmentStatus) -> bool {
    match &status.applied {
        Some(Slice::CloneSet(it)) => status.counts.updated_available >= it.updated,
        _ => false,
    }
}

/// Whether no pod is left that has to go.
fn is_without_surplus(status: &AssignmentStatus) -> bool {
    match &status.applied {
        Some(Slice::CloneSet(it)) => status.counts.replicas <= it.replicas,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use kruise_core::api::fleet::{CloneSetSlice, Counts, assignment::ShareState};

    use super::*;

    /// Ten replicas, four of them may carry the target; `updated` of these are available, and two pods are down.
    fn status(updated: u32) -> AssignmentStatus {
        let slice = CloneSetSlice { replicas: 10, updated: 4, ..CloneSetSlice::default() };
        let counts = Counts {
            replicas: 11,
            available: 8,
            updated,
            updated_available: updated,
            unavailable: 2,
            ..Counts::default()
        };
        AssignmentStatus {
            incarnation: 1,
            applied_term: 1,
            applied_seq: 7,
            generation: 3,
            observed_generation: 3,
            applied: Some(Slice::CloneSet(slice)),
            counts,
            state: Some(ShareState::Applying),
            ..AssignmentStatus::default()
        }
    }

    fn after(milliseconds: u64, old: &AssignmentStatus, new: &AssignmentStatus) -> Due {
        let start = kruise_core::runtime::clock::Clock::system().instant();
        due(Some(Sent { status: old, at: start }), new, start + Duration::from_millis(milliseconds))
    }

    #[test]
    fn proto_5_and_restart_noop_the_same_again_is_never_sent() {
        let mut again = status(1);
        (again.incarnation, again.report) = (2, 9);
        again.reported_at = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!(after(60_000, &status(1), &again), Due::Never);
    }

    #[test]
    fn proto_5_at_most_one_report_in_a_second() {
        assert_eq!(after(300, &status(1), &status(2)), Due::After(Duration::from_millis(700)));
        assert_eq!(after(1_000, &status(1), &status(2)), Due::Now);
        let start = kruise_core::runtime::clock::Clock::system().instant();
        assert_eq!(due(None, &status(1), start), Due::Now);
    }

    #[test]
    fn proto_5_what_a_gate_may_wait_for_is_sent_at_once() {
        let changed = |change: fn(&mut AssignmentStatus)| {
            let mut new = status(1);
            change(&mut new);
            after(1, &status(1), &new)
        };
        assert_eq!(changed(|it| it.applied_seq = 8), Due::Now);
        assert_eq!(changed(|it| (it.counts.updated, it.counts.updated_available) = (4, 4)), Due::Now);
        assert_eq!(changed(|it| it.counts.unavailable = 0), Due::Now);
        assert_eq!(changed(|it| it.counts.replicas = 10), Due::Now);
        assert_eq!(changed(|it| it.completed = true), Due::Now);
        assert_eq!(changed(|it| it.state = Some(ShareState::Deleted)), Due::Now);
        assert_eq!(changed(|it| it.counts.unavailable = 1), Due::After(Duration::from_millis(999)));
    }

    #[test]
    fn ack_required_a_plan_that_nobody_has_observed_opens_nothing() {
        let mut waiting = status(1);
        (waiting.applied_seq, waiting.generation) = (8, 4);
        assert_eq!(after(1, &status(1), &waiting), Due::After(Duration::from_millis(999)));
        let mut seen = waiting.clone();
        seen.observed_generation = 4;
        assert_eq!(after(1, &waiting, &seen), Due::Now);
    }
}
