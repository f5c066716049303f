//! An API server that is told by its address and authority, and a client that changes who it asks as without a restart.

use std::{fmt, sync::Arc};

use arc_swap::ArcSwap;
use axum::http::{Request, Uri};
use base64::{Engine, engine::general_purpose::STANDARD};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
    config::AuthInfo,
};
use tower::service_fn;

use super::{ConnectError, Options, harden, layer::Watchful};

/// An API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Where it is: `https://hub:6443`.
    pub url: Uri,
    /// The only authorities that its certificate may come from, DER.
    pub authority: Vec<Vec<u8>>,
}

/// Who asks.
#[derive(Clone, PartialEq, Eq)]
pub enum User {
    /// The holder of a bearer token.
    Token(String),
    /// The holder of a client certificate. Both are PEM.
    Certificate {
        /// The certificate.
        chain: String,
        /// Its private key.
        key: String,
    },
}

/// Tokens and keys stay out of logs.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token",
            Self::Certificate { .. } => "Certificate",
        })
    }
}

/// Builds the client for `server`, asking as `user`.
pub fn connect_as(server: &Server, user: &User, options: &Options) -> Result<Client, ConnectError> {
    let mut auth = AuthInfo::default();
    match user {
        User::Token(token) => auth.token = Some(token.clone().into()),
        User::Certificate { chain, key } => {
            auth.client_certificate_data = Some(STANDARD.encode(chain));
            auth.client_key_data = Some(STANDARD.encode(key).into());
        }
    }
    let mut config = Config::new(server.url.clone());
    config.root_cert = Some(server.authority.clone());
    config.auth_info = auth;
    let config = harden(config, &options.user_agent)?;
    let builder = ClientBuilder::try_from(config).map_err(ConnectError::Build)?;
    Ok(builder.with_layer(&tower::layer::layer_fn(|it| Watchful::new(it, options))).build())
}

/// Whose requests go through whichever client was set last. What is under way, such as a watch, ends where it began.
#[derive(Clone)]
pub struct Swap(Arc<ArcSwap<Client>>);

impl Swap {
    /// Begins with `first`.
    pub fn new(first: Client) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(first)))
    }

    /// Sends everything from now on through `next`.
    pub fn set(&self, next: Client) {
        self.0.store(Arc::new(next));
    }

    /// The client that never has to be replaced.
    pub fn client(&self, namespace: &str) -> Client {
        let present = self.0.clone();
        let service = service_fn(move |request: Request<Body>| {
            let client = present.load_full();
            async move { client.send(request).await }
        });
        Client::new(service, namespace)
    }
}

impl fmt::Debug for Swap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Swap")
    }
}
