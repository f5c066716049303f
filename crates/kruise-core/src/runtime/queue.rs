//! Which object is next: a queue without duplicates, with delays, that never hands out one object twice at a time.
//!
//! Time is an argument, so every rule here is tested on values.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    hash::Hash,
};

use tokio::time::Instant;

/// Objects that wait for a reconcile.
#[derive(Debug)]
pub(super) struct Queue<K> {
    ready: VecDeque<K>,
    /// When each delayed key is due; `by_time` is the same the other way round.
    due: HashMap<K, (Instant, u64)>,
    by_time: BTreeSet<(Instant, u64, Slot)>,
    slots: HashMap<Slot, K>,
    /// Ready, or asked for while under way.
    wanted: HashSet<K>,
    under_way: HashSet<K>,
    /// Before when a key that has failed does not run again, whoever asks for it.
    floors: HashMap<K, Instant>,
    next_slot: u64,
}

/// Stands for a key in the ordered set, so that keys need no order of their own.
type Slot = u64;

impl<K: Clone + Eq + Hash> Queue<K> {
    pub(super) fn new() -> Self {
        Self {
            ready: VecDeque::new(),
            due: HashMap::new(),
            by_time: BTreeSet::new(),
            slots: HashMap::new(),
            wanted: HashSet::new(),
            under_way: HashSet::new(),
            floors: HashMap::new(),
            next_slot: 0,
        }
    }

    /// Wants `key` as soon as possible. A delay that is running for it is over: it will run sooner, though not before
    /// its floor.
    pub(super) fn add(&mut self, key: K) {
        if let Some(floor) = self.floors.get(&key).copied() {
            return self.add_at(key, floor);
        }
        self.cancel(&key);
        if self.wanted.insert(key.clone()) && !self.under_way.contains(&key) {
            self.ready.push_back(key);
        }
    }

    /// Wants `key` at `at`; of several such wishes the earliest counts.
    pub(super) fn add_at(&mut self, key: K, at: Instant) {
        if self.wanted.contains(&key) || self.due.get(&key).is_some_and(|it| it.0 <= at) {
            return;
        }
        self.cancel(&key);
        self.next_slot += 1;
        let slot = self.next_slot;
        self.by_time.insert((at, slot, slot));
        self.slots.insert(slot, key.clone());
        self.due.insert(key, (at, slot));
    }

    /// Lets `key` not run again before `floor`. What a failing reconcile writes comes back as a change and would undercut
    /// every back-off. The floor ends when the key is taken.
    pub(super) fn hold(&mut self, key: K, floor: Instant) {
        if self.wanted.remove(&key) {
            self.ready.retain(|it| *it != key);
            self.floors.insert(key.clone(), floor);
            self.add_at(key, floor);
        } else {
            self.floors.insert(key, floor);
        }
    }

    /// Takes the next object that may run at `now`.
    pub(super) fn take(&mut self, now: Instant) -> Option<K> {
        self.promote(now);
        let key = self.ready.pop_front()?;
        self.wanted.remove(&key);
        self.floors.remove(&key);
        self.under_way.insert(key.clone());
        Some(key)
    }

    /// The reconcile of `key` has ended; if it was asked for meanwhile, it is ready again.
    pub(super) fn done(&mut self, key: &K) {
        self.under_way.remove(key);
        if self.wanted.contains(key) {
            self.ready.push_back(key.clone());
        }
    }

    /// When the next delayed object is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.by_time.first().map(|it| it.0)
    }

    /// How many objects wait, delayed ones left out.
    pub(super) fn depth(&self) -> usize {
        self.wanted.len()
    }

    /// Forgets everything about `key`: its object is gone.
    pub(super) fn forget(&mut self, key: &K) {
        self.floors.remove(key);
        self.cancel(key);
    }

    /// Forgets a delayed wish for `key`.
    fn cancel(&mut self, key: &K) {
        if let Some((at, slot)) = self.due.remove(key) {
            self.by_time.remove(&(at, slot, slot));
            self.slots.remove(&slot);
        }
    }

    /// Whether nothing is kept at all.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
            && self.due.is_empty()
            && self.by_time.is_empty()
            && self.slots.is_empty()
            && self.wanted.is_empty()
            && self.floors.is_empty()
            && self.under_way.is_empty()
    }

    fn promote(&mut self, now: Instant) {
        while let Some((at, _, slot)) = self.by_time.first().copied() {
            if at > now {
                return;
            }
            let Some(key) = self.slots.get(&slot).cloned() else {
                // Cannot happen: both maps change together. Dropping the entry is safe, looping on it is not.
                self.by_time.pop_first();
                continue;
            };
            self.cancel(&key);
            match self.floors.get(&key).copied() {
                Some(floor) if floor > now => self.add_at(key, floor),
                _ => {
                    self.floors.remove(&key);
                    self.add(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::runtime::clock::Clock;

    fn queue() -> (Queue<&'static str>, impl Fn(u64) -> Instant) {
        let start = Clock::system().instant();
        (Queue::new(), move |seconds| start + Duration::from_secs(seconds))
    }

    #[test]
    fn an_object_waits_only_once_and_in_order() {
        let (mut queue, at) = queue();
        for key in ["b", "a", "b"] {
            queue.add(key);
        }
        assert_eq!(queue.depth(), 2);
        assert_eq!((queue.take(at(0)), queue.take(at(0)), queue.take(at(0))), (Some("b"), Some("a"), None));
    }

    #[test]
    fn an_object_under_way_is_not_handed_out_until_it_is_done() {
        let (mut queue, at) = queue();
        queue.add("a");
        assert_eq!(queue.take(at(0)), Some("a"));
        queue.add("a");
        queue.add("a");
        assert_eq!(queue.take(at(0)), None);
        queue.done(&"a");
        assert_eq!(queue.take(at(0)), Some("a"));
        queue.done(&"a");
        assert!(queue.is_empty());
    }

    #[test]
    fn the_earliest_wish_counts_and_an_event_beats_every_delay() {
        let (mut queue, at) = queue();
        queue.add_at("a", at(10));
        queue.add_at("a", at(5));
        queue.add_at("a", at(7));
        queue.add_at("b", at(6));
        assert_eq!(queue.next_due(), Some(at(5)));
        assert_eq!(queue.take(at(4)), None);
        assert_eq!(queue.take(at(5)), Some("a"));
        queue.done(&"a");
        queue.add("b");
        assert_eq!(queue.take(at(5)), Some("b"));
        queue.done(&"b");
        assert!(queue.is_empty(), "no delay is left behind");
    }

    #[test]
    fn a_delay_that_ends_while_the_object_is_under_way_is_kept() {
        let (mut queue, at) = queue();
        queue.add("a");
        queue.take(at(0));
        queue.add_at("a", at(1));
        assert_eq!(queue.take(at(2)), None);
        queue.done(&"a");
        assert_eq!(queue.take(at(2)), Some("a"));
        queue.add_at("a", at(9));
        queue.cancel(&"a");
        queue.done(&"a");
        assert!(queue.is_empty());
    }

    #[test]
    fn changes_do_not_wake_what_has_just_failed() {
        let (mut queue, at) = queue();
        queue.add("a");
        assert_eq!(queue.take(at(0)), Some("a"));
        // Its own write comes back as a change, before and after it ends.
        queue.add("a");
        queue.hold("a", at(1));
        queue.add_at("a", at(60));
        queue.done(&"a");
        queue.add("a");
        assert_eq!(queue.take(at(0)), None);
        assert_eq!(queue.take(at(1)), Some("a"), "but it is not left to its back-off either");
        queue.done(&"a");
        queue.add("a");
        assert_eq!(queue.take(at(1)), Some("a"), "the floor is for one time");
        queue.done(&"a");
        assert!(queue.is_empty());
    }

    #[test]
    fn a_delay_before_the_floor_ends_at_the_floor() {
        let (mut queue, at) = queue();
        queue.hold("a", at(5));
        queue.add_at("a", at(2));
        assert_eq!(queue.take(at(3)), None);
        assert_eq!(queue.take(at(5)), Some("a"));
        queue.hold("b", at(9));
        queue.forget(&"b");
        queue.done(&"a");
        assert!(queue.is_empty());
    }
}
