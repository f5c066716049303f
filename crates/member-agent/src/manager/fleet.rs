//! The link to a hub, put together.

use std::{sync::Arc, time::Duration};

use kruise_core::{
    api::fleet::keys::CLUSTER_NAMESPACE_PREFIX,
    runtime::{
        client::{self, ANSWER_TIMEOUT, Options, Source, User},
        clock::{Clock, Seed},
        throttle::Throttle,
    },
};
use kube::Client;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{Context, Error, Settings, measures::Measures, settings};
use crate::link::{
    self,
    credential::{
        self, Open,
        keeper::{self, Joined, Keeper},
        way,
    },
    hub::Hub,
    member::Member,
    standing::Standings,
    store::Store,
};

/// A hub that this cluster belongs to, or wants to.
pub(super) struct Fleet {
    way: Way,
    identity: String,
    /// How long the leader before us may believe to lead; without an election nobody led before us.
    lease: Option<Duration>,
    own_namespace: String,
}

enum Way {
    ByHand { client: Client, uid: String, cluster: String },
    Joining { open: Open, credential: credential::Settings },
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
            metrics: measures.of_hub.clone(),
            throttle: Throttle::default(),
            clock: clock.clone(),
        };
        Ok(Some(Self {
            way: way(hub, options).await?,
            identity: settings.host_name.clone(),
            lease: settings.lease.as_ref().map(|it| it.timings.lease),
            own_namespace: settings.webhook.own_namespace.clone(),
        }))
    }

    /// Runs the link until `stop` is cancelled: once the cluster has joined, if it joins by itself. Only the leader does this
    /// (JOIN-7).
    pub(super) async fn run(self: Arc<Self>, context: Context, stop: CancellationToken) {
        match &self.way {
            Way::ByHand { client, uid, cluster } => {
                let hub =
                    Hub::new(client.clone(), client.default_namespace(), &context.clock, &context.metrics);
                link::run(self.parts(&context, hub, uid, cluster), stop).await;
            }
            Way::Joining { open, credential } => self.join(&context, open, credential, &stop).await,
        }
    }

    async fn join(
        &self,
        context: &Context,
        open: &Open,
        settings: &credential::Settings,
        stop: &CancellationToken,
    ) {
        let standings = Standings::default();
        let keeper = Keeper::new(keeper::Parts {
            settings: settings.clone(),
            open: open.clone(),
            member: context.client.clone(),
            namespace: self.own_namespace.clone(),
            standings: standings.clone(),
            events: context.events.of(link::NAME),
            clock: context.clock.clone(),
            chance: Seed::from_system(),
        });
        let begin = |Joined { hub, membership }: Joined| {
            let hub = Hub::new(hub, &membership.namespace, &context.clock, &context.metrics);
            self.parts(context, hub.telling(standings), &membership.hub_uid, &settings.wish.cluster)
        };
        link::join(keeper, begin, stop.clone()).await;
    }

    /// What the link is made from.
    fn parts(&self, context: &Context, hub: Hub, hub_uid: &str, cluster: &str) -> link::Parts {
        let Context { client, caches, .. } = context;
        info!(namespace = hub.namespace(), "this cluster belongs to a fleet");
        link::Parts {
            settings: link::Settings {
                hub_uid: hub_uid.to_owned(),
                cluster: cluster.to_owned(),
                identity: self.identity.clone(),
                lease: self.lease.unwrap_or_default(),
                longest_write: self.lease.map_or(Duration::ZERO, |_| ANSWER_TIMEOUT),
            },
            hub,
            member: Member {
                client: client.clone(),
                clonesets: caches.clonesets.clone(),
                pods: caches.pods.clone(),
                // With one namespace in view nobody knows what pods of the others take up.
                nodes: context.namespace.is_none().then(|| caches.nodes.clone()),
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

/// The way to the hub that settings tell. An authority that is not the pinned one is found here, before anything is sent (SEC-3).
async fn way(hub: &settings::Hub, options: Options) -> Result<Way, Error> {
    match hub {
        settings::Hub::ByHand { kubeconfig, uid, cluster } => {
            let source = Source::Kubeconfig { path: Some(kubeconfig.clone()), context: None };
            let client = client::connect(&source, &options).await.map_err(Error::Hub)?;
            let cluster =
                cluster.clone().unwrap_or_else(|| cluster_of(client.default_namespace()).to_owned());
            Ok(Way::ByHand { client, uid: uid.clone(), cluster })
        }
        settings::Hub::Joining { server, ca_file, ca_hash, credential } => {
            let authority = std::fs::read(ca_file)
                .map_err(|source| Error::HubAuthority { file: ca_file.clone(), source })?;
            let server = way::server(server, &authority, ca_hash.as_deref()).map_err(Error::HubWay)?;
            let open: Open = Arc::new(move |user: &User| client::connect_as(&server, user, &options));
            Ok(Way::Joining { open, credential: credential.clone() })
        }
    }
}

/// The cluster that a namespace on the hub belongs to. Names that are long or have dots cannot be told from it.
fn cluster_of(namespace: &str) -> &str {
    namespace.strip_prefix(CLUSTER_NAMESPACE_PREFIX).unwrap_or(namespace)
}
