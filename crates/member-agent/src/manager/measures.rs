//! What the manager counts besides the runtime: admission and its certificate.

use kruise_core::runtime::{
    metrics::{Metrics, Requests},
    webhook,
};

/// Every metric of the process.
#[derive(Debug)]
pub(super) struct Measures {
    pub(super) metrics: Metrics,
    pub(super) webhooks: webhook::Measures,
    /// The same metrics for the clients of the hub: what an agent asks it for is to stay small (PROTO-1).
    pub(super) of_hub: Metrics,
}

impl Measures {
    pub(super) fn new() -> Self {
        let webhooks = webhook::Measures::default();
        let requests = Requests::default();
        let metrics = Metrics::new(|it| {
            webhooks.register(it);
            requests.register(it, "kruise_fleet_agent_requests", "Requests to the hub's API server");
        });
        Self { of_hub: metrics.with_requests(&requests), metrics, webhooks }
    }
}
