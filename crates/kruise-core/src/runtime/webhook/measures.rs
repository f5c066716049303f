//! What is counted of admission and its certificate.

use std::sync::Arc;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use super::Event;

/// The metrics of a webhook server. Clones count into the same.
#[derive(Debug, Clone)]
pub struct Measures {
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

impl Default for Measures {
    fn default() -> Self {
        // A review takes from a fraction of a millisecond to the ten seconds that the API server waits.
        let seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(0.0005, 4.0, 8));
        Self {
            answers: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            certificate_ends: Gauge::default(),
            rounds: Family::default(),
        }
    }
}

impl Measures {
    /// Makes them known.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("webhook_answers", "Reviews and conversions, by outcome", self.answers.clone());
        registry.register("webhook_answer_seconds", "How long an answer takes", self.seconds.clone());
        registry.register(
            "webhook_certificate_end",
            "When the serving certificate ends, in seconds since 1970",
            self.certificate_ends.clone(),
        );
        registry.register("webhook_upkeep", "Rounds of webhook upkeep, by result", self.rounds.clone());
    }

    /// Counts what the webhook server does.
    pub fn observer(&self) -> impl Fn(&Event<'_>) + Send + Sync + 'static {
        let it = self.clone();
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
    use crate::runtime::metrics::Metrics;

    #[test]
    fn what_the_webhook_server_does_is_counted() {
        let measures = Measures::default();
        let metrics = Metrics::new(|it| measures.register(it));
        let observe = measures.observer();
        let elapsed = Duration::from_millis(1);
        observe(&Event::Answered { path: "/mutate-pod", outcome: "patched", elapsed });
        observe(&Event::Adopted { expiry: "2030-01-01T00:00:00Z".parse().ok() });
        observe(&Event::Synced);
        observe(&Event::SyncFailed { label: "forbidden" });
        let text = metrics.text();
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
