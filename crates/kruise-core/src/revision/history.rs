//! Which of the stored revisions is the wanted one, which is the current one, and which may go.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::{
    data::RevisionData,
    hash::{revision_hash, revision_name, short_hash},
};
use crate::{
    api::common::keys::REVISION_HASH,
    runtime::{cache::revision::RevisionLite, key::controller_uid},
};

/// The revision that the live object asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The namespace of the owner.
    pub namespace: String,
    /// The controller reference to the owner.
    pub owner: OwnerReference,
    /// Labels of a new revision, without the hash.
    pub labels: BTreeMap<String, String>,
    /// Annotations of a new revision.
    pub annotations: BTreeMap<String, String>,
    /// Annotations that say something about the live object and are brought up to date in a rollback.
    pub refreshed: BTreeMap<String, String>,
    /// Labels that speak of a release that is over and are taken off in a rollback, so that the next release of the
    /// same revision starts afresh (openkruise/kruise#1419).
    pub forgotten: &'static [&'static str],
    /// What it records.
    pub data: RevisionData,
}

/// What to do to have the wanted revision.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// The newest revision is the wanted one; nothing is written, not even an annotation.
    Use {
        /// Its name.
        name: String,
    },
    /// An older revision is the wanted one: it becomes the newest.
    Refresh {
        /// Its name.
        name: String,
        /// Its new number.
        revision: i64,
        /// Its annotations that change.
        annotations: BTreeMap<String, String>,
        /// Its labels that go.
        forgotten: Vec<&'static str>,
    },
    /// There is none.
    Create(Box<NewRevision>),
}

/// A revision to create.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRevision {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The controller reference to its owner.
    pub owner: OwnerReference,
    /// What it records.
    pub data: RevisionData,
    /// Its number.
    pub revision: i64,
    /// How often other data had the same hash. Belongs into the owner's status once the revision is there.
    pub collision_count: i32,
}

/// What a revision that exists under the name of a new one means.
#[derive(Debug, Clone, PartialEq)]
pub enum Clash {
    /// It records the same: take it.
    Same,
    /// It records something else: create this one instead.
    Collision(Box<NewRevision>),
}

impl NewRevision {
    fn new(wanted: &Wanted, revision: i64, collision_count: i32) -> Self {
        let hash = revision_hash(&wanted.data, collision_count);
        let mut labels = wanted.labels.clone();
        labels.insert(REVISION_HASH.into(), hash.clone());
        let mut annotations = wanted.annotations.clone();
        annotations.extend(wanted.refreshed.clone());
        Self {
            name: revision_name(&wanted.owner.name, &hash),
            namespace: wanted.namespace.clone(),
            labels,
            annotations,
            owner: wanted.owner.clone(),
            data: wanted.data.clone(),
            revision,
            collision_count,
        }
    }

    /// The object to send, with [`create_text`]. It is text and not a value, because the API server stores the bytes of the data as they come,
    /// and OpenKruise compares bytes: the escapes in them must arrive as well.
    ///
    /// [`create_text`]: crate::runtime::writes::Writer::create_text
    pub fn body(&self) -> String {
        let mut metadata = json!({
            "name": self.name,
            "namespace": self.namespace,
            "labels": self.labels,
            "annotations": self.annotations,
        });
        // An owner that is yet to be made adopts it later.
        if !self.owner.uid.is_empty() {
            metadata["ownerReferences"] = json!([self.owner]);
        }
        let (data, revision) = (self.data.as_str(), self.revision);
        format!(
            r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{metadata},"data":{data},"revision":{revision}}}"#
        )
    }

    /// What to do when the API server says that the name is taken, by `existing`; also when the writer answers with an
    /// object of ours that it found under the name. Whose it is does not matter: an owner
    /// of the same name that is gone leaves its revisions to the garbage collector, and when they are collected the next
    /// pass creates them anew.
    pub fn clash(&self, existing: &RevisionLite) -> Clash {
        if existing.data.means_same(&self.data) {
            return Clash::Same;
        }
        let mut next = self.clone();
        next.collision_count = self.collision_count.wrapping_add(1);
        let hash = revision_hash(&self.data, next.collision_count);
        // Upstream names the object anew but leaves the label with the first hash; tools may rely on either.
        next.name = revision_name(&self.owner.name, &hash);
        Clash::Collision(Box::new(next))
    }
}

/// The revisions that belong to the history of the owner with this UID, oldest first: those that match its selector
/// and are controlled by it, or by nobody.
pub fn history<'a, R: Borrow<RevisionLite>>(
    listed: &'a [R],
    owner_uid: &str,
    is_selected: impl Fn(&BTreeMap<String, String>) -> bool,
) -> Vec<&'a RevisionLite> {
    let mut found: Vec<_> = listed
        .iter()
        .map(Borrow::borrow)
        .filter(|it| controller_uid(*it).is_none_or(|uid| uid == owner_uid) && is_selected(it.labels()))
        .collect();
    found.sort_by_key(|it| (it.revision, it.metadata.creation_timestamp.clone(), it.name()));
    found
}

/// The number of the next revision.
pub fn next_number(history: &[&RevisionLite]) -> i64 {
    history.iter().map(|it| it.revision).max().map_or(1, |it| it.saturating_add(1))
}

/// How to get the wanted revision. `history` is sorted, see [`history`]; `collision_count` is that of the owner's
/// status.
pub fn choose(history: &[&RevisionLite], wanted: &Wanted, collision_count: i32) -> Choice {
    let Some(equal) = history.iter().rposition(|it| it.data.means_same(&wanted.data)) else {
        return Choice::Create(Box::new(NewRevision::new(wanted, next_number(history), collision_count)));
    };
    let found = history[equal];
    let name = found.name().to_owned();
    if equal + 1 == history.len() {
        return Choice::Use { name };
    }
    let is_stale = |it: &(&String, &String)| found.annotation(it.0) != Some(it.1);
    let annotations =
        wanted.refreshed.iter().filter(is_stale).map(|it| (it.0.clone(), it.1.clone())).collect();
    let forgotten = wanted.forgotten.iter().copied().filter(|it| found.labels().contains_key(*it)).collect();
    Choice::Refresh { name, revision: next_number(history), annotations, forgotten }
}

/// What to write so that a revision is known that is not the newest one; nothing if it is known. Its number is below that of
/// the newest revision, and so below that of every revision that the live object asks for from now on.
pub fn seed(history: &[&RevisionLite], wanted: &Wanted, collision_count: i32) -> Option<NewRevision> {
    if history.iter().any(|it| it.data.means_same(&wanted.data)) {
        return None;
    }
    let number = history.last().map_or(1, |it| it.revision.saturating_sub(1).max(0));
    Some(NewRevision::new(wanted, number, collision_count))
}

/// The merge patch of a [`Choice::Refresh`].
pub fn refresh_patch(revision: i64, annotations: &BTreeMap<String, String>, forgotten: &[&str]) -> Value {
    let mut patch = json!({"revision": revision});
    if !annotations.is_empty() {
        patch["metadata"]["annotations"] = json!(annotations);
    }
    for label in forgotten {
        patch["metadata"]["labels"][*label] = Value::Null;
    }
    patch
}

/// The revision named in the owner's status; nothing if it is not there, and then the wanted one is also the current.
pub fn current<'a>(history: &[&'a RevisionLite], status_current: &str) -> Option<&'a RevisionLite> {
    history.iter().copied().find(|it| it.name() == status_current)
}

/// The names of revisions to delete, oldest first, so that at most `limit` of those remain that nobody uses. In use are
/// `live` ones: the update and the current revision and the revision labels of pods, as full names or short hashes. A
/// negative limit, which admission refuses, deletes nothing.
pub fn truncate<'a>(
    history: &[&RevisionLite],
    live: impl IntoIterator<Item = &'a str>,
    limit: i32,
) -> Vec<String> {
    let Ok(limit) = usize::try_from(limit) else { return Vec::new() };
    // Pods are many, their revisions few; and two names are the same revision if their short hashes are.
    let live: BTreeSet<_> = live.into_iter().map(short_hash).collect();
    let unused: Vec<_> = history.iter().filter(|it| !live.contains(short_hash(it.name()))).collect();
    let surplus = unused.len().saturating_sub(limit);
    unused[..surplus].iter().map(|it| it.name().to_owned()).collect()
}
