//! Downloading images ahead of an update: carrying out what [`plan::ahead`](super::plan::ahead) says.

use std::sync::Arc;

use kruise_core::{
    api::{
        cloneset::events,
        common::keys::REVISION_HASH,
        fleet::{
            FederatedObject, binding::FleetBinding, keys, policy::PlacementPolicy, revision::FleetRevision,
        },
        image_pull_job::v1beta1::ImagePullJob,
    },
    runtime::{
        cache::Cached,
        client::{Error as CallError, call},
        events::Severity,
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
    Dispatcher, Error, LOOK_AGAIN, Shared, apply,
    observe::Seen,
    plan::{
        Observed, Winner,
        ahead::{Ahead, Release, is_of_later},
    },
    raw::Raw,
};
use crate::names;

/// The policy of the CloneSet for whose release a job downloads. It follows the CloneSet's binding, whatever else would match the
/// job; patches are about CloneSets and do not fit jobs.
pub(super) fn policy<T: Resource>(shared: &Shared, job: &T) -> Option<Winner> {
    let meta = job.meta();
    let owner = meta.owner_references.iter().flatten().find(|it| it.controller == Some(true))?;
    let namespace = meta.namespace.clone().unwrap_or_default();
    let cloneset = FederatedObject {
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        namespace: meta.namespace.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
    };
    let (of, name) = names::binding(&cloneset);
    let binding = shared.bindings.get(&Key::new(&of, &name))?;
    let binding = binding.0.as_ref().ok().filter(|it| it.spec.object.uid == owner.uid)?;
    let reference = binding.spec.policy.clone()?;
    let mut placement = if reference.kind == PlacementPolicy::kind(&()) {
        let policy = shared.policies.get(&Key::new(&namespace, &reference.name))?;
        policy.0.as_ref().ok()?.spec.placement.clone()
    } else {
        let policy = shared.cluster_policies.get(&Key::new("", &reference.name))?;
        policy.0.as_ref().ok()?.spec.placement.clone()
    };
    placement.overrides.iter_mut().for_each(|it| it.patches.clear());
    Some(Winner { placement: Arc::new(placement), reference })
}

/// The CloneSet whose downloads are placed otherwise after a change of its binding, if that is what changed.
pub(super) fn placed_otherwise(
    before: Option<&FleetBinding>,
    after: Option<&FleetBinding>,
) -> Option<String> {
    let policy = |it: Option<&FleetBinding>| it.and_then(|it| it.spec.policy.clone());
    let uid = after.or(before).map(|it| it.spec.object.uid.clone());
    uid.filter(|_| policy(before) != policy(after))
}

impl<K> Dispatcher<K>
where
    K: Resource<DynamicType = ()> + 'static,
    Raw<K>: Cached,
{
    /// Begins and ends downloads, and says whether that is done. What fails is tried again after a while: a release does not
    /// wait for it.
    pub(super) async fn look_ahead(
        &self,
        key: &Key,
        seen: &Seen<K>,
        observed: &Observed<'_>,
        ahead: &Ahead,
    ) -> bool {
        let now = self.shared.clock.instant();
        let failed = self.memory().get(key).and_then(|it| it.ahead_failed);
        if failed.is_some_and(|it| now.saturating_duration_since(it) < LOOK_AGAIN) {
            return false;
        }
        let done = match ahead {
            Ahead::Begin { stable, target } => match self.end_downloads(seen, Some(target)).await {
                Ok(()) => self.begin_downloads(key, seen, observed, (stable, target)).await,
                failed => failed,
            },
            Ahead::End => self.end_downloads(seen, None).await,
        };
        if let Err(error) = &done {
            warn!(error = error as &dyn std::error::Error, "images are not downloaded ahead for now");
        }
        self.memory().entry(key.clone()).or_default().ahead_failed = done.is_err().then_some(now);
        done.is_ok()
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
        let (Some(stable), Some(owner)) = (stable, owner) else { return Ok(()) };
        let term = self.term(seen, &[]).await?;
        let release = Release {
            object: observed.object,
            reference: observed.reference,
            owner: &owner,
            target,
            stable: &stable,
            term,
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
                    self.record(seen, Severity::Normal, reason, &message);
                }
                // It was made before a crash, or somebody else downloads under that name. One on its way out leaves it free soon.
                Err(error) if error.is_name_taken() && !self.is_going(seen, &name).await? => {}
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

    async fn is_going(&self, seen: &Seen<K>, name: &str) -> Result<bool, Error> {
        let api = self.downloads(seen);
        let job = call("look at an image pull job", api.get_metadata_opt(name)).await?;
        Ok(job.is_none_or(|it| it.metadata.deletion_timestamp.is_some()))
    }

    /// Deletes the jobs of this object, except those for the revision `kept` and those that a later leader has made: we may lead no
    /// more, and not know it.
    pub(super) async fn end_downloads(&self, seen: &Seen<K>, kept: Option<&String>) -> Result<(), Error> {
        let api = self.downloads(seen);
        let ours = ListParams::default().labels(&format!("{}={}", keys::DOWNLOADS_FOR, seen.reference.uid));
        let mut found = call("look for image pull jobs", api.list(&ours)).await?.items;
        found.retain(|it| kept.is_none() || it.labels().get(REVISION_HASH) != kept);
        if found.is_empty() {
            return Ok(());
        }
        let term = self.term(seen, &[]).await?;
        for job in found.iter().filter(|it| !is_of_later(it.meta(), term)) {
            apply::delete("delete an image pull job", &api, &job.name_any(), uid(job)).await?;
        }
        Ok(())
    }

    fn downloads(&self, seen: &Seen<K>) -> Api<ImagePullJob> {
        let namespace = seen.reference.namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.shared.client.clone(), namespace)
    }
}

#[cfg(test)]
mod tests {
    use kruise_core::api::fleet::binding::{FleetBindingSpec, PolicyRef};

    use super::*;

    #[test]
    fn rel_11_downloads_are_looked_at_when_their_cloneset_is_placed_by_another_policy() {
        let by = |name: Option<&str>| {
            let policy = name.map(|it| PolicyRef { name: it.to_owned(), ..PolicyRef::default() });
            let object = FederatedObject { uid: "u".to_owned(), ..FederatedObject::default() };
            let spec = FleetBindingSpec { object, policy, ..FleetBindingSpec::default() };
            FleetBinding { spec, ..FleetBinding::default() }
        };
        let (one, other, none) = (by(Some("one")), by(Some("other")), by(None));
        let woken = Some("u".to_owned());
        assert_eq!(placed_otherwise(Some(&one), Some(&other)), woken);
        assert_eq!(placed_otherwise(Some(&one), Some(&none)), woken);
        assert_eq!(placed_otherwise(Some(&one), None), woken);
        assert_eq!(placed_otherwise(Some(&one), Some(&one)), None);
    }
}
