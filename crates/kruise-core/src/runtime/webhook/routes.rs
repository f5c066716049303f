//! The server's paths.

use std::{collections::BTreeMap, fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Bytes,
    extract::DefaultBodyLimit,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::timeout;
use tracing::error;

use super::{
    conversion,
    crd::CONVERSION_PATH,
    review::{self, AdmissionRequest},
    verdict::Verdict,
};
use crate::runtime::clock::Clock;

/// An admission review carries an object twice, and etcd takes no object beyond 1.5 MiB.
const REVIEW_LIMIT: usize = 7 * 1024 * 1024;
/// A conversion review may carry a list.
const CONVERSION_LIMIT: usize = 64 * 1024 * 1024;
/// The API server waits for 10 s and then says nothing about which webhook was slow; this answers before that.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(9);

/// Answers the reviews of one path.
pub(super) type Reviewer = Arc<dyn Fn(Arc<AdmissionRequest>) -> BoxFuture<'static, Verdict> + Send + Sync>;
/// Converts one object to a group and version.
pub(super) type Converter = Arc<dyn Fn(Value, &str) -> Result<Value, String> + Send + Sync>;
/// Hears what the server does.
pub(super) type Observer = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// What the server did, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A question was answered.
    Answered {
        /// Where it was asked.
        path: &'a str,
        /// A fixed word for the answer: `allowed`, `patched`, `denied`, `converted`, `failed` or `unreadable`.
        outcome: &'static str,
        /// How long it took.
        elapsed: Duration,
    },
    /// A certificate is served from now on.
    Adopted {
        /// When it ends.
        expiry: Option<Timestamp>,
    },
    /// A round of upkeep succeeded.
    Synced,
    /// A round of upkeep failed.
    SyncFailed {
        /// A fixed word for the reason.
        label: &'static str,
    },
}

/// What is served where.
#[derive(Clone)]
pub(super) struct Routes {
    pub(super) reviews: BTreeMap<String, Reviewer>,
    pub(super) converter: Option<Converter>,
    pub(super) observer: Observer,
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes").field("reviews", &self.reviews.keys()).finish_non_exhaustive()
    }
}

impl Routes {
    pub(super) fn router(&self) -> Router {
        let mut router = Router::new().route("/healthz", get(async || "ok"));
        for (path, reviewer) in &self.reviews {
            let answering = (path.clone(), Arc::clone(reviewer), Arc::clone(&self.observer));
            let handler = post(move |body: Bytes| {
                let ((path, reviewer, observer), clock) = (answering.clone(), Clock::system());
                async move {
                    let started = clock.instant();
                    let (outcome, response) = answer(&reviewer, &body).await;
                    observer(&Event::Answered { path: &path, outcome, elapsed: clock.since(started) });
                    response
                }
            });
            router = router.route(path, handler.layer(DefaultBodyLimit::max(REVIEW_LIMIT)));
        }
        if let Some(converter) = &self.converter {
            let answering = (Arc::clone(converter), Arc::clone(&self.observer));
            let handler = post(move |body: Bytes| {
                let ((converter, observer), clock) = (answering.clone(), Clock::system());
                async move {
                    let started = clock.instant();
                    let (outcome, response) = convert(converter, body).await;
                    let elapsed = clock.since(started);
                    observer(&Event::Answered { path: CONVERSION_PATH, outcome, elapsed });
                    response
                }
            });
            router = router.route(CONVERSION_PATH, handler.layer(DefaultBodyLimit::max(CONVERSION_LIMIT)));
        }
        router
    }
}

async fn answer(reviewer: &Reviewer, body: &[u8]) -> (&'static str, Response) {
    let mut question = match review::decode(body) {
        Ok(question) => question,
        Err(message) => return ("unreadable", (StatusCode::BAD_REQUEST, message).into_response()),
    };
    let request = Arc::new(question.request);
    // Inside the block, so that a function that panics before it returns its future is caught as well.
    let reviewing = AssertUnwindSafe(async { reviewer(Arc::clone(&request)).await }).catch_unwind();
    let verdict = match timeout(REVIEW_TIMEOUT, reviewing).await {
        Ok(Ok(Verdict::Patched { .. })) if request.object.is_none() => failed(&request, "patched no object"),
        Ok(Ok(verdict)) => verdict,
        Ok(Err(_)) => failed(&request, "failed unexpectedly"),
        Err(_) => failed(&request, "took too long"),
    };
    question.request = Arc::unwrap_or_clone(request);
    (verdict.label(), Json(review::encode(&question, &verdict)).into_response())
}

fn failed(request: &AdmissionRequest, how: &str) -> Verdict {
    let subject = request.subject();
    error!(subject, how, "an admission review failed");
    Verdict::denied(500, format!("the review of {subject} {how}"))
}

async fn convert(converter: Converter, body: Bytes) -> (&'static str, Response) {
    // Lists may be long: they must not hold up the reviews.
    let converting = tokio::task::spawn_blocking(move || {
        let conversion::Conversion { api_version, uid, desired, objects } = conversion::decode(&body)?;
        let convert = || conversion::convert(objects, &desired, |object, to| converter(object, to));
        let converted = std::panic::catch_unwind(AssertUnwindSafe(convert)).unwrap_or_else(|_| {
            error!(desired, "a conversion failed unexpectedly");
            Err(format!("the conversion to {desired} failed unexpectedly"))
        });
        let outcome = if converted.is_ok() { "converted" } else { "failed" };
        Ok((outcome, Json(conversion::encode(&api_version, &uid, converted)).into_response()))
    });
    match converting.await {
        Ok(Ok(answer)) => answer,
        Ok(Err(message)) => {
            let message: String = message;
            ("unreadable", (StatusCode::BAD_REQUEST, message).into_response())
        }
        Err(_) => ("failed", StatusCode::INTERNAL_SERVER_ERROR.into_response()),
    }
}
