//! Which certificate is presented now.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::http::{Request, Uri};
use axum_server::tls_rustls::RustlsConfig;
use jiff::Timestamp;
use kube::{Client, Config};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use tokio::sync::watch;
use tracing::info;

use super::{
    Error,
    certs::{self, KeySet},
    routes::{Event, Observer},
    tls,
};

/// How long the server may take to answer itself.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Holds the certificate that new connections get.
pub(super) struct Presenter {
    config: OnceLock<RustlsConfig>,
    keys: watch::Sender<Option<Arc<KeySet>>>,
    ready: watch::Sender<bool>,
    observer: Observer,
}

impl Presenter {
    pub(super) fn new(observer: Observer) -> Self {
        Self {
            config: OnceLock::new(),
            keys: watch::Sender::new(None),
            ready: watch::Sender::new(false),
            observer,
        }
    }

    /// What is presented, if anything yet.
    pub(super) fn serving(&self) -> Option<Arc<KeySet>> {
        self.keys.borrow().clone()
    }

    /// Presents `keys` to every connection from now on.
    pub(super) fn adopt(&self, keys: &KeySet) -> Result<(), Error> {
        let fresh = self.serving().is_none_or(|it| !it.serves_like(keys));
        if fresh {
            let config = tls::server_config(keys)?;
            self.config
                .get_or_init(|| RustlsConfig::from_config(Arc::clone(&config)))
                .reload_from_config(config);
            let expiry = certs::expiry(&keys.cert);
            info!(expiry = expiry.map(|it| it.to_string()), "serving webhooks with a new certificate");
            (self.observer)(&Event::Adopted { expiry });
        }
        self.keys.send_replace(Some(Arc::new(keys.clone())));
        Ok(())
    }

    /// Waits until there is something to present.
    pub(super) async fn config(&self) -> RustlsConfig {
        let mut keys = self.keys.subscribe();
        loop {
            if let Some(config) = self.config.get() {
                return config.clone();
            }
            if keys.changed().await.is_err() {
                // The sender is our own, so it outlives the wait; nothing to present will ever come otherwise.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Says whether a round of upkeep has succeeded.
    pub(super) fn set_ready(&self) {
        self.ready.send_replace(true);
    }

    /// Sees what is presented at `address`.
    pub(super) fn handle(&self, address: SocketAddr, dns_name: String) -> Handle {
        Handle { address, dns_name, keys: self.keys.subscribe(), ready: self.ready.subscribe(), seen: None }
    }
}

impl fmt::Debug for Presenter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presenter").field("keys", &*self.keys.borrow()).finish_non_exhaustive()
    }
}

/// Tells how a [`super::Server`] is doing while it runs.
#[derive(Debug, Clone)]
pub struct Handle {
    address: SocketAddr,
    dns_name: String,
    keys: watch::Receiver<Option<Arc<KeySet>>>,
    ready: watch::Receiver<bool>,
    /// The certificate that this handle has told of.
    seen: Option<Arc<KeySet>>,
}

impl Handle {
    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The name that the certificate is for.
    pub fn dns_name(&self) -> &str {
        &self.dns_name
    }

    /// Whether the server, the configurations and the CRDs have been set up once.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Waits until they have. Never returns if the server gives up before that: then [`super::Server::run`] says why.
    pub async fn wait_until_ready(&mut self) {
        if self.ready.wait_for(|it| *it).await.is_err() {
            std::future::pending::<()>().await;
        }
        self.seen = self.keys.borrow().clone();
    }

    /// When the certificate that is served ends.
    pub fn certificate_expiry(&self) -> Option<Timestamp> {
        certs::expiry(&self.keys.borrow().as_ref()?.cert)
    }

    /// Waits until another certificate is served than this handle saw last: in this function, or when it waited for
    /// the server to be ready.
    pub async fn certificate_changed(&mut self) {
        let seen = self.seen.take();
        let is_new = |now: &Option<Arc<KeySet>>| match (&seen, now) {
            (Some(seen), Some(now)) => !seen.serves_like(now),
            (_, now) => now.is_some(),
        };
        match self.keys.wait_for(is_new).await.map(|it| it.clone()) {
            Ok(now) => self.seen = now,
            Err(_) => std::future::pending().await,
        }
    }

    /// What clients must trust, as PEM.
    pub fn trust_bundle(&self) -> Option<Vec<u8>> {
        Some(self.keys.borrow().as_ref()?.trust_bundle())
    }

    /// Asks the server for its health as the API server would: over TLS, trusting our authority alone. This is the
    /// `webhook-ready` check.
    pub async fn check(&self) -> Result<(), Error> {
        let bundle = self.trust_bundle().filter(|_| self.is_ready()).ok_or(Error::NotReady)?;
        let roots = CertificateDer::pem_slice_iter(&bundle).filter_map(Result::ok).map(|it| it.to_vec());
        let address = SocketAddr::new(reachable(self.address.ip()), self.address.port());
        let base: Uri = format!("https://{address}").parse().map_err(|_| Error::NotReady)?;

        let mut config = Config::new(base);
        config.root_cert = Some(roots.collect());
        config.tls_server_name = Some(self.dns_name.clone());
        config.connect_timeout = Some(PROBE_TIMEOUT);
        config.read_timeout = Some(PROBE_TIMEOUT);
        config.default_retry = false;
        let client = Client::try_from(config).map_err(|source| Error::Unanswered { source })?;
        let request = Request::get("/healthz").body(Vec::new()).map_err(|_| Error::NotReady)?;
        client.request_text(request).await.map(drop).map_err(|source| Error::Unanswered { source })
    }
}

/// An address to call for a server that listens on `address`.
fn reachable(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(it) if it.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(it) if it.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}
