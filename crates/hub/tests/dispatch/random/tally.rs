//! What happened, over all stories.

use std::collections::BTreeMap;

/// Everything that can happen in a story.
pub(super) const ALL: [&str; 27] = [
    "scale",
    "release",
    "supersede",
    "broken release",
    "drain",
    "join",
    "weights",
    "exclude",
    "suspend",
    "pause",
    "delete pods",
    "numbers in percent",
    "updates in place",
    "hub crash",
    "agent crash",
    "cut",
    "one way cut",
    "long cut",
    "member cut",
    "assignment deleted",
    "two leaders",
    "late plan",
    "rough weather",
    "server restart",
    "binding deleted",
    "restart at rest",
    "checks",
];

/// How often each thing happened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    pub(super) fn note(&mut self, what: &'static str) {
        self.count(what, 1);
    }

    pub(super) fn count(&mut self, what: &'static str, times: u64) {
        assert!(ALL.contains(&what), "{what} is not in the list");
        *self.0.entry(what).or_default() += times;
    }

    pub(super) fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, times)| self.count(what, *times));
    }

    /// What never happened.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        ALL.into_iter().filter(|it| !self.0.contains_key(it)).collect()
    }
}
