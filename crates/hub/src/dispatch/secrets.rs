//! Reading the Secrets that jobs name: one `get` for each, when a round needs it. There is no list and no watch, so that a hub can
//! see no Secret that no job names.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use kruise_core::{
    backoff::Doubling,
    runtime::{
        access::{self, Right},
        cache::Cached,
        client::call,
        key::Key,
    },
};
use kube::{Api, Resource};
use tokio::time::Instant;

use super::{
    Dispatcher,
    plan::secrets::{Look, Looks},
    raw::Raw,
};

/// How long what was read counts, when something else brings the job up.
const FRESH: Duration = Duration::from_secs(60);
/// How soon a job that nothing else brings up looks for changed Secrets.
const AGAIN: Duration = Duration::from_secs(600);
/// How soon one that could not be had is looked for again.
const PATIENCE: Doubling = Doubling { first: Duration::from_secs(10), ceiling: FRESH };
/// How many are read at once.
const AT_ONCE: usize = 8;

/// The rights that this needs. They are not the hub's by itself: whoever wants pull secrets brought to clusters grants them.
pub fn needs() -> Vec<Right> {
    vec![access::cluster("", "secrets", &["get"])]
}

/// What was read, and when.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    at: Instant,
    failures: u32,
    found: BTreeMap<String, Look>,
}

impl Kept {
    /// How long this counts, and when to look again at the latest.
    fn times(&self) -> (Duration, Duration) {
        if self.failures == 0 {
            (FRESH, AGAIN)
        } else {
            (PATIENCE.delay(self.failures), PATIENCE.delay(self.failures))
        }
    }
}

impl<K> Dispatcher<K>
where
    K: Resource<DynamicType = ()> + 'static,
    Raw<K>: Cached,
{
    /// What is known of the Secrets with these names in the object's namespace.
    pub(super) async fn look_at_secrets(&self, key: &Key, names: &[String]) -> Looks {
        if names.is_empty() {
            return Looks::default();
        }
        let now = self.shared.clock.instant();
        let before = self.memory().get(key).and_then(|it| it.secrets.clone());
        let is_same = |it: &Kept| it.found.keys().eq(names.iter());
        let kept = match before.filter(is_same) {
            Some(kept) if now.saturating_duration_since(kept.at) < kept.times().0 => kept,
            before => {
                let found = self.read_secrets(&key.namespace, names).await;
                let is_good = found.values().all(Look::is_good);
                let failures = if is_good { 0 } else { before.map_or(0, |it| it.failures).saturating_add(1) };
                let kept = Kept { at: now, failures, found };
                self.memory().entry(key.clone()).or_default().secrets = Some(kept.clone());
                kept
            }
        };
        let again = kept.times().1.saturating_sub(now.saturating_duration_since(kept.at));
        Looks { found: kept.found, again: Some(again.max(Duration::from_secs(1))) }
    }

    async fn read_secrets(&self, namespace: &str, names: &[String]) -> BTreeMap<String, Look> {
        let api: Api<Secret> = Api::namespaced(self.shared.client.clone(), namespace);
        let reading = stream::iter(names.to_vec()).map(|name| {
            let api = api.clone();
            async move {
                let look = match call("read a pull secret", api.get_opt(&name)).await {
                    Ok(Some(secret)) => Look::at(&name, secret),
                    Ok(None) => Look::Missing,
                    Err(error) if matches!(error.code(), Some(401 | 403)) => Look::Denied,
                    Err(error) => Look::Failed(error.told()),
                };
                (name, look)
            }
        });
        reading.buffer_unordered(AT_ONCE).collect().await
    }
}
