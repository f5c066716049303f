//! How does the API server ask us, and why does it trust the answer?
//!
//! One HTTPS server on every replica, leader or not. [`Server`] answers admission reviews with plain functions and
//! converts objects between versions; beside that it looks after itself: it makes the certificate it serves with,
//! shares it with the other replicas, replaces it before it ends, and keeps the webhook configurations and CRDs
//! pointing at it and trusting it.
//!
//! What may be served and what configurations should say is decided by values alone ([`certs::decide`],
//! [`configuration::rebuild`], [`crd::conversion_patch`], [`registration::configurations`]); [`Server::run`] carries
//! it out.

pub mod certs;
pub mod configuration;
pub mod conversion;
pub mod crd;
mod host;
mod keeper;
mod measures;
mod presenter;
pub mod registration;
pub mod review;
mod routes;
mod server;
pub mod settings;
mod sync;
mod tls;
pub mod verdict;

pub use host::Host;
pub use measures::Measures;
pub use presenter::Handle;
pub use registration::Registration;
pub use review::{AdmissionRequest, Operation};
pub use routes::Event;
pub use server::{Builder, Server};
pub use verdict::{Denial, FieldError, FieldFault, Verdict};

use std::{fmt, io, time::Duration};

use certs::Fault;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    access::{self, Right},
    client,
};
use registration::ConfigurationNames;

/// How long one API call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the server cannot run, or why one round of its upkeep failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call of the API server failed.
    #[error(transparent)]
    Call(#[from] client::Error),
    /// The server was not told something it needs.
    #[error("the webhook server needs {0}")]
    Incomplete(&'static str),
    /// The table of registrations is faulty.
    #[error("bad webhook registrations: {}", .0.join("; "))]
    Registrations(Vec<String>),
    /// The address cannot be listened on.
    #[error("could not listen on {address}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The server stopped serving.
    #[error("serving webhooks failed")]
    Serve {
        /// The reason.
        source: io::Error,
    },
    /// No certificate could be made.
    #[error("could not make a certificate")]
    Issue {
        /// The reason.
        source: certs::IssueError,
    },
    /// The certificate directory cannot be used.
    #[error("could not use the certificate directory")]
    Directory {
        /// The reason.
        source: io::Error,
    },
    /// An external certificate cannot be served.
    #[error("the external certificate cannot be served")]
    External {
        /// What is wrong with it.
        source: Fault,
    },
    /// Somebody else manages the bundles and has not set them to the external authority.
    #[error("caBundle is not that of the external authority in: {}", .0.join(", "))]
    Distrusted(Vec<String>),
    /// A store that is only read was to be written.
    #[error("external certificates are never written")]
    ReadOnlyStore,
    /// Replicas kept overtaking each other.
    #[error("another replica keeps changing the certificate")]
    Contended,
    /// TLS refuses the key or the certificate.
    #[error("the certificate cannot be served")]
    Unservable {
        /// The reason.
        source: rustls::Error,
    },
    /// A webhook configuration that must exist does not.
    #[error("the webhook configuration {0} does not exist")]
    NoConfiguration(String),
    /// The first round of upkeep did not succeed in time.
    #[error("webhooks were not set up within {within:?}")]
    NotInitialized {
        /// The time allowed.
        within: Duration,
        /// The last failure, if a round has ended at all.
        source: Option<Box<Error>>,
    },
    /// The server does not answer itself.
    #[error("the webhook server does not answer")]
    Unanswered {
        /// The reason.
        source: kube::Error,
    },
    /// There is no certificate to serve with yet.
    #[error("the webhook server is not ready yet")]
    NotReady,
}

impl Error {
    /// A fixed word for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Call(error) => error.label(),
            Self::Incomplete(_) | Self::Registrations(_) => "setup",
            Self::Listen { .. } | Self::Serve { .. } => "listen",
            Self::Issue { .. } | Self::Unservable { .. } => "certificate",
            Self::Directory { .. } => "directory",
            Self::External { .. } | Self::Distrusted(_) | Self::ReadOnlyStore => "external",
            Self::Contended => "contended",
            Self::NoConfiguration(_) => "no_configuration",
            Self::NotInitialized { .. } | Self::NotReady => "not_ready",
            Self::Unanswered { .. } => "unanswered",
        }
    }
}

/// The rights of upkeep, for a server that is reached through a Service: the certificate in the Secret `secret`, the
/// configurations, and the CRDs named in `crds`.
pub fn needs(secret: &str, names: &ConfigurationNames, crds: Vec<String>) -> Vec<Right> {
    const CONFIGURATIONS: &str = "admissionregistration.k8s.io";
    const DEFINITIONS: &str = "apiextensions.k8s.io";
    let keep = &["get", "list", "watch", "patch"];
    vec![
        access::own_namespace("", "secrets", &["create"]),
        access::own_namespace("", "secrets", &["get", "list", "watch", "update", "delete"]).named([secret]),
        access::cluster(CONFIGURATIONS, "mutatingwebhookconfigurations", keep)
            .named([names.mutating.as_str()]),
        access::cluster(CONFIGURATIONS, "validatingwebhookconfigurations", keep)
            .named([names.validating.as_str()]),
        // Several names cannot be watched in one request, so all definitions are; only metadata is asked for.
        access::cluster(DEFINITIONS, "customresourcedefinitions", &["list", "watch"]),
        access::cluster(DEFINITIONS, "customresourcedefinitions", &["get", "patch"]).named(crds),
    ]
}

/// The deadline of [`client::call`] is for writes of many objects; a webhook that is late blocks others sooner.
async fn call<T>(
    name: &'static str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    Ok(client::call_within(CALL_TIMEOUT, name, request).await?)
}

/// Changes the named object. `patch` carries the resourceVersion it was made for.
async fn merge<K: DeserializeOwned + Clone + fmt::Debug>(
    call_name: &'static str,
    api: &Api<K>,
    name: &str,
    patch: &Value,
) -> Result<K, Error> {
    call(call_name, api.patch(name, &PatchParams::default(), &Patch::Merge(patch))).await
}

/// Whether `error` is the API server's answer `code`.
fn is_status(error: &Error, code: u16) -> bool {
    matches!(error, Error::Call(error) if error.code() == Some(code))
}

#[cfg(test)]
mod tests;
