//! What every request passes on its way out and back.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use axum::http::{HeaderMap, Method, Request, Response, StatusCode, header};
use futures::{FutureExt, future::BoxFuture};
use kube::client::Body;
use tower::{BoxError, Service};

use super::{ANSWER_TIMEOUT, Options};

/// Counts requests, notes when the server asks for patience, and gives up on answers that do not begin.
#[derive(Debug, Clone)]
pub(super) struct Watchful<S> {
    inner: S,
    options: Options,
}

impl<S> Watchful<S> {
    pub(super) fn new(inner: S, options: &Options) -> Self {
        Self { inner, options: options.clone() }
    }
}

impl<S, B> Service<Request<Body>> for Watchful<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = request.method().clone();
        // An eviction is refused with 429 when a disruption budget forbids it: that is no sign of load.
        let is_eviction = request.uri().path().ends_with("/eviction");
        let answer = self.inner.call(request);
        let options = self.options.clone();
        async move {
            let Ok(answer) = tokio::time::timeout(ANSWER_TIMEOUT, answer).await else {
                options.metrics.api_request(method.as_str(), "timeout");
                return Err(BoxError::from("the server did not begin to answer in time"));
            };
            let answer = answer.map_err(|error| {
                options.metrics.api_request(method.as_str(), "error");
                error.into()
            })?;
            options.metrics.api_request(method.as_str(), answer.status().as_str());
            let now = options.clock.instant();
            if answer.status() == StatusCode::TOO_MANY_REQUESTS && !is_eviction {
                options.throttle.refused(retry_after(answer.headers()), now);
            } else if answer.status().is_success() && method != Method::GET {
                options.throttle.accepted(now);
            }
            Ok(answer)
        }
        .boxed()
    }
}

/// The API server sends whole seconds; the date form of the header is not used by it.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
