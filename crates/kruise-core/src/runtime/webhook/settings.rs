//! What a process that serves webhooks is told by its environment.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use super::{Builder, Host, Server, certs};
use crate::runtime::flags::Environment;

/// The port that webhooks listen on, unless told otherwise.
pub const PORT: u16 = 9876;

/// How admission is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
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

/// What a process does unless its environment says otherwise.
#[derive(Debug, Clone)]
pub struct Defaults {
    /// The Secret of the certificate.
    pub secret: &'static str,
    /// The Service through which the API server reaches it.
    pub service: &'static str,
    /// The namespace of the process.
    pub own_namespace: String,
    /// Whether somebody else fills the Secret.
    pub is_external: bool,
    /// How soon everything must be set up once.
    pub initialize_within: Duration,
}

/// An environment variable that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{name}={value:?} cannot be used: {wanted}")]
pub struct BadVariable {
    /// Which one.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What would do.
    pub wanted: &'static str,
}

impl Settings {
    /// Reads the environment, in which a variable that is set to nothing is not set.
    pub fn read(defaults: Defaults, environment: Environment<'_>) -> Result<Self, BadVariable> {
        let Defaults { secret, service, own_namespace, is_external, initialize_within } = defaults;
        let port = match environment("WEBHOOK_PORT") {
            None => PORT,
            Some(value) => value.parse().map_err(|_| BadVariable {
                name: "WEBHOOK_PORT",
                value,
                wanted: "it must be a port number",
            })?,
        };
        let named = environment("WEBHOOK_HOST");
        let secret = environment("SECRET_NAME").unwrap_or_else(|| secret.to_owned());
        let directory = environment("WEBHOOK_CERT_DIR").map(PathBuf::from);
        let directory = directory.unwrap_or_else(|| std::env::temp_dir().join(&secret));
        let writer = environment("WEBHOOK_CERT_WRITER");
        let storage = match (writer.as_deref(), &named) {
            _ if is_external => Storage::External(secret),
            (Some("fs"), _) | (None, Some(_)) => Storage::Directory(directory),
            (Some("secret") | None, _) => Storage::Secret(secret),
            (Some(other), _) => {
                let (value, wanted) = (other.to_owned(), "it must be fs or secret");
                return Err(BadVariable { name: "WEBHOOK_CERT_WRITER", value, wanted });
            }
        };
        let host = match named {
            Some(named) => url(&named)?,
            None => Host::service(
                own_namespace.as_str(),
                environment("SERVICE_NAME").unwrap_or_else(|| service.to_owned()),
            ),
        };
        Ok(Self {
            listen: SocketAddr::new(listen(&host), port),
            host,
            storage,
            own_namespace,
            renew_before: certs::renew_before(&environment("CERTS_RENEW_BEFORE").unwrap_or_default()),
            initialize_within,
        })
    }

    /// A server that is told all of this.
    pub fn builder(self) -> Builder {
        let Self { host, listen, storage, own_namespace, renew_before, initialize_within } = self;
        let builder = Server::builder()
            .listen(listen)
            .host(host)
            .own_namespace(own_namespace.as_str())
            .renew_before(renew_before)
            .initialize_within(initialize_within);
        match storage {
            Storage::Secret(name) => builder.secret(own_namespace, name),
            Storage::External(name) => builder.external(own_namespace, name),
            Storage::Directory(path) => builder.directory(path),
        }
    }
}

/// A host, an address, or either with a port.
fn url(named: &str) -> Result<Host, BadVariable> {
    if let Ok(address) = named.parse::<SocketAddr>() {
        return Ok(Host::Url { host: address.ip().to_string(), port: Some(address.port()) });
    }
    match named.rsplit_once(':') {
        // More than one colon is an IPv6 address.
        Some((host, port)) if !host.contains(':') => {
            let wrong = |_| BadVariable {
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
mod tests {
    use super::*;

    #[test]
    fn a_host_may_have_a_port_and_be_an_address() {
        for (text, host, port) in [("::1", "::1", None), ("[::1]:9", "::1", Some(9)), ("a.b", "a.b", None)] {
            assert_eq!(url(text).unwrap(), Host::Url { host: host.to_owned(), port });
        }
    }
}
