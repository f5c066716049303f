//! What the manager counts besides the runtime: admission and its certificate.

use kruise_core::runtime::{metrics::Metrics, webhook};

/// Every metric of the process.
#[derive(Debug)]
pub(super) struct Measures {
    pub(super) metrics: Metrics,
    pub(super) webhooks: webhook::Measures,
}

impl Measures {
    pub(super) fn new() -> Self {
        let webhooks = webhook::Measures::default();
        let metrics = Metrics::new(|it| webhooks.register(it));
        Self { metrics, webhooks }
    }
}
