//! A simulated cluster over HTTPS on loopback, for `kubectl` and for processes of their own.
//!
//! Everyone who holds the kubeconfig may do everything: there are tokens, but no rights.

mod access;
mod ask;
mod certificate;

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
};

use axum::{Router, body::Body, extract::Request, response::Response};
use axum_server::{Handle, tls_rustls::RustlsConfig};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tower::Service;

use self::access::Access;
pub(crate) use self::ask::Asker;
use crate::{World, faults::LinkService, server::status::Failure};

/// A cluster that is being served. It ends when this is dropped.
pub struct Served {
    name: String,
    address: SocketAddr,
    authority: String,
    access: Access,
    handle: Handle<SocketAddr>,
    task: JoinHandle<()>,
}

/// Why a cluster cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No certificate.
    #[error("the certificate cannot be made")]
    Certificate(#[from] rcgen::Error),
    /// A certificate that the TLS library refuses.
    #[error("the certificate cannot be used")]
    Tls(#[from] rustls::Error),
    /// No port.
    #[error("no port of this machine can be listened on")]
    Listen(#[source] std::io::Error),
    /// No random numbers.
    #[error("the system gives no random numbers")]
    Random,
    /// No file.
    #[error("the kubeconfig cannot be written")]
    Write(#[source] std::io::Error),
}

impl World {
    /// Serves a cluster on a free port of loopback. Requests take the link of the client `https`, and webhooks that are
    /// configured with a URL are asked about writes.
    pub fn serve(&self, cluster: &str) -> Result<Served, Error> {
        let identity = certificate::issue(cluster)?;
        let tls = RustlsConfig::from_config(certificate::server_config(&identity)?);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::Listen)?;
        listener.set_nonblocking(true).map_err(Error::Listen)?;
        let address = listener.local_addr().map_err(Error::Listen)?;
        let access = Access::create()?;
        let service = self.service("https", cluster).asking(Asker::default());
        let router = router(service, access.clone());

        let handle = Handle::new();
        let server = axum_server::from_tcp_rustls(listener, tls).map_err(Error::Listen)?;
        let server = server.handle(handle.clone());
        let task = tokio::spawn(async move {
            if let Err(error) = server.serve(router.into_make_service()).await {
                tracing::warn!(%error, "a simulated cluster is no longer served");
            }
        });
        let name = cluster.to_owned();
        Ok(Served { name, address, authority: identity.authority, access, handle, task })
    }
}

impl Served {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A kubeconfig with everything inside, as JSON (every reader of YAML takes it).
    pub fn kubeconfig(&self) -> Value {
        let Self { name, address, authority, access, .. } = self;
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": {
                "server": format!("https://{address}"),
                "certificate-authority-data": BASE64_STANDARD.encode(authority),
            }}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "users": [{"name": name, "user": {"token": access.token()}}],
        })
    }

    /// Writes the kubeconfig to a file that only its owner can read.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<(), Error> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(path).map_err(Error::Write)?;
        let written = serde_json::to_writer_pretty(file, &self.kubeconfig());
        written.map_err(|error| Error::Write(error.into()))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.shutdown();
        self.task.abort();
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Served")
            .field("name", &self.name)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

fn router(service: LinkService, access: Access) -> Router {
    Router::new().fallback(move |request: Request| {
        let (service, access) = (service.clone(), access.clone());
        async move { answer(service, &access, request).await }
    })
}

async fn answer(mut service: LinkService, access: &Access, request: Request) -> Response {
    if !access.allows(&request) {
        return failed(&Failure::plain(401, "Unauthorized", "Unauthorized"));
    }
    let (parts, body) = request.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return failed(&Failure::bad_request(error.to_string())),
    };
    let request = http::Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
    match service.call(request).await {
        Ok(response) => response.map(Body::new),
        // Faults that break connections have no other way out of a handler.
        Err(error) => failed(&Failure::plain(502, "", format!("the link broke: {error}"))),
    }
}

fn failed(failure: &Failure) -> Response {
    let body = Body::from(failure.body().to_string());
    let response = Response::builder().status(failure.code);
    let response = response.header(http::header::CONTENT_TYPE, "application/json");
    response.body(body).expect("constant headers are valid")
}
