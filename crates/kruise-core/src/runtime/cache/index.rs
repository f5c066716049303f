//! Which objects belong together: by the owner that controls them, and by namespace.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    sync::Arc,
};

use kube::Resource;

use crate::runtime::key::{Key, controller_uid};

/// Keys by owner and by namespace, in the order of keys.
#[derive(Debug, Default)]
pub(super) struct Index {
    by_owner: HashMap<String, BTreeSet<Key>>,
    by_namespace: HashMap<Arc<str>, BTreeSet<Key>>,
    orphans: HashMap<Arc<str>, BTreeSet<Key>>,
}

impl Index {
    /// Takes up `object`.
    pub(super) fn add<K: Resource>(&mut self, key: &Key, object: &K) {
        self.by_namespace.entry(key.namespace.clone()).or_default().insert(key.clone());
        match controller_uid(object) {
            Some(owner) => self.by_owner.entry(owner.to_owned()).or_default().insert(key.clone()),
            None => self.orphans.entry(key.namespace.clone()).or_default().insert(key.clone()),
        };
    }

    /// Forgets `object`, as it was when it was taken up.
    pub(super) fn remove<K: Resource>(&mut self, key: &Key, object: &K) {
        take(&mut self.by_namespace, &key.namespace, key);
        match controller_uid(object) {
            Some(owner) => take(&mut self.by_owner, owner, key),
            None => take(&mut self.orphans, &key.namespace, key),
        }
    }

    /// What the object with this UID controls.
    pub(super) fn owned_by(&self, owner: &str) -> impl Iterator<Item = &Key> {
        self.by_owner.get(owner).into_iter().flatten()
    }

    /// Everything in `namespace`.
    pub(super) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Key> {
        self.by_namespace.get(namespace).into_iter().flatten()
    }

    /// What nobody controls in `namespace`.
    pub(super) fn orphans_in(&self, namespace: &str) -> impl Iterator<Item = &Key> {
        self.orphans.get(namespace).into_iter().flatten()
    }

    /// How many owners and namespaces are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_owner.len() + self.by_namespace.len() + self.orphans.len()
    }
}

/// Takes `key` out of one set; a set that becomes empty goes as well, or the index would grow with every owner ever.
fn take<G, Q>(sets: &mut HashMap<G, BTreeSet<Key>>, group: &Q, key: &Key)
where
    G: Eq + Hash + std::borrow::Borrow<Q>,
    Q: Eq + Hash + ?Sized,
{
    if let Some(set) = sets.get_mut(group) {
        set.remove(key);
        if set.is_empty() {
            sets.remove(group);
        }
    }
}
