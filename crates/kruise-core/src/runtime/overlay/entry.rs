//! What the overlay keeps about one object.

use std::sync::Arc;

use kube::Resource;
use tokio::time::Instant;

use crate::runtime::key::{Key, uid, version, version_number};

/// What a write whose outcome nobody knows was meant to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Create the object.
    Create,
    /// Change it.
    Update,
    /// Delete it.
    Delete,
    /// Delete it as long as it has one version: this one, if versions are numbers.
    DeleteAsSeen(Option<u64>),
}

impl Intent {
    /// Whether the object was to go.
    pub fn is_deletion(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteAsSeen(_))
    }

    /// Whether this one may still happen when `other` cannot any more: then it is what has to be remembered.
    pub(super) fn outlasts(self, other: Self) -> bool {
        match self {
            Self::Delete => matches!(other, Self::Update | Self::DeleteAsSeen(_)),
            Self::Update => matches!(other, Self::DeleteAsSeen(_)),
            Self::Create | Self::DeleteAsSeen(_) => false,
        }
    }
}

/// A write that may or may not have happened: its answer never came.
///
/// Names are chosen by the plan, so the remedy is to do the same again: a create that did happen answers 409.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// Which object.
    pub key: Key,
    /// The object's UID, if it existed.
    pub uid: Option<String>,
    /// The UID of the owner on whose behalf it was written.
    pub owner: Option<String>,
    /// What was asked for.
    pub intent: Intent,
}

impl Doubt {
    /// Whether the server cannot do it any more, now that it has `object`.
    pub(super) fn is_refuted_by<K: Resource>(&self, object: &K) -> bool {
        let Intent::DeleteAsSeen(Some(seen)) = self.intent else { return false };
        self.uid.as_deref() == Some(uid(object))
            && version_number(version(object)).is_some_and(|it| it > seen)
    }
}

/// Proof that a look-up began when the overlay was in a certain state: its answer counts only for that state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// What to look up.
    pub key: Key,
    pub(super) number: u64,
    pub(super) shown_uid: Option<String>,
}

#[derive(Debug)]
pub(super) struct Write<K> {
    pub(super) what: What<K>,
    /// UIDs of the same name that went before: the watch may not have shown the end of any of them.
    pub(super) past: Vec<String>,
    pub(super) stamp: Stamp,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp {
    pub(super) number: u64,
    /// How many lists had begun.
    pub(super) list: u64,
    pub(super) at: Instant,
}

#[derive(Debug)]
pub(super) enum What<K> {
    /// The object as the server answered.
    Object(Arc<K>),
    /// It is gone for good. `floor` is its newest known version: older objects of that name are gone as well.
    Gone { uid: String, floor: Option<u64> },
}

impl<K: Resource> Write<K> {
    /// The object this is about.
    pub(super) fn uid(&self) -> &str {
        match &self.what {
            What::Object(object) => uid(&**object),
            What::Gone { uid, .. } => uid,
        }
    }

    /// Whether this entry says that `object` does not exist any more: it is the one that is gone, or one of the same
    /// name before it.
    pub(super) fn ends(&self, object: &K) -> bool {
        let number = version_number(version(object));
        let is_it = match &self.what {
            What::Object(_) => false,
            What::Gone { uid: gone, floor } => {
                uid(object) == gone || number.zip(*floor).is_some_and(|(it, floor)| it < floor)
            }
        };
        is_it || self.past.iter().any(|it| it == uid(object))
    }
}
