//! Pod probes: does what the NodePodProbe of the node asks for, and reports what came of it.
//!
//! [`plan`] decides which probes run, [`memory`] what a look at a container means, [`results`] what is worth a report
//! and [`status`] how it looks; [`prober`] is one attempt. The shell around them are [`Syncer`] and [`Reporter`], with
//! one small task for each probe between them.

pub mod memory;
pub mod plan;
pub mod prober;
pub mod results;
pub mod status;

mod worker;

#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{status::Note, worker::Workers};
use super::{cri::Runtime, metrics::DaemonMetrics};
use crate::{
    api::node_pod_probe::v1alpha1::NodePodProbe,
    runtime::{
        cache::{Cache, Change},
        client::Error,
        clock::{Clock, Seed},
        controller::{Next, Reconcile, Triggers},
        events::{Recorder, Severity},
        key::{Key, uid, version},
        writes::{On, Writer},
    },
};

/// Between two reports at least this much time passes: results of many probes come at the same time.
const REST: Duration = Duration::from_secs(1);

/// What probing works with.
pub struct Context {
    /// The node, which is also the name of its NodePodProbe.
    pub node: Key,
    /// The NodePodProbe.
    pub cache: Cache<NodePodProbe>,
    /// Writes its status.
    pub writer: Writer<NodePodProbe>,
    /// The runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Wakes the reporter up.
    pub status: Triggers,
    /// Tells people.
    pub events: Recorder,
    /// Time.
    pub clock: Clock,
    /// When the daemon was started.
    pub started: Instant,
    /// Chance, to spread load.
    pub seed: Seed,
    /// Counts attempts.
    pub metrics: DaemonMetrics,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("probes::Context").field("node", &self.node).finish_non_exhaustive()
    }
}

/// Keeps a worker for each probe that the NodePodProbe asks for.
#[derive(Debug)]
pub struct Syncer {
    context: Arc<Context>,
    workers: Arc<Workers>,
}

/// Reports what the workers find.
#[derive(Debug)]
pub struct Reporter {
    context: Arc<Context>,
    workers: Arc<Workers>,
}

/// Both loops. Workers are tasks of `tasks` and end when `token` is cancelled.
pub fn loops(context: Context, tasks: TaskTracker, token: CancellationToken) -> (Syncer, Reporter) {
    let context = Arc::new(context);
    let workers = Arc::new(Workers::new(context.clone(), tasks, token));
    (Syncer { context: context.clone(), workers: workers.clone() }, Reporter { context, workers })
}

/// Whether a change is worth a look: our own status reports are not.
pub fn is_worth_a_look(change: &Change<NodePodProbe>) -> bool {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => before.spec != after.spec || uid(&**before) != uid(&**after),
        _ => true,
    }
}

impl Reconcile for Syncer {
    type Error = Error;

    async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let Some(wanted) = self.context.cache.get(&key) else {
            self.workers.stop_all();
            return Ok(Next::Change);
        };
        let plan = plan::plan(&wanted.spec, &self.workers.busy());
        for key in &plan.stop {
            self.workers.stop(key);
        }
        for (key, probe) in plan.change {
            self.workers.change(&key, probe);
        }
        for (key, probe) in plan.start {
            self.workers.start(key, probe);
        }
        // What left the spec leaves the status as well.
        self.context.status.now(key);
        Ok(Next::Change)
    }

    fn exists(&self, key: &Key) -> bool {
        self.context.cache.get(key).is_some()
    }
}

impl Reconcile for Reporter {
    type Error = Error;

    async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let Context { cache, writer, clock, events, .. } = &*self.context;
        let Some(object) = cache.get(&key) else { return Ok(Next::Change) };
        let previous = object.status.clone().unwrap_or_default();
        let status = status::build(&object.spec, &previous, &self.workers.known(), clock.now());
        if status == previous {
            return Ok(Next::Change);
        }
        let body = json!({
            "metadata": {"resourceVersion": version(&*object)},
            "status": {"podProbeStatuses": status.pod_probe_statuses},
        });
        let on = On { call: "write status of NodePodProbe", owner: uid(&*object) };
        let (patch, params) = (Patch::Merge(body), PatchParams::default());
        match writer.patch(on, &object, Some("status"), &patch, &params).await {
            Err(error) if error.code() == Some(404) => return Ok(Next::Change),
            written => drop(written?),
        }
        for Note { namespace, pod, uid, reason, message } in status::notes(&previous, &status) {
            events.record(reference(namespace, pod, uid), Severity::Normal, reason, message);
        }
        Ok(Next::Change)
    }

    fn exists(&self, key: &Key) -> bool {
        self.context.cache.get(key).is_some()
    }

    fn rest(&self, _: &Key) -> Duration {
        REST
    }
}

fn reference(namespace: &str, pod: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        namespace: Some(namespace.to_owned()),
        name: Some(pod.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}
