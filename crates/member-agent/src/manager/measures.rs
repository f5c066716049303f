//! What the manager counts besides the runtime: admission and its certificate.

use std::sync::Arc;

use kruise_core::runtime::{metrics::Metrics, webhook::Event};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
};

/// Every metric of the process.
#[derive(Debug)]
pub(super) struct Measures {
    pub(super) metrics: Metrics,
    webhooks: Webhooks,
}

#[derive(Debug, Clone)]
struct Webhooks {
    answers: Family<Answer, Counter>,
    seconds: Family<Path, Histogram>,
    certificate_ends: Gauge,
    rounds: Family<Round, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    path: Arc<str>,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Path {
    path: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Round {
    result: &'static str,
}

impl Measures {
    pub(super) fn new() -> Self {
        // A review takes from a fraction of a millisecond to the ten seconds that the API server waits.
        let seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(0.0005, 4.0, 8));
        let webhooks = Webhooks {
            answers: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            certificate_ends: Gauge::default(),
            rounds: Family::default(),
        };
        let metrics = Metrics::new(|it| {
            it.register("webhook_answers", "Reviews and conversions, by outcome", webhooks.answers.clone());
            it.register("webhook_answer_seconds", "How long an answer takes", webhooks.seconds.clone());
            it.register(
                "webhook_certificate_end",
                "When the serving certificate ends, in seconds since 1970",
                webhooks.certificate_ends.clone(),
            );
            it.register("webhook_upkeep", "Rounds of webhook upkeep, by result", webhooks.rounds.clone());
        });
        Self { metrics, webhooks }
    }

    /// Counts what the webhook server does.
    pub(super) fn observer(&self) -> impl Fn(&Event<'_>) + Send + Sync + 'static {
        let it = self.webhooks.clone();
        move |event| match *event {
            // Paths are those we serve, so their number is bounded.
            Event::Answered { path, outcome, elapsed } => {
                it.answers.get_or_create(&Answer { path: path.into(), outcome }).inc();
                it.seconds.get_or_create(&Path { path: path.into() }).observe(elapsed.as_secs_f64());
            }
            Event::Adopted { expiry } => {
                it.certificate_ends.set(expiry.map_or(0, jiff::Timestamp::as_second));
            }
            Event::Synced => drop(it.rounds.get_or_create(&Round { result: "success" }).inc()),
            Event::SyncFailed { label } => drop(it.rounds.get_or_create(&Round { result: label }).inc()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_the_webhook_server_does_is_counted() {
        let measures = Measures::new();
        let observe = measures.observer();
        let elapsed = Duration::from_millis(1);
        observe(&Event::Answered { path: "/mutate-pod", outcome: "patched", elapsed });
        observe(&Event::Adopted { expiry: "2030-01-01T00:00:00Z".parse().ok() });
        observe(&Event::Synced);
        observe(&Event::SyncFailed { label: "forbidden" });
        let text = measures.metrics.text();
        for line in [
            "webhook_answers_total{path=\"/mutate-pod\",outcome=\"patched\"} 1",
            "webhook_answer_seconds_count{path=\"/mutate-pod\"} 1",
            "webhook_certificate_end 1893456000",
            "webhook_upkeep_total{result=\"success\"} 1",
            "webhook_upkeep_total{result=\"forbidden\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "no line {line:?} in\n{text}");
        }
    }
}
