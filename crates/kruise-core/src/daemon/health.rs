//! `/healthz`, `/readyz` and `/metrics` of the daemon, in the words that probes and people know from upstream.

use std::sync::{Arc, OnceLock};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};

use crate::runtime::{cache::Feed, metrics::Metrics};

/// What a check says about a cache that is not complete.
const NOT_SYNCED: &str = "not synced";

/// Whether the daemon does its work.
#[derive(Clone, Default)]
pub struct Health(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// Set when a runtime was found.
    runtime: OnceLock<()>,
    caches: OnceLock<Vec<(&'static str, Arc<dyn Feed>)>>,
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Health").field(&self.judge()).finish()
    }
}

impl Health {
    /// A runtime was found.
    pub fn runtime_found(&self) {
        let _ = self.0.runtime.set(());
    }

    /// These caches must be complete, each under the name of its check.
    pub fn watch(&self, caches: Vec<(&'static str, Arc<dyn Feed>)>) {
        let _ = self.0.caches.set(caches);
    }

    /// The first thing that is wrong.
    fn judge(&self) -> Result<(), (&'static str, &'static str)> {
        if self.0.runtime.get().is_none() {
            return Err(("containerRuntime", "not found container runtime sock"));
        }
        let caches = self.0.caches.get().map(Vec::as_slice).unwrap_or_default();
        match caches.iter().find(|it| !it.1.is_synced()) {
            Some((name, _)) => Err((name, NOT_SYNCED)),
            None => Ok(()),
        }
    }
}

/// The routes of the daemon. It gets no requests of others, so being ready means no more than doing its work.
pub fn routes(health: Health, metrics: Metrics) -> Router {
    let healthz =
        Router::new().route("/healthz", get(answer)).route("/readyz", get(answer)).with_state(health);
    let text = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    let metrics = move || async move { (text, metrics.text()) };
    healthz.merge(Router::new().route("/metrics", get(metrics)))
}

async fn answer(State(health): State<Health>) -> impl IntoResponse {
    match health.judge() {
        Ok(()) => (StatusCode::OK, "ok".to_owned()),
        Err((name, error)) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("check {name} failed, err: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, future::BoxFuture};
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    struct Cache(bool);

    impl Feed for Cache {
        fn name(&self) -> &'static str {
            "test"
        }

        fn is_synced(&self) -> bool {
            self.0
        }

        fn synced(&self) -> BoxFuture<'static, ()> {
            async {}.boxed()
        }

        fn is_behind(&self) -> bool {
            false
        }
    }

    async fn ask(health: &Health, path: &str) -> (u16, String) {
        let request = axum::http::Request::get(path).body(axum::body::Body::empty()).unwrap();
        let answer = routes(health.clone(), Metrics::default()).oneshot(request).await.unwrap();
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn health_names_the_first_check_that_fails() {
        let health = Health::default();
        let text = "check containerRuntime failed, err: not found container runtime sock";
        assert_eq!(ask(&health, "/healthz").await, (500, text.into()));
        health.runtime_found();
        assert_eq!(ask(&health, "/healthz").await, (200, "ok".into()), "no further checks");
        health.watch(vec![
            ("nodeImageInformerSynced", Arc::new(Cache(true))),
            ("will-fail", Arc::new(Cache(false))),
        ]);
        assert_eq!(ask(&health, "/healthz").await, (500, "check will-fail failed, err: not synced".into()));
        assert_eq!(ask(&health, "/readyz").await.0, 500);
        assert_eq!(ask(&health, "/metrics").await.0, 200);
    }
}
