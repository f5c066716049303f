//! When a report is sent: at most one in a second for an object, but at once when the hub may be waiting for it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_core::api::fleet::{
    Slice,
    assignment::{AssignmentStatus, ShareState},
};
use tokio::time::Instant;

/// How long after a report the next one waits (PROTO-5).
pub const PAUSE: Duration = Duration::from_secs(1);
/// How long it waits if nothing changed but how much room there is.
pub const ROOM_PAUSE: Duration = Duration::from_secs(10);

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

/// When to send `new`. `begun` is when the plan was taken on, if nothing was ever sent.
pub fn due(last: Option<Sent<'_>>, begun: Instant, new: &AssignmentStatus, now: Instant) -> Due {
    let (is_urgent, at) = match last {
        Some(Sent { status, .. }) if says_the_same(status, new) => return Due::Never,
        Some(Sent { status, at }) => (may_open_a_gate(status, new), at),
        // Before the member's controller has seen the plan, which takes a moment, there is nothing to say that would matter.
        None => (is_observed(new) || new.state != Some(ShareState::Applying), begun),
    };
    let passed = now.saturating_duration_since(at);
    let pause = match last {
        Some(Sent { status, .. }) => {
            let as_before = AssignmentStatus { capacity: status.capacity.clone(), ..new.clone() };
            if says_the_same(status, &as_before) { ROOM_PAUSE } else { PAUSE }
        }
        None => PAUSE,
    };
    if passed >= pause || is_urgent { Due::Now } else { Due::After(pause - passed) }
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
        || question(old) != question(new)
}

/// The question about room that is answered.
fn question(status: &AssignmentStatus) -> Option<&str> {
    status.capacity.as_ref().map(|it| it.question.as_str())
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
    use kruise_core::api::fleet::{CloneSetSlice, Counts, assignment::CapacityAnswer};

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
        due(Some(Sent { status: old, at: start }), start, new, start + Duration::from_millis(milliseconds))
    }

    fn first(milliseconds: u64, new: &AssignmentStatus) -> Due {
        let start = kruise_core::runtime::clock::Clock::system().instant();
        due(None, start, new, start + Duration::from_millis(milliseconds))
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
        assert_eq!(first(0, &status(1)), Due::Now);
    }

    #[test]
    fn proto_5_a_first_report_waits_for_the_controller_but_not_without_end() {
        let waiting = AssignmentStatus { observed_generation: 2, ..status(0) };
        assert_eq!(first(10, &waiting), Due::After(Duration::from_millis(990)));
        assert_eq!(first(1_000, &waiting), Due::Now);
        let refused = AssignmentStatus { state: Some(ShareState::Conflict), ..waiting };
        assert_eq!(first(10, &refused), Due::Now);
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
    fn proto_8_room_that_changes_alone_is_told_later_and_a_new_question_is_answered_at_once() {
        let with = |question: &str, fit_now| {
            let answer =
                CapacityAnswer { question: question.to_owned(), fit_now, ..CapacityAnswer::default() };
            AssignmentStatus { capacity: Some(answer), ..status(1) }
        };
        assert_eq!(after(4_000, &with("a", 3), &with("a", 4)), Due::After(Duration::from_secs(6)));
        assert_eq!(after(10_000, &with("a", 3), &with("a", 4)), Due::Now);
        assert_eq!(after(1, &with("a", 3), &with("b", 3)), Due::Now);
        assert_eq!(after(1, &status(1), &with("a", 3)), Due::Now);
        // With other news it goes along.
        let mut more = with("a", 4);
        more.counts.available += 1;
        assert_eq!(after(1_000, &with("a", 3), &more), Due::Now);
        let mut later = with("a", 3);
        later.capacity.as_mut().unwrap().as_of = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!(after(60_000, &with("a", 3), &later), Due::Never);
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
