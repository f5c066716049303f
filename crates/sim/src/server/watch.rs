//! Watches: a cursor into a table's history that waits for more.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use crate::{
    server::{
        Cluster, State,
        form::Form,
        object::{Stored, set},
        registry::Resource,
        selector::Filter,
        status::Failure,
        store::{Happened, Record},
    },
    time::after,
};

/// How often a quiet watch says how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With what exists, then what happens; with a bookmark between the two if so asked.
    Everything {
        /// Whether a bookmark marks the end of what existed.
        bookmark: bool,
    },
    /// With what happened after a version.
    After(u64),
}

/// A watch that was granted and not yet begun.
#[derive(Debug, Clone)]
pub struct WatchPlan {
    /// The table.
    pub table: String,
    /// The kind, in the version asked for.
    pub resource: Arc<Resource>,
    /// The namespace, or empty for all.
    pub namespace: String,
    /// What passes.
    pub filter: Filter,
    /// Where it begins.
    pub start: Start,
    /// Whether it sends bookmarks.
    pub bookmarks: bool,
    /// In which form it sends objects.
    pub form: Form,
    /// When it ends.
    pub timeout: Duration,
    /// What wakes it.
    pub subscription: watch::Receiver<u64>,
}

/// A running watch.
#[derive(Debug)]
pub struct WatchSession {
    cluster: Arc<Cluster>,
    plan: WatchPlan,
    cursor: Option<u64>,
    ends: Instant,
    next_bookmark: Instant,
    /// Whether the columns of a table were sent: rows after the first do not repeat them.
    headed: AtomicBool,
    over: bool,
}

/// One line of a watch, with the object it is about.
#[derive(Debug, Clone)]
pub struct WatchLine {
    /// `namespace/name`, or empty for bookmarks and errors.
    pub about: String,
    /// JSON and a line feed.
    pub text: Bytes,
}

impl WatchSession {
    /// Begins a watch.
    pub fn begin(cluster: Arc<Cluster>, plan: WatchPlan) -> Self {
        let now = Instant::now();
        let (ends, next_bookmark) = (after(now, plan.timeout), now + BOOKMARK_EVERY);
        Self { cluster, plan, cursor: None, ends, next_bookmark, headed: AtomicBool::new(false), over: false }
    }

    /// Waits for the next lines; `None` when the watch is over.
    pub async fn next(&mut self) -> Option<Vec<WatchLine>> {
        loop {
            if self.over {
                return None;
            }
            // Looked at before the table is read, so that a write in between wakes us.
            self.plan.subscription.borrow_and_update();
            let lines = self.pull();
            if !lines.is_empty() {
                return Some(lines);
            }
            let due = if self.plan.bookmarks { self.ends.min(self.next_bookmark) } else { self.ends };
            tokio::select! {
                biased;
                changed = self.plan.subscription.changed() => {
                    // The sender is gone: the server has restarted.
                    self.over |= changed.is_err();
                }
                () = tokio::time::sleep_until(due) => {
                    let now = Instant::now();
                    self.over |= now >= self.ends;
                    self.next_bookmark = now + BOOKMARK_EVERY;
                    if self.plan.bookmarks {
                        return Some(vec![self.bookmark(None)]);
                    }
                }
            }
        }
    }

    fn pull(&mut self) -> Vec<WatchLine> {
        let cluster = self.cluster.clone();
        let state = cluster.state();
        match self.cursor {
            Some(cursor) => self.since(&state, cursor),
            None => self.first(&state),
        }
    }

    fn since(&mut self, state: &State, cursor: u64) -> Vec<WatchLine> {
        let Some(table) = state.store.table(&self.plan.table) else { return Vec::new() };
        let Some(records) = table.history().since(cursor) else {
            // Too slow: as on the real server the watch ends, and resuming it answers 410.
            self.over = true;
            return Vec::new();
        };
        let mut lines = Vec::new();
        let mut newest = cursor;
        for record in records {
            newest = record.version;
            lines.extend(self.line_of(state, record));
        }
        self.cursor = Some(newest);
        lines
    }

    fn first(&mut self, state: &State) -> Vec<WatchLine> {
        let newest = state.store.version();
        match self.plan.start {
            Start::After(version) => {
                let oldest = state.store.table(&self.plan.table).map_or(0, |it| it.history().oldest());
                if version < oldest {
                    self.over = true;
                    let message = format!("too old resource version: {version} ({oldest})");
                    return vec![self.error(&Failure::expired(message))];
                }
                self.cursor = Some(version);
                self.since(state, version)
            }
            Start::Everything { bookmark } => {
                self.cursor = Some(newest);
                let table = state.store.table(&self.plan.table);
                let objects = table.into_iter().flat_map(|it| it.range(&self.plan.namespace, None));
                let mut lines: Vec<WatchLine> = objects
                    .filter(|it| self.plan.filter.accepts(it))
                    .map(|it| self.line(state, "ADDED", it, it.version))
                    .collect();
                if bookmark {
                    lines.push(self.bookmark(Some(newest)));
                }
                lines
            }
        }
    }

    /// What a write means to this watch: objects enter and leave with the filter.
    fn line_of(&self, state: &State, record: &Record) -> Option<WatchLine> {
        let inside =
            |it: &Arc<Stored>| self.plan.namespace.is_empty() || *it.namespace == *self.plan.namespace;
        if !inside(&record.object) {
            return None;
        }
        let was = record.previous.as_ref().filter(|it| self.plan.filter.accepts(it));
        let is = record.happened != Happened::Deleted && self.plan.filter.accepts(&record.object);
        match (was, is) {
            (None, true) => Some(self.line(state, "ADDED", &record.object, record.version)),
            (Some(_), true) => Some(self.line(state, "MODIFIED", &record.object, record.version)),
            (Some(was), false) => Some(self.line(state, "DELETED", was, record.version)),
            (None, false) => None,
        }
    }

    fn line(&self, state: &State, kind: &str, stored: &Arc<Stored>, version: u64) -> WatchLine {
        let plain = stored.version == version && self.plan.form == Form::Whole;
        let text = match state.text(&self.plan.resource, stored) {
            Ok(text) if plain => text,
            _ => {
                let mut object = state.in_version(&self.plan.resource, stored).unwrap_or(Value::Null);
                set(&mut object, &["metadata", "resourceVersion"], json!(version.to_string()));
                object = self.in_form(object);
                object.to_string().into()
            }
        };
        let mut line = Vec::with_capacity(text.len() + 40);
        line.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
        line.extend_from_slice(&text);
        line.extend_from_slice(b"}\n");
        WatchLine { about: stored.key().as_str().to_owned(), text: line.into() }
    }

    /// A bookmark of where the watch is; one that ends the initial events says so.
    fn bookmark(&self, initial: Option<u64>) -> WatchLine {
        // A quiet table is as new as the whole store: that is what keeps quiet watches from expiring.
        let version = initial.unwrap_or_else(|| self.cluster_version());
        let mut metadata = json!({"resourceVersion": version.to_string(), "creationTimestamp": null});
        if initial.is_some() {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (kind, api_version) = (self.plan.resource.kind.clone(), self.plan.resource.api_version());
        let object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        let object = self.in_form(object);
        let line = format!("{}\n", json!({"type": "BOOKMARK", "object": object}));
        WatchLine { about: String::new(), text: line.into() }
    }

    fn in_form(&self, object: Value) -> Value {
        let now = self.cluster.clock().now();
        let mut written = self.plan.form.write(&self.plan.resource, object, now);
        if matches!(self.plan.form, Form::Table(_)) && self.headed.swap(true, Ordering::Relaxed) {
            written["columnDefinitions"] = Value::Null;
        }
        written
    }

    fn cluster_version(&self) -> u64 {
        let state = self.cluster.state();
        let table = state.store.table(&self.plan.table);
        let behind = table
            .and_then(|it| it.history().since(self.cursor.unwrap_or(0)))
            .is_some_and(|mut it| it.next().is_some());
        if behind { self.cursor.unwrap_or(0) } else { state.store.version() }
    }

    fn error(&self, failure: &Failure) -> WatchLine {
        let line = format!("{}\n", json!({"type": "ERROR", "object": failure.body()}));
        WatchLine { about: String::new(), text: line.into() }
    }
}
