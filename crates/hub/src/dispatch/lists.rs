//! Lists of images: on the hub each image becomes a job of its own, which is placed like any other. So a list means over the
//! fleet what it means in one cluster, its parallelism for each image included.

use std::sync::Arc;

use kruise_core::{
    api::{
        APPS_GROUP, image_list_pull_job::v1beta1::ImageListPullJob, image_pull_job::v1beta1::ImagePullJob,
    },
    controllers::image_list_pull_job,
    runtime::{
        access::Right,
        cache::{Cache, Change},
        clock::Clock,
        controller::{Controller, Reconcile, Settings},
        executor::Executor,
        key::{Key, uid},
        metrics::Metrics,
        throttle::Throttle,
    },
};
use kube::{Resource, ResourceExt};

use super::{Shared, WORKERS, observe};
use crate::placement::matching::Subject;

const KIND: &str = "ImageListPullJob";
/// The kind of what is made from them.
pub(super) const MADE: &str = "ImagePullJob";

/// The lists of the hub.
#[derive(Debug, Clone)]
pub struct Lists(Cache<ImageListPullJob>);

/// The rights it needs.
pub fn needs() -> Vec<Right> {
    image_list_pull_job::needs()
}

impl Lists {
    /// None are known yet.
    pub fn new(clock: &Clock, metrics: &Metrics) -> Self {
        Self(Cache::new("imagelistpulljobs", clock.clone(), metrics.clone()))
    }

    /// The cache of lists, for who feeds it.
    pub fn cache(&self) -> &Cache<ImageListPullJob> {
        &self.0
    }

    /// The list that an object was made from, as policies see it.
    pub(super) fn holder<T: Resource>(&self, object: &T) -> Option<Subject> {
        let owners = object.meta().owner_references.iter().flatten();
        let owner = owners.into_iter().find(|it| it.controller == Some(true) && it.kind == KIND)?;
        let list =
            self.0.get(&Key::new(object.meta().namespace.as_deref().unwrap_or_default(), &owner.name))?;
        (uid(&*list) == owner.uid).then(|| subject(&list))
    }
}

/// A list as policies see it.
fn subject(list: &ImageListPullJob) -> Subject {
    Subject {
        group: APPS_GROUP.to_owned(),
        kind: KIND.to_owned(),
        namespace: list.namespace(),
        name: list.name_any(),
        labels: list.labels().clone(),
        annotations: list.annotations().clone(),
    }
}

/// Whether policies may see a list in another way than before, and the jobs made from it with it.
pub(super) fn is_seen_otherwise(change: &Change<ImageListPullJob>) -> bool {
    let seen = |it: &Option<Arc<ImageListPullJob>>| it.as_ref().map(|it| subject(it));
    seen(&change.before) != seen(&change.after)
}

/// The controller that makes jobs from lists for which a policy wins: without one a list stays as it is (API-2).
pub fn controller(
    shared: &Shared,
    jobs: &Cache<ImagePullJob>,
    settings: Settings,
) -> Controller<impl Reconcile + use<>> {
    let (client, recorder, clock) = (shared.client.clone(), shared.events.clone(), shared.clock.clone());
    let executor = Executor { limit: WORKERS, throttle: Throttle::default(), clock };
    let known = shared.clone();
    let filter: image_list_pull_job::Filter =
        Arc::new(move |list| observe::winner(&known, &subject(list)).is_some());
    let lists = shared.lists.cache();
    image_list_pull_job::controller_of(client, (lists, jobs), recorder, executor, filter, settings)
}
