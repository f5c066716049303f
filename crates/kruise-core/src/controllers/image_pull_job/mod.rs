//! ImagePullJob: downloads one image to many nodes, a few at a time.
//!
//! [`select`] says which nodes, [`progress`] how far they are, [`assign`] what is written to the next ones, [`secrets`]
//! which copies of pull secrets the job needs, [`wake`] which changes matter. The node's daemon does the rest.

pub mod assign;
pub mod progress;
pub mod secrets;
pub mod select;
pub mod wake;

mod copies;

#[cfg(test)]
mod tests;

use std::{fmt, num::NonZeroUsize, sync::Arc, time::Duration};

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams},
    core::PartialObjectMeta,
};
use serde_json::{Value, json};

use self::{
    copies::{Copies, CopyError},
    progress::{Observed, Progress},
    wake::{NodeChange, is_open},
};
use super::node_image::images_patch;
use crate::{
    api::{
        APPS_GROUP,
        image_pull_job::{ImagePullJobStatus, keys, v1beta1::ImagePullJob},
        node_image::v1beta1::{NodeImage, ReferenceObject},
    },
    image::Malformed,
    runtime::{
        access::{self, Right},
        cache::{Cache, Feed, pod::PodLite},
        client,
        clock::{Clock, Seed},
        controller::{Controller, Next, Reconcile, ReconcileError, Triggers},
        key::{Key, uid, version},
        writes::{On, Writer},
    },
};

/// The controller's name in logs and metrics.
pub const NAME: &str = "imagepulljob";
/// How many jobs are seen to at once.
pub const WORKERS: NonZeroUsize = NonZeroUsize::new(3).expect("three is not zero");

/// A deadline is looked at no sooner than this.
const SOONEST: Duration = Duration::from_secs(1);

/// What it does at the API server. Pull secrets are read wherever jobs are, and written only where daemons read them;
/// a job names secrets of its own namespace alone.
pub fn needs() -> Vec<Right> {
    const READ: &[&str] = &["get", "list", "watch"];
    vec![
        access::cluster(APPS_GROUP, "imagepulljobs", &["get", "list", "watch", "patch", "delete"]),
        access::cluster(APPS_GROUP, "imagepulljobs/status", &["patch"]),
        access::cluster(APPS_GROUP, "nodeimages", &["get", "list", "watch", "patch"]),
        access::cluster("", "pods", READ),
        access::cluster("", "secrets", READ),
        access::cluster("", "namespaces", &["get"]).named([keys::SECRETS_NAMESPACE]),
        access::in_namespace(keys::SECRETS_NAMESPACE, "", "secrets", &["create", "update", "delete"]),
    ]
}

/// What the controller reads.
#[derive(Debug, Clone)]
pub struct Caches {
    /// Jobs.
    pub jobs: Cache<ImagePullJob>,
    /// NodeImages.
    pub node_images: Cache<NodeImage>,
    /// Pods, by which jobs may select nodes.
    pub pods: Cache<PodLite>,
    /// Names and annotations of secrets; their content is read only when it is copied.
    pub secrets: Cache<PartialObjectMeta<Secret>>,
}

/// How jobs are handled.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where daemons read pull secrets.
    pub secrets_namespace: String,
    /// Seconds that a finished tag of an ending job stays in the NodeImage beyond the job's own time.
    pub default_ttl: i32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { secrets_namespace: keys::SECRETS_NAMESPACE.to_owned(), default_ttl: assign::DEFAULT_TTL }
    }
}

/// Why a job could not be seen to; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not do its part.
    #[error("the API server did not do its part")]
    Api(#[from] client::Error),
    /// Its secrets could not be brought to the nodes.
    #[error("the job's pull secrets could not be copied")]
    Secrets(#[from] CopyError),
    /// Its image has no usable name.
    #[error("the job's image has no usable name")]
    Image(#[from] Malformed),
}

impl ReconcileError for Error {
    fn label(&self) -> &'static str {
        match self {
            Self::Api(error) | Self::Secrets(CopyError::Api(error)) => error.label(),
            Self::Secrets(CopyError::NoNamespace(_)) => "no_namespace",
            Self::Image(_) => "invalid",
        }
    }
}

/// The controller, which hears of changes to the caches from now on.
pub fn controller(
    client: Client,
    caches: &Caches,
    own: Settings,
    settings: crate::runtime::controller::Settings,
) -> Controller<impl Reconcile + use<>> {
    let triggers = Triggers::new(settings.clock.clone());
    listen(caches, &triggers);
    let Caches { jobs, node_images, pods, secrets } = caches.clone();
    let reconciler = Jobs {
        caches: caches.clone(),
        writer: Writer::new(client.clone(), jobs.clone()),
        node_writer: Writer::new(client.clone(), node_images.clone()),
        copies: Copies::new(client, secrets.clone(), own.secrets_namespace.clone()),
        own,
        clock: settings.clock.clone(),
        seed: Seed::from_system(),
    };
    let feeds: Vec<Arc<dyn Feed>> =
        vec![Arc::new(jobs), Arc::new(node_images), Arc::new(pods), Arc::new(secrets)];
    Controller::new(settings, triggers, feeds, reconciler)
}

fn listen(caches: &Caches, triggers: &Triggers) {
    triggers.follow_all(&caches.jobs);
    let (wake, jobs) = (triggers.clone(), caches.jobs.clone());
    caches.node_images.on_change(move |change| {
        let what = NodeChange::of(change);
        for job in jobs.all().iter().filter(|it| is_open(it) && what.wakes(it, change)) {
            wake.now(Key::of(&**job));
        }
    });
    let (wake, jobs) = (triggers.clone(), caches.jobs.clone());
    caches.pods.on_change(move |change| {
        for job in jobs.in_namespace(&change.key().namespace) {
            if is_open(&job) && wake::pod_wakes(&job, change) {
                wake.now(Key::of(&*job));
            }
        }
    });
    let (wake, jobs) = (triggers.clone(), caches.jobs.clone());
    caches.secrets.on_change(move |change| {
        let key = change.key();
        for job in jobs.in_namespace(&key.namespace) {
            if is_open(&job) && job.spec.template.pull_secrets.iter().any(|it| **it == *key.name) {
                wake.now(Key::of(&*job));
            }
        }
    });
}

struct Jobs {
    caches: Caches,
    writer: Writer<ImagePullJob>,
    node_writer: Writer<NodeImage>,
    copies: Copies,
    own: Settings,
    clock: Clock,
    seed: Seed,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Jobs").field(&self.caches).finish()
    }
}

impl Jobs {
    /// The NodeImages of the nodes that a job selects.
    fn nodes(&self, job: &ImagePullJob) -> Vec<Arc<NodeImage>> {
        let template = &job.spec.template;
        if template.pod_selector.is_some() {
            let pods = self.caches.pods.in_namespace(job.metadata.namespace.as_deref().unwrap_or_default());
            let names = select::nodes_of_pods(template, pods.iter().map(|it| &**it));
            return names.iter().filter_map(|it| self.caches.node_images.get(&Key::new("", it))).collect();
        }
        let is_selected = |it: &Arc<NodeImage>| {
            let labels = it.metadata.labels.clone().unwrap_or_default();
            select::selects_node(template, it.metadata.name.as_deref().unwrap_or_default(), &labels)
        };
        self.caches.node_images.all().into_iter().filter(is_selected).collect()
    }

    /// The job is over or on its way out: its copies are given back first.
    async fn finalize(&self, job: &ImagePullJob) -> Result<(), Error> {
        let finalizers = job.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|it| it == keys::FINALIZER) {
            return Ok(());
        }
        self.copies.release(job).await?;
        let others: Vec<_> = finalizers.into_iter().filter(|it| it != keys::FINALIZER).collect();
        self.set_finalizers(job, &others).await
    }

    async fn set_finalizers(&self, job: &ImagePullJob, list: &[String]) -> Result<(), Error> {
        let body = json!({"metadata": {"finalizers": list, "resourceVersion": version(job)}});
        self.patch(job, "set finalizers of ImagePullJob", None, body).await
    }

    async fn expire(&self, job: &ImagePullJob) -> Result<Next, Error> {
        let completion = job.status.as_ref().and_then(|it| it.completion_time.clone());
        let ttl = job.spec.template.completion_policy.ttl_seconds_after_finished;
        let (Some(ttl), Some(completion)) = (ttl, completion) else { return Ok(Next::Change) };
        let left = SignedDuration::from_secs(i64::from(ttl)) - self.clock.now().duration_since(completion.0);
        if left > SignedDuration::ZERO {
            return Ok(Next::After(Duration::try_from(left).unwrap_or_default()));
        }
        let on = On { call: "delete ImagePullJob", owner: uid(job) };
        self.writer.delete(on, job, DeleteParams::background()).await?;
        Ok(Next::Change)
    }

    /// Tells the next nodes: as many as may work at once, and every one that only lacks a secret.
    async fn tell(
        &self,
        job: &ImagePullJob,
        nodes: &[Arc<NodeImage>],
        secrets: &[ReferenceObject],
        progress: &Progress,
    ) -> Result<(), Error> {
        let active = usize::try_from(progress.status.active).unwrap_or(0);
        let free = assign::parallelism(job).saturating_sub(active);
        let told = progress.lacking.iter().chain(progress.missing.iter().take(free));
        for name in told {
            let node = nodes.iter().find(|it| it.metadata.name.as_ref() == Some(name));
            let Some(node) = node else { continue };
            let (chance, now) = (self.seed.draw(), self.clock.now());
            let change = assign::assign(job, node, secrets, self.own.default_ttl, chance, now)?;
            let Some((image, spec)) = change else { continue };
            let mut images = node.spec.images.clone();
            images.insert(image.clone(), spec);
            let only = images_patch(&Default::default(), &images).remove(&image);
            let body =
                json!({"metadata": {"resourceVersion": version(&**node)}, "spec": {"images": {image: only}}});
            let on = On { call: "tell a node to download", owner: uid(job) };
            let (patch, params) = (Patch::Merge(body), PatchParams::default());
            self.node_writer.patch(on, node, None, &patch, &params).await?;
        }
        Ok(())
    }

    async fn report(&self, job: &ImagePullJob, status: &ImagePullJobStatus) -> Result<(), Error> {
        if job.status.as_ref() == Some(status) {
            return Ok(());
        }
        let mut body = json!({"metadata": {"resourceVersion": version(job)}, "status": status});
        // What is left out of a merge patch stays: these are to go.
        for field in ["failedNodes", "message", "completionTime"] {
            if body["status"].get(field).is_none() {
                body["status"][field] = Value::Null;
            }
        }
        self.patch(job, "write status of ImagePullJob", Some("status"), body).await
    }

    async fn patch(
        &self,
        job: &ImagePullJob,
        call: &'static str,
        part: Option<&str>,
        body: Value,
    ) -> Result<(), Error> {
        let on = On { call, owner: uid(job) };
        self.writer.patch(on, job, part, &Patch::Merge(body), &PatchParams::default()).await?;
        Ok(())
    }
}

impl Reconcile for Jobs {
    type Error = Error;

    async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let Some(mut job) = self.caches.jobs.get(&key) else { return Ok(Next::Change) };
        if !is_open(&job) {
            if let Some(left) = secrets::kept_for(&job, self.clock.now()) {
                return Ok(Next::After(left));
            }
            self.finalize(&job).await?;
            let Some(job) = self.caches.jobs.get(&key) else { return Ok(Next::Change) };
            if let Some(status) = progress::seen(&job) {
                self.report(&job, &status).await?;
            }
            return match job.metadata.deletion_timestamp {
                Some(_) => Ok(Next::Change),
                None => self.expire(&job).await,
            };
        }
        let mut finalizers = job.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|it| it == keys::FINALIZER) {
            finalizers.push(keys::FINALIZER.to_owned());
            self.set_finalizers(&job, &finalizers).await?;
            let Some(marked) = self.caches.jobs.get(&key) else { return Ok(Next::Change) };
            job = marked;
        }
        let nodes = self.nodes(&job);
        let secrets = self.copies.claim(&job).await?;
        let observed =
            Observed { job: &job, nodes: nodes.iter().map(|it| &**it).collect(), secrets: secrets.clone() };
        let progress = progress::progress(&observed, self.clock.now())?;
        if progress.status.completion_time.is_none() {
            self.tell(&job, &nodes, &secrets, &progress).await?;
        }
        self.report(&job, &progress.status).await?;
        Ok(progress.left.map_or(Next::Change, |it| Next::After(it.max(SOONEST))))
    }

    fn exists(&self, key: &Key) -> bool {
        self.caches.jobs.get(key).is_some()
    }
}
