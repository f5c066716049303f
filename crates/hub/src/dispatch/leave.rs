//! Carrying out the end of an object: what is told to clusters, and at last our finalizer.

use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kruise_core::{
    api::fleet::keys,
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
    api::{DeleteParams, Preconditions},
};
use serde_json::Value;

use super::{
    Dispatcher, Error, LOOK_AGAIN,
    apply::delete,
    end::{self, SweptBy},
    observe::Seen,
    plan::Observed,
    raw::Raw,
    status::{self, Trouble},
};

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
        let client = || self.shared.client.clone();
        let kinds: Api<CustomResourceDefinition> = Api::all(client());
        let name = format!("{}.{}", K::plural(&()), K::group(&()));
        let kind = call("look for the kind of an object", kinds.get_metadata_opt(&name)).await?;
        let namespace = match &seen.reference.namespace {
            Some(name) => {
                let namespaces: Api<Namespace> = Api::all(client());
                call("look for the namespace of an object", namespaces.get_metadata_opt(name)).await?
            }
            None => None,
        };
        Ok(end::swept_by(
            observed,
            kind.as_ref().map(|it| &it.metadata),
            namespace.as_ref().map(|it| &it.metadata),
        ))
    }

    /// Deletes an object that has outlived its time; what is in clusters goes as with any other deletion.
    pub(super) async fn expire(&self, seen: &Seen<K>) -> Result<(), Error> {
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
            Err(error) if !matches!(error.code(), Some(404 | 409)) => Err(error.into()),
            // Gone, or another one by now.
            _ => Ok(()),
        }
    }

    /// Carries out the end of an object, and lets it go when nothing of it is left.
    async fn end(&self, key: &Key, seen: &Seen<K>, observed: &Observed<'_>) -> Result<Next, Error> {
        let ending = end::end(observed);
        if observed.binding.is_some_and(|it| it.spec.ledger.pre_download.is_some()) {
            self.end_downloads(seen, None).await?;
        }
        if ending.is_over() {
            return self.let_go(key, seen).await;
        }
        self.save(key, seen, ending.save, &ending.writes).await?;
        self.write(seen, ending.writes).await?;
        for cluster in ending.removals {
            self.remove(seen, &cluster).await?;
        }
        if !ending.waiting.is_empty() {
            let message = format!("deletion waits for {}", ending.waiting.join(", "));
            self.tell_once(key, seen, Severity::Normal, "Deleting", &message);
        }
        Ok(Next::After(LOOK_AGAIN))
    }

    /// The last steps of a deletion: the binding, and then our finalizer.
    async fn let_go(&self, key: &Key, seen: &Seen<K>) -> Result<Next, Error> {
        if let Some(binding) = seen.stored_binding() {
            let api = self.bindings(seen);
            delete("delete a binding", &api, &binding.name_any(), uid(binding)).await?;
            self.shared.bindings.deleted(&Key::of(binding), uid(binding));
        }
        let finalizers: Vec<_> =
            seen.object.finalizers().iter().filter(|it| *it != keys::FINALIZER).cloned().collect();
        match self.set_finalizers(seen, &finalizers).await {
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
