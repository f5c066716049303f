//! The recent past of one table: what watches read, and what old lists are rebuilt from.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::Retention;
use crate::server::object::Stored;

/// What a write did to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// It is new.
    Added,
    /// It was there before.
    Modified,
    /// It is gone.
    Deleted,
}

/// One write.
#[derive(Debug, Clone)]
pub struct Record {
    /// The write's version.
    pub version: u64,
    /// When it happened, since the world began.
    pub at: Duration,
    /// What it did.
    pub happened: Happened,
    /// The object after the write; its last state, with the delete's version, when it was deleted.
    pub object: Arc<Stored>,
    /// The object before the write.
    pub previous: Option<Arc<Stored>>,
}

/// The newest writes of one table, oldest first.
#[derive(Debug, Default)]
pub struct History {
    records: VecDeque<Record>,
    /// Everything up to this version may be missing.
    compacted: u64,
}

impl History {
    pub(super) fn push(&mut self, record: Record, retention: Retention) {
        let oldest = record.at.saturating_sub(retention.age);
        self.records.push_back(record);
        while self.records.len() > retention.count || self.records.front().is_some_and(|it| it.at < oldest) {
            if let Some(gone) = self.records.pop_front() {
                self.compacted = gone.version;
            }
        }
        // A table that was busy once and is quiet now should not keep the room.
        if self.records.capacity() > 64 && self.records.len() * 4 < self.records.capacity() {
            self.records.shrink_to(self.records.len() * 2);
        }
    }

    pub(super) fn compact(&mut self, version: u64) {
        self.records.clear();
        self.compacted = version;
    }

    /// The oldest version from which a watch can still resume.
    pub fn oldest(&self) -> u64 {
        self.compacted
    }

    /// The writes after `version`; `None` when some of them are no longer known.
    pub fn since(&self, version: u64) -> Option<impl Iterator<Item = &Record>> {
        if version < self.compacted {
            return None;
        }
        let start = self.records.partition_point(|it| it.version <= version);
        Some(self.records.range(start..))
    }

    /// The writes after `version`, newest first.
    pub fn undo_to(&self, version: u64) -> Option<impl Iterator<Item = &Record>> {
        if version < self.compacted {
            return None;
        }
        let start = self.records.partition_point(|it| it.version <= version);
        Some(self.records.range(start..).rev())
    }
}
