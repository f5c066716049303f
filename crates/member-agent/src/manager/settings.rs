//! What one manager is told: the command line and the environment, read once and checked before anything starts.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    path::PathBuf,
    time::Duration,
};

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
        webhook::{Host, certs},
    },
};

use super::arguments::Arguments;
use crate::flags::source;
pub use crate::flags::{Environment, Log};

/// The Secret of the webhook certificate, unless told otherwise.
pub const CERTIFICATE_SECRET: &str = "kruise-webhook-certs";
/// The port that webhooks listen on, unless told otherwise.
pub const WEBHOOK_PORT: u16 = 9876;

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

/// A hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hub {
    /// The kubeconfig file for it.
    pub kubeconfig: PathBuf,
    /// Its UID.
    pub uid: String,
    /// The name of this cluster there; by default what its namespace there says.
    pub cluster: Option<String>,
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
    /// How long a node is ready before it gets its NodeImage.
    pub creation_delay: Duration,
    /// How image pull jobs are handled.
    pub jobs: image_pull_job::Settings,
}

/// How admission is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// How the API server reaches it.
    pub host: Host,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where the certificate is kept.
    pub storage: Storage,
    /// The namespace of this process.
    pub own_namespace: String,
    /// How long before its end the certificate is replaced.
    pub renew_before: Duration,
    /// How soon everything must be set up once.
    pub initialize_within: Duration,
}

/// Where the certificate is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// In the Secret of this name, which all replicas share.
    Secret(String),
    /// In the Secret of this name, which somebody else fills.
    External(String),
    /// In a directory.
    Directory(PathBuf),
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `--feature-gates` cannot be read.
    #[error("--feature-gates cannot be used")]
    Gates(#[source] gates::Error),
    /// An environment variable cannot be read.
    #[error("{name}={value:?} cannot be used: {wanted}")]
    Variable {
        /// Which one.
        name: &'static str,
        /// Its value.
        value: String,
        /// What would do.
        wanted: &'static str,
    },
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
        let webhook = webhook(&arguments, gates, own_namespace.clone(), environment)?;
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
            hub: arguments.hub_kubeconfig.zip(arguments.hub_uid).map(|(kubeconfig, uid)| Hub {
                kubeconfig,
                uid,
                cluster: arguments.hub_cluster,
            }),
            cloneset: CloneSet {
                workers: arguments.cloneset_workers,
                exclude_preparing_delete: arguments.cloneset_scaling_exclude_preparing_delete,
            },
            nodes: NodeDuties {
                node_image_workers: arguments.nodeimage_workers,
                job_workers: arguments.imagepulljob_workers,
                list_workers: arguments.imagelistpulljob_workers,
                request_workers: arguments.crr_workers,
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

fn webhook(
    arguments: &Arguments,
    gates: Gates,
    own_namespace: String,
    environment: Environment<'_>,
) -> Result<Webhook, Error> {
    let port = match environment("WEBHOOK_PORT") {
        None => WEBHOOK_PORT,
        Some(value) => value.parse().map_err(|_| Error::Variable {
            name: "WEBHOOK_PORT",
            value,
            wanted: "it must be a port number",
        })?,
    };
    let named = environment("WEBHOOK_HOST");
    let secret = environment("SECRET_NAME").unwrap_or_else(|| CERTIFICATE_SECRET.to_owned());
    let directory = environment("WEBHOOK_CERT_DIR").map(PathBuf::from);
    let directory = directory.unwrap_or_else(|| std::env::temp_dir().join("kruise-webhook-certs"));
    let writer = environment("WEBHOOK_CERT_WRITER");
    let storage = match (writer.as_deref(), &named) {
        _ if gates.is_on(Gate::EnableExternalCerts) => Storage::External(secret),
        (Some("fs"), _) | (None, Some(_)) => Storage::Directory(directory),
        (Some("secret") | None, _) => Storage::Secret(secret),
        (Some(other), _) => {
            let (value, wanted) = (other.to_owned(), "it must be fs or secret");
            return Err(Error::Variable { name: "WEBHOOK_CERT_WRITER", value, wanted });
        }
    };
    let host = match named {
        Some(named) => url(&named)?,
        None => Host::service(
            own_namespace.as_str(),
            environment("SERVICE_NAME").unwrap_or_else(|| WEBHOOK_SERVICE.to_owned()),
        ),
    };
    Ok(Webhook {
        listen: SocketAddr::new(listen(&host), port),
        host,
        storage,
        own_namespace,
        renew_before: certs::renew_before(&environment("CERTS_RENEW_BEFORE").unwrap_or_default()),
        initialize_within: arguments.webhook_initialize_timeout,
    })
}

/// A host, an address, or either with a port.
fn url(named: &str) -> Result<Host, Error> {
    if let Ok(address) = named.parse::<SocketAddr>() {
        return Ok(Host::Url { host: address.ip().to_string(), port: Some(address.port()) });
    }
    match named.rsplit_once(':') {
        // More than one colon is an IPv6 address.
        Some((host, port)) if !host.contains(':') => {
            let wrong = |_| Error::Variable {
                name: "WEBHOOK_HOST",
                value: named.to_owned(),
                wanted: "it must be a host or an address, with a port number if there is a colon",
            };
            Ok(Host::Url { host: host.to_owned(), port: Some(port.parse().map_err(wrong)?) })
        }
        _ => Ok(Host::url(named)),
    }
}

/// Every interface, unless the API server is told to come through loopback: then nobody else needs to reach it.
fn listen(host: &Host) -> IpAddr {
    match host.dns_name().parse::<IpAddr>() {
        Ok(address) if matches!(host, Host::Url { .. }) && address.is_loopback() => address,
        _ => Ipv4Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests;
