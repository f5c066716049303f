//! What the daemon counts besides what every process of ours counts.

use std::time::Duration;

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

/// The daemon's own metrics. Clones count into the same ones.
#[derive(Debug, Clone)]
pub struct DaemonMetrics {
    pulls: Family<Outcome, Counter>,
    pull_seconds: Histogram,
    workers: Family<Phase, Gauge>,
    kills: Family<Outcome, Counter>,
    probes: Family<Outcome, Counter>,
    calls: Family<Called, Counter>,
    call_seconds: Family<Call, Histogram, fn() -> Histogram>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Called {
    call: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    call: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Phase {
    phase: &'static str,
}

impl DaemonMetrics {
    /// Metrics that nobody serves yet; see [`DaemonMetrics::register`].
    pub fn new() -> Self {
        Self {
            pulls: Family::default(),
            // From an image that is there to one that takes an hour.
            pull_seconds: Histogram::new(exponential_buckets(0.05, 4.0, 9)),
            workers: Family::default(),
            kills: Family::default(),
            probes: Family::default(),
            calls: Family::default(),
            // From a question that is answered at once to a container that takes minutes to stop.
            call_seconds: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.001, 4.0, 10))
            }),
        }
    }

    /// Lets `registry` serve them.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("daemon_image_pulls", "Downloads, by how they ended", self.pulls.clone());
        registry.register(
            "daemon_image_pull_seconds",
            "How long a download takes",
            self.pull_seconds.clone(),
        );
        registry.register("daemon_image_workers", "Downloads that wait or run", self.workers.clone());
        registry.register("daemon_container_kills", "Containers stopped, by how it went", self.kills.clone());
        registry.register("daemon_probes", "Attempts to probe a container, by result", self.probes.clone());
        registry.register("daemon_runtime_calls", "Calls of the runtime, by result", self.calls.clone());
        registry.register(
            "daemon_runtime_call_seconds",
            "How long the runtime takes to answer",
            self.call_seconds.clone(),
        );
    }

    /// Counts one call of the runtime; `error` is a fixed word for why it failed.
    pub fn called(&self, call: &'static str, error: Option<&'static str>, took: Duration) {
        self.calls.get_or_create(&Called { call, result: error.unwrap_or(word(true)) }).inc();
        self.call_seconds.get_or_create(&Call { call }).observe(took.as_secs_f64());
    }

    /// Counts one download that ended.
    pub fn pulled(&self, worked: bool, took: Duration) {
        self.pulls.get_or_create(&Outcome { result: word(worked) }).inc();
        self.pull_seconds.observe(took.as_secs_f64());
    }

    /// Sets how many downloads wait and run.
    pub fn workers(&self, waiting: usize, pulling: usize) {
        for (phase, count) in [("waiting", waiting), ("pulling", pulling)] {
            self.workers.get_or_create(&Phase { phase }).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Counts one container that was stopped, or could not be.
    pub fn killed(&self, worked: bool) {
        self.kills.get_or_create(&Outcome { result: word(worked) }).inc();
    }

    /// Counts one attempt to probe: whether the probe succeeded, or nothing if it could not be carried out.
    pub fn probed(&self, succeeded: Option<bool>) {
        let result = match succeeded {
            Some(true) => "success",
            Some(false) => "failure",
            None => "error",
        };
        self.probes.get_or_create(&Outcome { result }).inc();
    }
}

impl Default for DaemonMetrics {
    fn default() -> Self {
        Self::new()
    }
}

fn word(worked: bool) -> &'static str {
    if worked { "success" } else { "error" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::metrics::Metrics;

    #[test]
    fn everything_counted_shows_up_under_its_name() {
        let own = DaemonMetrics::new();
        let metrics = Metrics::new(|it| own.register(it));
        own.pulled(false, Duration::from_secs(1));
        own.workers(2, 1);
        own.killed(true);
        own.probed(Some(false));
        own.probed(None);
        own.called("PullImage", Some("timeout"), Duration::from_secs(2));
        own.called("Version", None, Duration::from_secs(2));
        let text = metrics.text();
        for line in [
            "daemon_image_pulls_total{result=\"error\"} 1",
            "daemon_image_pull_seconds_count 1",
            "daemon_image_workers{phase=\"waiting\"} 2",
            "daemon_container_kills_total{result=\"success\"} 1",
            "daemon_probes_total{result=\"failure\"} 1",
            "daemon_probes_total{result=\"error\"} 1",
            "daemon_runtime_calls_total{call=\"PullImage\",result=\"timeout\"} 1",
            "daemon_runtime_calls_total{call=\"Version\",result=\"success\"} 1",
            "daemon_runtime_call_seconds_count{call=\"PullImage\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "no line {line:?} in\n{text}");
        }
    }
}
