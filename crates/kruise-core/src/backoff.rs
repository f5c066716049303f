//! How long to wait after a failure, and how often each object has failed in a row.

use std::{hash::Hash, time::Duration};

use dashmap::DashMap;
use tokio::time::Instant;

/// A wait that doubles with each failure in a row, up to a ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubling {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub ceiling: Duration,
}

impl Doubling {
    /// The wait after `failures` failures in a row; none after no failure.
    pub fn delay(&self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.ceiling)
    }
}

impl Default for Doubling {
    fn default() -> Self {
        Self { first: Duration::from_millis(5), ceiling: Duration::from_secs(300) }
    }
}

/// Failures in a row, by object.
///
/// A failure counts only when the wait that the one before it asked for has passed: an object that is woken early, by
/// an event, and fails again has not failed twice (client-go's queue counts it twice, kubernetes #132805).
#[derive(Debug)]
pub struct Failures<K: Eq + Hash> {
    policy: Doubling,
    counts: DashMap<K, Streak>,
}

/// How often one object has failed, and until when it was asked to wait.
#[derive(Debug, Clone, Copy)]
struct Streak {
    failures: u32,
    wait_until: Instant,
}

impl<K: Eq + Hash> Failures<K> {
    /// No failures yet; `policy` says how long each costs.
    pub fn new(policy: Doubling) -> Self {
        Self { policy, counts: DashMap::new() }
    }

    /// Notes that `key` failed at `now` and says how long to wait from `now` on.
    pub fn record(&self, key: K, now: Instant) -> Duration {
        // The guard dies at the end of this statement: none is ever held over another map call.
        let streak = *self
            .counts
            .entry(key)
            .and_modify(|it| {
                if now >= it.wait_until {
                    it.failures = it.failures.saturating_add(1);
                    it.wait_until = now + self.policy.delay(it.failures);
                }
            })
            .or_insert_with(|| Streak { failures: 1, wait_until: now + self.policy.delay(1) });
        streak.wait_until.saturating_duration_since(now)
    }

    /// Forgets `key`: after a success, and when the object is gone.
    pub fn forget(&self, key: &K) {
        self.counts.remove(key);
    }

    /// How many objects have an open failure.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether no object has an open failure.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;
    use crate::runtime::clock::Clock;

    const POLICY: Doubling = Doubling { first: Duration::from_millis(10), ceiling: Duration::from_secs(1) };

    #[test]
    fn the_wait_doubles_up_to_the_ceiling() {
        let waits: Vec<_> = (0..9).map(|it| POLICY.delay(it).as_millis()).collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 320, 640, 1000]);
        assert_eq!(POLICY.delay(u32::MAX), POLICY.ceiling);
    }

    fn at(millis: u64) -> Instant {
        static START: OnceLock<Instant> = OnceLock::new();
        *START.get_or_init(|| Clock::system().instant()) + Duration::from_millis(millis)
    }

    #[test]
    fn objects_fail_independently_and_a_success_starts_over() {
        let failures = Failures::new(POLICY);
        assert_eq!(failures.record("a", at(0)), Duration::from_millis(10));
        assert_eq!(failures.record("a", at(10)), Duration::from_millis(20));
        assert_eq!(failures.record("b", at(10)), Duration::from_millis(10));
        failures.forget(&"a");
        assert_eq!(failures.record("a", at(11)), Duration::from_millis(10));
    }

    #[test]
    fn a_failure_before_the_wait_is_over_does_not_count() {
        let failures = Failures::new(POLICY);
        assert_eq!(failures.record("a", at(0)), Duration::from_millis(10));
        assert_eq!(failures.record("a", at(3)), Duration::from_millis(7), "the rest of the first wait");
        assert_eq!(failures.record("a", at(9)), Duration::from_millis(1));
        assert_eq!(failures.record("a", at(10)), Duration::from_millis(20), "only now the second failure");
        assert_eq!(failures.record("a", at(20)), Duration::from_millis(10));
    }

    #[test]
    fn nothing_is_kept_of_objects_that_are_gone() {
        let failures = Failures::new(POLICY);
        for it in 0..1_000 {
            failures.record(it, at(it));
            failures.forget(&it);
        }
        assert!(failures.is_empty());
    }
}
