//! Pull secrets, read when they are needed and kept for a while.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::time::Instant;
use tracing::warn;

use super::credentials::Keyring;
use crate::{
    api::node_image::v1beta1::ReferenceObject,
    runtime::{
        client::call,
        clock::{Clock, Seed},
    },
};

/// A secret is read again after five to ten minutes.
const KEEP_MINUTES: (u64, u64) = (5, 10);

/// A secret that could not be read is asked for again after this long.
const KEEP_MISSING: Duration = Duration::from_secs(30);

/// Reads secrets from the API server and remembers them.
pub struct Secrets {
    client: Client,
    clock: Clock,
    seed: Seed,
    kept: Mutex<HashMap<(String, String), Kept>>,
}

/// A secret as it was read, or that it could not be.
#[derive(Clone)]
struct Kept {
    secret: Option<Arc<Secret>>,
    until: Instant,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("kept", &self.kept().len()).finish_non_exhaustive()
    }
}

impl Secrets {
    /// Reads through `client`.
    pub fn new(client: Client, clock: Clock, seed: Seed) -> Self {
        Self { client, clock, seed, kept: Mutex::default() }
    }

    /// Everything usable in the named secrets. One that cannot be read or used is logged and passed over.
    pub async fn keyring(&self, references: &[ReferenceObject]) -> Keyring {
        let mut keyring = Keyring::default();
        for reference in references {
            let Some(secret) = self.get(reference).await else { continue };
            let data = secret.data.iter().flatten().map(|(key, it)| (key.clone(), it.0.clone())).collect();
            if let Err(error) = keyring.add_secret(secret.type_.as_deref().unwrap_or_default(), &data) {
                warn!(%error, namespace = reference.namespace, name = reference.name, "a pull secret is of no use");
            }
        }
        keyring
    }

    /// Forgets the named secrets: a download failed with them.
    pub fn forget(&self, references: &[ReferenceObject]) {
        let mut kept = self.kept();
        for it in references {
            kept.remove(&(it.namespace.clone(), it.name.clone()));
        }
    }

    async fn get(&self, reference: &ReferenceObject) -> Option<Arc<Secret>> {
        let key = (reference.namespace.clone(), reference.name.clone());
        let now = self.clock.instant();
        let kept = self.kept().get(&key).filter(|it| it.until > now).cloned();
        if let Some(kept) = kept {
            return kept.secret;
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.0);
        let (secret, keep) = match call("get pull secret", api.get(&key.1)).await {
            Ok(secret) => {
                let (least, most) = KEEP_MINUTES;
                let minutes = least + self.seed.draw() % (most - least + 1);
                (Some(Arc::new(secret)), Duration::from_secs(60 * minutes))
            }
            Err(error) => {
                warn!(label = error.label(), namespace = key.0, name = key.1, "a pull secret cannot be read");
                (None, KEEP_MISSING)
            }
        };
        let mut kept = self.kept();
        // Secrets come and go with jobs: what is past its time would stay for ever.
        kept.retain(|_, it| it.until > now);
        kept.insert(key, Kept { secret: secret.clone(), until: now + keep });
        secret
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<(String, String), Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::http::{Request, Response};
    use base64::{Engine, prelude::BASE64_STANDARD};
    use jiff::Timestamp;
    use kube::client::Body;
    use serde_json::json;
    use tower::service_fn;

    use super::*;
    use crate::{image::Reference, runtime::client, runtime::metrics::Metrics, runtime::throttle::Throttle};

    /// A server whose secret `there` names a user by how often it was asked, and that has no other.
    fn secrets(asked: Arc<AtomicUsize>) -> Secrets {
        let clock = Clock::following(Timestamp::UNIX_EPOCH);
        let options = client::Options {
            user_agent: "kruise-test/1".into(),
            metrics: Metrics::default(),
            throttle: Throttle::default(),
            clock: clock.clone(),
        };
        let server = service_fn(move |request: Request<Body>| {
            let count = asked.fetch_add(1, Ordering::SeqCst);
            let config = json!({"auths": {"r.io": {"username": format!("user-{count}"), "password": "p"}}});
            let (code, body) = match request.uri().path().ends_with("/there") {
                true => (
                    200,
                    json!({
                        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "there", "namespace": "n"},
                        "type": "kubernetes.io/dockerconfigjson",
                        "data": {".dockerconfigjson": BASE64_STANDARD.encode(config.to_string())},
                    }),
                ),
                false => {
                    (404, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}))
                }
            };
            let answer = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            async move { answer }
        });
        Secrets::new(client::over(server, &options), clock, Seed::from_number(1))
    }

    fn named(name: &str) -> ReferenceObject {
        ReferenceObject { namespace: "n".into(), name: name.into(), mode: String::new() }
    }

    async fn user(secrets: &Secrets, names: &[&str]) -> Option<String> {
        let references: Vec<_> = names.iter().map(|it| named(it)).collect();
        let keyring = secrets.keyring(&references).await;
        keyring.for_image(&Reference::parse("r.io/a").unwrap()).first().map(|it| it.username.clone())
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_is_read_once_and_again_after_ten_minutes_or_a_failure() {
        let asked = Arc::new(AtomicUsize::new(0));
        let secrets = secrets(asked.clone());
        assert_eq!(user(&secrets, &["there"]).await.unwrap(), "user-0");
        tokio::time::advance(Duration::from_secs(299)).await;
        assert_eq!(
            user(&secrets, &["there"]).await.unwrap(),
            "user-0",
            "inside the window the old one counts"
        );
        tokio::time::advance(Duration::from_secs(302)).await;
        assert_eq!(user(&secrets, &["there"]).await.unwrap(), "user-1");
        secrets.forget(&[named("there")]);
        assert_eq!(user(&secrets, &["there"]).await.unwrap(), "user-2");
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_that_is_not_there_hides_no_other_and_is_not_asked_for_all_the_time() {
        let asked = Arc::new(AtomicUsize::new(0));
        let secrets = secrets(asked.clone());
        assert_eq!(user(&secrets, &["missing", "there"]).await.unwrap(), "user-1");
        assert_eq!(user(&secrets, &["missing"]).await, None);
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        assert!(!format!("{secrets:?}").contains("user-1"));
    }
}
