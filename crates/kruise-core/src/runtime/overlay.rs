//! The own-writes overlay: what we did ourselves, laid over a cache that has not heard of it yet.
//!
//! A watch cache lags behind our own writes, and whoever acts on it twice creates pods twice. So each answer to a write
//! is kept here until the watch has caught up with it, and reads go through [`Overlay::over`].
//!
//! When has the watch caught up? It delivers the changes of a kind in the order of their resource versions, so once it
//! has shown *any* object with version V it has shown every write up to V: [`Overlay::saw`] drops those. That also ends
//! entries for objects that others deleted in between. A deletion has no version of its own in the answer; it is kept
//! by UID until the watch shows it. A new list is a consistent read that begins after [`Overlay::list_begun`], so it
//! contains whatever was recorded before that call, and knows nothing for sure of what was recorded after it.
//!
//! Where versions are no numbers, an entry ends when the watch shows exactly its version, the object's deletion, or a
//! list begun later. Whatever is left after a while is looked up in the API server ([`Overlay::overdue`]).

mod entry;

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use kube::Resource;
use tokio::time::Instant;

use super::key::{Key, compare_versions, uid, version, version_number};
pub use entry::{Doubt, Intent, Ticket};
use entry::{Stamp, What, Write};

/// Own writes that the watch has not shown yet.
#[derive(Debug)]
pub struct Overlay<K> {
    is_on: bool,
    capacity: usize,
    writes: HashMap<Key, Write<K>>,
    /// The entries that wait for a version, by that version.
    by_version: BTreeMap<u64, Key>,
    doubts: HashMap<Key, (Doubt, Stamp)>,
    /// The watch has shown every change up to this version.
    position: Option<u64>,
    lists_begun: u64,
    next_number: u64,
}

impl<K: Resource> Overlay<K> {
    /// An empty overlay that asks writers to pause above `capacity` entries.
    pub fn new(capacity: usize) -> Self {
        Self {
            is_on: true,
            capacity,
            writes: HashMap::new(),
            by_version: BTreeMap::new(),
            doubts: HashMap::new(),
            position: None,
            lists_begun: 0,
            next_number: 0,
        }
    }

    /// An overlay that records nothing: only for the test that shows what it is good for.
    #[cfg(test)]
    pub(crate) fn switched_off() -> Self {
        Self { is_on: false, ..Self::new(0) }
    }

    /// What a reader sees of `key` when the watch shows `seen`.
    pub fn over(&self, key: &Key, seen: Option<&Arc<K>>) -> Option<Arc<K>> {
        match self.writes.get(key) {
            Some(Write { what: What::Object(object), .. }) => Some(object.clone()),
            Some(write) => seen.filter(|it| !write.ends(&***it)).cloned(),
            None => seen.cloned(),
        }
    }

    /// Records the answer to a create, an update, or a deletion that takes its time.
    pub fn record(&mut self, object: Arc<K>, seen: Option<&Arc<K>>, now: Instant) {
        let key = Key::of(&*object);
        // Only an object that is going away, or another one, tells that a delete in doubt needs no repeating.
        let settled = self.doubts.get(&key).is_some_and(|it| {
            !it.0.intent.is_deletion()
                || object.meta().deletion_timestamp.is_some()
                || it.0.uid.as_deref() != Some(uid(&*object))
        });
        if settled {
            self.doubts.remove(&key);
        }
        self.learn(object, seen, now);
    }

    /// Records what a look at the server has found. It settles only what cannot happen any more: other writes without an
    /// answer may still arrive.
    pub fn learn(&mut self, object: Arc<K>, seen: Option<&Arc<K>>, now: Instant) {
        let key = Key::of(&*object);
        if self.doubts.get(&key).is_some_and(|it| it.0.is_refuted_by(&*object)) {
            self.doubts.remove(&key);
        }
        let number = version_number(version(&*object));
        let is_seen = number.zip(self.position).is_some_and(|(it, position)| it <= position)
            || seen.is_some_and(|it| uid(&**it) == uid(&*object) && version(&**it) == version(&*object));
        if !self.is_on || self.is_outdated(&key, &object) {
            return;
        }
        if is_seen {
            // What we knew before is older than this answer: the watch is past it as well.
            self.end(&key);
            return;
        }
        self.lay(key.clone(), What::Object(object), now);
        if let Some(number) = number {
            self.by_version.insert(number, key);
        }
    }

    /// Records that the object with `gone` as UID does not exist any more.
    pub fn record_gone(&mut self, key: &Key, gone: &str, seen: Option<&Arc<K>>, now: Instant) {
        self.doubts.remove(key);
        let written = match self.writes.get(key).map(|it| &it.what) {
            Some(What::Object(object)) => Some(object),
            _ => None,
        };
        // If neither knows the UID, the watch has shown the deletion already.
        let known: Vec<_> = [written, seen].into_iter().flatten().filter(|it| uid(&***it) == gone).collect();
        if !self.is_on || known.is_empty() {
            return;
        }
        let floor = known.iter().filter_map(|it| version_number(version(&***it))).max();
        self.lay(key.clone(), What::Gone { uid: gone.to_owned(), floor }, now);
    }

    /// Records a write without an answer.
    pub fn record_doubt(&mut self, doubt: Doubt, now: Instant) {
        let stamp = self.stamp(now);
        if !self.is_on {
            return;
        }
        match self.doubts.get_mut(&doubt.key) {
            Some((known, at)) if known.uid == doubt.uid && known.intent.outlasts(doubt.intent) => *at = stamp,
            _ => drop(self.doubts.insert(doubt.key.clone(), (doubt, stamp))),
        }
    }

    /// The watch shows `object`. Returns the keys whose entries ended.
    pub fn saw(&mut self, object: &K) -> Vec<Key> {
        let key = Key::of(object);
        let mut ended = self.advance(version(object));
        let is_over = match self.writes.get(&key) {
            Some(Write { what: What::Object(it), .. }) => {
                let order = compare_versions(version(object), version(&**it));
                uid(&**it) == uid(object) && order.is_some_and(Ordering::is_ge)
            }
            Some(write) => !write.ends(object),
            None => false,
        };
        if is_over {
            self.end(&key);
            ended.push(key.clone());
        }
        let settled = match self.doubts.get(&key).map(|it| &it.0) {
            Some(Doubt { intent: Intent::Create, .. }) => true,
            Some(doubt) if doubt.intent.is_deletion() => {
                let is_meant = doubt.uid.as_deref() == Some(uid(object));
                is_meant && (object.meta().deletion_timestamp.is_some() || doubt.is_refuted_by(object))
            }
            _ => false,
        };
        if settled {
            self.doubts.remove(&key);
        }
        ended
    }

    /// The watch shows that `object` is deleted. Returns the keys whose entries ended.
    pub fn saw_deleted(&mut self, object: &K) -> Vec<Key> {
        let key = Key::of(object);
        let mut ended = self.advance(version(object));
        let is_over = match self.writes.get(&key).map(|it| &it.what) {
            Some(What::Object(it)) => uid(&**it) == uid(object),
            Some(What::Gone { uid: gone, .. }) => gone == uid(object),
            None => false,
        };
        if is_over {
            self.end(&key);
            ended.push(key.clone());
        }
        if self.doubts.get(&key).is_some_and(|it| it.0.uid.as_deref() == Some(uid(object))) {
            self.doubts.remove(&key);
        }
        ended
    }

    /// A consistent list is about to be asked for.
    pub fn list_begun(&mut self) {
        self.lists_begun += 1;
    }

    /// The list is complete and holds `seen`. Returns the keys whose entries ended.
    pub fn list_done(&mut self, seen: &HashMap<Key, Arc<K>>) -> Vec<Key> {
        let list = self.lists_begun;
        // The list is the new truth, also about how far we are: a restored etcd counts from an older number.
        self.position = seen.values().filter_map(|it| version_number(version(&**it))).max();
        let position = self.position;
        let mut ended: Vec<Key> = Vec::new();
        for (key, write) in &self.writes {
            let listed = seen.get(key);
            let is_over = write.stamp.list < list
                || match &write.what {
                    What::Object(it) => {
                        version_number(version(&**it))
                            .zip(position)
                            .is_some_and(|(it, position)| it <= position)
                            || listed.is_some_and(|other| version(&**other) == version(&**it))
                    }
                    What::Gone { .. } => listed.is_some_and(|it| !write.ends(&**it)),
                };
            if is_over {
                ended.push(key.clone());
            }
        }
        ended.sort();
        for key in &ended {
            self.end(key);
        }
        // A delete is certain once the list lacks its object or shows it going. A create may still arrive, however late.
        self.doubts.retain(|key, (doubt, stamp)| {
            let listed = seen.get(key).filter(|it| doubt.uid.as_deref() == Some(uid(&***it)));
            match doubt.intent {
                Intent::Create => !seen.contains_key(key),
                Intent::Update => listed.is_some() || stamp.list >= list,
                Intent::Delete | Intent::DeleteAsSeen(_) => {
                    let is_open = |it: &K| it.meta().deletion_timestamp.is_none() && !doubt.is_refuted_by(it);
                    listed.map_or(stamp.list >= list, |it| is_open(it))
                }
            }
        });
        ended
    }

    /// Entries and doubts that are older than `age`: to be looked up in the API server. A deletion is among them only
    /// while the watch contradicts it.
    ///
    /// `age` is longer than the API server works on a request (a minute): after that, a create in doubt that cannot be
    /// found has not happened and never will.
    pub fn overdue(&self, age: Duration, now: Instant, seen: &HashMap<Key, Arc<K>>) -> Vec<Ticket> {
        let is_old = |it: &Stamp| now.saturating_duration_since(it.at) >= age;
        let is_open = |key: &Key, write: &Write<K>| {
            matches!(write.what, What::Object(_)) || seen.get(key).is_some_and(|it| uid(&**it) == write.uid())
        };
        let writes =
            self.writes.iter().filter(|it| is_old(&it.1.stamp) && is_open(it.0, it.1)).map(|it| it.0);
        let doubts = self.doubts.iter().filter(|it| is_old(&it.1.1)).map(|it| it.0);
        // In order: what is asked first must not differ from one run to the next.
        let keys: BTreeSet<&Key> = writes.chain(doubts).collect();
        keys.into_iter().map(|it| self.ticket(it, self.over(it, seen.get(it)).as_ref())).collect()
    }

    /// The look-up of `ticket` found `found`. An answer that something else has overtaken is ignored.
    ///
    /// `seen` is what the watch shows now.
    pub fn looked_up(&mut self, ticket: &Ticket, found: Option<Arc<K>>, seen: Option<&Arc<K>>, now: Instant) {
        if self.number_of(&ticket.key) != ticket.number {
            return;
        }
        self.doubts.remove(&ticket.key);
        match (found, &ticket.shown_uid) {
            (Some(object), _) => {
                // The look-up began after the deletion was recorded and still finds the object: the record was wrong.
                let was_wrong = self.writes.get(&ticket.key).is_some_and(
                    |it| matches!(&it.what, What::Gone { uid: gone, .. } if gone == uid(&*object)),
                );
                if was_wrong {
                    self.end(&ticket.key);
                }
                self.record(object, seen, now);
            }
            // The watch may still be about to show it: it stays covered.
            (None, Some(gone)) => self.record_gone(&ticket.key, &gone.clone(), seen, now),
            (None, None) => {}
        }
    }

    /// Forgets deletions from before `age` that the watch does not contradict. Only one that was recorded while a list
    /// was read, and that the list knew of already, gets that old: the watch has nothing to say about it.
    pub fn expire(&mut self, age: Duration, now: Instant, seen: &HashMap<Key, Arc<K>>) {
        self.writes.retain(|key, write| match &write.what {
            What::Object(_) => true,
            What::Gone { .. } => {
                now.saturating_duration_since(write.stamp.at) < age
                    || seen.get(key).is_some_and(|it| write.ends(&**it))
            }
        });
    }

    /// Writes of `owner` whose outcome is unknown, by key.
    pub fn doubts_of(&self, owner: &str) -> Vec<Doubt> {
        let mut doubts: Vec<_> = self
            .doubts
            .values()
            .filter(|it| it.0.owner.as_deref() == Some(owner))
            .map(|it| it.0.clone())
            .collect();
        doubts.sort_by(|a, b| a.key.cmp(&b.key));
        doubts
    }

    /// How many writes the watch still has to show.
    pub fn len(&self) -> usize {
        self.writes.len() + self.doubts.len()
    }

    /// Whether the watch has shown everything.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether so much is unseen that nothing more should be written now.
    pub fn is_full(&self) -> bool {
        self.is_on && self.len() >= self.capacity
    }
}

/// The parts that only this file calls.
impl<K: Resource> Overlay<K> {
    /// Whether the entry of `key` knows better than `object`, whose answer came late.
    fn is_outdated(&self, key: &Key, object: &Arc<K>) -> bool {
        let Some(write) = self.writes.get(key) else { return false };
        match &write.what {
            What::Object(it) if uid(&**it) == uid(&**object) => {
                compare_versions(version(&**it), version(&**object)).is_some_and(Ordering::is_gt)
            }
            _ => write.ends(&**object),
        }
    }

    fn lay(&mut self, key: Key, what: What<K>, now: Instant) {
        let mut past = Vec::new();
        if let Some(before) = self.end(&key) {
            let old = before.uid().to_owned();
            past = before.past;
            past.push(old);
        }
        let stamp = self.stamp(now);
        let mut write = Write { what, past: Vec::new(), stamp };
        past.retain(|it| it != write.uid());
        write.past = past;
        self.writes.insert(key, write);
    }

    fn end(&mut self, key: &Key) -> Option<Write<K>> {
        let write = self.writes.remove(key)?;
        if let What::Object(object) = &write.what
            && let Some(number) = version_number(version(&**object))
        {
            self.by_version.remove(&number);
        }
        Some(write)
    }

    /// The watch has come to `version`: every entry up to it ends.
    fn advance(&mut self, version: &str) -> Vec<Key> {
        let Some(number) = version_number(version) else { return Vec::new() };
        self.position = self.position.max(Some(number));
        let later = self.by_version.split_off(&number.saturating_add(1));
        let ended = std::mem::replace(&mut self.by_version, later);
        ended.into_values().inspect(|it| drop(self.writes.remove(it))).collect()
    }

    fn stamp(&mut self, now: Instant) -> Stamp {
        self.next_number += 1;
        Stamp { number: self.next_number, list: self.lists_begun, at: now }
    }

    fn ticket(&self, key: &Key, shown: Option<&Arc<K>>) -> Ticket {
        Ticket {
            key: key.clone(),
            number: self.number_of(key),
            shown_uid: shown.map(|it| uid(&**it).to_owned()),
        }
    }

    /// The number of the newest record about `key`; zero if there is none.
    fn number_of(&self, key: &Key) -> u64 {
        let write = self.writes.get(key).map(|it| it.stamp.number);
        write.max(self.doubts.get(key).map(|it| it.1.number)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
