//! The keys and certificates that the webhook server serves with, and where they are kept.
//!
//! Replicas share one set. [`decide`] says, without touching anything, whether what was found may be used; the stores
//! carry its answer out.

mod decide;
mod directory;
mod issue;
mod judge;
mod pem;
mod period;
mod store;

pub use decide::{Decision, IssueError, Reason, decide};
pub use directory::Directory;
pub use issue::{issue, issue_with_new_authority};
pub use judge::{Authority, Fault, Judgement, Terms, judge, still_serves};
pub use pem::{expiry, is_within};
pub use period::{DEFAULT_RENEW_BEFORE, renew_before};
pub use store::{Found, Store, Written};

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;

/// The key of the authority's private key.
pub const CA_KEY: &str = "ca-key.pem";
/// The key of the authority's certificate.
pub const CA_CERT: &str = "ca-cert.pem";
/// The key of the server's private key.
pub const KEY: &str = "key.pem";
/// The key of the server's private key under the name that TLS Secrets use.
pub const TLS_KEY: &str = "tls.key";
/// The key of the server's certificate.
pub const CERT: &str = "cert.pem";
/// The key of the server's certificate under the name that TLS Secrets use.
pub const TLS_CERT: &str = "tls.crt";
/// The key of the authorities that are still trusted although no new certificate comes from them.
pub const RETIRED_CERTS: &str = "retired-ca-certs.pem";
/// The key of the time at which the last of them was retired.
pub const RETIRED_AT: &str = "retired-at";

/// What a Secret or a directory holds, by key.
pub type Contents = BTreeMap<String, Vec<u8>>;

/// One serving certificate with its authority. All values are PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySet {
    /// The private key of the authority; empty where an external authority keeps it to itself.
    pub ca_key: Vec<u8>,
    /// The authority's certificate; if there are several, the first one issues.
    pub ca_cert: Vec<u8>,
    /// The private key of the server.
    pub key: Vec<u8>,
    /// The certificate of the server, followed by intermediates if there are any.
    pub cert: Vec<u8>,
    /// Authorities that replicas may still be serving under.
    pub retired: Option<Retired>,
}

/// Former authorities. They stay trusted until every replica has surely loaded its new certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retired {
    /// Their certificates.
    pub certs: Vec<u8>,
    /// When the last of them was retired.
    pub at: Timestamp,
}

impl KeySet {
    /// Reads a set as [`Self::contents`] writes it, and as OpenKruise does.
    pub fn read(contents: &Contents) -> Result<Self, Fault> {
        let get = |key: &'static str| {
            contents.get(key).filter(|it| !it.is_empty()).cloned().ok_or(Fault::Missing(key))
        };
        let read = Self {
            ca_key: get(CA_KEY)?,
            ca_cert: get(CA_CERT)?,
            key: get(KEY)?,
            cert: get(CERT)?,
            retired: Retired::read(contents),
        };
        for (copy, original) in [(TLS_KEY, &read.key), (TLS_CERT, &read.cert)] {
            if get(copy)? != *original {
                return Err(Fault::CopyDiffers(copy));
            }
        }
        Ok(read)
    }

    /// Reads the set of an external authority, which uses other names and may keep its own key away from us.
    pub fn read_external(contents: &Contents) -> Result<Self, Fault> {
        let get = |key: &'static str| {
            contents.get(key).filter(|it| !it.is_empty()).cloned().ok_or(Fault::Missing(key))
        };
        Ok(Self {
            ca_key: contents.get("ca.key").cloned().unwrap_or_default(),
            ca_cert: get("ca.crt")?,
            key: get(TLS_KEY)?,
            cert: get(TLS_CERT)?,
            retired: None,
        })
    }

    /// What is stored: the server's key and certificate twice, so that readers of TLS Secrets find them too.
    pub fn contents(&self) -> Contents {
        let Self { ca_key, ca_cert, key, cert, retired } = self;
        let mut contents: Contents = [
            (CA_KEY, ca_key),
            (CA_CERT, ca_cert),
            (KEY, key),
            (TLS_KEY, key),
            (CERT, cert),
            (TLS_CERT, cert),
        ]
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .into();
        if let Some(Retired { certs, at }) = retired {
            contents.insert(RETIRED_CERTS.to_owned(), certs.clone());
            contents.insert(RETIRED_AT.to_owned(), at.to_string().into_bytes());
        }
        contents
    }

    /// What clients must trust: the authority, and the retired ones that replicas may still serve under.
    pub fn trust_bundle(&self) -> Vec<u8> {
        let mut bundle = self.ca_cert.clone();
        if let Some(retired) = &self.retired {
            if !bundle.ends_with(b"\n") {
                bundle.push(b'\n');
            }
            bundle.extend_from_slice(&retired.certs);
        }
        bundle
    }

    /// Whether the server would present the same certificate with either.
    pub fn serves_like(&self, other: &Self) -> bool {
        self.key == other.key && self.cert == other.cert
    }
}

impl Retired {
    /// A half-written pair counts as none: nobody can say how long it has been trusted.
    fn read(contents: &Contents) -> Option<Self> {
        let at = str::from_utf8(contents.get(RETIRED_AT)?).ok()?.trim().parse().ok()?;
        let certs = contents.get(RETIRED_CERTS).filter(|it| pem::certificates(it).is_some())?.clone();
        Some(Self { certs, at })
    }
}

/// Private keys stay out of logs.
impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySet")
            .field("expiry", &pem::expiry(&self.cert))
            .field("retired", &self.retired.as_ref().map(|it| it.at))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
