//! The names of bodies that an object's plans speak of.

use std::collections::BTreeMap;

use kruise_core::api::fleet::{assignment::RevisionRef, binding::Ledger as Saved};
use scheduling::ledger::Revision;

use super::{Cluster, Observed};
use crate::ledger;

/// The names of revisions, by hash.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(BTreeMap<String, RevisionRef>);

impl Names {
    /// Every revision that plans of the object spoke of so far.
    pub(super) fn known(observed: &Observed<'_>, saved: &Saved) -> Self {
        let mut names = Self::default();
        // What clusters say comes first, so that it never counts more than what the hub has written.
        let told = observed.clusters.iter().filter_map(Cluster::status);
        for it in told.flat_map(|it| [&it.target, &it.stable]).flatten() {
            names.add(it.clone());
        }
        let stored = observed.clusters.iter().filter_map(Cluster::stored);
        for it in stored.flat_map(|it| [&it.target, &it.stable]).flatten() {
            names.add(it.clone());
        }
        for it in
            [&saved.rolled_back, &saved.pre_download, &saved.stable, &saved.target].into_iter().flatten()
        {
            names.add(it.clone());
        }
        names
    }

    /// One more; of two names for one hash the newer body's counts.
    pub(super) fn add(&mut self, revision: RevisionRef) {
        self.0.insert(revision.hash.clone(), revision);
    }

    pub(super) fn get(&self, revision: Revision) -> Option<RevisionRef> {
        self.0.get(&ledger::hash(revision)).cloned()
    }

    /// The revision as the ledger keeps it, known or not.
    pub(super) fn kept(&self, revision: Revision) -> RevisionRef {
        let unknown = || RevisionRef { hash: ledger::hash(revision), ..RevisionRef::default() };
        self.get(revision).unwrap_or_else(unknown)
    }
}
