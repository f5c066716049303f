//! Carrying out the end of an object, or taking it back from members: what is told to clusters, and at last our finalizer.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kruise_core::{
    api::fleet::{assignment::Assignment, keys},
    runtime::{
        cache::Cached,
        client::call,
        controller::Next,
        events::Severity,
        key::{Key, uid},
    },
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ObjectMeta, Preconditions},
};
use serde_json::Value;

use super::{
    Dispatcher, Error, LOOK_AGAIN, STATUS_REST,
    apply::{changes, delete},
    end::{self, Ending, SweptBy},
    observe::Seen,
    plan::Observed,
    raw::Raw,
    status::{self, Because, Trouble},
};
use crate::names;

impl<K> Dispatcher<K>
where
    K: Resource<DynamicType = ()> + 'static,
    Raw<K>: Cached,
{
    /// Ends an object that somebody wants to go; one that is only swept along with its kind or its namespace is left as it is.
    pub(super) async fn leave(
        &self,
        key: &Key,
        seen: &Seen<K>,
        observed: &Observed<'_>,
    ) -> Result<Next, Error> {
        let Some(by) = self.swept_by(seen, observed).await? else {
            return self.end(key, seen, observed).await;
        };
        let message = by.message();
        self.tell_once(key, seen, Severity::Warning, "Suspended", &message);
        let standing = status::troubled(Trouble::SweptAlong(message), observed);
        let rest = self.tell(key, seen, observed, seen.stored_binding().cloned(), &standing).await?;
        Ok(Next::After(rest.map_or(LOOK_AGAIN, |it| it.min(LOOK_AGAIN))))
    }

    /// Asks the API server itself: what a cache knows may be older than the deletion that it took part in.
    async fn swept_by(&self, seen: &Seen<K>, observed: &Observed<'_>) -> Result<Option<SweptBy>, Error> {
        let kind = self.kind::<K>().await?;
        let namespace = match &seen.reference.namespace {
            Some(name) => self.namespace(name).await?,
            None => None,
        };
        Ok(end::swept_by(observed, kind.as_ref(), namespace.as_ref()))
    }

    /// Clusters that have to be told and cannot be, by what the API server says.
    async fn unwritable(&self, observed: &Observed<'_>) -> Result<BTreeSet<String>, Error> {
        let untold = end::untold(observed);
        if untold.is_empty() {
            return Ok(BTreeSet::new());
        }
        let kind = self.kind::<Assignment>().await?;
        let mut namespaces = BTreeMap::new();
        for cluster in &untold {
            let found = self.namespace(&names::cluster_namespace(cluster)).await?;
            namespaces.extend(found.map(|it| (cluster.clone(), it)));
        }
        Ok(end::unwritable(untold, kind.as_ref(), &namespaces))
    }

    async fn kind<T: Resource<DynamicType = ()>>(&self) -> Result<Option<ObjectMeta>, Error> {
        let kinds: Api<CustomResourceDefinition> = Api::all(self.shared.client.clone());
        let name = format!("{}.{}", T::plural(&()), T::group(&()));
        let kind = call("look for a kind", kinds.get_metadata_opt(&name)).await?;
        Ok(kind.map(|it| it.metadata))
    }

    async fn namespace(&self, name: &str) -> Result<Option<ObjectMeta>, Error> {
        let namespaces: Api<Namespace> = Api::all(self.shared.client.clone());
        let namespace = call("look for a namespace", namespaces.get_metadata_opt(name)).await?;
        Ok(namespace.map(|it| it.metadata))
    }

    /// Deletes an object that has outlived its time; what is in clusters goes as with any other deletion.
    pub(super) async fn expire(&self, key: &Key, seen: &Seen<K>) -> Result<(), Error> {
        let params = DeleteParams::background().preconditions(Preconditions {
            uid: Some(uid(&*seen.object).to_owned()),
            ..Preconditions::default()
        });
        let request = self.request(seen).delete(&seen.reference.name, &params);
        let request = request.map_err(kube::Error::BuildRequest);
        let deleted = call("delete an object that is over", async {
            self.shared.client.request::<Value>(request?).await
        });
        match deleted.await {
            // Gone, or another one by now.
            Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(()),
            // Protected: whoever did that wants to keep it (DEL-4).
            Err(error) if error.code() == Some(403) => {
                self.tell_once(key, seen, Severity::Warning, "NotExpired", &error.told());
                Ok(())
            }
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
    }

    /// Carries out the end of an object, and lets it go when nothing of it is left.
    async fn end(&self, key: &Key, seen: &Seen<K>, observed: &Observed<'_>) -> Result<Next, Error> {
        let ending = end::end(observed, &self.unwritable(observed).await?);
        if observed.binding.is_some_and(|it| it.spec.ledger.pre_download.is_some()) {
            self.end_downloads(seen, None).await?;
        }
        if ending.is_over() {
            return self.let_go(key, seen).await;
        }
        self.bring_on(key, seen, observed, ending, Because::Deleted).await
    }

    /// Takes an object back from members, and leaves it on the hub as one that no policy places (DEL-5).
    pub(super) async fn withdraw(
        &self,
        key: &Key,
        seen: &Seen<K>,
        observed: &Observed<'_>,
    ) -> Result<Next, Error> {
        let ending = end::end(observed, &self.unwritable(observed).await?);
        if observed.binding.is_some_and(|it| it.spec.ledger.pre_download.is_some()) {
            self.end_downloads(seen, None).await?;
        }
        if !ending.is_over() {
            return self.bring_on(key, seen, observed, ending, Because::Withdrawn).await;
        }
        // What runs nowhere has no pods: who protects it while it has some looks at its status (DEL-4).
        let standing = status::withdrawn(observed);
        if changes(seen.status(), &standing.object).is_some() {
            let rest = self.tell(key, seen, observed, None, &standing).await?;
            return Ok(Next::After(rest.unwrap_or(STATUS_REST)));
        }
        // Our finalizer first: the binding is what tells a hub that begins anew that there is something left to do.
        if seen.is_ours {
            self.set_finalizers(seen, &others(&*seen.object)).await?;
        }
        if let Some(binding) = seen.stored_binding() {
            delete("delete a binding", &self.bindings(seen), &binding.name_any(), uid(binding)).await?;
            self.shared.bindings.deleted(&Key::of(binding), uid(binding));
        }
        self.tell_once(key, seen, Severity::Normal, "Withdrawn", "it is in no cluster any more");
        Ok(Next::Change)
    }

    /// Tells clusters, removes what has done its duty, and says who is waited for.
    async fn bring_on(
        &self,
        key: &Key,
        seen: &Seen<K>,
        observed: &Observed<'_>,
        ending: Ending,
        because: Because,
    ) -> Result<Next, Error> {
        let Ending { save, writes, removals, waiting, silent, unwritable } = ending;
        let saved = self.save(key, seen, save, &writes).await?;
        let told: Vec<String> = writes.iter().map(|it| it.cluster.clone()).collect();
        self.write(seen, writes).await?;
        for cluster in removals {
            self.remove(seen, &cluster).await?;
        }
        let trouble = Trouble::Ending { because, waiting: [waiting, told].concat(), silent, unwritable };
        if let Some(message) = trouble.awaited(observed.reference) {
            self.tell_once(key, seen, Severity::Normal, because.event(), &message);
        }
        let standing = status::troubled(trouble, observed);
        let rest = self.tell(key, seen, observed, saved, &standing).await?;
        Ok(Next::After(rest.map_or(LOOK_AGAIN, |it| it.min(LOOK_AGAIN))))
    }

    /// The last steps of a deletion: the binding, and then our finalizer.
    async fn let_go(&self, key: &Key, seen: &Seen<K>) -> Result<Next, Error> {
        if let Some(binding) = seen.stored_binding() {
            let api = self.bindings(seen);
            delete("delete a binding", &api, &binding.name_any(), uid(binding)).await?;
            self.shared.bindings.deleted(&Key::of(binding), uid(binding));
        }
        match self.set_finalizers(seen, &others(&*seen.object)).await {
            // Gone by now.
            Err(error) if error.code() == Some(404) => {}
            other => other?,
        }
        // Nobody looks at it again if it went with our finalizer.
        if self.objects.get(key).is_none() {
            self.forget(key);
        }
        Ok(Next::Change)
    }
}

/// The finalizers that are not ours.
fn others<T: ResourceExt>(object: &T) -> Vec<String> {
    object.finalizers().iter().filter(|it| *it != keys::FINALIZER).cloned().collect()
}
