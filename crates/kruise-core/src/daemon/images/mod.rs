//! The image puller: brings the node's images to where its NodeImage wants them.
//!
//! [`plan`] decides what to begin and to give up, [`pull`] is one download, [`status`] what is reported and how often,
//! [`credentials`], [`secrets`], [`docker_files`] and [`plugins`] how to log in. The shell around them is [`Puller`].

pub mod credentials;
pub mod docker_files;
pub mod plan;
pub mod plugins;
pub mod pull;
pub mod secrets;
pub mod status;

mod workers;

#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kube::api::{Patch, PatchParams};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    docker_files::DockerFiles, plugins::Plugins, secrets::Secrets, status::WriteLimit, workers::Workers,
};
use super::{cri::Images, metrics::DaemonMetrics};
use crate::{
    api::node_image::{NodeImageStatus, v1beta1::NodeImage},
    runtime::{
        cache::{Cache, Change},
        client::Error,
        clock::{Clock, Seed},
        controller::{Next, Reconcile, Triggers},
        events::Recorder,
        key::{Key, uid, version},
        writes::{On, Writer},
    },
};

/// While something is under way the object is looked at this often, whatever else happens: the controller may have
/// given a download up.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// At rest the object is looked at once in twenty to thirty minutes.
const AT_REST_MINUTES: (u64, u64) = (20, 30);

/// What the puller works with.
pub struct Context {
    /// The node, which is also the name of its NodeImage.
    pub node: Key,
    /// The NodeImage.
    pub cache: Cache<NodeImage>,
    /// Writes its status.
    pub writer: Writer<NodeImage>,
    /// The runtime.
    pub images: Arc<dyn Images>,
    /// Credentials of jobs.
    pub secrets: Secrets,
    /// Credentials of the node, from files.
    pub docker_files: DockerFiles,
    /// Credentials of the node, from programs.
    pub plugins: Plugins,
    /// How many downloads may run at once; any number if absent.
    pub slots: Option<Arc<Semaphore>>,
    /// Wakes the puller up.
    pub triggers: Triggers,
    /// Tells people.
    pub events: Recorder,
    /// Time.
    pub clock: Clock,
    /// Chance, to spread load.
    pub seed: Seed,
    /// Counts downloads.
    pub metrics: DaemonMetrics,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("images::Context").field("node", &self.node).finish_non_exhaustive()
    }
}

/// Keeps one NodeImage up to date.
#[derive(Debug)]
pub struct Puller {
    context: Arc<Context>,
    workers: Arc<Workers>,
    limit: Mutex<WriteLimit>,
}

impl Puller {
    /// A puller whose downloads are tasks of `tasks` and end when `token` is cancelled.
    pub fn new(context: Context, tasks: TaskTracker, token: CancellationToken) -> Self {
        let context = Arc::new(context);
        let limit = Mutex::new(WriteLimit::new(context.clock.instant()));
        Self { workers: Arc::new(Workers::new(context.clone(), tasks, token)), context, limit }
    }

    async fn report(&self, node_image: &NodeImage, status: NodeImageStatus) -> Result<Next, Error> {
        let again = match status::is_in_progress(&status) {
            true => LOOK_AGAIN,
            false => self.at_rest(),
        };
        let reported = node_image.status.as_ref();
        if reported == Some(&status) {
            return Ok(Next::After(again));
        }
        let allowed = {
            let mut limit = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
            limit.take(self.context.clock.instant())
        };
        if let Err(wait) = allowed {
            return Ok(Next::After(wait));
        }
        let body = status::patch(reported, &status, version(node_image));
        let on = On { call: "write status of NodeImage", owner: uid(node_image) };
        let (patch, params) = (Patch::Merge(body), PatchParams::default());
        self.context.writer.patch(on, node_image, Some("status"), &patch, &params).await?;
        Ok(Next::After(again))
    }

    fn at_rest(&self) -> Duration {
        let (least, most) = AT_REST_MINUTES;
        Duration::from_secs(60 * least + self.context.seed.draw() % (60 * (most - least)))
    }
}

impl Reconcile for Puller {
    type Error = Error;

    async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let Some(node_image) = self.context.cache.get(&key) else {
            self.workers.stop_all();
            return Ok(Next::Change);
        };
        if node_image.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Change);
        }
        let reported = node_image.status.as_ref();
        let plan = plan::plan(&node_image.spec, reported, &self.workers.versions());
        for key in &plan.stop {
            self.workers.stop(key);
        }
        for job in plan.start {
            self.workers.start(job);
        }
        let status = status::build(&node_image.spec, reported, &self.workers.reports());
        self.report(&node_image, status).await
    }

    fn exists(&self, key: &Key) -> bool {
        self.context.cache.get(key).is_some()
    }
}

/// Whether a change is worth a look: our own status reports are not.
pub fn is_worth_a_look(change: &Change<NodeImage>) -> bool {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => before.spec != after.spec || uid(&**before) != uid(&**after),
        _ => true,
    }
}
