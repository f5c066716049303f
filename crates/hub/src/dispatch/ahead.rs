//! Downloading images ahead of an update: carrying out what [`plan::ahead`](super::plan::ahead) says.

use kruise_core::{
    api::{
        cloneset::events,
        common::keys::REVISION_HASH,
        fleet::{keys, revision::FleetRevision},
        image_pull_job::v1beta1::ImagePullJob,
    },
    runtime::{
        cache::Cached,
        client::{Error as CallError, call},
        events::{Severity, about},
        key::{Key, uid},
    },
};
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::Value;
use tracing::warn;

use super::{
    Dispatcher, Error, apply,
    observe::Seen,
    plan::{
        Observed,
        ahead::{Ahead, Release},
    },
    raw::Raw,
};

impl<K> Dispatcher<K>
where
    K: Resource<DynamicType = ()> + 'static,
    Raw<K>: Cached,
{
    /// Begins and ends downloads, and says whether that is done. What fails is tried again in the next round: a release does not
    /// wait for it.
    pub(super) async fn look_ahead(
        &self,
        key: &Key,
        seen: &Seen<K>,
        observed: &Observed<'_>,
        ahead: &Ahead,
    ) -> bool {
        let done = match ahead {
            Ahead::Begin { stable, target } => match self.end_downloads(seen, Some(target)).await {
                Ok(()) => self.begin_downloads(key, seen, observed, (stable, target)).await,
                failed => failed,
            },
            Ahead::End => self.end_downloads(seen, None).await,
        };
        done.inspect_err(|error| {
            warn!(error = error as &dyn std::error::Error, "images are not downloaded ahead for now");
        })
        .is_ok()
    }

    async fn begin_downloads(
        &self,
        key: &Key,
        seen: &Seen<K>,
        observed: &Observed<'_>,
        (stable, target): (&str, &str),
    ) -> Result<(), Error> {
        let bodies: Api<FleetRevision> = Api::namespaced(self.shared.client.clone(), keys::CONTENT_NAMESPACE);
        let stable = call("read the body that pods come from", bodies.get_opt(stable)).await?;
        let stable = stable.and_then(|it| it.spec.body);
        let owner = seen.object.controller_owner_ref(&());
        let policy = observed.policy.map(|it| &it.reference);
        let (Some(stable), Some(owner), Some(policy)) = (stable, owner, policy) else { return Ok(()) };
        let release = Release {
            object: observed.object,
            reference: observed.reference,
            owner: &owner,
            policy,
            target,
            stable: &stable,
        };
        let failed = events::FAILED_CREATE_IMAGE_PULL_JOB;
        let jobs = release.jobs().unwrap_or_else(|why| {
            self.tell_once(key, seen, Severity::Normal, failed, &why);
            Vec::new()
        });
        let mut ended = Ok(());
        for job in jobs {
            let name = job["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let image = job["spec"]["image"].as_str().unwrap_or_default().to_owned();
            match self.download(seen, job).await {
                Ok(()) => {
                    let message = format!("created ImagePullJob {name} for image: {image}");
                    let reason = events::CREATED_IMAGE_PULL_JOB;
                    self.shared.events.record(about(&*seen.object), Severity::Normal, reason, message);
                }
                // It was made before a crash, or somebody else downloads under that name.
                Err(error) if error.is_name_taken() => {}
                Err(error) => {
                    let message = format!("failed to create ImagePullJob {name}: {}", error.told());
                    self.tell_once(key, seen, Severity::Normal, failed, &message);
                    // One image that nobody may ask for is no reason to wait for the others.
                    ended = Err(error.into());
                }
            }
        }
        ended
    }

    async fn download(&self, seen: &Seen<K>, job: Value) -> Result<(), CallError> {
        let job = serde_json::from_value(job).map_err(kube::Error::SerdeError);
        let api = self.downloads(seen);
        call("create an image pull job", async { api.create(&PostParams::default(), &job?).await })
            .await
            .map(drop)
    }

    /// Deletes the jobs of this object, except those for the revision `kept`.
    async fn end_downloads(&self, seen: &Seen<K>, kept: Option<&String>) -> Result<(), Error> {
        let api = self.downloads(seen);
        let ours = ListParams::default().labels(&format!("{}={}", keys::DOWNLOADS_FOR, seen.reference.uid));
        for job in call("look for image pull jobs", api.list(&ours)).await? {
            if kept.is_none() || job.labels().get(REVISION_HASH) != kept {
                apply::delete("delete an image pull job", &api, &job.name_any(), uid(&job)).await?;
            }
        }
        Ok(())
    }

    fn downloads(&self, seen: &Seen<K>) -> Api<ImagePullJob> {
        let namespace = seen.reference.namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.shared.client.clone(), namespace)
    }
}
