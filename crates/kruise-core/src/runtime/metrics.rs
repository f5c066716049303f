//! What the process tells Prometheus. No object names in labels: their number is without bound.

use std::{sync::Arc, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

/// Every metric of the runtime. Clones count into the same registry.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    reconciles: Family<Reconcile, Counter>,
    reconcile_errors: Family<ReconcileError, Counter>,
    reconcile_seconds: Family<Controller, Histogram>,
    queue_depth: Family<Controller, Gauge>,
    api_requests: Requests,
    events_dropped: Counter,
    overlay_entries: Family<Cache, Gauge>,
    watch_failures: Family<Cache, Counter>,
    leader: Gauge,
}

/// Requests to one API server, by method and answer.
#[derive(Debug, Clone, Default)]
pub struct Requests(Family<ApiRequest, Counter>);

impl Requests {
    /// Shows them under a name of their own.
    pub fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.0.clone());
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Controller {
    controller: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reconcile {
    controller: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReconcileError {
    controller: &'static str,
    error: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ApiRequest {
    method: String,
    code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cache {
    cache: &'static str,
}

impl Metrics {
    /// A registry with every metric of the runtime; `more` adds what the binary counts itself.
    pub fn new(more: impl FnOnce(&mut Registry)) -> Self {
        // A reconcile takes from a millisecond (nothing to do) to minutes (a large scale-out on a slow server).
        let seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 4.0, 10));
        let mut it = Registry::default();
        let reconciles = Family::default();
        it.register("controller_reconciles", "Reconciles, by how they ended", reconciles.clone());
        let reconcile_errors = Family::default();
        it.register("controller_reconcile_errors", "Failed reconciles, by cause", reconcile_errors.clone());
        let reconcile_seconds = Family::new_with_constructor(seconds);
        it.register("controller_reconcile_seconds", "How long a reconcile takes", reconcile_seconds.clone());
        let queue_depth = Family::default();
        it.register("controller_queue_depth", "Objects that wait for a reconcile", queue_depth.clone());
        let api_requests = Requests::default();
        api_requests.register(&mut it, "rest_client_requests", "Requests to the API server");
        let events_dropped = Counter::default();
        it.register("events_dropped", "Events that were not written", events_dropped.clone());
        let overlay_entries = Family::default();
        it.register("cache_own_writes", "Own writes the watch has not shown yet", overlay_entries.clone());
        let watch_failures = Family::default();
        it.register("cache_watch_failures", "Watches that broke", watch_failures.clone());
        let leader = Gauge::default();
        it.register("leader", "1 while this process holds the lease", leader.clone());
        more(&mut it);
        Self {
            registry: Arc::new(it),
            reconciles,
            reconcile_errors,
            reconcile_seconds,
            queue_depth,
            api_requests,
            events_dropped,
            overlay_entries,
            watch_failures,
            leader,
        }
    }

    /// The same metrics for clients of another API server, whose requests are counted apart.
    pub fn with_requests(&self, apart: &Requests) -> Self {
        Self { api_requests: apart.clone(), ..self.clone() }
    }

    /// Counts one reconcile that ended well.
    pub fn reconciled(&self, controller: &'static str, took: Duration) {
        self.reconciles.get_or_create(&Reconcile { controller, result: "success" }).inc();
        self.reconcile_seconds.get_or_create(&Controller { controller }).observe(took.as_secs_f64());
    }

    /// Counts one reconcile that failed; `error` is one of a handful of fixed words.
    pub fn reconcile_failed(&self, controller: &'static str, error: &'static str, took: Duration) {
        self.reconciles.get_or_create(&Reconcile { controller, result: "error" }).inc();
        self.reconcile_errors.get_or_create(&ReconcileError { controller, error }).inc();
        self.reconcile_seconds.get_or_create(&Controller { controller }).observe(took.as_secs_f64());
    }

    /// Sets how many objects wait.
    pub fn queue_depth(&self, controller: &'static str, depth: usize) {
        self.queue_depth.get_or_create(&Controller { controller }).set(to_gauge(depth));
    }

    /// Counts one request to the API server; `code` is the HTTP status or a fixed word.
    pub fn api_request(&self, method: &str, code: &str) {
        self.api_requests
            .0
            .get_or_create(&ApiRequest { method: method.to_owned(), code: code.to_owned() })
            .inc();
    }

    /// Counts one event that was given up.
    pub fn event_dropped(&self) {
        self.events_dropped.inc();
    }

    /// How many events were given up so far.
    pub fn events_dropped(&self) -> u64 {
        self.events_dropped.get()
    }

    /// Sets how many own writes `cache` still carries.
    pub fn own_writes(&self, cache: &'static str, entries: usize) {
        self.overlay_entries.get_or_create(&Cache { cache }).set(to_gauge(entries));
    }

    /// Counts one broken watch of `cache`.
    pub fn watch_failed(&self, cache: &'static str) {
        self.watch_failures.get_or_create(&Cache { cache }).inc();
    }

    /// Says whether this process leads.
    pub fn leading(&self, yes: bool) {
        self.leader.set(i64::from(yes));
    }

    /// The text that `/metrics` serves.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail, and the metrics above encode without errors of their own.
        encode(&mut text, &self.registry).expect("a String takes everything");
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(|_| ())
    }
}

fn to_gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_counted_shows_up_under_its_name() {
        let own: Counter = Counter::default();
        let apart = Requests::default();
        let metrics = Metrics::new(|it| {
            it.register("own", "Of the binary", own.clone());
            apart.register(it, "apart", "To another server");
        });
        metrics.reconciled("cloneset", Duration::from_millis(20));
        metrics.reconcile_failed("cloneset", "timeout", Duration::from_secs(10));
        metrics.queue_depth("cloneset", 3);
        metrics.api_request("POST", "201");
        metrics.with_requests(&apart).api_request("PATCH", "200");
        metrics.event_dropped();
        metrics.own_writes("pods", 7);
        metrics.watch_failed("pods");
        metrics.leading(true);
        own.inc();

        let text = metrics.text();
        for line in [
            "controller_reconciles_total{controller=\"cloneset\",result=\"success\"} 1",
            "controller_reconciles_total{controller=\"cloneset\",result=\"error\"} 1",
            "controller_reconcile_errors_total{controller=\"cloneset\",error=\"timeout\"} 1",
            "controller_reconcile_seconds_count{controller=\"cloneset\"} 2",
            "controller_queue_depth{controller=\"cloneset\"} 3",
            "rest_client_requests_total{method=\"POST\",code=\"201\"} 1",
            "apart_total{method=\"PATCH\",code=\"200\"} 1",
            "events_dropped_total 1",
            "cache_own_writes{cache=\"pods\"} 7",
            "cache_watch_failures_total{cache=\"pods\"} 1",
            "leader 1",
            "own_total 1",
        ] {
            assert!(text.lines().any(|it| it == line), "no line {line:?} in\n{text}");
        }
        assert!(!text.contains("rest_client_requests_total{method=\"PATCH\""), "counted apart\n{text}");
    }
}
