//! Whether a stored certificate may be served.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustls::{
    CertificateError, RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime},
    sign::CertifiedKey,
};

use super::{CA_CERT, CERT, Contents, KEY, KeySet, pem};
use crate::runtime::webhook::tls::provider;

/// An authority that ends sooner than this issues nothing more.
const AUTHORITY_MUST_LAST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// However early a certificate is to be replaced, a new one is good for some years: else each would be due at once.
const EARLIEST_RENEWAL: Duration = Duration::from_secs(5 * 365 * 24 * 60 * 60);

/// What a certificate is measured against.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// The name or address under which the API server calls.
    pub dns_name: &'a str,
    /// The present.
    pub now: Timestamp,
    /// How long before its end a certificate is replaced.
    pub renew_before: Duration,
    /// How long a retired authority stays trusted.
    pub overlap: Duration,
}

impl Terms<'_> {
    /// Until when a certificate must last to be kept.
    fn must_last(&self) -> Timestamp {
        later(self.now, self.renew_before.min(EARLIEST_RENEWAL))
    }
}

/// What to do about what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// Serve it.
    Keep,
    /// Serve it, but its retired authorities have been trusted long enough.
    DropRetired,
    /// Make a new certificate.
    Reissue {
        /// Who signs it.
        authority: Authority,
        /// What is wrong with the present one.
        fault: Fault,
    },
}

/// Who signs a new certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// The stored authority: clients trust it already.
    Reuse,
    /// A new one: the stored one is unusable or ends soon.
    Replace,
}

/// What is wrong with a stored certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Nothing is stored.
    #[error("nothing is stored")]
    Absent,
    /// A key is missing or empty.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// One of the two copies of a value is not a copy.
    #[error("{0} is not the same as its other copy")]
    CopyDiffers(&'static str),
    /// A value is not what its key says.
    #[error("{0} is unreadable")]
    Unreadable(&'static str),
    /// The private key is not the certificate's.
    #[error("the private key does not belong to the certificate")]
    KeyMismatch,
    /// The authority's certificate is not one of an authority.
    #[error("the stored authority is not an authority")]
    NotAnAuthority,
    /// Another authority signed the certificate.
    #[error("the stored authority did not sign the certificate")]
    WrongAuthority,
    /// The certificate is for another name.
    #[error("the certificate is for another name")]
    WrongName,
    /// The certificate or its authority starts in the future.
    #[error("the certificate is not valid yet")]
    NotYetValid,
    /// The certificate or its authority has ended.
    #[error("the certificate has expired")]
    Expired,
    /// The certificate or its authority ends soon.
    #[error("the certificate ends soon")]
    DueForRenewal,
    /// TLS clients refuse the certificate for another reason.
    #[error("clients would refuse the certificate")]
    Refused,
}

/// Judges what was found in the store.
pub fn judge(found: Option<&Contents>, terms: &Terms<'_>) -> Judgement {
    let Some(contents) = found else {
        return Judgement::Reissue { authority: Authority::Replace, fault: Fault::Absent };
    };
    let keys = KeySet::read(contents).and_then(|it| examine(&it, terms).map(|()| it));
    match keys {
        Ok(keys) => match keys.retired {
            Some(retired) if terms.now >= later(retired.at, terms.overlap) => Judgement::DropRetired,
            _ if keys.retired.is_none() && contents.contains_key(super::RETIRED_CERTS) => {
                Judgement::DropRetired
            }
            _ => Judgement::Keep,
        },
        Err(fault) => {
            let usable = authority(contents, terms).is_some();
            Judgement::Reissue {
                authority: if usable { Authority::Reuse } else { Authority::Replace },
                fault,
            }
        }
    }
}

/// Whether a client that trusts the set's authority accepts the set's certificate now; renewal is not asked about.
pub fn still_serves(keys: &KeySet, terms: &Terms<'_>) -> Result<(), Fault> {
    examine(keys, &Terms { renew_before: Duration::ZERO, ..*terms })
}

/// The stored authority, if it can issue: its key fits, and it lasts for another year at least.
pub(super) fn authority(
    contents: &Contents,
    terms: &Terms<'_>,
) -> Option<(CertificateDer<'static>, PrivateKeyDer<'static>)> {
    let cert = pem::certificates(contents.get(CA_CERT)?)?.swap_remove(0);
    let key = pem::private_key(contents.get(super::CA_KEY)?)?;
    let (from, to) = pem::validity(&cert)?;
    let must_last = terms.must_last().max(later(terms.now, AUTHORITY_MUST_LAST));
    let usable = pem::parse(&cert)?.is_ca() && from <= terms.now && to > must_last;
    CertifiedKey::from_der(vec![cert.clone()], key.clone_key(), &provider()).ok()?;
    pem::to_pkcs8(&key)?;
    usable.then_some((cert, key))
}

fn examine(keys: &KeySet, terms: &Terms<'_>) -> Result<(), Fault> {
    let authorities = pem::certificates(&keys.ca_cert).ok_or(Fault::Unreadable(CA_CERT))?;
    let chain = pem::certificates(&keys.cert).ok_or(Fault::Unreadable(CERT))?;
    let key = pem::private_key(&keys.key).ok_or(Fault::Unreadable(KEY))?;

    let issuer = &authorities[0];
    if !pem::parse(issuer).is_some_and(|it| it.is_ca()) {
        return Err(Fault::NotAnAuthority);
    }
    CertifiedKey::from_der(chain.clone(), key, &provider()).map_err(|it| match it {
        rustls::Error::InconsistentKeys(_) => Fault::KeyMismatch,
        _ => Fault::Unreadable(KEY),
    })?;

    // A client of ours would not look at the authority's own dates, but the API server does.
    let (from, to) = pem::validity(issuer).ok_or(Fault::Unreadable(CA_CERT))?;
    if terms.now < from {
        return Err(Fault::NotYetValid);
    }
    if terms.now > to {
        return Err(Fault::Expired);
    }
    accepts(issuer, &chain, terms.dns_name, terms.now)?;

    let then = terms.must_last();
    if then > to {
        return Err(Fault::DueForRenewal);
    }
    accepts(issuer, &chain, terms.dns_name, then).map_err(|_| Fault::DueForRenewal)
}

/// Whether a TLS client at the time `at` accepts `chain` for `name` if it trusts `issuer` alone.
fn accepts(
    issuer: &CertificateDer<'static>,
    chain: &[CertificateDer<'static>],
    name: &str,
    at: Timestamp,
) -> Result<(), Fault> {
    let mut roots = RootCertStore::empty();
    roots.add(issuer.clone()).map_err(|_| Fault::Unreadable(CA_CERT))?;
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider())
        .build()
        .map_err(|_| Fault::Unreadable(CA_CERT))?;
    let name = ServerName::try_from(name).map_err(|_| Fault::WrongName)?;
    let at = u64::try_from(at.as_second()).map_err(|_| Fault::NotYetValid)?;
    let at = UnixTime::since_unix_epoch(Duration::from_secs(at));

    match verifier.verify_server_cert(&chain[0], &chain[1..], &name, &[], at) {
        Ok(_) => Ok(()),
        Err(rustls::Error::InvalidCertificate(error)) => Err(match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Fault::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Fault::NotYetValid,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Fault::WrongName
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Fault::WrongAuthority,
            _ => Fault::Refused,
        }),
        Err(_) => Err(Fault::Refused),
    }
}

/// `after` later than `at`; the end of time stands for everything beyond it.
pub(super) fn later(at: Timestamp, after: Duration) -> Timestamp {
    let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
    at.saturating_add(after).unwrap_or(Timestamp::MAX)
}
