//! Whether enough pods serve, and whether a release moves on (ST-5). Pure: what is waited for is stored in the binding's status,
//! so a hub that restarts goes on counting where the one before it was.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kruise_core::api::cloneset::progress;

/// The shortest time after which one looks again.
const LEAST_PAUSE: Duration = Duration::from_secs(1);

/// What is to be judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    /// Pods known to be available.
    pub(super) available: u64,
    /// Pods that have to be: N - U.
    pub(super) least: u64,
    /// Whether a cluster that is heard has not acknowledged its newest plan.
    pub(super) in_flight: bool,
    /// What was said of Available before.
    pub(super) was_available: Option<bool>,
    /// Since when there are too few with nothing in flight.
    pub(super) short_since: Option<Timestamp>,
    /// Why no pod has to be updated, if so: one of upstream's reasons.
    pub(super) rests: Option<&'static str>,
    /// Whether pods were updated since the last look, or something else is asked for.
    pub(super) has_moved: bool,
    /// Since when no further pod was updated.
    pub(super) stalled_since: Option<Timestamp>,
    /// The policy's progressDeadline.
    pub(super) deadline: Duration,
    pub(super) now: Timestamp,
}

/// What is said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Health {
    pub(super) is_available: bool,
    pub(super) available: &'static str,
    pub(super) is_progressing: bool,
    pub(super) progressing: &'static str,
    pub(super) short_since: Option<Timestamp>,
    pub(super) stalled_since: Option<Timestamp>,
    /// When a deadline passes.
    pub(super) look_again: Option<Duration>,
}

pub(super) fn judge(case: &Case) -> Health {
    let Case { available, least, in_flight, was_available, now, .. } = *case;
    let is_enough = available >= least;
    // A clock that went back wrote down what has not happened yet: the wait begins anew, and is not as long as the jump.
    let known = |since: Timestamp| since.min(now);
    // Plans that are on their way may bring what is missing: nobody has waited yet.
    let short_since = (!is_enough && !in_flight).then(|| case.short_since.map_or(now, known));
    let is_overdue = |since: Timestamp| now.duration_since(since) >= signed(case.deadline);
    let is_short = short_since.is_some_and(is_overdue);
    let is_available = is_enough || (!is_short && was_available == Some(true));
    let available = match () {
        () if is_enough => "Enough",
        () if is_short => "TooFew",
        // Too few, but for less than the deadline.
        () if is_available => "Recovering",
        () => "Starting",
    };
    let stalled_since =
        case.rests.is_none().then(|| case.stalled_since.filter(|_| !case.has_moved).map_or(now, known));
    let is_stalled = stalled_since.is_some_and(is_overdue);
    let progressing = match case.rests {
        Some(reason) => reason,
        None if is_stalled => progress::DEADLINE_EXCEEDED,
        None => progress::UPDATED,
    };
    let ends = [short_since, stalled_since].into_iter().flatten().filter(|it| !is_overdue(*it));
    let look_again = ends.map(|it| left(it, case)).min();
    Health {
        is_available,
        available,
        is_progressing: !is_stalled,
        progressing,
        short_since,
        stalled_since,
        look_again,
    }
}

/// How long until the deadline passes; never so short that nobody pauses between two looks.
fn left(since: Timestamp, case: &Case) -> Duration {
    let passed = Duration::try_from(case.now.duration_since(since)).unwrap_or_default();
    case.deadline.saturating_sub(passed).max(LEAST_PAUSE)
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn case() -> Case {
        Case {
            available: 10,
            least: 9,
            in_flight: false,
            was_available: Some(true),
            short_since: None,
            rests: Some(progress::AVAILABLE),
            has_moved: false,
            stalled_since: None,
            deadline: Duration::from_secs(600),
            now: at(1_000),
        }
    }

    #[test]
    fn st_5_too_few_pods_are_unhealthy_only_after_the_deadline_without_a_plan_in_flight() {
        let short = |case: Case| judge(&Case { available: 8, ..case });
        let first = short(case());
        assert_eq!((first.is_available, first.available), (true, "Recovering"));
        assert_eq!((first.short_since, first.look_again), (Some(at(1_000)), Some(Duration::from_secs(600))));
        let later = |second| short(Case { short_since: Some(at(1_000)), now: at(second), ..case() });
        assert_eq!(
            (later(1_599).is_available, later(1_599).look_again),
            (true, Some(Duration::from_secs(1)))
        );
        assert_eq!((later(1_600).is_available, later(1_600).available), (false, "TooFew"));
        assert_eq!(later(1_600).look_again, None);
        // A plan in flight ends the waiting: it may bring what is missing.
        let flying = short(Case { short_since: Some(at(1_000)), in_flight: true, now: at(1_700), ..case() });
        assert_eq!((flying.is_available, flying.short_since), (true, None));
        assert_eq!(judge(&case()).available, "Enough");
    }

    #[test]
    fn st_5_an_object_that_never_had_enough_pods_is_not_called_available() {
        for was_available in [None, Some(false)] {
            let judged = judge(&Case { available: 0, was_available, ..case() });
            assert_eq!((judged.is_available, judged.available), (false, "Starting"));
        }
    }

    #[test]
    fn st_4_a_release_that_moves_on_is_progressing_and_one_that_stands_still_for_the_deadline_is_not() {
        let under_way = |stalled_since, has_moved| {
            judge(&Case { rests: None, stalled_since, has_moved, now: at(1_700), ..case() })
        };
        let first = under_way(None, false);
        assert_eq!((first.is_progressing, first.progressing), (true, progress::UPDATED));
        assert_eq!(first.stalled_since, Some(at(1_700)));
        let stuck = under_way(Some(at(1_000)), false);
        assert_eq!((stuck.is_progressing, stuck.progressing), (false, progress::DEADLINE_EXCEEDED));
        assert_eq!(stuck.stalled_since, Some(at(1_000)));
        let moved = under_way(Some(at(1_000)), true);
        assert_eq!((moved.is_progressing, moved.stalled_since), (true, Some(at(1_700))));
    }

    #[test]
    fn ha_1_a_clock_that_jumps_back_begins_the_wait_anew_and_nobody_looks_without_a_pause() {
        let judged = |since, now| {
            let case =
                Case { available: 8, rests: None, short_since: since, stalled_since: since, now, ..case() };
            judge(&case)
        };
        // A day back: what was written down has not happened yet.
        let back = judged(Some(at(90_000)), at(3_600));
        assert!(back.is_available && back.is_progressing);
        assert_eq!((back.short_since, back.stalled_since), (Some(at(3_600)), Some(at(3_600))));
        assert_eq!(back.look_again, Some(Duration::from_secs(600)));
        let nearly = judged(Some(at(1_000)), at(1_599) + Duration::from_millis(999));
        assert_eq!(nearly.look_again, Some(Duration::from_secs(1)));
    }

    #[test]
    fn st_5_an_object_that_rests_on_its_partition_is_healthy() {
        let resting = judge(&Case {
            rests: Some(progress::PARTITION_AVAILABLE),
            stalled_since: Some(at(0)),
            now: at(100_000),
            ..case()
        });
        assert!(resting.is_available && resting.is_progressing);
        assert_eq!((resting.stalled_since, resting.look_again), (None, None));
    }
}
