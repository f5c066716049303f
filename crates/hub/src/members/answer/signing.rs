//! May this CertificateSigningRequest be approved? (ADR 9, "Signing")
//!
//! Whoever approves for the signer of client certificates can make anybody anyone, so nothing is approved that is not exactly
//! what an agent has to ask for: one user, its pinned key, made by somebody who may ask for it.

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use x509_parser::{
    asn1_rs::Tag, certification_request::X509CertificationRequest, cri_attributes::ParsedCriAttribute,
    extensions::ParsedExtension, oid_registry::OID_X509_COMMON_NAME, prelude::FromDer, x509::X509Name,
};

use crate::{admission::joining::BOOTSTRAP_USER, members::access::CREDENTIAL_LIFE};

/// The signer of client certificates of an API server.
pub const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Start of the names of the requests of agents. Others are not ours to answer.
pub const PREFIX: &str = "fleet-agent-";

const CLIENT: &str = "client auth";
const SIGNATURE: &str = "digital signature";
const BEGIN: &str = "-----BEGIN CERTIFICATE REQUEST-----";
const END: &str = "-----END CERTIFICATE REQUEST-----";

/// The user that the holder of a token is.
pub fn bootstrap_user(token: &str) -> String {
    format!("{BOOTSTRAP_USER}{token}")
}

/// What a request must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected<'a> {
    /// One of whom must have made it.
    pub creators: &'a [&'a str],
    /// For whom it must ask.
    pub user: &'a str,
    /// The pinned key, SubjectPublicKeyInfo as DER.
    pub key: &'a [u8],
}

/// What is wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Its name is not one that agents choose.
    #[error("its name does not begin with {PREFIX}")]
    Name,
    /// Others sign it.
    #[error("it is for another signer than {SIGNER}")]
    Signer,
    /// A stranger made it.
    #[error("it was made by somebody else")]
    Creator,
    /// It is to be used for other things.
    #[error("it asks for other usages than client auth and digital signature")]
    Usages,
    /// It would be valid for too long, or for as long as the signer likes.
    #[error("it does not ask for at most 24 hours")]
    Life,
    /// It is not exactly one readable request.
    #[error("it is not one PKCS#10 request in PEM")]
    Unreadable,
    /// It is for somebody else, or has more in its subject.
    #[error("its subject is not the common name of the cluster's agent alone")]
    Subject,
    /// It asks for names or rights besides.
    #[error("it asks for extensions, such as alternative names")]
    Extensions,
    /// Its key is another one.
    #[error("its key is not the pinned one")]
    Key,
}

/// What is wrong with `request`, if anything is.
pub fn fault(request: &CertificateSigningRequest, expected: &Expected<'_>) -> Option<Fault> {
    let spec = &request.spec;
    if !request.metadata.name.as_deref().unwrap_or_default().starts_with(PREFIX) {
        return Some(Fault::Name);
    }
    if spec.signer_name != SIGNER {
        return Some(Fault::Signer);
    }
    if !spec.username.as_deref().is_some_and(|it| expected.creators.contains(&it)) {
        return Some(Fault::Creator);
    }
    let usages = spec.usages.as_deref().unwrap_or_default();
    let is_known = |it: &String| it == CLIENT || it == SIGNATURE;
    if !usages.iter().all(is_known) || !usages.iter().any(|it| it == CLIENT) {
        return Some(Fault::Usages);
    }
    // Without a wish the signer takes its own longest time.
    let seconds = spec.expiration_seconds.and_then(|it| u64::try_from(it).ok());
    if seconds.is_none_or(|it| it > CREDENTIAL_LIFE.as_secs()) {
        return Some(Fault::Life);
    }
    match der(&spec.request.0) {
        Some(der) => fault_inside(&der, expected),
        None => Some(Fault::Unreadable),
    }
}

fn fault_inside(der: &[u8], expected: &Expected<'_>) -> Option<Fault> {
    let Ok(([], parsed)) = X509CertificationRequest::from_der(der) else { return Some(Fault::Unreadable) };
    let info = &parsed.certification_request_info;
    if sole_common_name(&info.subject) != Some(expected.user) {
        return Some(Fault::Subject);
    }
    // What the certificate is used for is decided by the usages above; that much may be repeated here.
    let is_harmless = |it: &ParsedExtension<'_>| {
        matches!(it, ParsedExtension::KeyUsage(_) | ParsedExtension::ExtendedKeyUsage(_))
    };
    let is_plain = info.iter_attributes().all(|it| match it.parsed_attribute() {
        ParsedCriAttribute::ExtensionRequest(asked) => {
            asked.extensions.iter().all(|it| is_harmless(it.parsed_extension()))
        }
        _ => false,
    });
    if !is_plain {
        return Some(Fault::Extensions);
    }
    (info.subject_pki.raw != expected.key).then_some(Fault::Key)
}

/// The common name, if there is one and nothing else.
fn sole_common_name<'a>(subject: &X509Name<'a>) -> Option<&'a str> {
    let mut attributes = subject.iter_attributes();
    let (only, None) = (attributes.next()?, attributes.next()) else { return None };
    // Other kinds of text are read differently by different readers.
    let is_plain = matches!(only.attr_value().header.tag(), Tag::Utf8String | Tag::PrintableString);
    (is_plain && *only.attr_type() == OID_X509_COMMON_NAME).then(|| only.as_str().ok()).flatten()
}

/// The request itself. The signer reads the first block of a text: where there is anything besides one block, it might
/// read another one than we do.
fn der(pem: &[u8]) -> Option<Vec<u8>> {
    let text = str::from_utf8(pem).ok()?.trim_ascii();
    let body = text.strip_prefix(BEGIN)?.strip_suffix(END)?;
    if body.contains(['-', ':']) {
        return None;
    }
    let body: String = body.split_ascii_whitespace().collect();
    STANDARD.decode(body).ok()
}

/// What has been said to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// Nothing yet.
    Nothing,
    /// It may be signed.
    Approved,
    /// It is not signed.
    Refused,
}

/// What has been said to `request`.
pub fn said(request: &CertificateSigningRequest) -> Said {
    let conditions = request.status.as_ref().and_then(|it| it.conditions.as_deref()).unwrap_or_default();
    let has = |kinds: &[&str]| conditions.iter().any(|it| kinds.contains(&it.type_.as_str()));
    if has(&["Denied", "Failed"]) {
        Said::Refused
    } else if has(&["Approved"]) {
        Said::Approved
    } else {
        Said::Nothing
    }
}

/// The certificate, once it is signed.
pub fn certificate(request: &CertificateSigningRequest) -> Option<&str> {
    let signed = request.status.as_ref()?.certificate.as_ref()?;
    str::from_utf8(&signed.0).ok().filter(|it| !it.is_empty())
}
