//! The number of a leadership (PROTO-3): plans of a later leader count more than those of an earlier one.
//!
//! It is taken with the first plan that is written, so that a leader with nothing to do writes nothing (HA-4).

use k8s_openapi::api::core::v1::ConfigMap;
use kruise_core::runtime::{
    access::{self, Right},
    client::{Error, call},
};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::Mutex;

/// The ConfigMap that counts leaderships, in the hub's own namespace.
pub const NAME: &str = "fleet-hub";
const TERM: &str = "term";

/// How far a number that an agent tells may be above what the hub has written: more than a copy of the hub can be behind.
const REACH: u64 = 1 << 20;

/// The higher of what a cluster says it has applied and what the hub has written. The former counts because a hub that was
/// restored from an older copy has forgotten numbers (HA-5), and only within reach: one agent must not be able to use all
/// numbers up (SEC-5).
pub(super) fn believable(said: u64, written: u64) -> u64 {
    said.min(written.saturating_add(REACH)).max(written)
}

/// Whether a cluster refuses what was written under a term, because it has applied a higher one: one that this hub has forgotten
/// (HA-5). What is out of reach is nothing that was ever written.
pub(super) fn is_refused(said: u64, written: u64) -> bool {
    said > written && believable(said, written) == said
}

/// The rights it needs.
pub fn needs() -> Vec<Right> {
    vec![
        access::own_namespace("", "configmaps", &["create"]),
        access::own_namespace("", "configmaps", &["get", "patch"]).named([NAME]),
    ]
}

/// The number of this leadership, once it is needed.
#[derive(Clone)]
pub struct Term {
    maps: Api<ConfigMap>,
    taken: std::sync::Arc<Mutex<Option<u64>>>,
}

impl Term {
    /// Counts in `namespace`.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { maps: Api::namespaced(client, namespace), taken: std::sync::Arc::default() }
    }

    /// The number, not below `floor`. `known` is the highest that was ever seen, should the count have been lost; nobody looks for
    /// it once there is a number.
    pub async fn get(&self, floor: u64, known: impl FnOnce() -> u64) -> Result<u64, Error> {
        let mut taken = self.taken.lock().await;
        match *taken {
            Some(it) if it >= floor => Ok(it),
            _ => Ok(*taken.insert(self.take(known().max(floor)).await?)),
        }
    }

    /// Counts one more leadership. Of two leaders that count at once one is refused, and tries again.
    async fn take(&self, known: u64) -> Result<u64, Error> {
        let stored = call("read the term", self.maps.get_opt(NAME)).await?;
        let counted = stored.as_ref().and_then(|it| it.data.as_ref()?.get(TERM)?.parse::<u64>().ok());
        let next = counted.unwrap_or_default().max(known) + 1;
        match stored.and_then(|it| it.metadata.resource_version) {
            Some(version) => {
                let patch = json!({
                    "metadata": {"resourceVersion": version}, "data": {(TERM): next.to_string()},
                });
                let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
                call("count a term", self.maps.patch(NAME, &params, &patch)).await?;
            }
            None => {
                let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
                let data = Some([(TERM.to_owned(), next.to_string())].into());
                let map = ConfigMap { metadata, data, ..ConfigMap::default() };
                call("count the first term", self.maps.create(&PostParams::default(), &map)).await?;
            }
        }
        Ok(next)
    }
}

impl std::fmt::Debug for Term {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Term").field("taken", &self.taken).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proto_3_a_number_that_was_taken_is_not_looked_for_again() {
        sim::fleet().hub().run(async |world| {
            let term = Term::new(world.client("hub", "hub"), "default");
            assert_eq!(term.get(0, || 7).await.unwrap(), 8);
            assert_eq!(term.get(8, || unreachable!("it is known")).await.unwrap(), 8);
        });
    }

    #[test]
    fn ha_5_a_number_below_what_a_cluster_has_applied_is_taken_anew() {
        sim::fleet().hub().run(async |world| {
            let term = Term::new(world.client("hub", "hub"), "default");
            assert_eq!(term.get(0, || 7).await.unwrap(), 8);
            assert_eq!(term.get(12, || 7).await.unwrap(), 13);
            assert_eq!(term.get(0, || 7).await.unwrap(), 13);
        });
    }

    #[test]
    fn ha_5_a_higher_term_is_one_that_was_forgotten_if_it_can_be() {
        assert!(is_refused(9, 7) && !is_refused(7, 7) && !is_refused(3, 7));
        assert!(!is_refused(7 + REACH + 1, 7), "SEC-5: nobody ever wrote that");
    }

    #[test]
    fn sec_5_an_agent_cannot_use_the_numbers_up() {
        assert_eq!((believable(7, 9), believable(9, 7)), (9, 9));
        assert_eq!(believable(i64::MAX as u64, 7), 7 + REACH);
        assert_eq!(believable(u64::MAX, u64::MAX - 1), u64::MAX);
    }
}
