//! What the daemon on each node does: downloads images, restarts containers, and reports what runs.
//!
//! In reading order: [`cri`] is the runtime, [`images`] the downloads, [`kill`] and [`http`] how one container is
//! stopped, [`recreate`] the requests to do so, [`meta`] the report on each pod. [`metrics`] and [`health`] are what
//! others see of the daemon; [`run`] puts everything together.

pub mod cri;
pub mod health;
pub mod http;
pub mod images;
pub mod kill;
pub mod meta;
pub mod metrics;
pub mod recreate;

mod loops;
mod start;

pub use start::{Error, Settings, run};

#[cfg(test)]
pub(crate) mod tests {
    use axum::http::{Request, Response};
    use kube::client::Body;
    use tower::service_fn;

    use crate::runtime::{client, clock::Clock, metrics::Metrics, throttle::Throttle};

    /// A client whose server refuses everything.
    pub(crate) fn no_server(clock: &Clock) -> kube::Client {
        let options = client::Options {
            user_agent: "kruise-test/1".into(),
            metrics: Metrics::default(),
            throttle: Throttle::default(),
            clock: clock.clone(),
        };
        let refuse = |_: Request<Body>| async { Response::builder().status(503).body(Body::empty()) };
        client::over(service_fn(refuse), &options)
    }
}
