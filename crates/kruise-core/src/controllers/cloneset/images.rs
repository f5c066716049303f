//! Downloading images ahead of an update: carrying out what [`predownload`](super::predownload) decides.

use std::sync::Arc;

use kube::api::{DeleteParams, Patch, PatchParams};
use tracing::warn;

use super::{
    Context,
    plan::World,
    predownload::{self, PreDownload, Release},
    revisions::{self, Settled},
};
use crate::{
    api::{cloneset::events, fleet::keys::HUB_UID},
    runtime::{
        client::Error,
        events::{Severity, about},
        key::{Key, uid},
        writes::On,
    },
};

impl Context {
    /// Starts and ends downloads. What fails is told and tried again in the next pass; a release does not wait for it.
    pub(super) async fn download_ahead(&self, world: &World<'_>, settled: &Settled) {
        // Of an object that a hub has given us the hub also downloads the images, for the whole fleet (REL-11).
        let annotations = world.cloneset.metadata.annotations.as_ref();
        let is_given = annotations.is_some_and(|it| it.contains_key(HUB_UID));
        if !self.options.download_ahead || is_given {
            return;
        }
        if let Err(error) = self.try_to_download(world, settled).await {
            warn!(error = &error as &dyn std::error::Error, "images are not downloaded ahead for now");
        }
    }

    async fn try_to_download(&self, world: &World<'_>, settled: &Settled) -> Result<(), Error> {
        let cloneset = world.cloneset;
        let status = cloneset.status.clone().unwrap_or_default();
        let owner = revisions::owner(cloneset);
        let release = Release {
            owner: &owner,
            namespace: cloneset.metadata.namespace.as_deref().unwrap_or_default(),
            annotations: cloneset
                .metadata
                .annotations
                .as_ref()
                .unwrap_or(const { &std::collections::BTreeMap::new() }),
            replicas: cloneset.spec.replicas.unwrap_or(1),
            selector: &cloneset.spec.selector,
            template: &cloneset.spec.template,
            strategy: cloneset.spec.update_strategy.rolling_update.as_ref(),
            status: &status,
            current: &settled.current_object,
            update: &settled.update_object,
        };
        match predownload::plan(&release, || world.can_update_in_place()) {
            PreDownload::Nothing => Ok(()),
            PreDownload::Ignore { label } => self.label(settled, label, uid(cloneset)).await,
            PreDownload::CreateJobs { jobs, label } => {
                let mut failed = None;
                for job in &jobs {
                    // One image that nobody may ask for is no reason to wait for the others.
                    failed = failed.or(self.create_job(world, job).await.err());
                }
                if let Some(error) = failed {
                    return Err(error);
                }
                self.label(settled, label, uid(cloneset)).await
            }
            PreDownload::DeleteOwnedJobs => {
                for job in self.caches.jobs.owned_by(uid(cloneset)) {
                    let on = On { call: "delete an image pull job", owner: uid(cloneset) };
                    self.writers.jobs.delete(on, &job, DeleteParams::default()).await?;
                }
                Ok(())
            }
        }
    }

    async fn create_job(&self, world: &World<'_>, job: &serde_json::Value) -> Result<(), Error> {
        let cloneset = world.cloneset;
        let name = job["metadata"]["name"].as_str().unwrap_or_default();
        let key = Key::new(cloneset.metadata.namespace.as_deref().unwrap_or_default(), name);
        let on = On { call: "create an image pull job", owner: uid(cloneset) };
        // Upstream tells both as Normal events, and tools filter by it.
        let tell = |reason, message| self.recorder.record(about(cloneset), Severity::Normal, reason, message);
        match self.writers.jobs.create(on, &key, job).await {
            Ok(_) => {
                let image = job["spec"]["image"].as_str().unwrap_or_default();
                let message = format!("created ImagePullJob {name} for image: {image}");
                tell(events::CREATED_IMAGE_PULL_JOB, message);
                Ok(())
            }
            // Somebody else downloads under that name; we cannot know better.
            Err(error) if error.is_name_taken() => Ok(()),
            Err(error) => {
                let message = format!("failed to create ImagePullJob {name}: {}", error.told());
                tell(events::FAILED_CREATE_IMAGE_PULL_JOB, message);
                Err(error)
            }
        }
    }

    async fn label(&self, settled: &Settled, label: &'static str, owner: &str) -> Result<(), Error> {
        let patch = Patch::Merge(predownload::label_patch(label));
        let on = On { call: "label a revision", owner };
        let revision = Arc::clone(&settled.update_object);
        self.writers.revisions.patch(on, &revision, None, &patch, &PatchParams::default()).await.map(drop)
    }
}
