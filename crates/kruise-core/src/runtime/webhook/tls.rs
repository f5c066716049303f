//! Key sets as rustls wants them.

use std::sync::Arc;

use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    version::TLS13,
};

use super::{Error, certs::KeySet};

/// The one provider of cryptography in this workspace, named wherever it is needed: nothing depends on what a process
/// has installed as its default.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// A server that presents the certificate of `keys`.
pub(super) fn server_config(keys: &KeySet) -> Result<Arc<ServerConfig>, Error> {
    let unreadable = |_| Error::Unservable { source: rustls::Error::General("unreadable PEM".to_owned()) };
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(&keys.cert).collect::<Result<_, _>>().map_err(unreadable)?;
    let key = PrivateKeyDer::from_pem_slice(&keys.key).map_err(unreadable)?;

    let mut config = ServerConfig::builder_with_provider(provider())
        // API servers have spoken it for years, and nobody else calls (SEC-3).
        .with_protocol_versions(&[&TLS13])
        .and_then(|it| it.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|source| Error::Unservable { source })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
