//! The downloads under way, each a task of its own.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

use super::{
    Context,
    plan::{Job, TagKey},
    pull,
    status::phases,
};
use crate::{
    api::node_image::{ImageTagStatus, events},
    image::{Reference, join},
    runtime::events::{Severity, about},
};

/// Every download that is wanted and not yet reported as finished by the API server.
pub(super) struct Workers {
    context: Arc<Context>,
    tasks: TaskTracker,
    token: CancellationToken,
    all: Mutex<BTreeMap<TagKey, Worker>>,
}

struct Worker {
    version: i64,
    report: ImageTagStatus,
    stop: CancellationToken,
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("count", &self.all().len()).finish_non_exhaustive()
    }
}

impl Workers {
    pub(super) fn new(context: Arc<Context>, tasks: TaskTracker, token: CancellationToken) -> Self {
        Self { context, tasks, token, all: Mutex::default() }
    }

    /// Which version of each tag a worker is busy with, or done with and not yet seen to be.
    pub(super) fn versions(&self) -> BTreeMap<TagKey, i64> {
        self.all().iter().map(|(key, it)| (key.clone(), it.version)).collect()
    }

    /// What each worker reports.
    pub(super) fn reports(&self) -> BTreeMap<TagKey, ImageTagStatus> {
        self.all().iter().map(|(key, it)| (key.clone(), it.report.clone())).collect()
    }

    /// Gives a download up. It reports nothing any more.
    pub(super) fn stop(&self, key: &TagKey) {
        if let Some(worker) = self.all().remove(key) {
            worker.stop.cancel();
        }
        self.count();
    }

    /// Gives every download up.
    pub(super) fn stop_all(&self) {
        for worker in std::mem::take(&mut *self.all()).into_values() {
            worker.stop.cancel();
        }
        self.count();
    }

    /// Begins a download, or queues it where only so many may run.
    pub(super) fn start(self: &Arc<Self>, job: Job) {
        let stop = self.token.child_token();
        let worker = Worker { version: job.version, report: pull::waiting(&job), stop: stop.clone() };
        self.all().insert(job.key.clone(), worker);
        self.count();
        let workers = self.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled(workers.work(&job)).await;
        });
    }

    async fn work(&self, job: &Job) {
        let Context { images, secrets, docker_files, plugins, slots, clock, metrics, .. } = &*self.context;
        // Waiting ends with the worker: nothing that was given up in the queue is ever begun.
        let _slot = match slots {
            Some(slots) => slots.acquire().await.ok(),
            None => None,
        };
        let begun = pull::pulling(job, clock.now());
        self.report(job, begun.clone());
        let start = clock.instant();
        let keyring = secrets.keyring(&job.secrets).await;
        let mut credentials = Vec::new();
        if let Ok(reference) = Reference::parse(&join(&job.key.image, &job.key.tag)) {
            credentials = keyring.for_image(&reference);
            credentials.extend(docker_files.keyring().for_image(&reference));
            credentials.extend(plugins.credentials(&reference).await);
        }
        let end = pull::run(job, begun, &credentials, &**images, clock).await;
        let (took, worked) = (clock.since(start), end.phase == phases::SUCCEEDED);
        metrics.pulled(worked, took);
        if !worked {
            secrets.forget(&job.secrets);
        }
        if self.report(job, end.clone()) {
            self.tell(job, &end, took);
        }
    }

    /// Takes a report in, unless its worker was stopped or replaced meanwhile.
    fn report(&self, job: &Job, report: ImageTagStatus) -> bool {
        let taken = {
            let mut all = self.all();
            match all.get_mut(&job.key).filter(|it| it.version == job.version && !it.stop.is_cancelled()) {
                Some(worker) => {
                    worker.report = report;
                    true
                }
                None => false,
            }
        };
        if taken {
            self.count();
            self.context.triggers.now(self.context.node.clone());
        }
        taken
    }

    fn tell(&self, job: &Job, end: &ImageTagStatus, took: Duration) {
        let Context { cache, node, events: recorder, .. } = &*self.context;
        let TagKey { image, tag } = &job.key;
        let node_image = cache.get(node).map(|it| about(&*it));
        if end.phase == phases::SUCCEEDED {
            info!(image, tag, ?took, "image is there");
            // The spelling is upstream's; people may search for it.
            let message = format!("Image {image}:{tag}, ecalpsedTime {took:?}");
            if let Some(node_image) = node_image {
                recorder.record(node_image, Severity::Normal, events::PULL_IMAGE_SUCCEED, message);
            }
            return;
        }
        warn!(image, tag, ?took, message = end.message, "image could not be downloaded");
        let message = format!("Image {image}:{tag} {}", end.message);
        for owner in &job.owners {
            // A job hears it from many nodes.
            let message = format!("{message} (node {node})");
            recorder.record(owner.clone(), Severity::Warning, events::PULL_IMAGE_FAILED, message);
        }
        if let Some(node_image) = node_image {
            recorder.record(node_image, Severity::Warning, events::PULL_IMAGE_FAILED, message);
        }
    }

    fn count(&self) {
        let (mut waiting, mut pulling) = (0, 0);
        for worker in self.all().values() {
            match worker.report.phase.as_str() {
                phases::WAITING => waiting += 1,
                phases::PULLING => pulling += 1,
                _ => {}
            }
        }
        self.context.metrics.workers(waiting, pulling);
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<TagKey, Worker>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
