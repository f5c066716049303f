//! Starting the daemon: what it is told, in which order its parts begin, and how it ends.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf};

use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{
    cri::sockets,
    health::{self, Health},
    images::{docker_files, plugins},
    metrics::DaemonMetrics,
    parts::Parts,
};
use crate::runtime::{
    client::{self, ConnectError},
    clock::{Clock, Seed},
    gates::Gates,
    health::Bound,
    metrics::Metrics,
    throttle::Throttle,
};

/// What the daemon is told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The name of the node it runs on.
    pub node: String,
    /// Where the cluster is.
    pub source: client::Source,
    /// Where `/healthz`, `/readyz` and `/metrics` are served; nowhere if absent.
    pub address: Option<SocketAddr>,
    /// Where the host's `/var/run` is.
    pub host_run: PathBuf,
    /// The runtime's socket below it, or anywhere if absolute; found by itself if absent.
    pub socket: Option<String>,
    /// How many images are downloaded at once; any number if absent.
    pub downloads: Option<NonZeroUsize>,
    /// The configuration of credential provider plugins; it need not exist.
    pub plugin_config: PathBuf,
    /// Where their programs are.
    pub plugin_binaries: PathBuf,
    /// Docker configurations with credentials of the node; they need not exist.
    pub docker_files: Vec<(PathBuf, docker_files::Form)>,
    /// Which loops run.
    pub gates: Gates,
}

impl Settings {
    /// What a daemon of `node` does if nothing else is said.
    pub fn new(node: impl Into<String>) -> Self {
        Self {
            node: node.into(),
            source: client::Source::InCluster,
            address: Some(SocketAddr::from(([0, 0, 0, 0], 10_221))),
            host_run: sockets::HOST_RUN.into(),
            socket: None,
            // Upstream downloads without limit unless told; its users ask for a small number.
            downloads: NonZeroUsize::new(5),
            plugin_config: plugins::CONFIG_FILE.into(),
            plugin_binaries: plugins::BINARIES.into(),
            docker_files: Vec::new(),
            gates: Gates::defaults(),
        }
    }
}

/// Why the daemon does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not know where it is.
    #[error("not found NODE_NAME in environments")]
    NoNode,
    /// There is no client for the API server.
    #[error(
        "no way to the cluster: check --kubeconfig and --context, KUBECONFIG, or the pod's service account"
    )]
    Connect(#[from] ConnectError),
    /// The address for health and metrics cannot be used.
    #[error("--addr: could not listen on {0}")]
    Listen(SocketAddr, #[source] std::io::Error),
    /// Health and metrics are not served any more.
    #[error("health and metrics are not served any more")]
    Serve(#[source] std::io::Error),
}

/// Runs the daemon until `token` is cancelled.
pub async fn run(settings: Settings, token: CancellationToken) -> Result<(), Error> {
    if settings.node.is_empty() {
        return Err(Error::NoNode);
    }
    let clock = Clock::system();
    let counted = DaemonMetrics::new();
    let metrics = Metrics::new(|it| counted.register(it));
    let options = client::Options {
        user_agent: "kruise-daemon".into(),
        metrics: metrics.clone(),
        throttle: Throttle::default(),
        clock: clock.clone(),
    };
    let client = client::connect(&settings.source, &options).await?;
    let health = Health::default();
    // Everything ends with this token: also when serving fails.
    let token = token.child_token();
    // A taken port is found before anything happens.
    let bound = bind(settings.address).await?;
    let served = serve(bound, health::routes(health.clone(), metrics.clone()), token.clone());
    let parts = Parts { settings, client, clock, metrics, counted, health, seed: Seed::from_system() };
    let work = async {
        if let Some(runtimes) = parts.find_runtimes(&token).await {
            parts.work(runtimes, &token).await;
        }
    };
    tokio::pin!(work);
    tokio::select! {
        biased;
        () = &mut work => Ok(()),
        ended = served => {
            token.cancel();
            work.await;
            ended
        }
    }
}

async fn bind(address: Option<SocketAddr>) -> Result<Option<Bound>, Error> {
    let Some(address) = address else { return Ok(None) };
    let bound = Bound::bind(address).await.map_err(|it| Error::Listen(address, it))?;
    info!(flag = "addr", address = %bound.address, "listening");
    Ok(Some(bound))
}

async fn serve(bound: Option<Bound>, routes: axum::Router, token: CancellationToken) -> Result<(), Error> {
    match bound {
        Some(bound) => bound.serve(routes, token).await.map_err(Error::Serve),
        None => {
            token.cancelled().await;
            Ok(())
        }
    }
}
