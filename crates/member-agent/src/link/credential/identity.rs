//! Who an agent is on the hub: a key that never leaves the member, and a name that goes with it (JOIN-2, JOIN-4).

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData};
use ring::digest::{SHA256, digest};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_parser::{certificate::X509Certificate, parse_x509_certificate};

/// Digits of the key's hash in the name of its user.
const DIGITS: usize = 16;

/// The key pair of an agent: ECDSA on P-256.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    pem: String,
    /// SubjectPublicKeyInfo, DER.
    public: Vec<u8>,
}

impl Key {
    /// A new one.
    pub fn generate() -> Result<Self, rcgen::Error> {
        let pair = KeyPair::generate()?;
        Ok(Self { pem: pair.serialize_pem(), public: pair.subject_public_key_info() })
    }

    /// The one that was kept; nothing if that is no key.
    pub fn read(pem: &str) -> Option<Self> {
        let pair = KeyPair::from_pem(pem).ok()?;
        Some(Self { pem: pem.to_owned(), public: pair.subject_public_key_info() })
    }

    /// The private half, PEM: for the Secret and for TLS.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The public half as JoinRequests have it.
    pub fn public_key(&self) -> String {
        STANDARD.encode(&self.public)
    }

    /// The user on the hub that holds this key as the agent of `cluster`. A name that is given to another cluster one day
    /// comes with another key, so that the certificates of the former holder stay worthless.
    pub fn user(&self, cluster: &str) -> String {
        let mut digits = hex(digest(&SHA256, &self.public).as_ref());
        digits.truncate(DIGITS);
        format!("fleet:agent:{cluster}:{digits}")
    }

    /// What a certificate is asked for with, PEM: the name, and nothing else.
    pub fn signing_request(&self, cluster: &str) -> Result<String, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, self.user(cluster));
        params.serialize_request(&KeyPair::from_pem(&self.pem)?)?.pem()
    }

    /// From when to when a certificate is valid, if it is one for this key as the agent of `cluster`. Whether that is now is
    /// for the hub to say: our clock may be wrong.
    pub fn check(&self, certificate: &str, cluster: &str) -> Result<Validity, Fault> {
        let der = first(certificate).ok_or(Fault::Unreadable)?;
        let parsed = parse(&der).ok_or(Fault::Unreadable)?;
        if parsed.public_key().raw != self.public {
            return Err(Fault::OtherKey);
        }
        let names: Vec<_> = parsed.subject().iter_common_name().filter_map(|it| it.as_str().ok()).collect();
        if names != [self.user(cluster)] {
            return Err(Fault::OtherName);
        }
        validity(&parsed).ok_or(Fault::Unreadable)
    }
}

/// Private keys stay out of logs.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// From when to when a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// From when.
    pub from: Timestamp,
    /// To when.
    pub to: Timestamp,
}

impl Validity {
    /// That of the first certificate in `pem`.
    pub fn of(pem: &str) -> Option<Self> {
        validity(&parse(&first(pem)?)?)
    }
}

/// Why a credential is not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is none.
    #[error("it cannot be read")]
    Unreadable,
    /// It is for another key.
    #[error("it is for another key than this cluster's")]
    OtherKey,
    /// It is for somebody else.
    #[error("it is for another name than this cluster's")]
    OtherName,
    /// It does not open.
    #[error("it is sealed to another key, for another cluster or by another hub")]
    Sealed,
}

/// Whether two texts hold the same certificate, however they are wrapped.
pub fn is_same(a: &str, b: &str) -> bool {
    match (first(a), first(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// The first certificate in `pem`.
pub(super) fn first(pem: &str) -> Option<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).ok()
}

/// Bytes as small hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    match parse_x509_certificate(der) {
        Ok(([], it)) => Some(it),
        _ => None,
    }
}

fn validity(certificate: &X509Certificate<'_>) -> Option<Validity> {
    let from = Timestamp::from_second(certificate.validity().not_before.timestamp()).ok()?;
    let to = Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()?;
    Some(Validity { from, to })
}

#[cfg(test)]
mod tests {
    use x509_parser::{certification_request::X509CertificationRequest, prelude::FromDer};

    use super::{
        super::tests::{certificate, key},
        *,
    };

    #[test]
    fn join_2_a_request_has_the_name_of_the_cluster_and_of_its_key_and_nothing_else() {
        let key = key();
        let pem = key.signing_request("eu-1").unwrap();
        let der = rustls::pki_types::CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).unwrap();
        let (_, request) = X509CertificationRequest::from_der(&der).unwrap();
        let subject = &request.certification_request_info.subject;
        let user = key.user("eu-1");
        assert_eq!(subject.to_string(), format!("CN={user}"));
        assert!(request.requested_extensions().into_iter().flatten().next().is_none());
        assert_eq!(request.certification_request_info.subject_pki.raw, key.public);
        // printf of the DER | sha256sum | cut -c1-16
        let digits = user.strip_prefix("fleet:agent:eu-1:").unwrap();
        assert!(digits.len() == 16 && digits.bytes().all(|it| b"0123456789abcdef".contains(&it)), "{user}");
        assert_ne!(user, Key::generate().unwrap().user("eu-1"), "another key is another user");
    }

    #[test]
    fn a_key_is_read_as_it_was_written_and_never_shown() {
        let key = key();
        assert_eq!(Key::read(key.pem()), Some(key.clone()));
        assert_eq!(format!("{key:?}"), "Key");
        assert_eq!(STANDARD.decode(key.public_key()).unwrap(), key.public);
        assert_eq!(Key::read("none"), None);
    }

    #[test]
    fn join_4_only_a_certificate_for_our_key_and_name_is_ours() {
        let (key, other) = (key(), Key::generate().unwrap());
        let (from, to) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let life = Validity { from: from.parse().unwrap(), to: to.parse().unwrap() };
        let ours = certificate(&key, &key.user("eu-1"), life);
        assert_eq!(key.check(&ours, "eu-1"), Ok(life));
        assert_eq!(Validity::of(&ours), Some(life));
        assert_eq!(key.check(&ours, "eu-2"), Err(Fault::OtherName));
        assert_eq!(other.check(&ours, "eu-1"), Err(Fault::OtherKey));
        let by_hand = certificate(&key, "fleet:agent:eu-1", life);
        assert_eq!(key.check(&by_hand, "eu-1"), Err(Fault::OtherName));
        for nonsense in ["", "none", "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n"] {
            assert_eq!(key.check(nonsense, "eu-1"), Err(Fault::Unreadable), "{nonsense}");
        }
        assert!(is_same(&ours, &format!("{ours}\n")) && !is_same(&ours, &by_hand));
    }
}
