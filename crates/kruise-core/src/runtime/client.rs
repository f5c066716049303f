//! The only place that builds clients, and the deadline that every call goes through.
//!
//! kube's own client retries 429, 503 and 504 for minutes inside one call and has no read timeout. Ours retries
//! nothing (that is the queue's business), gives up on an answer that does not begin, counts every request, and tells
//! the group of writers when the server asks for patience.

mod direct;
mod layer;
mod tls;

pub use direct::{Server, Swap, User, connect_as};
pub use tls::tls_1_3;

use std::{path::PathBuf, time::Duration};

use axum::http::{HeaderValue, Request, Response, header};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::watcher,
};
use tower::{BoxError, Service};

use super::{clock::Clock, metrics::Metrics, throttle::Throttle};
use layer::Watchful;

/// How long one call may take, answer included.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the server may take to begin an answer; the API server itself gives up on a request after a minute.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a connection may take to open.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a watch runs before it is opened anew. A dead one is noticed five seconds later.
pub const WATCH_TIMEOUT_SECONDS: u32 = 60;

/// Where the cluster is and how to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The service account of the pod that this process runs in.
    InCluster,
    /// A kubeconfig file: the given one, else what `KUBECONFIG` or the home directory says.
    Kubeconfig {
        /// The file.
        path: Option<PathBuf>,
        /// The context in it; the current one when not given.
        context: Option<String>,
    },
}

/// What every client of the process has in common.
#[derive(Debug, Clone)]
pub struct Options {
    /// Sent as `User-Agent`: `kruise-agent/0.1.0`.
    pub user_agent: String,
    /// Counts the requests.
    pub metrics: Metrics,
    /// The group wait of those who write to this cluster.
    pub throttle: Throttle,
    /// Time for the group wait.
    pub clock: Clock,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No service account is mounted.
    #[error("the service account of this pod cannot be read")]
    InCluster(#[source] kube::config::InClusterError),
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig cannot be used")]
    Kubeconfig(#[source] kube::config::KubeconfigError),
    /// The program's name does not fit into a header.
    #[error("user agent {0:?} is not a header value")]
    UserAgent(String),
    /// TLS or login settings are unusable.
    #[error("no client can be built from these settings")]
    Build(#[source] kube::Error),
}

/// Builds the client for `source`.
pub async fn connect(source: &Source, options: &Options) -> Result<Client, ConnectError> {
    let config = harden(load(source).await?, &options.user_agent)?;
    let builder = ClientBuilder::try_from(config).map_err(ConnectError::Build)?;
    Ok(builder.with_layer(&tower::layer::layer_fn(|it| Watchful::new(it, options))).build())
}

/// Builds a client over any service that answers HTTP requests: simulated clusters and tests.
pub fn over<S, B>(service: S, options: &Options) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + Send + 'static,
    B: axum::body::HttpBody<Data = axum::body::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    Client::new(Watchful::new(service, options), "default")
}

/// How caches watch: consistent lists (the own-writes overlay relies on them) and a dead watch noticed soon.
pub fn watch() -> watcher::Config {
    watcher::Config::default().timeout(WATCH_TIMEOUT_SECONDS)
}

async fn load(source: &Source) -> Result<Config, ConnectError> {
    match source {
        Source::InCluster => Config::incluster().map_err(ConnectError::InCluster),
        Source::Kubeconfig { path, context } => {
            let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
            let config = match path {
                Some(path) => match Kubeconfig::read_from(path) {
                    Ok(file) => Config::from_custom_kubeconfig(file, &options).await,
                    Err(error) => Err(error),
                },
                None => Config::from_kubeconfig(&options).await,
            };
            config.map_err(ConnectError::Kubeconfig)
        }
    }
}

fn harden(mut config: Config, user_agent: &str) -> Result<Config, ConnectError> {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let agent =
        HeaderValue::from_str(user_agent).map_err(|_| ConnectError::UserAgent(user_agent.to_owned()))?;
    config.headers.push((header::USER_AGENT, agent));
    Ok(config)
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server, or the way to it, said no.
    #[error("{call} failed")]
    Api {
        /// Which call.
        call: &'static str,
        /// What it was told.
        source: kube::Error,
    },
    /// There was no answer in time. What was asked for may still have happened.
    #[error("{call} did not answer within {after:?}")]
    Timeout {
        /// Which call.
        call: &'static str,
        /// The deadline that passed.
        after: Duration,
    },
}

/// Every API call goes through here: it gets a deadline and a name.
pub async fn call<T>(
    name: &'static str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    call_within(CALL_TIMEOUT, name, request).await
}

/// The same with another deadline.
pub async fn call_within<T>(
    after: Duration,
    name: &'static str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(after, request).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(source)) => Err(Error::Api { call: name, source }),
        Err(_) => Err(Error::Timeout { call: name, after }),
    }
}

impl Error {
    /// The HTTP status, where the server answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api { source: kube::Error::Api(status), .. } => Some(status.code),
            _ => None,
        }
    }

    /// Whether the server says that somebody was faster: what was read is not what is there any more. A name that is
    /// taken is something else.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { source: kube::Error::Api(it), .. } if it.code == 409 && it.reason != "AlreadyExists")
    }

    /// Whether an object of that name is there already.
    pub fn is_name_taken(&self) -> bool {
        matches!(self, Self::Api { source: kube::Error::Api(it), .. } if it.code == 409 && it.reason == "AlreadyExists")
    }

    /// The failure in one line, in the server's own words where it has answered.
    pub fn told(&self) -> String {
        if let Self::Api { source: kube::Error::Api(status), .. } = self {
            return format!("{self}: {}", status.message);
        }
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(it) = cause {
            text = format!("{text}: {it}");
            cause = it.source();
        }
        text
    }

    /// A fixed word for metrics.
    pub fn label(&self) -> &'static str {
        match (self, self.code()) {
            (Self::Timeout { .. }, _) => "timeout",
            (_, Some(401 | 403)) => "forbidden",
            (_, Some(404)) => "not_found",
            (_, Some(409)) => "conflict",
            (_, Some(410)) => "expired",
            (_, Some(422 | 400)) => "invalid",
            (_, Some(429)) => "throttled",
            (_, Some(500..)) => "server",
            (_, Some(_)) => "refused",
            (Self::Api { source: kube::Error::SerdeError(_), .. }, None) => "decode",
            (Self::Api { .. }, None) => "network",
        }
    }

    /// Whether what was asked for may have happened all the same.
    pub fn leaves_doubt(&self) -> bool {
        // An answer from 400 to 499 is a refusal. Anything else may have struck after the write: etcd timed out, the
        // connection broke, the answer could not be read.
        !matches!(self.code(), Some(400..500))
    }
}

#[cfg(test)]
mod tests;
