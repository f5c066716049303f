//! The manager of one cluster: caches, admission on every replica, and controllers on the leader.
//!
//! [`Settings`] is everything it is told. [`run`] puts the parts together in this order: client, listeners (so that a
//! taken port is found before anything happens), caches, admission; and once admission is set up, leader election and
//! [`controllers`]. To add a kind, add a line to the lists in [`controllers`] and [`admission`].

pub mod access;
pub mod admission;
mod arguments;
mod context;
pub mod controllers;
mod fleet;
mod measures;
mod services;
pub mod settings;
mod without_effect;

pub use arguments::Arguments;
pub use context::{Caches, Context};
pub use settings::Settings;

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf, sync::Arc, time::Duration};

use kruise_core::{
    pod::inplace::server_resizes,
    runtime::{
        client::{self, Options, call},
        clock::{Clock, Seed},
        events,
        executor::Executor,
        leader::{self, Election, Ended},
        throttle::Throttle,
        webhook::{self, Host},
    },
};
use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::link::credential::way;
use fleet::Fleet;
use measures::Measures;
use services::{Listeners, Services};

/// How long admission is still served after the signal to stop: until then API servers may not have heard that this
/// replica is leaving.
const FAREWELL: Duration = Duration::from_secs(3);

/// How many writes one reconcile has under way at most.
const WRITES_AT_ONCE: NonZeroUsize = NonZeroUsize::new(40).expect("forty is not zero");

/// Why a manager ended, or never began.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There are no usable credentials.
    #[error(
        "no way to the cluster: check --kubeconfig and --context, KUBECONFIG, or the pod's service account"
    )]
    Connect(#[source] client::ConnectError),
    /// The API server does not answer.
    #[error("the API server does not answer: check --kubeconfig and the network")]
    Unreachable(#[source] client::Error),
    /// The hub's kubeconfig cannot be used.
    #[error("--hub-kubeconfig cannot be used")]
    Hub(#[source] client::ConnectError),
    /// The hub's authority cannot be read.
    #[error("--hub-ca-file: {} cannot be read", file.display())]
    HubAuthority {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The hub is not one that can be believed.
    #[error(transparent)]
    HubWay(way::Fault),
    /// An address cannot be listened on.
    #[error("--{flag}: could not listen on {address}")]
    Listen {
        /// The flag that named it.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: std::io::Error,
    },
    /// Probes or metrics are not served any more.
    #[error("serving --{flag} failed")]
    Serve {
        /// The flag that named the address.
        flag: &'static str,
        /// The reason.
        source: std::io::Error,
    },
    /// Admission cannot be served.
    #[error("admission cannot be served")]
    Webhook(#[source] webhook::Error),
    /// The election would not be safe.
    #[error("--leader-election-* flags do not fit together")]
    Election(#[source] leader::Error),
    /// Somebody else may act now.
    #[error("the lease of the leader was lost")]
    LeadershipLost,
    /// A part of the process broke.
    #[error("{part} broke")]
    Broken {
        /// Which part.
        part: &'static str,
        /// How.
        source: tokio::task::JoinError,
    },
}

/// Runs a manager until `stop` is cancelled and everything under way has ended, or until it cannot go on.
pub async fn run(settings: Settings, stop: CancellationToken) -> Result<(), Error> {
    for (flag, reason) in &settings.without_effect {
        warn!("--{flag} has no effect: {reason}");
    }
    let (measures, clock) = (Measures::new(), Clock::system());
    let throttle = Throttle::default();
    let (client, server_version) = connect(&settings, &measures, &clock, &throttle).await?;
    let fleet = Fleet::prepare(&settings, &measures, &clock).await?.map(Arc::new);
    access::compare(&client, &settings.webhook.own_namespace, settings.gates).await;
    let listeners = Listeners::bind(&settings).await?;
    let caches = Caches::new(&clock, &measures.metrics);
    let sink = events::Sink::new(client.clone(), clock.clone(), measures.metrics.clone());
    let context = Context {
        client,
        caches,
        namespace: settings.namespace.clone(),
        events: sink.recorder("kruise-agent"),
        gates: settings.gates,
        cloneset: settings.cloneset,
        nodes: settings.nodes.clone(),
        executor: Executor { limit: WRITES_AT_ONCE, throttle, clock: clock.clone() },
        server_resizes: server_resizes(&server_version),
        clock,
        metrics: measures.metrics.clone(),
    };
    let server = admission::server(&settings.webhook, &context, measures.webhooks.observer())
        .map_err(Error::Webhook)?;
    let handle = server.handle();

    // Apart from `stop`: controllers end first, and the others serve them until they have.
    let mut services = Services::new();
    services.caches(&context);
    services.events(sink);
    services.endpoints(listeners, &measures.metrics, &handle, &stop);
    services.webhooks(server, context.client.clone());
    let ended = tokio::select! {
        biased;
        broken = services.broken() => broken,
        ended = act(&settings, &context, fleet.as_ref(), handle, &stop) => ended,
    };
    if ended.is_ok() && matches!(settings.webhook.host, Host::Service { .. }) {
        tokio::time::sleep(FAREWELL).await;
    }
    ended.and(services.close().await)
}

/// Connects, and says which version the API server is.
async fn connect(
    settings: &Settings,
    measures: &Measures,
    clock: &Clock,
    throttle: &Throttle,
) -> Result<(Client, String), Error> {
    let options = Options {
        user_agent: concat!("kruise-agent/", env!("CARGO_PKG_VERSION")).to_owned(),
        metrics: measures.metrics.clone(),
        throttle: throttle.clone(),
        clock: clock.clone(),
    };
    let client = client::connect(&settings.source, &options).await.map_err(Error::Connect)?;
    let server = call("get the server's version", client.apiserver_version()).await;
    let server = server.map_err(Error::Unreachable)?;
    info!(version = env!("CARGO_PKG_VERSION"), server = server.git_version, gates = ?settings.gates, "starting");
    for gate in settings.gates.in_vain() {
        warn!(
            gate = gate.name(),
            "this feature gate has no effect: what it switches is not part of this build"
        );
    }
    Ok((client, server.git_version))
}

/// Waits until admission is set up and this process leads; then runs the controllers.
async fn act(
    settings: &Settings,
    context: &Context,
    fleet: Option<&Arc<Fleet>>,
    mut handle: webhook::Handle,
    stop: &CancellationToken,
) -> Result<(), Error> {
    if stop.run_until_cancelled(handle.wait_until_ready()).await.is_none() {
        return Ok(());
    }
    info!(address = %handle.address(), "admission is set up");
    let Some(settings::Lease { namespace, name, timings }) = &settings.lease else {
        return control(context, fleet, stop).await;
    };
    let identity = leader::identity(&settings.host_name, &Seed::from_system());
    let (clock, metrics) = (context.clock.clone(), context.metrics.clone());
    let election =
        Election::new(context.client.clone(), (namespace, name), &identity, *timings, clock, metrics)
            .map_err(Error::Election)?;
    info!(namespace, lease = name, identity, "waiting for the lease of the leader");
    match election.lead(stop, async |_| control(context, fleet, stop).await).await {
        Ended::Finished(ended) => ended,
        Ended::Stopped => Ok(()),
        Ended::Lost => Err(Error::LeadershipLost),
    }
}

/// Runs every controller, and the link to the hub if there is one, until `stop` is cancelled. Dropping this ends them where
/// they are.
async fn control(
    context: &Context,
    fleet: Option<&Arc<Fleet>>,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let mut running = JoinSet::new();
    for controller in controllers::controllers(context) {
        running.spawn(controller.run(stop.clone()));
    }
    if let Some(fleet) = fleet {
        running.spawn(fleet.clone().run(context.clone(), stop.clone()));
    }
    while let Some(ended) = running.join_next().await {
        ended.map_err(|source| Error::Broken { part: "a controller", source })?;
    }
    Ok(())
}
