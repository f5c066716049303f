//! Under which name the API server reaches the server.

use std::net::IpAddr;

use serde_json::{Value, json};

/// The port of the Service; it leads to the port the server listens on.
const SERVICE_PORT: u16 = 443;

/// Under which name the API server reaches the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// Through a Service of the cluster.
    Service {
        /// The Service's namespace.
        namespace: String,
        /// The Service's name.
        name: String,
    },
    /// Directly, outside of the cluster's network.
    Url {
        /// A DNS name or an address.
        host: String,
        /// The port; the one the server listens on if there is none.
        port: Option<u16>,
    },
}

impl Host {
    /// Through a Service.
    pub fn service(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self::Service { namespace: namespace.into(), name: name.into() }
    }

    /// Directly, at the port that the server listens on.
    pub fn url(host: impl Into<String>) -> Self {
        Self::Url { host: host.into(), port: None }
    }

    /// The name or address that the certificate must be for.
    pub fn dns_name(&self) -> String {
        match self {
            Self::Service { namespace, name } => format!("{name}.{namespace}.svc"),
            Self::Url { host, .. } => host.trim_matches(['[', ']']).to_owned(),
        }
    }

    /// The same host with the port filled in.
    pub(super) fn at_port(self, listening: u16) -> Self {
        match self {
            Self::Url { host, port: None } => Self::Url { host, port: Some(listening) },
            other => other,
        }
    }

    /// The `clientConfig` that leads to `path`, without a bundle. The fields of the other form are `null`, so that it
    /// also serves as a merge patch.
    pub(super) fn client_config(&self, path: &str) -> Value {
        match self {
            Self::Service { namespace, name } => json!({
                "url": null,
                "service": { "namespace": namespace, "name": name, "path": path, "port": SERVICE_PORT },
            }),
            Self::Url { port, .. } => {
                let name = self.dns_name();
                let name = match name.parse() {
                    Ok(IpAddr::V6(_)) => format!("[{name}]"),
                    _ => name,
                };
                let port = port.unwrap_or(SERVICE_PORT);
                json!({ "service": null, "url": format!("https://{name}:{port}{path}") })
            }
        }
    }
}

/// The path that a `clientConfig` of either form leads to.
pub(super) fn path_of(client_config: &Value) -> String {
    if let Some(url) = client_config.get("url").and_then(Value::as_str) {
        let beyond_scheme = url.split_once("://").map_or(url, |(_, it)| it);
        let path = beyond_scheme.find('/').map_or("/", |it| &beyond_scheme[it..]);
        return path.split(['?', '#']).next().unwrap_or(path).to_owned();
    }
    client_config.pointer("/service/path").and_then(Value::as_str).unwrap_or("/").to_owned()
}
