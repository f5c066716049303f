//! NodeImage: one per node, made and removed with it.
//!
//! Jobs write into it which images the node should have, the node's daemon writes how far it has come; this controller
//! keeps its labels and takes out what nobody wants any more.

pub mod plan;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    num::NonZeroUsize,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams},
    core::PartialObjectMeta,
};
use serde_json::{Map, Value, json};
use tracing::info;

use self::plan::{Action, Observed, plan};
use crate::{
    api::{
        APPS_GROUP,
        image_pull_job::{keys::SECRETS_NAMESPACE, v1beta1::ImagePullJob},
        node_image::{
            events,
            v1beta1::{ImageSpec, NodeImage},
        },
    },
    daemon::images::status,
    runtime::{
        access::{self, Right},
        cache::{Cache, Feed, node::NodeLite},
        client::Error,
        clock::{Clock, Seed},
        controller::{Controller, Next, Reconcile, Settings, Triggers},
        events::{Recorder, Severity, about},
        key::{Key, uid, version},
        writes::{On, Writer},
    },
};

/// The controller's name in logs and metrics.
pub const NAME: &str = "nodeimage";
/// How many nodes are seen to at once.
pub const WORKERS: NonZeroUsize = NonZeroUsize::new(3).expect("three is not zero");
/// A new node gets its NodeImage this long after it became ready, if nothing else is said.
pub const CREATION_DELAY: Duration = Duration::from_secs(30);

/// Nothing is looked at again sooner than this, plus up to two seconds: many tags end at about the same time.
const SOONEST: Duration = Duration::from_secs(3);

/// What it does at the API server. Of secrets it reads the names, and only where daemons read the rest.
pub fn needs() -> Vec<Right> {
    const READ: &[&str] = &["get", "list", "watch"];
    vec![
        access::cluster(APPS_GROUP, "nodeimages", &["get", "list", "watch", "create", "patch", "delete"]),
        access::cluster(APPS_GROUP, "nodeimages/status", &["patch"]),
        access::cluster(APPS_GROUP, "imagepulljobs", READ),
        access::cluster("", "nodes", READ),
        access::in_namespace(SECRETS_NAMESPACE, "", "secrets", &["list", "watch"]),
    ]
}

/// What the controller reads.
#[derive(Debug, Clone)]
pub struct Caches {
    /// Nodes.
    pub nodes: Cache<NodeLite>,
    /// NodeImages.
    pub node_images: Cache<NodeImage>,
    /// Jobs, which own tags.
    pub jobs: Cache<ImagePullJob>,
    /// Names of secrets; their content is not read.
    pub secrets: Cache<PartialObjectMeta<Secret>>,
    /// The only namespace whose jobs are known; all if there is none.
    pub jobs_in: Option<String>,
    /// The only namespace whose secrets are known; all if there is none.
    pub secrets_in: Option<String>,
}

/// The controller, which hears of changes to the caches from now on.
pub fn controller(
    client: Client,
    caches: &Caches,
    recorder: Recorder,
    creation_delay: Duration,
    settings: Settings,
) -> Controller<impl Reconcile + use<>> {
    let triggers = Triggers::new(settings.clock.clone());
    let Caches { nodes, node_images, jobs, secrets, jobs_in: _, secrets_in: _ } = caches.clone();
    triggers.follow_all(&node_images);
    for node in nodes.all() {
        triggers.now(Key::of(&*node));
    }
    let (wake, known) = (triggers.clone(), node_images.clone());
    nodes.on_change(move |change| {
        // Heartbeats change nothing that matters here.
        let is_settled = change.after.as_ref().is_some_and(|node| {
            known.get(&change.key()).is_some_and(|it| it.metadata.labels == node.metadata.labels)
                && node.metadata.deletion_timestamp.is_none()
        });
        if !is_settled {
            wake.now(change.key());
        }
    });
    let (wake, known) = (triggers.clone(), node_images.clone());
    jobs.on_change(move |change| {
        let (Some(gone), None) = (&change.before, &change.after) else { return };
        for it in known.all().iter().filter(|it| is_owned(it, uid(&**gone))) {
            wake.now(Key::of(&**it));
        }
    });
    let feeds: Vec<Arc<dyn Feed>> =
        vec![Arc::new(nodes), Arc::new(node_images.clone()), Arc::new(jobs), Arc::new(secrets)];
    let reconciler = NodeImages {
        caches: caches.clone(),
        writer: Writer::new(client, node_images),
        recorder,
        creation_delay,
        clock: settings.clock.clone(),
        seed: Seed::from_system(),
    };
    Controller::new(settings, triggers, feeds, reconciler)
}

fn is_owned(node_image: &NodeImage, owner: &str) -> bool {
    let tags = node_image.spec.images.values().flat_map(|it| &it.tags);
    tags.flat_map(|it| &it.owner_references).any(|it| it.uid.as_deref() == Some(owner))
}

struct NodeImages {
    caches: Caches,
    writer: Writer<NodeImage>,
    recorder: Recorder,
    creation_delay: Duration,
    clock: Clock,
    seed: Seed,
}

impl fmt::Debug for NodeImages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeImages").field(&self.caches).finish()
    }
}

impl NodeImages {
    async fn apply(&self, key: &Key, node_image: Option<&NodeImage>, action: Action) -> Result<(), Error> {
        match (action, node_image) {
            (Action::Create, _) => self.create(key).await,
            (Action::Delete, Some(it)) => {
                let on = On { call: "delete NodeImage", owner: uid(it) };
                self.writer.delete(on, it, DeleteParams::background()).await
            }
            (Action::WriteSpec { labels, images, dropped }, Some(it)) => {
                for reason in dropped {
                    info!(node = %key, "{reason}");
                }
                let old = it.metadata.labels.clone().unwrap_or_default();
                let labels = replacing(old.keys(), labels.into_iter().map(|(key, it)| (key, json!(it))));
                let body = json!({
                    "metadata": {"labels": labels, "resourceVersion": version(it)},
                    "spec": {"images": images_patch(&it.spec.images, &images)},
                });
                self.patch(it, "write NodeImage", None, body).await
            }
            (Action::WriteStatus { status, failures }, Some(it)) => {
                let body = status::patch(it.status.as_ref(), &status, version(it));
                self.patch(it, "write status of NodeImage", Some("status"), body).await?;
                for failure in failures {
                    for about in failure.owners.into_iter().chain([about(it)]) {
                        let reason = events::PULL_IMAGE_FAILED;
                        self.recorder.record(about, Severity::Warning, reason, failure.message.clone());
                    }
                }
                Ok(())
            }
            (_, None) => Ok(()),
        }
    }

    async fn create(&self, key: &Key) -> Result<(), Error> {
        let body = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": {"name": &*key.name}, "spec": {},
        });
        let on = On { call: "create NodeImage", owner: "" };
        match self.writer.create(on, key, &body).await {
            // It was made meanwhile: the watch is about to show it.
            Err(error) if error.is_name_taken() => Ok(()),
            created => created.map(drop),
        }
    }

    async fn patch(
        &self,
        node_image: &NodeImage,
        call: &'static str,
        part: Option<&str>,
        body: Value,
    ) -> Result<(), Error> {
        let on = On { call, owner: uid(node_image) };
        self.writer.patch(on, node_image, part, &Patch::Merge(body), &PatchParams::default()).await.map(drop)
    }

    /// What exists of what the NodeImage names.
    fn observe<'a>(&self, node: Option<&'a NodeLite>, node_image: Option<&'a NodeImage>) -> Observed<'a> {
        let mut observed = Observed { node, node_image, jobs: BTreeMap::new(), secrets: BTreeSet::new() };
        for image in node_image.into_iter().flat_map(|it| it.spec.images.values()) {
            for owner in image.tags.iter().flat_map(|it| &it.owner_references) {
                let (namespace, name) =
                    (owner.namespace.clone().unwrap_or_default(), owner.name.clone().unwrap_or_default());
                let job = self.caches.jobs.get(&Key::new(&namespace, &name));
                let found = match job {
                    Some(job) => Some(uid(&*job).to_owned()),
                    // Where nothing is known, everything named is taken to be there.
                    None if is_out_of(self.caches.jobs_in.as_deref(), &namespace) => owner.uid.clone(),
                    None => None,
                };
                observed.jobs.extend(found.map(|it| ((namespace, name), it)));
            }
            for secret in &image.pull_secrets {
                if is_out_of(self.caches.secrets_in.as_deref(), &secret.namespace)
                    || self.caches.secrets.get(&Key::new(&secret.namespace, &secret.name)).is_some()
                {
                    observed.secrets.insert((secret.namespace.clone(), secret.name.clone()));
                }
            }
        }
        observed
    }
}

/// Whether a namespace is not the only one that is known.
fn is_out_of(known: Option<&str>, namespace: &str) -> bool {
    known.is_some_and(|it| it != namespace)
}

/// The merge patch that turns one set of images into another.
pub(crate) fn images_patch(
    old: &BTreeMap<String, ImageSpec>,
    new: &BTreeMap<String, ImageSpec>,
) -> Map<String, Value> {
    let whole = new.iter().map(|(name, it)| {
        let mut image = json!(it);
        // What is left out of a merge patch stays: these are to go.
        for field in ["pullSecrets", "sandboxConfig"] {
            if image.get(field).is_none() {
                image[field] = Value::Null;
            }
        }
        (name.clone(), image)
    });
    replacing(old.keys(), whole)
}

/// A merge patch of a map: what is new or changed, and what is gone.
fn replacing<'a>(
    old: impl Iterator<Item = &'a String>,
    new: impl Iterator<Item = (String, Value)>,
) -> Map<String, Value> {
    let mut patch: Map<String, Value> = new.collect();
    for key in old {
        patch.entry(key.clone()).or_insert(Value::Null);
    }
    patch
}

impl Reconcile for NodeImages {
    type Error = Error;

    async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let (node, node_image) = (self.caches.nodes.get(&key), self.caches.node_images.get(&key));
        let observed = self.observe(node.as_deref(), node_image.as_deref());
        let todo = plan(&observed, self.creation_delay, self.clock.now());
        if let Some(action) = todo.action {
            self.apply(&key, node_image.as_deref(), action).await?;
        }
        let spread = Duration::from_millis(self.seed.draw() % 2_000);
        Ok(todo.look_again_in.map_or(Next::Change, |it| Next::After(it.max(SOONEST + spread))))
    }

    fn exists(&self, key: &Key) -> bool {
        self.caches.nodes.get(key).is_some() || self.caches.node_images.get(key).is_some()
    }
}
