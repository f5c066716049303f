//! What the cluster holds: one table for each kind, one counter for all writes.

mod history;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::sync::watch;

use crate::server::object::{Key, Stored};

pub use history::{Happened, History, Record};

/// How long and how much of the past a server remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Events older than this are forgotten.
    pub age: Duration,
    /// At most so many events are remembered for each kind.
    pub count: usize,
}

impl Default for Retention {
    fn default() -> Self {
        // etcd compacts every five minutes.
        Self { age: Duration::from_secs(300), count: 20_000 }
    }
}

/// A write, as the controllers inside the cluster learn of it.
#[derive(Debug, Clone)]
pub struct Change {
    /// The table, as `plural.group`.
    pub table: Arc<str>,
    /// What happened.
    pub happened: Happened,
    /// The object after the write (before it, when it was deleted).
    pub object: Arc<Stored>,
    /// The object before the write.
    pub previous: Option<Arc<Stored>>,
}

/// All objects of one kind.
#[derive(Debug)]
pub struct Table {
    name: Arc<str>,
    /// The head of the object written last.
    head: Arc<str>,
    objects: BTreeMap<Key, Arc<Stored>>,
    history: History,
    newest: watch::Sender<u64>,
}

/// Everything a cluster holds.
#[derive(Debug)]
pub struct Store {
    version: u64,
    retention: Retention,
    tables: BTreeMap<Arc<str>, Table>,
    dependents: HashMap<Box<str>, BTreeSet<(Arc<str>, Key)>>,
    uids: HashMap<Box<str>, (Arc<str>, Key)>,
    outbox: Vec<Change>,
}

impl Store {
    /// An empty store.
    pub fn new(retention: Retention) -> Self {
        Self {
            version: 1,
            retention,
            tables: BTreeMap::new(),
            dependents: HashMap::new(),
            uids: HashMap::new(),
            outbox: Vec::new(),
        }
    }

    /// The newest resourceVersion.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The object under a key.
    pub fn get(&self, table: &str, key: &Key) -> Option<&Arc<Stored>> {
        self.tables.get(table)?.objects.get(key)
    }

    /// The table of a kind, if anything was ever written or watched there.
    pub fn table(&self, table: &str) -> Option<&Table> {
        self.tables.get(table)
    }

    /// The table of a kind.
    pub fn table_mut(&mut self, table: &str) -> &mut Table {
        if !self.tables.contains_key(table) {
            let name: Arc<str> = table.into();
            self.tables.insert(name.clone(), Table::new(name));
        }
        self.tables.get_mut(table).expect("it was put there just above")
    }

    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values()
    }

    /// Writes an object under its own namespace and name, and returns it with its version.
    pub fn put(&mut self, table: &str, object: Value, at: Duration) -> Value {
        self.version += 1;
        let version = self.version;
        let neighbour = &mut self.table_mut(table).head;
        let (stored, object) = Stored::keep(version, object, neighbour);
        let stored = Arc::new(stored);
        *neighbour = stored.head.clone();
        let key = stored.key();
        let previous = self.table_mut(table).objects.insert(key.clone(), stored.clone());
        let happened = if previous.is_some() { Happened::Modified } else { Happened::Added };
        self.index(table, &key, previous.as_deref(), Some(&stored));
        self.record(table, happened, stored, previous, at);
        object
    }

    /// Takes an object out, and returns its last state with the version of the delete.
    pub fn delete(&mut self, table: &str, key: &Key, at: Duration) -> Option<Arc<Stored>> {
        let previous = self.table_mut(table).objects.remove(key)?;
        self.version += 1;
        let stored = Arc::new(Stored::keep(self.version, previous.value(), &previous.head).0);
        self.index(table, key, Some(&previous), None);
        self.record(table, Happened::Deleted, stored.clone(), Some(previous), at);
        Some(stored)
    }

    /// The objects that name `uid` as an owner.
    pub fn dependents(&self, uid: &str) -> Vec<(Arc<str>, Key)> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Where the object with this uid is, if it lives.
    pub fn locate(&self, uid: &str) -> Option<&(Arc<str>, Key)> {
        self.uids.get(uid)
    }

    /// The writes since this was last asked.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.outbox)
    }

    /// Forgets the past: every open watch ends, and what resumes from before is told 410.
    pub fn compact(&mut self) {
        let version = self.version;
        for table in self.tables.values_mut() {
            table.history.compact(version);
        }
    }

    fn record(
        &mut self,
        table: &str,
        happened: Happened,
        object: Arc<Stored>,
        previous: Option<Arc<Stored>>,
        at: Duration,
    ) {
        let (retention, version) = (self.retention, self.version);
        let table = self.table_mut(table);
        let record = Record { version, at, happened, object: object.clone(), previous: previous.clone() };
        table.history.push(record, retention);
        table.newest.send_replace(version);
        let change = Change { table: table.name.clone(), happened, object, previous };
        self.outbox.push(change);
    }

    fn index(&mut self, table: &str, key: &Key, before: Option<&Stored>, after: Option<&Stored>) {
        let name = self.table_mut(table).name.clone();
        for uid in before.into_iter().flat_map(|it| &it.owners) {
            if let Some(set) = self.dependents.get_mut(uid) {
                set.remove(&(name.clone(), key.clone()));
                if set.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
        for uid in after.into_iter().flat_map(|it| &it.owners) {
            self.dependents.entry(uid.clone()).or_default().insert((name.clone(), key.clone()));
        }
        if let Some(before) = before {
            self.uids.remove(&before.uid);
        }
        if let Some(after) = after {
            self.uids.insert(after.uid.clone(), (name, key.clone()));
        }
    }
}

impl Table {
    fn new(name: Arc<str>) -> Self {
        let head = "".into();
        Self {
            name,
            head,
            objects: BTreeMap::new(),
            history: History::default(),
            newest: watch::Sender::new(0),
        }
    }

    /// `plural.group`
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What happened here.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Wakes whoever waits for the next write here.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Ends the waits of everyone who subscribed before.
    pub fn hang_up(&mut self) {
        self.newest = watch::Sender::new(0);
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The objects of a namespace (all when empty), from a key on.
    pub fn range<'a>(
        &'a self,
        namespace: &'a str,
        after: Option<&Key>,
    ) -> impl Iterator<Item = &'a Arc<Stored>> {
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let start = match after {
            Some(key) => Bound::Excluded(key.clone()),
            None => Bound::Included(Key::from_text(&prefix)),
        };
        let within = move |key: &Key| prefix.is_empty() || key.as_str().starts_with(&prefix);
        let rows = self.objects.range((start, Bound::Unbounded));
        rows.take_while(move |(key, _)| within(key)).map(|(_, object)| object)
    }

    /// The table as it was at `version`; `None` when that is no longer known.
    pub fn as_of(&self, version: u64) -> Option<BTreeMap<Key, Arc<Stored>>> {
        let mut objects = self.objects.clone();
        for record in self.history.undo_to(version)? {
            let key = record.object.key();
            match &record.previous {
                Some(previous) => objects.insert(key, previous.clone()),
                None => objects.remove(&key),
            };
        }
        Some(objects)
    }
}
