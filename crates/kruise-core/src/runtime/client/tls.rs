//! Which TLS a process speaks.

use rustls::{
    ProtocolVersion,
    crypto::{CryptoProvider, ring},
};

/// What a process speaks whose every connection leads to or comes from an API server: TLS 1.3 and nothing older (SEC-3). kube's
/// clients offer what the provider of the process has ciphers for.
pub fn tls_1_3() -> CryptoProvider {
    let mut provider = ring::default_provider();
    provider.cipher_suites.retain(|it| it.version().version == ProtocolVersion::TLSv1_3);
    provider
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::{
        ClientConfig, ClientConnection, Error, RootCertStore, ServerConfig, ServerConnection,
        SupportedProtocolVersion,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
        version::{TLS12, TLS13},
    };

    use super::*;

    /// Lets a client of ours greet a server that speaks these versions.
    fn greet(versions: &[&'static SupportedProtocolVersion]) -> Result<Option<ProtocolVersion>, Error> {
        let name = "hub.example";
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone())?;
        let client = ClientConfig::builder_with_provider(Arc::new(tls_1_3()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)?;
        let mut client = ClientConnection::new(Arc::new(client), name.try_into().unwrap())?;
        let mut server = ServerConnection::new(Arc::new(server))?;
        while client.is_handshaking() || server.is_handshaking() {
            let mut wire = Vec::new();
            client.write_tls(&mut wire).unwrap();
            server.read_tls(&mut &wire[..]).unwrap();
            server.process_new_packets()?;
            wire.clear();
            server.write_tls(&mut wire).unwrap();
            client.read_tls(&mut &wire[..]).unwrap();
            client.process_new_packets()?;
        }
        Ok(client.protocol_version())
    }

    #[test]
    fn sec_3_a_server_that_speaks_nothing_newer_than_1_2_is_not_talked_to() {
        assert_eq!(greet(&[&TLS12, &TLS13]), Ok(Some(ProtocolVersion::TLSv1_3)));
        assert!(matches!(greet(&[&TLS12]), Err(Error::PeerIncompatible(_))));
    }
}
