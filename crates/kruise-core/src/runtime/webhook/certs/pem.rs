//! Reading PEM and X.509 without believing any of it.

use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};
use x509_parser::{certificate::X509Certificate, parse_x509_certificate};

/// The certificates in `pem`, if there is at least one and all of them are readable.
pub(super) fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let certs: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    let readable = !certs.is_empty() && certs.iter().all(|it| parse(it).is_some());
    readable.then_some(certs)
}

/// The private key in `pem`.
pub(super) fn private_key(pem: &[u8]) -> Option<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem).ok()
}

/// The certificate, if `der` is exactly one.
pub(super) fn parse<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    match parse_x509_certificate(der) {
        Ok(([], cert)) => Some(cert),
        _ => None,
    }
}

/// From when to when `der` is valid.
pub(super) fn validity(der: &CertificateDer<'_>) -> Option<(Timestamp, Timestamp)> {
    let cert = parse(der)?;
    let from = Timestamp::from_second(cert.validity().not_before.timestamp()).ok()?;
    let to = Timestamp::from_second(cert.validity().not_after.timestamp()).ok()?;
    Some((from, to))
}

/// When the first certificate in `pem` stops being valid.
pub fn expiry(pem: &[u8]) -> Option<Timestamp> {
    validity(certificates(pem)?.first()?).map(|(_, to)| to)
}

/// Whether every certificate of `certs` is also in `bundle`, however either is wrapped.
pub fn is_within(certs: &[u8], bundle: &[u8]) -> bool {
    let (Some(certs), Some(bundle)) = (certificates(certs), certificates(bundle)) else {
        return false;
    };
    certs.iter().all(|it| bundle.contains(it))
}

/// `certs` as PEM.
pub(super) fn encode(certs: &[CertificateDer<'_>]) -> Vec<u8> {
    use std::fmt::Write;

    let mut pem = String::new();
    for cert in certs {
        let base64 = serde_json::to_value(k8s_openapi::ByteString(cert.to_vec()));
        let base64 = base64.expect("bytes always serialize");
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in base64.as_str().unwrap_or_default().as_bytes().chunks(64) {
            let _ = writeln!(pem, "{}", String::from_utf8_lossy(line));
        }
        pem.push_str("-----END CERTIFICATE-----\n");
    }
    pem.into_bytes()
}

/// `key` in the only form that rcgen reads with ring. OpenKruise's keys come as bare PKCS#1, which PKCS#8 merely wraps.
pub(super) fn to_pkcs8(key: &PrivateKeyDer<'_>) -> Option<PrivatePkcs8KeyDer<'static>> {
    /// Version 0, then the algorithm: rsaEncryption with NULL parameters.
    const RSA: [u8; 18] = [
        0x02, 0x01, 0x00, 0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05,
        0x00,
    ];
    match key {
        PrivateKeyDer::Pkcs8(it) => Some(it.clone_key()),
        PrivateKeyDer::Pkcs1(it) => {
            let inner = tagged(0x04, it.secret_pkcs1_der());
            let outer = tagged(0x30, &[&RSA[..], &inner].concat());
            Some(PrivatePkcs8KeyDer::from(outer))
        }
        _ => None,
    }
}

/// A DER element.
fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().position(|it| *it != 0).unwrap_or(length.len() - 1)..];
    let mut element = vec![tag];
    if content.len() >= 0x80 {
        // The long form says first how many bytes the length takes; eight at most, so the count fits.
        element.push(0x80 | significant.len() as u8);
    }
    element.extend_from_slice(significant);
    element.extend_from_slice(content);
    element
}
