//! What one manager is told: the command line and the environment, read once and checked before anything starts.

pub mod hub;

use std::{net::SocketAddr, num::NonZeroUsize, time::Duration};

use kruise_core::{
    api::{
        crds::{WEBHOOK_NAMESPACE, WEBHOOK_SERVICE},
        image_pull_job::keys::SECRETS_NAMESPACE,
    },
    controllers::image_pull_job,
    runtime::{
        client::Source,
        gates::{self, Gate, Gates},
        leader::Timings,
        webhook::settings::{BadVariable, Defaults},
    },
};

use super::arguments::Arguments;
use crate::flags::source;
pub use crate::flags::{Environment, Log};
pub use hub::{Hub, HubArguments};
pub use kruise_core::runtime::webhook::settings::{Settings as Webhook, Storage};

/// The Secret of the webhook certificate, unless told otherwise.
pub const CERTIFICATE_SECRET: &str = "kruise-webhook-certs";

/// Everything a manager needs to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How to reach the cluster.
    pub source: Source,
    /// Which optional behaviour is on.
    pub gates: Gates,
    /// The lease to hold while acting; none if this process is alone.
    pub lease: Option<Lease>,
    /// The name of this machine or pod, for people who look at the lease.
    pub host_name: String,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// Where probes are served.
    pub probes: Option<SocketAddr>,
    /// The only namespace to watch; all if there is none.
    pub namespace: Option<String>,
    /// The hub whose plans are carried out; none if this cluster is on its own.
    pub hub: Option<Hub>,
    /// How CloneSets are handled.
    pub cloneset: CloneSet,
    /// How the cluster's side of node duties is done.
    pub nodes: NodeDuties,
    /// How admission is served.
    pub webhook: Webhook,
    /// What is logged.
    pub log: Log,
    /// Flags that were given and have no effect, with the reason.
    pub without_effect: Vec<(&'static str, &'static str)>,
}

/// The lease of the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How long things take.
    pub timings: Timings,
}

/// How CloneSets are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloneSet {
    /// How many are reconciled at once.
    pub workers: NonZeroUsize,
    /// Whether pods that prepare their deletion do not count as replicas.
    pub exclude_preparing_delete: bool,
}

/// How the cluster's side of node duties is done.
#[derive(Debug, Clone)]
pub struct NodeDuties {
    /// How many NodeImages are seen to at once.
    pub node_image_workers: NonZeroUsize,
    /// How many ImagePullJobs.
    pub job_workers: NonZeroUsize,
    /// How many ImageListPullJobs.
    pub list_workers: NonZeroUsize,
    /// How many ContainerRecreateRequests.
    pub request_workers: NonZeroUsize,
    /// How many pods whose sidecars are to be stopped.
    pub terminator_workers: NonZeroUsize,
    /// How long a node is ready before it gets its NodeImage.
    pub creation_delay: Duration,
    /// How image pull jobs are handled.
    pub jobs: image_pull_job::Settings,
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `--feature-gates` cannot be read.
    #[error("--feature-gates cannot be used")]
    Gates(#[source] gates::Error),
    /// An environment variable cannot be read.
    #[error(transparent)]
    Variable(#[from] BadVariable),
    /// Flags about the hub do not fit together.
    #[error(transparent)]
    Hub(#[from] hub::Fault),
}

impl Settings {
    /// Reads and checks everything.
    pub fn new(arguments: Arguments, environment: Environment<'_>) -> Result<Self, Error> {
        // A variable that is set to nothing, as charts do, is not set.
        let environment = &|name: &str| environment(name).filter(|it| !it.is_empty());
        let own_namespace = environment("POD_NAMESPACE").unwrap_or_else(|| WEBHOOK_NAMESPACE.to_owned());
        let gates = arguments.feature_gates.join(",");
        let gates =
            Gates::parse(&gates, environment("CUSTOM_RESOURCE_ENABLE").as_deref()).map_err(Error::Gates)?;
        let defaults = Defaults {
            secret: CERTIFICATE_SECRET,
            service: WEBHOOK_SERVICE,
            own_namespace: own_namespace.clone(),
            is_external: gates.is_on(Gate::EnableExternalCerts),
            initialize_within: arguments.webhook_initialize_timeout,
        };
        let webhook = Webhook::read(defaults, environment)?;
        let lease = arguments.enable_leader_election.then(|| Lease {
            namespace: Some(arguments.leader_election_namespace)
                .filter(|it| !it.is_empty())
                .unwrap_or(own_namespace),
            name: arguments.leader_election_id,
            timings: Timings {
                lease: arguments.leader_election_lease_duration,
                renew: arguments.leader_election_renew_deadline,
                retry: arguments.leader_election_retry_period,
            },
        });
        Ok(Self {
            source: source(arguments.kubeconfig, arguments.context, environment),
            gates,
            lease,
            host_name: environment("POD_NAME")
                .or_else(|| environment("HOSTNAME"))
                .unwrap_or_else(|| "kruise-agent".to_owned()),
            metrics: arguments.metrics_addr.0,
            probes: arguments.health_probe_addr.0,
            namespace: Some(arguments.namespace).filter(|it| !it.is_empty()),
            hub: arguments.hub.read()?,
            cloneset: CloneSet {
                workers: arguments.cloneset_workers,
                exclude_preparing_delete: arguments.cloneset_scaling_exclude_preparing_delete,
            },
            nodes: NodeDuties {
                node_image_workers: arguments.nodeimage_workers,
                job_workers: arguments.imagepulljob_workers,
                list_workers: arguments.imagelistpulljob_workers,
                request_workers: arguments.crr_workers,
                terminator_workers: arguments.sidecarterminator_workers,
                creation_delay: arguments.nodeimage_creation_delay,
                jobs: image_pull_job::Settings {
                    secrets_namespace: environment("KRUISE_DAEMON_CONFIG_NS")
                        .unwrap_or_else(|| SECRETS_NAMESPACE.to_owned()),
                    default_ttl: arguments.default_ttlseconds_for_always_nodeimage,
                },
            },
            webhook,
            log: Log::new(arguments.log_format, arguments.verbosity),
            without_effect: arguments.without_effect.given,
        })
    }
}

#[cfg(test)]
mod tests;
