//! The link to a hub, put together.

use std::time::Duration;

use kruise_core::{
    api::fleet::keys::CLUSTER_NAMESPACE_PREFIX,
    runtime::{
        client::{self, ANSWER_TIMEOUT, Options, Source},
        clock::{Clock, Seed},
        throttle::Throttle,
    },
};
use kube::Client;
use tracing::info;

use super::{Context, Error, Settings, measures::Measures};
use crate::link::{self, hub::Hub, member::Member, store::Store};

/// A hub that this cluster belongs to.
pub(super) struct Fleet {
    client: Client,
    settings: link::Settings,
    own_namespace: String,
}

impl Fleet {
    /// Gets ready to talk to the hub, if there is one. It may be away.
    pub(super) async fn prepare(
        settings: &Settings,
        measures: &Measures,
        clock: &Clock,
    ) -> Result<Option<Self>, Error> {
        let Some(hub) = &settings.hub else { return Ok(None) };
        let options = Options {
            user_agent: concat!("kruise-agent/", env!("CARGO_PKG_VERSION")).to_owned(),
            metrics: measures.metrics.clone(),
            throttle: Throttle::default(),
            clock: clock.clone(),
        };
        let source = Source::Kubeconfig { path: Some(hub.kubeconfig.clone()), context: None };
        let client = client::connect(&source, &options).await.map_err(Error::Hub)?;
        info!(namespace = client.default_namespace(), "this cluster belongs to a fleet");
        let lease = settings.lease.as_ref().map(|it| it.timings.lease);
        Ok(Some(Self {
            settings: link::Settings {
                hub_uid: hub.uid.clone(),
                cluster: hub
                    .cluster
                    .clone()
                    .unwrap_or_else(|| cluster_of(client.default_namespace()).to_owned()),
                identity: settings.host_name.clone(),
                // Without an election nobody led before us.
                lease: lease.unwrap_or_default(),
                longest_write: lease.map_or(Duration::ZERO, |_| ANSWER_TIMEOUT),
            },
            own_namespace: settings.webhook.own_namespace.clone(),
            client,
        }))
    }

    /// What the link is made from.
    pub(super) fn parts(&self, context: &Context) -> link::Parts {
        let Context { client, caches, .. } = context;
        link::Parts {
            settings: self.settings.clone(),
            hub: Hub::new(
                self.client.clone(),
                self.client.default_namespace(),
                &context.clock,
                &context.metrics,
            ),
            member: Member {
                client: client.clone(),
                clonesets: caches.clonesets.clone(),
                pods: caches.pods.clone(),
                revisions: caches.revisions.clone(),
                jobs: caches.image_pull_jobs.clone(),
            },
            store: Store::new(client.clone(), &self.own_namespace),
            events: context.events.of(link::NAME),
            gates: context.gates,
            chance: Seed::from_system(),
            controller: context.controller(link::NAME, link::WORKERS),
        }
    }
}

/// The cluster that a namespace on the hub belongs to. Names that are long or have dots cannot be told from it.
fn cluster_of(namespace: &str) -> &str {
    namespace.strip_prefix(CLUSTER_NAMESPACE_PREFIX).unwrap_or(namespace)
}
