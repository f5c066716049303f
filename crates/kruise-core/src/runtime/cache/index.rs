//! Which objects belong together: by the owner that controls them, and by namespace.

use std::{collections::HashMap, sync::Arc};

use kube::Resource;

use super::rows::Rows;
use crate::runtime::key::controller_uid;

/// Objects by owner and by namespace, in the order of keys.
#[derive(Debug)]
pub(super) struct Index<K> {
    by_owner: HashMap<Box<str>, Rows<K>>,
    by_namespace: HashMap<Box<str>, Rows<K>>,
    orphans: HashMap<Box<str>, Rows<K>>,
}

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self { by_owner: HashMap::new(), by_namespace: HashMap::new(), orphans: HashMap::new() }
    }
}

impl<K: Resource> Index<K> {
    /// Takes up `new` in place of `old`, which has the same key.
    pub(super) fn replace(&mut self, old: Option<&K>, new: Option<&Arc<K>>) {
        if let Some(old) = old {
            let stays = new.is_some_and(|it| controller_uid(&**it) == controller_uid(old));
            match controller_uid(old) {
                _ if stays => {}
                Some(owner) => take(&mut self.by_owner, owner, old),
                None => take(&mut self.orphans, namespace(old), old),
            }
            if new.is_none() {
                take(&mut self.by_namespace, namespace(old), old);
            }
        }
        if let Some(new) = new {
            put(&mut self.by_namespace, namespace(&**new), new);
            match controller_uid(&**new) {
                Some(owner) => put(&mut self.by_owner, owner, new),
                None => put(&mut self.orphans, namespace(&**new), new),
            }
        }
    }

    /// What the object with this UID controls.
    pub(super) fn owned_by(&self, owner: &str) -> Rows<K> {
        self.by_owner.get(owner).cloned().unwrap_or_default()
    }

    /// Everything in `namespace`.
    pub(super) fn in_namespace(&self, namespace: &str) -> Rows<K> {
        self.by_namespace.get(namespace).cloned().unwrap_or_default()
    }

    /// What nobody controls in `namespace`.
    pub(super) fn orphans_in(&self, namespace: &str) -> Rows<K> {
        self.orphans.get(namespace).cloned().unwrap_or_default()
    }

    /// How many owners and namespaces are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_owner.len() + self.by_namespace.len() + self.orphans.len()
    }
}

fn namespace<K: Resource>(object: &K) -> &str {
    object.meta().namespace.as_deref().unwrap_or_default()
}

fn put<K: Resource>(groups: &mut HashMap<Box<str>, Rows<K>>, group: &str, object: &Arc<K>) {
    match groups.get_mut(group) {
        Some(rows) => rows.put(object.clone()),
        None => groups.entry(group.into()).or_default().put(object.clone()),
    }
}

/// Takes `object` out of one group; a group that becomes empty goes as well, or the index would grow with every owner
/// ever.
fn take<K: Resource>(groups: &mut HashMap<Box<str>, Rows<K>>, group: &str, object: &K) {
    if let Some(rows) = groups.get_mut(group) {
        rows.remove(object);
        if rows.is_empty() {
            groups.remove(group);
        }
    }
}
