//! What the garbage collector remembers of objects that the store does not say. It is kept by uid, and forgotten with the object.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The first wait after a failed look, and the longest; each is twice the one before. The real collector begins with 5 ms; here it takes
/// up to half a second until its own writes are seen.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(1000));

/// What is remembered of all objects of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Objects whose delete has waited for dependents once. Like the real collector's, this is never taken back.
    waited: BTreeSet<Box<str>>,
    failures: BTreeMap<Box<str>, Failures>,
}

#[derive(Debug, Default)]
struct Failures {
    in_a_row: u32,
    /// Whether a retry is on its way.
    is_pending: bool,
}

impl Memory {
    pub(super) fn begin_wait(&mut self, uid: &str) {
        self.waited.insert(uid.into());
    }

    pub(super) fn has_waited(&self, uid: &str) -> bool {
        self.waited.contains(uid)
    }

    /// Counts a failed look, and says after which time to look again unless that is planned already.
    pub(super) fn fail(&mut self, uid: &str) -> Option<Duration> {
        let failures = self.failures.entry(uid.into()).or_default();
        let wait = WAITS.0.saturating_mul(1 << failures.in_a_row.min(16)).min(WAITS.1);
        failures.in_a_row = failures.in_a_row.saturating_add(1);
        let is_planned = std::mem::replace(&mut failures.is_pending, true);
        (!is_planned).then_some(wait)
    }

    /// A planned look begins; says whether the object is still the one that it was planned for.
    pub(super) fn retry(&mut self, uid: &str) -> bool {
        let Some(failures) = self.failures.get_mut(uid) else { return false };
        failures.is_pending = false;
        true
    }

    /// A look did not fail. One that is planned still comes.
    pub(super) fn succeed(&mut self, uid: &str) {
        match self.failures.get_mut(uid) {
            Some(failures) if failures.is_pending => failures.in_a_row = 0,
            _ => drop(self.failures.remove(uid)),
        }
    }

    /// The object is gone.
    pub(super) fn forget(&mut self, uid: &str) {
        self.waited.remove(uid);
        self.failures.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_start_anew_after_a_success() {
        let mut memory = Memory::default();
        let fail = |memory: &mut Memory| {
            let wait = memory.fail("1").map(|it| it.as_secs());
            memory.retry("1");
            wait
        };
        let waits: Vec<_> = (0..12).filter_map(|_| fail(&mut memory)).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000]);
        memory.succeed("1");
        assert_eq!(fail(&mut memory), Some(1));
    }

    #[test]
    fn a_retry_that_is_planned_is_not_planned_again_and_comes_after_a_success_too() {
        let mut memory = Memory::default();
        assert!(memory.fail("1").is_some());
        assert_eq!(memory.fail("1"), None);
        memory.succeed("1");
        assert_eq!(memory.fail("1"), None, "the first one is still on its way");
        assert!(memory.retry("1"));
        assert!(memory.fail("1").is_some());
        memory.forget("1");
        assert!(!memory.retry("1"), "it is gone");
    }

    #[test]
    fn nothing_is_left_of_objects_that_are_gone() {
        let mut memory = Memory::default();
        for uid in 0..1_000 {
            let uid = uid.to_string();
            memory.begin_wait(&uid);
            memory.fail(&uid);
            memory.forget(&uid);
        }
        assert_eq!((memory.waited.len(), memory.failures.len()), (0, 0));
    }
}
