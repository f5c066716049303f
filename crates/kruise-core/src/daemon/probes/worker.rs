//! The workers: one task for each probe.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::Probe;
use tokio::{sync::watch, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;

use super::{
    Context,
    memory::{self, Memory, Step},
    plan::{Busy, ProbeKey, has_same_handler},
    prober,
    results::{Outcome, Results},
};
use crate::{
    api::node_pod_probe::ProbeState,
    daemon::cri::{Filter, newest},
    runtime::clock::later,
};

/// Every probe that is wanted, and what came of each.
pub(super) struct Workers {
    context: Arc<Context>,
    tasks: TaskTracker,
    token: CancellationToken,
    all: Mutex<BTreeMap<Arc<ProbeKey>, Handle>>,
    results: Mutex<Results>,
}

struct Handle {
    probe: watch::Sender<Arc<Probe>>,
    stop: CancellationToken,
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("count", &self.all().len()).finish_non_exhaustive()
    }
}

impl Workers {
    pub(super) fn new(context: Arc<Context>, tasks: TaskTracker, token: CancellationToken) -> Self {
        Self { context, tasks, token, all: Mutex::default(), results: Mutex::default() }
    }

    /// What each worker probes.
    pub(super) fn busy(&self) -> Busy {
        self.all().iter().map(|(key, it)| (key.clone(), it.probe.borrow().clone())).collect()
    }

    /// What is known.
    pub(super) fn known(&self) -> Vec<Outcome> {
        self.results().all()
    }

    /// Stops a worker. It records nothing any more, and what it has recorded is forgotten.
    pub(super) fn stop(&self, key: &Arc<ProbeKey>) {
        if let Some(it) = self.all().remove(key) {
            it.stop.cancel();
        }
        // After it was told: what it recorded until then is among what goes.
        self.results().forget(key);
    }

    /// Stops every worker.
    pub(super) fn stop_all(&self) {
        let keys: Vec<_> = self.all().keys().cloned().collect();
        keys.iter().for_each(|it| self.stop(it));
    }

    /// Gives a worker another probe.
    pub(super) fn change(&self, key: &Arc<ProbeKey>, probe: Arc<Probe>) {
        if let Some(it) = self.all().get(key) {
            it.probe.send_replace(probe);
        }
    }

    /// Begins to probe.
    pub(super) fn start(self: &Arc<Self>, of: Arc<ProbeKey>, probe: Arc<Probe>) {
        let stop = self.token.child_token();
        let (send, receive) = watch::channel(probe);
        self.all().insert(of.clone(), Handle { probe: send, stop: stop.clone() });
        let worker = Worker { shared: self.clone(), of, stop: stop.clone() };
        self.tasks.spawn(async move {
            stop.run_until_cancelled(worker.run(receive)).await;
        });
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Arc<ProbeKey>, Handle>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn results(&self) -> MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Worker {
    shared: Arc<Workers>,
    of: Arc<ProbeKey>,
    stop: CancellationToken,
}

impl Worker {
    async fn run(self, mut probe: watch::Receiver<Arc<Probe>>) {
        let Context { clock, .. } = &*self.shared.context;
        let mut memory = Memory::default();
        let mut begun = clock.instant();
        let mut due = later(begun, self.first_wait(memory::period(&probe.borrow())));
        loop {
            let current = probe.borrow_and_update().clone();
            // Boxed, so that a worker that waits, which is most of its life, is a small one.
            let round = async {
                tokio::time::sleep_until(due).await;
                Box::pin(self.look(&mut memory, &current)).await;
            };
            tokio::select! {
                biased;
                // An attempt of the old handler under way is given up: it would be taken for one of the new.
                changed = probe.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let new = probe.borrow().clone();
                    if !has_same_handler(&current, &new) && let Some(container) = memory.start_over() {
                        self.record(container, ProbeState::Unknown, "");
                    }
                    due = due.min(later(begun, memory::period(&new)));
                }
                () = round => (begun, due) = next(due, memory::period(&current), clock.instant()),
            }
        }
    }

    /// A daemon that has just been started has many workers to begin: they do not all begin at once.
    fn first_wait(&self, period: Duration) -> Duration {
        let Context { clock, seed, started, .. } = &*self.shared.context;
        if clock.since(*started) >= period {
            return Duration::ZERO;
        }
        let most = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(seed.draw() % most.max(1))
    }

    /// Looks at the container, and probes it if it is time.
    async fn look(&self, memory: &mut Memory, probe: &Probe) {
        let Context { runtime, clock, metrics, .. } = &*self.shared.context;
        let ProbeKey { uid, container, .. } = &*self.of;
        let filter = Filter::Named { pod: uid.clone(), container: container.clone() };
        let found = match runtime.containers(filter).await {
            Ok(found) => found,
            Err(error) => return self.could_not(memory, &error),
        };
        let Some(found) = newest(&found, container) else { return };
        let look = memory.look(found, probe, clock.now());
        if look.is_new {
            self.shared.results().forget(&self.of);
            self.record(&found.id, ProbeState::Unknown, "");
        }
        match look.step {
            Step::Wait => return,
            Step::Fail(message) => return self.record(&found.id, ProbeState::Failed, &message),
            Step::Probe => {}
        }
        let answer = prober::probe(&**runtime, &self.of, found, probe).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.could_not(memory, &error),
        };
        metrics.probed(Some(answer.state == ProbeState::Succeeded));
        if memory.is_settled(answer.state, probe) {
            self.record(&found.id, answer.state, &answer.message);
        }
    }

    /// There is no result: that is counted, and the log says so the first time in a row.
    fn could_not(&self, memory: &mut Memory, error: &(dyn std::error::Error + 'static)) {
        let ProbeKey { namespace, pod, container, probe: name, .. } = &*self.of;
        self.shared.context.metrics.probed(None);
        if memory.is_first_error() {
            warn!(error, namespace, pod, container, probe = name, "a probe cannot be carried out");
        }
    }

    /// Takes a result in, unless the worker was stopped meanwhile.
    fn record(&self, container: &str, state: ProbeState, message: &str) {
        let Context { clock, status, node, .. } = &*self.shared.context;
        let is_news = {
            let mut results = self.shared.results();
            !self.stop.is_cancelled() && results.record(container, &self.of, (state, message), clock.now())
        };
        if is_news {
            status.now(node.clone());
        }
    }
}

/// When the round that was due at `due` began, and when the next one is: at once if this one took longer than a period.
fn next(due: Instant, period: Duration, now: Instant) -> (Instant, Instant) {
    (due, later(due, period).max(now))
}
