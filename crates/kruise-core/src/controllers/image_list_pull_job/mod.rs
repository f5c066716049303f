//! ImageListPullJob: several images, each downloaded by an ImagePullJob of its own.

pub mod plan;

use std::{fmt, num::NonZeroUsize, sync::Arc, time::Duration};

use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use self::plan::plan;
use crate::{
    api::{
        APPS_GROUP,
        common::keys::CONTROLLER_REVISION_HASH,
        image_list_pull_job::{ImageListPullJobStatus, events, v1beta1::ImageListPullJob},
        image_pull_job::v1beta1::ImagePullJob,
    },
    runtime::{
        access::{self, Right},
        cache::{Cache, Feed},
        client::Error,
        clock::Clock,
        controller::{Controller, Next, Reconcile, Settings, Triggers},
        events::{Recorder, Severity, about},
        executor::{Executor, Report},
        key::{Key, controller_uid, uid, version},
        writes::{On, Writer},
    },
};

/// The controller's name in logs and metrics.
pub const NAME: &str = "imagelistpulljob";
/// How many lists are seen to at once.
pub const WORKERS: NonZeroUsize = NonZeroUsize::new(3).expect("three is not zero");

/// How soon a list that is not seen to is looked at again.
const AGAIN: Duration = Duration::from_secs(10);

/// What it does at the API server.
pub fn needs() -> Vec<Right> {
    vec![
        access::cluster(APPS_GROUP, "imagelistpulljobs", &["get", "list", "watch", "patch", "delete"]),
        access::cluster(APPS_GROUP, "imagelistpulljobs/status", &["patch"]),
        access::cluster(APPS_GROUP, "imagelistpulljobs/finalizers", &["update"]),
        access::cluster(APPS_GROUP, "imagepulljobs", &["get", "list", "watch", "create", "delete"]),
    ]
}

/// Which lists are seen to.
pub type Filter = Arc<dyn Fn(&ImageListPullJob) -> bool + Send + Sync>;

/// The controller, which hears of changes to the caches from now on.
pub fn controller(
    client: Client,
    lists: &Cache<ImageListPullJob>,
    jobs: &Cache<ImagePullJob>,
    recorder: Recorder,
    executor: Executor,
    settings: Settings,
) -> Controller<impl Reconcile + use<>> {
    controller_of(client, (lists, jobs), recorder, executor, Arc::new(|_| true), settings)
}

/// The controller of those lists that `filter` lets through; the others are left as they are, and looked at again now and then.
pub fn controller_of(
    client: Client,
    (lists, jobs): (&Cache<ImageListPullJob>, &Cache<ImagePullJob>),
    recorder: Recorder,
    executor: Executor,
    filter: Filter,
    settings: Settings,
) -> Controller<impl Reconcile + use<>> {
    let triggers = Triggers::new(settings.clock.clone());
    triggers.follow_all(lists);
    let (wake, known) = (triggers.clone(), lists.clone());
    jobs.on_change(move |change| {
        let Some(job) = change.after.as_ref().or(change.before.as_ref()) else { return };
        let Some(owner) = controller_uid(&**job) else { return };
        for list in known.in_namespace(&change.key().namespace) {
            if uid(&*list) == owner {
                wake.now(Key::of(&*list));
            }
        }
    });
    let feeds: Vec<Arc<dyn Feed>> = vec![Arc::new(lists.clone()), Arc::new(jobs.clone())];
    let reconciler = Lists {
        lists: lists.clone(),
        jobs: jobs.clone(),
        writer: Writer::new(client.clone(), lists.clone()),
        job_writer: Writer::new(client, jobs.clone()),
        recorder,
        executor,
        filter,
        clock: settings.clock.clone(),
    };
    Controller::new(settings, triggers, feeds, reconciler)
}

struct Lists {
    lists: Cache<ImageListPullJob>,
    jobs: Cache<ImagePullJob>,
    writer: Writer<ImageListPullJob>,
    job_writer: Writer<ImagePullJob>,
    recorder: Recorder,
    executor: Executor,
    filter: Filter,
    clock: Clock,
}

impl fmt::Debug for Lists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lists").field(&self.lists).finish()
    }
}

/// What a batch of creates or deletes came to.
#[derive(Debug, Default)]
struct Batch {
    /// A failure, after which the list is looked at again.
    error: Option<Error>,
    /// How long the server wants to be left alone with what was not begun.
    wait: Option<Duration>,
}

impl Lists {
    async fn create(&self, list: &ImageListPullJob, jobs: Vec<(String, Value)>) -> Batch {
        let namespace = list.metadata.namespace.as_deref().unwrap_or_default();
        let count = jobs.len();
        let create = |(name, body): (String, Value)| async move {
            let on = On { call: "create ImagePullJob", owner: uid(list) };
            let made = self.job_writer.create(on, &Key::new(namespace, &name), &body).await;
            let image = body["spec"]["image"].as_str().unwrap_or_default();
            self.sorted_out(list, made.map(drop), events::FAILED_CREATE, image)
        };
        let report = self.executor.run(jobs, create).await;
        self.tell(list, report, count, events::SUCCESSFUL_CREATE, "Create")
    }

    async fn delete(&self, list: &ImageListPullJob, names: Vec<String>) -> Batch {
        let namespace = list.metadata.namespace.as_deref().unwrap_or_default();
        let count = names.len();
        let delete = |name: String| async move {
            let on = On { call: "delete ImagePullJob", owner: uid(list) };
            let gone = match self.jobs.get(&Key::new(namespace, &name)) {
                Some(job) => self.job_writer.delete(on, &job, DeleteParams::background()).await,
                None => Ok(()),
            };
            self.sorted_out(list, gone, events::FAILED_DELETE, &name)
        };
        let report = self.executor.run(names, delete).await;
        self.tell(list, report, count, events::SUCCESSFUL_DELETE, "Delete")
    }

    /// Tells people of a refusal. It is about one job, and no reason to leave its siblings: only an `Err` is.
    fn sorted_out(
        &self,
        list: &ImageListPullJob,
        result: Result<(), Error>,
        reason: &'static str,
        what: &str,
    ) -> Result<Option<Error>, Error> {
        match result {
            Ok(()) => Ok(None),
            Err(error) if is_about_one(&error) => {
                self.recorder.record(
                    about(list),
                    Severity::Warning,
                    reason,
                    format!("{what}: {}", error.told()),
                );
                Ok(Some(error))
            }
            Err(error) => Err(error),
        }
    }

    /// People hear of a batch only if all of it worked.
    fn tell(
        &self,
        list: &ImageListPullJob,
        report: Report<Option<Error>, Error>,
        count: usize,
        reason: &'static str,
        verb: &str,
    ) -> Batch {
        let Report { done, failed, skipped, wait } = report;
        let error = failed.into_iter().chain(done.into_iter().flatten()).next();
        if count > 0 && error.is_none() && skipped == 0 {
            self.recorder.record(
                about(list),
                Severity::Normal,
                reason,
                format!("{verb} {count} ImagePullJob"),
            );
        }
        Batch { error, wait: wait.filter(|_| skipped > 0) }
    }

    async fn report(&self, list: &ImageListPullJob, status: &ImageListPullJobStatus) -> Result<(), Error> {
        let mut body = json!({"metadata": {"resourceVersion": version(list)}, "status": status});
        // What is left out of a merge patch stays: these are to go.
        for field in ["failedImageStatuses", "completionTime"] {
            if body["status"].get(field).is_none() {
                body["status"][field] = Value::Null;
            }
        }
        self.patch(list, "write status of ImageListPullJob", Some("status"), body).await
    }

    async fn patch(
        &self,
        list: &ImageListPullJob,
        call: &'static str,
        part: Option<&str>,
        body: Value,
    ) -> Result<(), Error> {
        let on = On { call, owner: uid(list) };
        self.writer.patch(on, list, part, &Patch::Merge(body), &PatchParams::default()).await.map(drop)
    }
}

impl Reconcile for Lists {
    type Error = Error;

    async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let Some(mut list) = self.lists.get(&key) else { return Ok(Next::Change) };
        if !(self.filter)(&list) {
            return Ok(Next::After(AGAIN));
        }
        let jobs = self.jobs.owned_by(uid(&*list));
        let views: Vec<&ImagePullJob> = jobs.iter().map(|it| &**it).collect();
        let todo = plan(&list, &views, self.clock.now());
        if todo.delete_list {
            let on = On { call: "delete ImageListPullJob", owner: uid(&*list) };
            self.writer.delete(on, &list, DeleteParams::background()).await?;
            return Ok(Next::Change);
        }
        if let Some(hash) = todo.label {
            let body = json!({"metadata": {"labels": {CONTROLLER_REVISION_HASH: hash}}});
            self.patch(&list, "label ImageListPullJob", None, body).await?;
            let Some(labelled) = self.lists.get(&key) else { return Ok(Next::Change) };
            list = labelled;
        }
        let made = self.create(&list, todo.create).await;
        let gone = self.delete(&list, todo.delete).await;
        if let Some(status) = todo.status {
            self.report(&list, &status).await?;
        }
        if let Some(error) = made.error.or(gone.error) {
            return Err(error);
        }
        let again = [made.wait, gone.wait, todo.look_again_in].into_iter().flatten().min();
        Ok(again.map_or(Next::Change, Next::After))
    }

    fn exists(&self, key: &Key) -> bool {
        self.lists.get(key).is_some()
    }
}

/// Whether the server refuses this one object, and not everything of its kind or everything for now.
fn is_about_one(error: &Error) -> bool {
    matches!(error.code(), Some(400..500)) && !matches!(error.code(), Some(401 | 429))
}
