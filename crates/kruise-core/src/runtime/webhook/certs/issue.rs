//! Making certificates.
//!
//! OpenKruise makes RSA keys; ring cannot, so ours are ECDSA on P-256, which every supported API server accepts. RSA
//! authorities that OpenKruise has left behind are still used to sign.

use std::{net::IpAddr, slice::from_ref, time::Duration};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType, string::Ia5String,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::time::ASN1Time;

use super::{
    KeySet, Terms,
    judge::later,
    pem::{encode, to_pkcs8, validity},
};

const AUTHORITY_NAME: &str = "webhook-cert-ca";
const LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Clocks of API servers may be behind ours: certificates are valid from a little before they were made.
const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

/// The longest common name that X.509 allows.
const LONGEST_COMMON_NAME: usize = 64;

/// A certificate signed by a new authority.
pub fn issue_with_new_authority(terms: &Terms<'_>) -> Result<KeySet, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(AUTHORITY_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::KeyCertSign,
    ];
    params.not_before = date(earlier(terms.now, CLOCK_SKEW))?.to_datetime();
    params.not_after = date(later(terms.now, LIFETIME))?.to_datetime();
    let cert = params.self_signed(&key)?;
    let der = PrivateKeyDer::try_from(key.serialize_der()).map_err(|_| rcgen::Error::CouldNotParseKeyPair)?;

    let mut keys = issue(terms, cert.der(), &der)?;
    keys.ca_key = key.serialize_pem().into_bytes();
    Ok(keys)
}

/// A certificate signed by the given authority, which must be one that [`super::judge`] found usable. The authority's
/// key is left out of the result: the caller has it as it was stored.
pub fn issue(
    terms: &Terms<'_>,
    ca_cert: &CertificateDer<'_>,
    ca_key: &PrivateKeyDer<'_>,
) -> Result<KeySet, rcgen::Error> {
    let ca_key = to_pkcs8(ca_key).ok_or(rcgen::Error::CouldNotParseKeyPair)?;
    let issuer = Issuer::from_ca_cert_der(ca_cert, KeyPair::try_from(&ca_key)?)?;
    let (from, to) = validity(ca_cert).ok_or(rcgen::Error::CouldNotParseCertificate)?;

    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(terms.dns_name);
    params.subject_alt_names = vec![SanType::DnsName(Ia5String::try_from("localhost")?)];
    params.subject_alt_names.push(match terms.dns_name.parse::<IpAddr>() {
        Ok(address) => SanType::IpAddress(address),
        Err(_) => SanType::DnsName(Ia5String::try_from(terms.dns_name)?),
    });
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // While two authorities of the same name are trusted, this tells clients which one to try.
    params.use_authority_key_identifier_extension = true;
    params.not_before = date(from)?.to_datetime();
    params.not_after = date(later(terms.now, LIFETIME).min(to))?.to_datetime();
    let cert = params.signed_by(&key, &issuer)?;

    Ok(KeySet {
        ca_key: Vec::new(),
        ca_cert: encode(from_ref(ca_cert)),
        key: key.serialize_pem().into_bytes(),
        cert: encode(from_ref(cert.der())),
        retired: None,
    })
}

fn common_name(name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    // Clients look at the alternative names only, so a name that is too long is simply left out.
    if name.len() <= LONGEST_COMMON_NAME {
        subject.push(DnType::CommonName, name);
    }
    subject
}

fn date(at: Timestamp) -> Result<ASN1Time, rcgen::Error> {
    ASN1Time::from_timestamp(at.as_second()).map_err(|_| rcgen::Error::Time)
}

fn earlier(at: Timestamp, before: Duration) -> Timestamp {
    at.checked_sub(before).unwrap_or(Timestamp::MIN)
}
