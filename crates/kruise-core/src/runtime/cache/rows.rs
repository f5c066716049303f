//! Objects in the order of their keys, in blocks: a copy costs one step per block, and a change makes one block anew.
//! Whoever works something out of many objects keeps it per block, and does it again only for blocks that are new.

use std::{cmp::Ordering, sync::Arc};

use kube::Resource;

/// Neighbours, at least one and at most 64. A block never changes while somebody else holds it, weakly or not:
/// what changes is another block.
pub type Block<K> = Arc<Vec<Arc<K>>>;

/// How many objects a block has at most. What a change costs grows with it, and what a copy costs shrinks.
const BLOCK: usize = 64;

/// Objects in the order of their keys.
#[derive(Debug)]
pub struct Rows<K>(Vec<Block<K>>);

impl<K: Resource> Rows<K> {
    /// The blocks, in order.
    pub fn blocks(&self) -> &[Block<K>] {
        &self.0
    }

    /// The objects, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.0.iter().flat_map(|it| it.iter())
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes `object` in, in place of what had its key.
    pub fn put(&mut self, object: Arc<K>) {
        let at = self.block_of(&object);
        let Some(block) = self.0.get_mut(at) else {
            self.0.push(Arc::new(vec![object]));
            return;
        };
        let block = Arc::make_mut(block);
        match block.binary_search_by(|it| order(&**it, &*object)) {
            Ok(index) => block[index] = object,
            Err(index) => block.insert(index, object),
        }
        if block.len() > BLOCK {
            let rest = block.split_off(BLOCK / 2);
            self.0.insert(at + 1, Arc::new(rest));
        }
    }

    /// Takes out what has the key of `object`.
    pub fn remove(&mut self, object: &K) {
        let at = self.block_of(object);
        let Some(block) = self.0.get_mut(at) else { return };
        let Ok(index) = block.binary_search_by(|it| order(&**it, object)) else { return };
        Arc::make_mut(block).remove(index);
        let left = block.len();
        if left == 0 {
            self.0.remove(at);
        } else if at > 0 && left + self.0[at - 1].len() <= BLOCK / 2 {
            // Or a set that shrinks would end as many blocks of one.
            let block = self.0.remove(at);
            Arc::make_mut(&mut self.0[at - 1]).extend(block.iter().cloned());
        }
    }

    /// The block that has `object`, or would have it.
    fn block_of(&self, object: &K) -> usize {
        let starts_before = |it: &Block<K>| it.first().is_some_and(|it| order(&**it, object).is_le());
        self.0.partition_point(starts_before).saturating_sub(1)
    }
}

impl<K> Clone for Rows<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Default for Rows<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

fn order<K: Resource>(a: &K, b: &K) -> Ordering {
    let (a, b) = (a.meta(), b.meta());
    (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
    use proptest::prelude::*;

    use super::*;

    fn object(name: u16, version: usize) -> Arc<ConfigMap> {
        let metadata = ObjectMeta {
            name: Some(format!("{name:05}")),
            resource_version: Some(version.to_string()),
            ..ObjectMeta::default()
        };
        Arc::new(ConfigMap { metadata, ..ConfigMap::default() })
    }

    fn of(rows: &Rows<ConfigMap>) -> Vec<(String, String)> {
        let text = |it: &Option<String>| it.clone().unwrap();
        rows.iter().map(|it| (text(&it.metadata.name), text(&it.metadata.resource_version))).collect()
    }

    proptest! {
        #[test]
        fn rows_are_a_sorted_map_and_a_copy_stays_as_it_was(
            steps in prop::collection::vec((0..400_u16, prop::bool::weighted(0.6)), 0..1_500),
        ) {
            let mut rows = Rows::default();
            let mut wanted = BTreeMap::new();
            let mut copies = Vec::new();
            for (number, (name, is_there)) in steps.into_iter().enumerate() {
                if is_there {
                    rows.put(object(name, number));
                    wanted.insert(format!("{name:05}"), number.to_string());
                } else {
                    rows.remove(&object(name, 0));
                    wanted.remove(&format!("{name:05}"));
                }
                prop_assert!(rows.blocks().iter().all(|it| (1..=BLOCK).contains(&it.len())));
                if number % 100 == 0 {
                    copies.push((rows.clone(), of(&rows)));
                }
            }
            prop_assert_eq!(of(&rows), wanted.into_iter().collect::<Vec<_>>());
            for (copy, was) in &copies {
                prop_assert_eq!(&of(copy), was);
            }
        }
    }

    #[test]
    fn a_change_makes_one_block_anew_and_leaves_the_others() {
        let mut rows = Rows::default();
        (0..1_000).for_each(|it| rows.put(object(it, 0)));
        // Held weakly, so that nothing is kept alive: the address of a block that is gone is not used again all the same.
        let before: Vec<_> = rows.blocks().iter().map(Arc::downgrade).collect();
        rows.put(object(500, 1));
        let is_same = |it: &Block<ConfigMap>| before.iter().any(|old| old.as_ptr() == Arc::as_ptr(it));
        let new = rows.blocks().iter().filter(|it| !is_same(it)).count();
        assert_eq!((new, rows.blocks().len()), (1, before.len()));
    }

    #[test]
    fn what_shrinks_has_fewer_blocks() {
        let mut rows = Rows::default();
        (0..1_000).for_each(|it| rows.put(object(it, 0)));
        (0..1_000).filter(|it| it % 100 != 0).for_each(|it| rows.remove(&object(it, 0)));
        assert_eq!(rows.iter().count(), 10);
        assert!(rows.blocks().len() <= 2, "{}", rows.blocks().len());
        (0..1_000).for_each(|it| rows.remove(&object(it, 0)));
        assert!(rows.is_empty());
    }
}
