//! The way to the hub: its address, and the authority that is believed to sign for it (SEC-3). Pure.

use kruise_core::runtime::client::Server;
use ring::digest::{SHA256, digest};
use rustls::pki_types::{CertificateDer, pem::PemObject};

use super::identity::hex;

/// Why there is no way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The address cannot be used.
    #[error("--hub-server is {0:?}: it must be an address such as https://hub:6443")]
    Server(String),
    /// There is no authority.
    #[error("--hub-ca-file holds no certificate in PEM")]
    NoAuthority,
    /// The pin cannot be read.
    #[error("--hub-ca-hash is {0:?}: it must be sha256: and 64 hexadecimal digits")]
    Pin(String),
    /// The authority is another one than was meant.
    #[error(
        "--hub-ca-file is not the authority that --hub-ca-hash names: it has {found}. Somebody may have exchanged it; take both \
         from `kubectl fleet join --print` again"
    )]
    OtherAuthority {
        /// The hash of what is there.
        found: String,
    },
}

/// The hub at `server`, if `authority`, PEM, is the one that `pin` names.
pub fn server(server: &str, authority: &[u8], pin: Option<&str>) -> Result<Server, Fault> {
    let url = server.parse().ok().filter(|_| server.starts_with("https://"));
    let url = url.ok_or_else(|| Fault::Server(server.to_owned()))?;
    let authority: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(authority).collect();
    let authority = authority.ok().filter(|it| !it.is_empty()).ok_or(Fault::NoAuthority)?;
    if let Some(pin) = pin {
        let digits = pin.strip_prefix("sha256:").map(str::to_ascii_lowercase);
        let is_hash = |it: &String| it.len() == 64 && it.bytes().all(|it| it.is_ascii_hexdigit());
        let wanted = digits.filter(is_hash).ok_or_else(|| Fault::Pin(pin.to_owned()))?;
        let found = hex(digest(&SHA256, &authority[0]).as_ref());
        if found != wanted {
            return Err(Fault::OtherAuthority { found: format!("sha256:{found}") });
        }
    }
    Ok(Server { url, authority: authority.into_iter().map(|it| it.to_vec()).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://hub:6443";
    const PEM: &[u8] = b"-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n";
    // printf abc | sha256sum
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn sec_3_only_the_pinned_authority_is_believed() {
        let pin = format!("sha256:{ABC}");
        let way = server(URL, PEM, Some(&pin)).unwrap();
        assert_eq!(
            (way.url.to_string().as_str(), way.authority),
            ("https://hub:6443/", vec![b"abc".to_vec()])
        );
        assert!(server(URL, PEM, Some(&pin.to_uppercase().replace("SHA256", "sha256"))).is_ok());
        let other = format!("sha256:{}", "0".repeat(64));
        let fault = server(URL, PEM, Some(&other)).unwrap_err();
        assert_eq!(fault, Fault::OtherAuthority { found: pin });
        assert!(fault.to_string().contains("--hub-ca-hash") && fault.to_string().contains(ABC), "{fault}");
    }

    #[test]
    fn what_cannot_be_used_is_named_with_its_flag() {
        assert_eq!(server("http://hub", PEM, None), Err(Fault::Server("http://hub".into())));
        assert_eq!(server("https://", PEM, None), Err(Fault::Server("https://".into())));
        assert_eq!(server(URL, b"none", None), Err(Fault::NoAuthority));
        for pin in [ABC, "sha256:", "sha256:abc", &format!("sha256:{}", "ü".repeat(32)), "md5:1"] {
            assert_eq!(server(URL, PEM, Some(pin)), Err(Fault::Pin(pin.to_owned())));
        }
    }
}
