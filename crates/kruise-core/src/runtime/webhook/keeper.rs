//! One round of upkeep: the stored certificate, the webhook configurations, the CRDs.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, stream::select_all};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::Secret,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, PartialObjectMeta, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::{debug, info, warn};

use super::{
    Error, Host, call,
    certs::{self, Decision, KeySet, Store, Terms, Written},
    configuration::{self, TEMPLATE, Wanted},
    crd, is_status, merge,
    registration::{self, ConfigurationNames, Phase, Registration},
};

/// How often a write may be overtaken by other replicas before the round is given up.
const ATTEMPTS: usize = 5;

/// Tells the time.
pub(super) type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What upkeep needs to know.
pub(super) struct Keeper {
    pub(super) client: Client,
    pub(super) store: Store,
    pub(super) host: Host,
    pub(super) own_namespace: String,
    pub(super) names: ConfigurationNames,
    pub(super) table: Vec<Registration>,
    pub(super) served: std::collections::BTreeSet<String>,
    /// The names of the CRDs whose objects we convert.
    pub(super) converted: Vec<String>,
    pub(super) renew_before: Duration,
    pub(super) overlap: Duration,
    pub(super) now: Now,
    /// The CRDs that were found in order, by name: CRDs are large, so they are read again only when they change.
    pub(super) in_order: BTreeMap<String, InOrder>,
}

/// The state in which a CRD was found in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InOrder {
    uid: Option<String>,
    generation: Option<i64>,
    bundle: Vec<u8>,
}

impl Keeper {
    /// Runs `judge` with the terms of this moment.
    pub(super) fn with_terms<T>(&self, judge: impl FnOnce(&Terms<'_>) -> T) -> T {
        judge(&Terms {
            dns_name: &self.host.dns_name(),
            now: (self.now)(),
            renew_before: self.renew_before,
            overlap: self.overlap,
        })
    }

    /// Makes sure that the store holds a set that may be served, and reads it.
    pub(super) async fn settle(&self, serving: Option<&KeySet>) -> Result<KeySet, Error> {
        if let Store::External { .. } = self.store {
            return self.read_external().await;
        }
        for _ in 0..ATTEMPTS {
            let found = self.store.read().await?;
            let contents = found.as_ref().map(|it| &it.contents);
            let decision = self
                .with_terms(|terms| certs::decide(contents, serving, terms))
                .map_err(|source| Error::Issue { source })?;
            let (keys, reason) = match decision {
                Decision::Keep(keys) => return Ok(keys),
                Decision::Write { keys, reason } => (keys, reason),
            };
            match self.store.write(found.as_ref(), &keys).await? {
                Written::Done => {
                    info!(%reason, "wrote the webhook certificate");
                    return Ok(keys);
                }
                Written::Lost => debug!("another replica wrote the webhook certificate first"),
            }
        }
        Err(Error::Contended)
    }

    async fn read_external(&self) -> Result<KeySet, Error> {
        let found = self.store.read().await?.ok_or(Error::External { source: certs::Fault::Absent })?;
        let keys = KeySet::read_external(&found.contents).map_err(|source| Error::External { source })?;
        self.with_terms(|terms| certs::still_serves(&keys, terms))
            .map_err(|source| Error::External { source })?;
        Ok(keys)
    }

    /// Makes the configurations and CRDs trust `bundle`. All are tried, whatever becomes of the others.
    pub(super) async fn publish(&mut self, bundle: &[u8]) -> Result<(), Error> {
        let mutating = self.publish_configuration(Phase::Mutating, bundle).await;
        let validating = self.publish_configuration(Phase::Validating, bundle).await;
        let mut outcome = mutating.and(validating);
        for name in self.converted.clone() {
            let published = self.publish_crd(&name, bundle).await;
            outcome = outcome.and(published);
        }
        outcome
    }

    async fn publish_configuration(&self, phase: Phase, bundle: &[u8]) -> Result<(), Error> {
        let (resource, name) = self.configuration(phase);
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let generated = registration::webhooks(&self.table, phase, &self.host, &self.own_namespace);
        let wanted = self.wanted(bundle);
        let live = call("get a webhook configuration", api.get_opt(name)).await?;
        let Some(live) = live else {
            return self.create_configuration(&resource, name, &generated, &wanted).await;
        };

        let webhooks = live.data["webhooks"].as_array().cloned().unwrap_or_default();
        if self.is_external() {
            let distrusting = configuration::distrusting(&webhooks, &wanted);
            return if distrusting.is_empty() { Ok(()) } else { Err(Error::Distrusted(distrusting)) };
        }
        // In a cluster the manifests say which webhooks exist; without manifests, the table does.
        let generated = if matches!(self.host, Host::Url { .. }) { generated } else { Vec::new() };
        let template = live.annotations().get(TEMPLATE).map(String::as_str);
        let Some(rebuilt) = configuration::rebuild(&webhooks, template, &generated, &wanted) else {
            return Ok(());
        };
        let patch = json!({
            "metadata": {
                "resourceVersion": live.metadata.resource_version,
                "annotations": { TEMPLATE: rebuilt.template },
            },
            "webhooks": rebuilt.webhooks,
        });
        merge("update a webhook configuration", &api, name, &patch).await?;
        info!(configuration = name, "updated the webhook configuration");
        Ok(())
    }

    /// Makes a configuration that is missing. In a cluster that is for the manifests to do: without them, nobody knows
    /// whether our Service is there either.
    async fn create_configuration(
        &self,
        resource: &ApiResource,
        name: &str,
        generated: &[Value],
        wanted: &Wanted<'_>,
    ) -> Result<(), Error> {
        let rebuilt = match (&self.host, configuration::rebuild(&[], None, generated, wanted)) {
            _ if generated.is_empty() => return Ok(()),
            (Host::Url { .. }, Some(rebuilt)) if !self.is_external() => rebuilt,
            _ => return Err(Error::NoConfiguration(name.to_owned())),
        };
        let mut fresh = DynamicObject::new(name, resource);
        fresh.annotations_mut().insert(TEMPLATE.to_owned(), rebuilt.template);
        fresh.data = json!({ "webhooks": rebuilt.webhooks });
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
        match call("create a webhook configuration", api.create(&PostParams::default(), &fresh)).await {
            // Another replica did the same.
            Err(error) if is_status(&error, 409) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => {
                info!(configuration = name, "created the webhook configuration");
                Ok(())
            }
        }
    }

    async fn publish_crd(&mut self, name: &str, bundle: &[u8]) -> Result<(), Error> {
        let typed: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        // A kind that is not installed needs no conversion.
        let Some(meta) = call("get a CRD's metadata", typed.get_metadata_opt(name)).await? else {
            return Ok(());
        };
        let mut state =
            InOrder { uid: meta.uid(), generation: meta.metadata.generation, bundle: bundle.to_vec() };
        if self.in_order.get(name) == Some(&state) && state.generation.is_some() {
            return Ok(());
        }

        // As a JSON tree: a schema may use fields that this build does not know.
        let resource = ApiResource::erase::<CustomResourceDefinition>(&());
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let Some(live) = call("get a CRD", api.get_opt(name)).await? else {
            return Ok(());
        };
        let live = json!({ "metadata": live.metadata, "spec": live.data["spec"] });
        let wanted = self.wanted(bundle);
        if self.is_external() {
            return if crd::is_trusting(&live, &wanted) {
                Ok(())
            } else {
                Err(Error::Distrusted(vec![name.to_owned()]))
            };
        }
        state.generation = live["metadata"]["generation"].as_i64();
        if let Some(patch) = crd::conversion_patch(&live, &wanted) {
            state.generation = merge("update a CRD", &api, name, &patch).await?.metadata.generation;
            info!(crd = name, "updated the conversion clause");
        }
        self.in_order.insert(name.to_owned(), state);
        Ok(())
    }

    /// Something for each change that calls for another round.
    pub(super) fn triggers(&self) -> impl Stream<Item = ()> + Unpin + use<> {
        let mut streams = Vec::new();
        if let Store::Secret { api, name } | Store::External { api, name } = &self.store {
            let namespace = api.namespace().unwrap_or_default();
            let secrets: Api<PartialObjectMeta<Secret>> = Api::namespaced(self.client.clone(), namespace);
            streams.push(changes(secrets, vec![name.clone()]));
        }
        let mutating: Api<PartialObjectMeta<MutatingWebhookConfiguration>> = Api::all(self.client.clone());
        let validating: Api<PartialObjectMeta<ValidatingWebhookConfiguration>> =
            Api::all(self.client.clone());
        streams.push(changes(mutating, vec![self.names.mutating.clone()]));
        streams.push(changes(validating, vec![self.names.validating.clone()]));
        if !self.converted.is_empty() {
            let crds: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(self.client.clone());
            streams.push(changes(crds, self.converted.clone()));
        }
        select_all(streams)
    }

    fn configuration(&self, phase: Phase) -> (ApiResource, &str) {
        match phase {
            Phase::Mutating => {
                (ApiResource::erase::<MutatingWebhookConfiguration>(&()), &self.names.mutating)
            }
            Phase::Validating => {
                (ApiResource::erase::<ValidatingWebhookConfiguration>(&()), &self.names.validating)
            }
        }
    }

    fn wanted<'a>(&'a self, ca_bundle: &'a [u8]) -> Wanted<'a> {
        Wanted { host: &self.host, ca_bundle, served: &self.served, own_namespace: &self.own_namespace }
    }

    fn is_external(&self) -> bool {
        matches!(self.store, Store::External { .. })
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("host", &self.host).field("store", &self.store).finish_non_exhaustive()
    }
}

/// The changes to the objects of one kind with these names. Only metadata crosses the wire.
fn changes<K>(api: Api<PartialObjectMeta<K>>, names: Vec<String>) -> futures::stream::BoxStream<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug + Send + 'static,
{
    let config = match names.as_slice() {
        [only] => watcher::Config::default().fields(&format!("metadata.name={only}")),
        _ => watcher::Config::default(),
    };
    watcher(api, config)
        .default_backoff()
        .filter_map(move |event| {
            let concerns_us = match event {
                Ok(watcher::Event::Apply(it) | watcher::Event::Delete(it)) => names.contains(&it.name_any()),
                Ok(watcher::Event::InitDone) => true,
                Ok(_) => false,
                Err(error) => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        kind = %K::kind(&()),
                        "watching for webhook upkeep failed"
                    );
                    false
                }
            };
            std::future::ready(concerns_us.then_some(()))
        })
        .boxed()
}
