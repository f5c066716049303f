//! How long to wait after a failure, and how often each object has failed in a row.

use std::{hash::Hash, time::Duration};

use dashmap::DashMap;

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
#[derive(Debug)]
pub struct Failures<K: Eq + Hash> {
    policy: Doubling,
    counts: DashMap<K, u32>,
}

impl<K: Eq + Hash> Failures<K> {
    /// No failures yet; `policy` says how long each costs.
    pub fn new(policy: Doubling) -> Self {
        Self { policy, counts: DashMap::new() }
    }

    /// Counts one more failure of `key` and says how long to wait.
    pub fn record(&self, key: K) -> Duration {
        // The guard dies at the end of this statement: none is ever held over another map call.
        let failures = *self.counts.entry(key).and_modify(|it| *it = it.saturating_add(1)).or_insert(1);
        self.policy.delay(failures)
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
    use super::*;

    const POLICY: Doubling = Doubling { first: Duration::from_millis(10), ceiling: Duration::from_secs(1) };

    #[test]
    fn the_wait_doubles_up_to_the_ceiling() {
        let waits: Vec<_> = (0..9).map(|it| POLICY.delay(it).as_millis()).collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 320, 640, 1000]);
        assert_eq!(POLICY.delay(u32::MAX), POLICY.ceiling);
    }

    #[test]
    fn objects_fail_independently_and_a_success_starts_over() {
        let failures = Failures::new(POLICY);
        assert_eq!(failures.record("a"), Duration::from_millis(10));
        assert_eq!(failures.record("a"), Duration::from_millis(20));
        assert_eq!(failures.record("b"), Duration::from_millis(10));
        failures.forget(&"a");
        assert_eq!(failures.record("a"), Duration::from_millis(10));
    }

    #[test]
    fn nothing_is_kept_of_objects_that_are_gone() {
        let failures = Failures::new(POLICY);
        for it in 0..1_000 {
            failures.record(it);
            failures.forget(&it);
        }
        assert!(failures.is_empty());
    }
}
