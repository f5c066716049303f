//! What a cache holds: what the watch shows, our own writes over it, and an index over both. No `async`, no clock.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use kube::{Resource, runtime::watcher::Event};
use tokio::time::Instant;

use super::{index::Index, rows::Rows};
use crate::runtime::{
    key::{Key, uid, version},
    overlay::{Doubt, Overlay, Ticket},
};

/// One object before and after a change. What our own writes did is not a change; the watch showing them is.
#[derive(Debug)]
pub struct Change<K> {
    /// The object as it was, if it was there.
    pub before: Option<Arc<K>>,
    /// The object as it is, if it is there.
    pub after: Option<Arc<K>>,
}

impl<K: Resource> Change<K> {
    /// Which object changed.
    pub fn key(&self) -> Key {
        let object = self.after.as_ref().or(self.before.as_ref());
        object.map_or_else(|| Key::new("", ""), |it| Key::of(&**it))
    }
}

/// The state behind one cache.
#[derive(Debug)]
pub(crate) struct Store<K> {
    /// What the watch shows.
    seen: HashMap<Key, Arc<K>>,
    /// The list that is being read.
    listing: Option<HashMap<Key, Arc<K>>>,
    overlay: Overlay<K>,
    /// What readers see: `seen` through `overlay`. In order, so that whoever goes through all of it does the same in every run.
    shown: BTreeMap<Key, Arc<K>>,
    index: Index<K>,
}

impl<K: Resource> Store<K> {
    pub(crate) fn new(overlay: Overlay<K>) -> Self {
        Self { seen: HashMap::new(), listing: None, overlay, shown: BTreeMap::new(), index: Index::default() }
    }

    /// Takes in what the watch says and returns what changed by it.
    pub(crate) fn watched(&mut self, event: Event<K>) -> Vec<Change<K>> {
        match event {
            Event::Init => {
                self.listing = Some(HashMap::new());
                self.overlay.list_begun();
                Vec::new()
            }
            Event::InitApply(object) => {
                // Readers keep what they have until the list is complete.
                self.listing.get_or_insert_default().insert(Key::of(&object), Arc::new(object));
                Vec::new()
            }
            Event::InitDone => self.listed(),
            Event::Apply(object) => {
                let (key, after) = (Key::of(&object), Arc::new(object));
                let ended = self.overlay.saw(&*after);
                let before = self.seen.insert(key.clone(), after.clone());
                self.settle(ended, vec![(key, before, Some(after))])
            }
            Event::Delete(object) => {
                let key = Key::of(&object);
                let ended = self.overlay.saw_deleted(&object);
                let before = self.seen.remove(&key).or_else(|| Some(Arc::new(object)));
                self.settle(ended, vec![(key, before, None)])
            }
        }
    }

    fn listed(&mut self) -> Vec<Change<K>> {
        let new = self.listing.take().unwrap_or_default();
        let ended = self.overlay.list_done(&new);
        let old = std::mem::replace(&mut self.seen, new);
        let mut changed = Vec::new();
        for (key, after) in &self.seen {
            let before = old.get(key);
            if !before.is_some_and(|it| uid(&**it) == uid(&**after) && version(&**it) == version(&**after)) {
                changed.push((key.clone(), before.cloned(), Some(after.clone())));
            }
        }
        for (key, before) in old {
            if !self.seen.contains_key(&key) {
                changed.push((key, Some(before), None));
            }
        }
        changed.sort_by(|a, b| a.0.cmp(&b.0));
        self.settle(ended, changed)
    }

    /// Brings readers up to date on keys that the watch changed and on keys whose overlay entry ended.
    fn settle(&mut self, ended: Vec<Key>, changed: Vec<Seen<K>>) -> Vec<Change<K>> {
        let mut changes = Vec::with_capacity(changed.len());
        let mut reported = HashSet::with_capacity(changed.len());
        for (key, before, after) in changed {
            self.refresh(&key);
            reported.insert(key);
            changes.push(Change { before, after });
        }
        for key in ended {
            let before = self.shown.get(&key).cloned();
            // An object of ours that the watch never showed and that somebody deleted since: readers must hear of it.
            if self.refresh(&key) && !reported.contains(&key) {
                changes.push(Change { before, after: self.shown.get(&key).cloned() });
            }
        }
        changes
    }

    /// Records the answer to a write.
    pub(crate) fn wrote(&mut self, object: Arc<K>, now: Instant) {
        let key = Key::of(&*object);
        self.overlay.record(object, self.seen.get(&key), now);
        self.refresh(&key);
    }

    /// Records what a look at the server has found.
    pub(crate) fn found(&mut self, object: Arc<K>, now: Instant) {
        let key = Key::of(&*object);
        self.overlay.learn(object, self.seen.get(&key), now);
        self.refresh(&key);
    }

    /// Records that the object with this UID is gone.
    pub(crate) fn deleted(&mut self, key: &Key, gone: &str, now: Instant) {
        self.overlay.record_gone(key, gone, self.seen.get(key), now);
        self.refresh(key);
    }

    /// Records a write without an answer.
    pub(crate) fn doubted(&mut self, doubt: Doubt, now: Instant) {
        self.overlay.record_doubt(doubt, now);
    }

    /// Forgets deletions that the watch will not mention any more.
    pub(crate) fn expire(&mut self, age: Duration, now: Instant) {
        self.overlay.expire(age, now, &self.seen);
    }

    /// What should be looked up in the API server.
    pub(crate) fn overdue(&self, age: Duration, now: Instant) -> Vec<Ticket> {
        self.overlay.overdue(age, now, &self.seen)
    }

    /// Takes in what a look-up found; returns what readers see differently now.
    pub(crate) fn looked_up(
        &mut self,
        ticket: &Ticket,
        found: Option<Arc<K>>,
        now: Instant,
    ) -> Option<Change<K>> {
        let before = self.shown.get(&ticket.key).cloned();
        self.overlay.looked_up(ticket, found, self.seen.get(&ticket.key), now);
        self.refresh(&ticket.key).then(|| Change { before, after: self.shown.get(&ticket.key).cloned() })
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.shown.get(key).cloned()
    }

    pub(crate) fn owned_by(&self, owner: &str) -> Rows<K> {
        self.index.owned_by(owner)
    }

    pub(crate) fn in_namespace(&self, namespace: &str) -> Rows<K> {
        self.index.in_namespace(namespace)
    }

    pub(crate) fn orphans_in(&self, namespace: &str) -> Rows<K> {
        self.index.orphans_in(namespace)
    }

    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.shown.values().cloned().collect()
    }

    pub(crate) fn overlay(&self) -> &Overlay<K> {
        &self.overlay
    }

    /// Brings `shown` and the index up to date on one key; whether that changed anything.
    fn refresh(&mut self, key: &Key) -> bool {
        let new = self.overlay.over(key, self.seen.get(key));
        let old = self.shown.get(key);
        if old.map(Arc::as_ptr) == new.as_ref().map(Arc::as_ptr) {
            return false;
        }
        self.index.replace(old.map(|it| &**it), new.as_ref());
        match new {
            Some(new) => self.shown.insert(key.clone(), new),
            None => self.shown.remove(key),
        };
        true
    }

    /// How many things are kept in all: for tests that look for leaks.
    #[cfg(test)]
    pub(crate) fn weight(&self) -> usize {
        self.seen.len() + self.shown.len() + self.index.len() + self.overlay.len()
    }
}

/// A key with what the watch showed before and shows now.
type Seen<K> = (Key, Option<Arc<K>>, Option<Arc<K>>);
