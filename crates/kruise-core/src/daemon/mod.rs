//! What the daemon on each node does: downloads images, restarts containers, probes them, and reports what runs.
//!
//! In reading order: [`cri`] is the runtime, [`images`] the downloads, [`kill`] and [`http`] how one container is
//! stopped, [`recreate`] the requests to do so, [`meta`] the report on each pod, [`probes`] what users ask to be probed.
//! [`metrics`] and [`health`] are what others see of the daemon; [`run`] puts everything together.

pub mod cri;
pub mod health;
pub mod http;
pub mod images;
pub mod kill;
pub mod meta;
pub mod metrics;
pub mod probes;
pub mod recreate;

mod loops;
mod parts;
mod start;

pub use parts::{Parts, Runtimes};
pub use start::{Error, Settings, run};

use crate::{
    api::{APPS_GROUP, image_pull_job::keys::SECRETS_NAMESPACE},
    runtime::{
        access::{self, Right},
        events,
    },
};

/// What a daemon does at the API server. It runs on every node, so this is the worst that one lost node can do.
pub fn needs() -> Vec<Right> {
    const READ: &[&str] = &["get", "list", "watch"];
    let mut rights = vec![
        access::cluster(APPS_GROUP, "nodeimages", READ),
        access::cluster(APPS_GROUP, "nodeimages/status", &["patch"]),
        access::cluster(APPS_GROUP, "containerrecreaterequests", READ),
        access::cluster(APPS_GROUP, "containerrecreaterequests/status", &["patch"]),
        access::cluster(APPS_GROUP, "nodepodprobes", READ),
        access::cluster(APPS_GROUP, "nodepodprobes/status", &["patch"]),
        access::cluster("", "pods", READ),
        access::cluster("", "pods/status", &["patch"]),
        access::in_namespace(SECRETS_NAMESPACE, "", "secrets", &["get"]),
    ];
    rights.extend(events::needs());
    rights
}

#[cfg(test)]
pub(crate) mod tests {
    use axum::http::{Request, Response};
    use kube::client::Body;
    use tower::service_fn;

    use super::*;
    use crate::runtime::{access::Scope, client, clock::Clock, metrics::Metrics, throttle::Throttle};

    /// What OpenKruise grants its daemon, and no more than that may be asked for.
    const GRANTED: [(&str, &[&str]); 10] = [
        ("nodeimages", &["get", "list", "watch", "patch", "update"]),
        ("nodeimages/status", &["get", "patch", "update"]),
        ("containerrecreaterequests", &["get", "list", "watch"]),
        ("containerrecreaterequests/status", &["get", "patch", "update"]),
        ("nodepodprobes", &["get", "list", "watch"]),
        ("nodepodprobes/status", &["get", "patch", "update"]),
        ("pods", &["get", "list", "watch"]),
        ("pods/status", &["get", "patch", "update"]),
        ("events", &["create", "patch", "update"]),
        ("secrets", &["get", "list", "watch"]),
    ];

    #[test]
    fn a_daemon_asks_for_no_more_than_that_of_openkruise() {
        for it in needs() {
            let granted = GRANTED.iter().find(|known| known.0 == it.resource).map(|known| known.1);
            let is_granted = |verb: &&str| granted.unwrap_or_default().contains(verb);
            assert!(it.verbs.iter().all(is_granted), "{it:?}");
            let is_secret = it.resource == "secrets";
            assert_eq!(is_secret, it.scope == Scope::Namespace(SECRETS_NAMESPACE), "{it:?}");
        }
    }

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
