//! An API server that knows one lease, and links to it that can be cut.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::http::{Method, Request, Response};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Client, client::Body};
use serde_json::json;
use tokio::time::Instant;
use tower::{BoxError, service_fn};

use crate::runtime::clock::Clock;

#[derive(Clone)]
pub(super) struct LeaseServer {
    lease: Arc<Mutex<(Option<Lease>, u64)>>,
    clock: Clock,
    start: Instant,
}

/// One candidate's way to the server.
#[derive(Clone, Default)]
pub(super) struct Link(Arc<Mutex<State>>);

#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    Works,
    Hangs,
    Refuses,
    LosesAnswers,
    Delays(Duration),
}

impl Link {
    pub(super) fn hang(&self) {
        self.set(State::Hangs);
    }

    pub(super) fn refuse(&self) {
        self.set(State::Refuses);
    }

    pub(super) fn lose_answers(&self) {
        self.set(State::LosesAnswers);
    }

    pub(super) fn delay(&self, delay: Duration) {
        self.set(State::Delays(delay));
    }

    pub(super) fn mend(&self) {
        self.set(State::Works);
    }

    fn set(&self, state: State) {
        *self.0.lock().unwrap() = state;
    }
}

impl LeaseServer {
    pub(super) fn new() -> Self {
        let clock = Clock::system();
        Self { lease: Arc::default(), start: clock.instant(), clock }
    }

    pub(super) fn passed(&self) -> Duration {
        self.clock.since(self.start)
    }

    pub(super) fn lease(&self) -> LeaseSpec {
        self.lease.lock().unwrap().0.clone().unwrap().spec.unwrap()
    }

    pub(super) fn delete(&self) {
        self.lease.lock().unwrap().0 = None;
    }

    pub(super) fn client(&self, link: Link) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let (server, link) = (server.clone(), link.clone());
            async move {
                let state = *link.0.lock().unwrap();
                match state {
                    State::Hangs => std::future::pending().await,
                    State::Refuses => return Err(BoxError::from("connection refused")),
                    State::Works | State::LosesAnswers | State::Delays(_) => {}
                }
                let method = request.method().clone();
                let body = request.into_body().collect_bytes().await?;
                let (code, answer) = server.answer(&method, &body);
                match state {
                    State::LosesAnswers => std::future::pending().await,
                    State::Delays(delay) => tokio::time::sleep(delay).await,
                    _ => {}
                }
                Ok(Response::builder().status(code).body(Body::from(answer)).unwrap())
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, method: &Method, body: &[u8]) -> (u16, Vec<u8>) {
        let mut state = self.lease.lock().unwrap();
        let (stored, revision) = &mut *state;
        let refuse = |code: u16| {
            let reason = if code == 404 { "NotFound" } else { "Conflict" };
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason});
            (code, status.to_string().into_bytes())
        };
        if *method == Method::GET {
            return match stored {
                Some(lease) => (200, serde_json::to_vec(lease).unwrap()),
                None => refuse(404),
            };
        }
        let mut new: Lease = serde_json::from_slice(body).unwrap();
        match (method, &*stored) {
            (&Method::POST, Some(_)) => return refuse(409),
            (&Method::PUT, None) => return refuse(404),
            (&Method::PUT, Some(old)) if old.metadata.resource_version != new.metadata.resource_version => {
                return refuse(409);
            }
            _ => {}
        }
        *revision += 1;
        new.metadata.resource_version = Some(revision.to_string());
        *stored = Some(new.clone());
        (200, serde_json::to_vec(&new).unwrap())
    }
}
