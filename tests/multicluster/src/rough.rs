//! A rough way to a real API server: writes are refused, lost or answered wrongly, watches lag, and whoever uses it can
//! be stopped dead after any of its writes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use anyhow::anyhow;
use axum::{
    body::{Body as AnyBody, Bytes},
    http::{Method, Request, Response, StatusCode},
};
use futures::{FutureExt, StreamExt, future::BoxFuture};
use kube::client::Body;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service};

/// What goes wrong with a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is refused with this status, and nothing comes of it.
    Refused(u16),
    /// It is carried out, and answered with this status.
    DoneAndDenied(u16),
    /// It is carried out, and the connection breaks before the answer.
    DoneAndLost,
}

/// How rough the way is.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Whoever uses it is dead right after this many writes; their answers never come.
    pub dies_after: u64,
    /// Each write of this number, and each multiple of it, goes wrong.
    pub every: Option<u64>,
    /// How, in turn.
    pub faults: &'static [Fault],
    /// How long each piece of a watch takes.
    pub lag: Duration,
}

/// The way of one life to the API server.
#[derive(Debug, Clone)]
pub struct Road {
    /// Over when the one who uses it has to be dead.
    pub dead: CancellationToken,
    rules: Rules,
    inner: Inner,
    own: Arc<AtomicU64>,
    /// Writes of all lives.
    all: Arc<AtomicU64>,
}

#[derive(Clone)]
struct Inner(kube::Client);

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Road {
    /// A way over `client`, which must not retry by itself. `all` counts the writes of all lives.
    pub fn new(client: kube::Client, rules: Rules, all: Arc<AtomicU64>) -> Self {
        Self { dead: CancellationToken::new(), rules, inner: Inner(client), own: Arc::default(), all }
    }

    async fn write(self, request: Request<Body>) -> Result<Response<AnyBody>, BoxError> {
        let own = self.own.fetch_add(1, Ordering::Relaxed) + 1;
        let number = self.all.fetch_add(1, Ordering::Relaxed) + 1;
        if own > self.rules.dies_after {
            // It was begun beside the last one: nobody knows how far it came.
            self.dead.cancel();
            return std::future::pending().await;
        }
        let every = self.rules.every.filter(|it| number.is_multiple_of(*it));
        let fault = every.map(|it| self.rules.faults[(number / it) as usize % self.rules.faults.len()]);
        let answer = match fault {
            Some(Fault::Refused(code)) => denied(code),
            _ => self.inner.0.send(request).await.map(|it| it.map(AnyBody::new)).map_err(Into::into),
        };
        if own == self.rules.dies_after {
            self.dead.cancel();
            return std::future::pending().await;
        }
        match fault {
            Some(Fault::DoneAndDenied(code)) => denied(code),
            Some(Fault::DoneAndLost) => Err(anyhow!("the connection broke").into()),
            _ => answer,
        }
    }

    async fn read(self, request: Request<Body>) -> Result<Response<AnyBody>, BoxError> {
        let is_watch = request.uri().query().is_some_and(|it| it.contains("watch=true"));
        let answer = self.inner.0.send(request).await?.map(AnyBody::new);
        if !is_watch || self.rules.lag.is_zero() {
            return Ok(answer);
        }
        let lag = self.rules.lag;
        Ok(answer.map(|body| {
            let pieces = body.into_data_stream().then(move |piece: Result<Bytes, _>| async move {
                tokio::time::sleep(lag).await;
                piece
            });
            AnyBody::from_stream(pieces)
        }))
    }
}

impl Service<Request<Body>> for Road {
    type Response = Response<AnyBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let road = self.clone();
        match *request.method() {
            Method::GET => road.read(request).boxed(),
            _ => road.write(request).boxed(),
        }
    }
}

/// An answer as an API server in trouble gives it.
fn denied(code: u16) -> Result<Response<AnyBody>, BoxError> {
    let reason = match code {
        409 => "Conflict",
        429 => "TooManyRequests",
        504 => "Timeout",
        _ => "InternalError",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code,
        "message": "the way is rough",
    });
    let response = Response::builder().status(StatusCode::from_u16(code)?);
    let response = response.header("content-type", "application/json");
    Ok(response.body(AnyBody::from(body.to_string()))?)
}
