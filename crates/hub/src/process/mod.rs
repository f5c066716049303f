//! The process: what it is told, and how it begins and ends.
//!
//! In this order: client, listeners (so that a taken port is found before anything happens), a look for workload controllers
//! on the same API server, admission on every replica; and once that is set up, leader election and [`control`].

mod arguments;

pub use arguments::Arguments;

use std::{net::SocketAddr, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kruise_core::{
    api::fleet::keys::SYSTEM_NAMESPACE,
    runtime::{
        access::Right,
        client::{self, Options, Source, call},
        clock::{Clock, Seed},
        events,
        flags::{Environment, Log, source},
        health::{self, Bound, Checks},
        leader::{self, Election, Ended, Timings},
        throttle::Throttle,
        webhook::{
            self, Host,
            settings::{BadVariable, Defaults},
        },
    },
};
use kube::{Api, Client, api::ListParams};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{
    admission::{reviews::Reviewer, webhooks},
    control::{self, Parts},
    measures::Measures,
    members::{account::Credentials, joining::AutoApprove},
};

/// The lease of the leader, unless told otherwise.
pub const LEASE: &str = "kruise-hub";
/// The ServiceAccount of the hub, as its roles name it.
pub const SERVICE_ACCOUNT: &str = "kruise-hub";
/// The namespace of the hub, as its roles name it.
pub const NAMESPACE: &str = SYSTEM_NAMESPACE;
/// The exit code of a process that refuses to start (API-3).
pub const REFUSED: u8 = 3;

/// How long admission is still served after the signal to stop: until then API servers may not have heard that this
/// replica is leaving.
const FAREWELL: Duration = Duration::from_secs(3);

const METRICS: &str = "metrics-addr";
const PROBES: &str = "health-probe-addr";

/// The rights of the process. Its look for workload controllers needs none of its own: it may read all Leases.
pub fn needs() -> Vec<Right> {
    [control::needs(), leader::needs(LEASE), webhooks::needs()].concat()
}

/// Everything a hub needs to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How to reach the API server.
    pub source: Source,
    /// Whether the API server is the hub's alone.
    pub dedicated_api: bool,
    /// Clusters that may join without a person's word.
    pub auto_approve: Vec<AutoApprove>,
    /// By what agents are known.
    pub credentials: Credentials,
    /// The lease to hold while acting; none if this process is alone.
    pub lease: Option<(String, String, Timings)>,
    /// The name of this machine or pod.
    pub host_name: String,
    /// The namespace of this process.
    pub namespace: String,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// Where probes are served.
    pub probes: Option<SocketAddr>,
    /// How admission is served.
    pub webhook: webhook::settings::Settings,
    /// What is logged.
    pub log: Log,
}

impl Settings {
    /// Reads the command line and the environment.
    pub fn new(arguments: Arguments, environment: Environment<'_>) -> Result<Self, BadVariable> {
        // A variable that is set to nothing, as charts do, is not set.
        let environment = &|name: &str| environment(name).filter(|it| !it.is_empty());
        let namespace = environment("POD_NAMESPACE").unwrap_or_else(|| NAMESPACE.to_owned());
        let named = Some(arguments.leader_election_namespace).filter(|it| !it.is_empty());
        let timings = Timings {
            lease: arguments.leader_election_lease_duration,
            renew: arguments.leader_election_renew_deadline,
            retry: arguments.leader_election_retry_period,
        };
        let lease = (named.unwrap_or_else(|| namespace.clone()), arguments.leader_election_id, timings);
        let defaults = Defaults {
            secret: webhooks::CERTIFICATE_SECRET,
            service: webhooks::SERVICE,
            own_namespace: namespace.clone(),
            is_external: false,
            initialize_within: arguments.webhook_initialize_timeout,
        };
        Ok(Self {
            webhook: webhook::settings::Settings::read(defaults, environment)?,
            source: source(arguments.kubeconfig, arguments.context, environment),
            dedicated_api: arguments.dedicated_api,
            auto_approve: arguments.auto_approve,
            credentials: arguments.agent_credentials,
            lease: arguments.enable_leader_election.then_some(lease),
            host_name: environment("POD_NAME")
                .or_else(|| environment("HOSTNAME"))
                .unwrap_or_else(|| "kruise-hub".to_owned()),
            namespace,
            metrics: arguments.metrics_addr.0,
            probes: arguments.health_probe_addr.0,
            log: Log::new(arguments.log_format, arguments.verbosity),
        })
    }
}

/// Why a hub ended, or never began.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There are no usable credentials.
    #[error("no way to the hub: check --kubeconfig and --context, KUBECONFIG, or the pod's service account")]
    Connect(#[source] client::ConnectError),
    /// The API server does not answer.
    #[error("the API server does not answer: check --kubeconfig and the network")]
    Unreachable(#[source] client::Error),
    /// Two controllers would work on the same objects.
    #[error(
        "{holder} holds the lease {lease} of a workload controller on this API server: it would run the hub's objects \
         itself. Use an API server of the hub's own, or --dedicated-api if that controller does not work on it"
    )]
    NotAlone {
        /// Who holds it.
        holder: String,
        /// Which lease.
        lease: String,
    },
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
    /// The leader cannot begin.
    #[error("the hub cannot begin")]
    Control(#[source] control::Trouble),
    /// A part of the process broke.
    #[error("a service broke")]
    Broken(#[source] tokio::task::JoinError),
}

impl Error {
    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::NotAlone { .. }) { REFUSED } else { 1 }
    }
}

/// Runs a hub until `stop` is cancelled and everything under way has ended, or until it cannot go on.
pub async fn run(settings: Settings, stop: CancellationToken) -> Result<(), Error> {
    let (measures, clock) = (Measures::new(), Clock::system());
    let client = connect(&settings, &measures, &clock).await?;
    let metrics = bind(METRICS, settings.metrics).await?;
    let probes = bind(PROBES, settings.probes).await?;
    if !settings.dedicated_api {
        refuse_company(&client, clock.now()).await?;
    }
    let reviewer = Reviewer::new(client.clone(), &settings.namespace, &clock);
    let server = webhooks::server(&settings.webhook, reviewer, measures.webhooks.observer())
        .map_err(Error::Webhook)?;
    let handle = server.handle();
    let sink = events::Sink::new(client.clone(), clock.clone(), measures.metrics.clone());
    let parts = Parts {
        client: client.clone(),
        namespace: settings.namespace.clone(),
        events: sink.recorder("kruise-hub"),
        measures: measures.clone(),
        clock,
        rules: settings.auto_approve.clone(),
        credentials: settings.credentials,
    };
    let close = CancellationToken::new();
    let mut services: JoinSet<Result<(), Error>> = JoinSet::new();
    let token = close.clone();
    services.spawn(async {
        sink.run(token).await;
        Ok(())
    });
    let token = close.clone();
    services.spawn(async { server.run(client, token).await.map_err(Error::Webhook) });
    let ready = health::probes(Checks::default(), readiness(&handle, &stop));
    serve(&mut services, METRICS, metrics, health::metrics(measures.metrics.clone()), &close);
    serve(&mut services, PROBES, probes, ready, &close);
    let ended = tokio::select! {
        biased;
        broken = broken(&mut services) => broken,
        ended = act(&settings, parts, handle, &stop) => ended,
    };
    if ended.is_ok() && matches!(settings.webhook.host, Host::Service { .. }) {
        tokio::time::sleep(FAREWELL).await;
    }
    close.cancel();
    let mut outcome = ended;
    while let Some(service) = services.join_next().await {
        outcome = outcome.and(service.map_err(Error::Broken).flatten());
    }
    outcome
}

async fn connect(settings: &Settings, measures: &Measures, clock: &Clock) -> Result<Client, Error> {
    let options = Options {
        user_agent: concat!("kruise-hub/", env!("CARGO_PKG_VERSION")).to_owned(),
        metrics: measures.metrics.clone(),
        throttle: Throttle::default(),
        clock: clock.clone(),
    };
    let client = client::connect(&settings.source, &options).await.map_err(Error::Connect)?;
    let server = call("get the server's version", client.apiserver_version()).await;
    let server = server.map_err(Error::Unreachable)?;
    info!(version = env!("CARGO_PKG_VERSION"), server = server.git_version, "starting");
    Ok(client)
}

/// Looks for a workload controller on the same API server (API-3).
async fn refuse_company(client: &Client, now: Timestamp) -> Result<(), Error> {
    // Wherever it is installed: values of its chart name the namespace.
    let leases: Api<Lease> = Api::all(client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={}", leader::LEASE_NAME));
    let found = call("look for workload controllers", leases.list(&named)).await;
    company(&found.map_err(Error::Unreachable)?.items, now).map_or(Ok(()), Err)
}

/// Why the hub does not start beside the holders of these leases.
fn company(leases: &[Lease], now: Timestamp) -> Option<Error> {
    // Not every server that answers has to know the selector.
    let of_managers = leases.iter().filter(|it| it.metadata.name.as_deref() == Some(leader::LEASE_NAME));
    let mut held = of_managers.filter_map(|it| Some((it, live_holder(it, now)?)));
    held.next().map(|(lease, holder)| Error::NotAlone {
        holder: holder.to_owned(),
        lease: format!("{}/{}", lease.metadata.namespace.as_deref().unwrap_or_default(), leader::LEASE_NAME),
    })
}

/// Who holds a lease that has not run out.
fn live_holder(lease: &Lease, now: Timestamp) -> Option<&str> {
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.as_deref().filter(|it| !it.is_empty())?;
    let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(15)).unwrap_or(0);
    let ends = spec.renew_time.as_ref()?.0.checked_add(Duration::from_secs(seconds)).ok()?;
    (ends > now).then_some(holder)
}

/// The replica is not ready from the moment it is told to stop, so that it gets no new work.
fn readiness(handle: &webhook::Handle, stop: &CancellationToken) -> Checks {
    let (handle, stop) = (handle.clone(), stop.clone());
    Checks::default()
        .with("stopping", move || if stop.is_cancelled() { Err("stopping".to_owned()) } else { Ok(()) })
        .with_probe("webhook-ready", move || {
            let handle = handle.clone();
            async move { handle.check().await.map_err(|it| it.to_string()) }
        })
}

/// Waits until admission is set up and this process leads, and acts.
async fn act(
    settings: &Settings,
    parts: Parts,
    mut handle: webhook::Handle,
    stop: &CancellationToken,
) -> Result<(), Error> {
    if stop.run_until_cancelled(handle.wait_until_ready()).await.is_none() {
        return Ok(());
    }
    info!(address = %handle.address(), "admission is set up");
    let Some((namespace, name, timings)) = &settings.lease else {
        return control::run(parts, stop.clone()).await.map_err(Error::Control);
    };
    let identity = leader::identity(&settings.host_name, &Seed::from_system());
    let (clock, metrics) = (parts.clock.clone(), parts.measures.metrics.clone());
    let election =
        Election::new(parts.client.clone(), (namespace, name), &identity, *timings, clock, metrics)
            .map_err(Error::Election)?;
    info!(namespace, lease = name, identity, "waiting for the lease of the leader");
    match election.lead(stop, async |_| control::run(parts, stop.clone()).await).await {
        Ended::Finished(ended) => ended.map_err(Error::Control),
        Ended::Stopped => Ok(()),
        Ended::Lost => Err(Error::LeadershipLost),
    }
}

async fn bind(flag: &'static str, address: Option<SocketAddr>) -> Result<Option<Bound>, Error> {
    let Some(address) = address else { return Ok(None) };
    let bound = Bound::bind(address).await.map_err(|source| Error::Listen { flag, address, source })?;
    info!(flag, address = %bound.address, "listening");
    Ok(Some(bound))
}

fn serve(
    services: &mut JoinSet<Result<(), Error>>,
    flag: &'static str,
    at: Option<Bound>,
    router: axum::Router,
    close: &CancellationToken,
) {
    let close = close.clone();
    if let Some(bound) = at {
        services.spawn(async move {
            bound.serve(router, close).await.map_err(|source| Error::Serve { flag, source })
        });
    }
}

/// Ends when a service fails. They do not end by themselves otherwise.
async fn broken(services: &mut JoinSet<Result<(), Error>>) -> Result<(), Error> {
    while let Some(ended) = services.join_next().await {
        ended.map_err(Error::Broken).flatten()?;
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests;
