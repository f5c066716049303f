//! What the hub knows us by: a certificate for our key, or a token that only our key opens (JOIN-4, ADR 13).

use std::fmt;

use jiff::Timestamp;
use kruise_core::{api::fleet::agent_token::AgentToken, runtime::client::User};

use super::identity::{Fault, Key, Validity, is_same};

/// A credential for the hub.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A client certificate, PEM.
    Certificate(String),
    /// A token of a ServiceAccount.
    Token(AgentToken),
}

impl Credential {
    /// When it ends, as far as that can be read. Whether that is over is for the hub to say: our clock may be wrong.
    pub fn ends(&self) -> Option<Timestamp> {
        match self {
            Self::Certificate(pem) => Validity::of(pem).map(|it| it.to),
            Self::Token(token) => Some(token.expires),
        }
    }

    /// Whether both are the same, however they are wrapped.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Certificate(a), Self::Certificate(b)) => is_same(a, b),
            (Self::Token(a), Self::Token(b)) => a.token == b.token,
            _ => false,
        }
    }

    /// Who we are with it.
    pub fn user(&self, key: &Key) -> User {
        match self {
            Self::Certificate(pem) => User::Certificate { chain: pem.clone(), key: key.pem().to_owned() },
            Self::Token(token) => User::Token(token.token.clone()),
        }
    }

    /// Its own bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Certificate(pem) => pem.as_bytes(),
            Self::Token(token) => token.token.as_bytes(),
        }
    }
}

/// Tokens stay out of logs (SEC-3).
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Certificate(_) => "Certificate",
            Self::Token(_) => "Token",
        };
        f.debug_struct(kind).field("ends", &self.ends()).finish_non_exhaustive()
    }
}

/// A credential in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The credential.
    pub credential: Credential,
    /// When it was taken up, by our own clock.
    pub since: Timestamp,
}

/// What the hub has written for us; empty where it has not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offered {
    /// A certificate, PEM.
    pub certificate: String,
    /// A sealed token.
    pub sealed: String,
}

impl Offered {
    /// What of it is for the agent of `cluster` with `key`, from the hub `hub_uid`; or what is wrong with it.
    pub fn read(&self, key: &Key, cluster: &str, hub_uid: &str) -> Vec<Result<Credential, Fault>> {
        let Self { certificate, sealed } = self;
        let token = (!sealed.is_empty()).then(|| {
            let opened = AgentToken::open(key.pem(), cluster, hub_uid, sealed);
            opened.map(Credential::Token).map_err(|_| Fault::Sealed)
        });
        let certificate = (!certificate.is_empty()).then(|| {
            let checked = key.check(certificate, cluster);
            checked.map(|_| Credential::Certificate(certificate.clone()))
        });
        token.into_iter().chain(certificate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{at, certificate, key, sealed, token},
        *,
    };

    #[test]
    fn join_4_only_what_is_for_our_key_our_name_and_our_hub_is_ours() {
        let (key, other) = (key(), Key::generate().unwrap());
        let token = token("2026-01-02T00:00:00Z");
        let offered = Offered { sealed: sealed(&key, "eu-1", "hub", &token), ..Offered::default() };
        assert_eq!(offered.read(&key, "eu-1", "hub"), [Ok(Credential::Token(token.clone()))]);
        for (key, cluster, hub) in [(&other, "eu-1", "hub"), (&key, "eu-2", "hub"), (&key, "eu-1", "other")] {
            assert_eq!(offered.read(key, cluster, hub), [Err(Fault::Sealed)]);
        }
        let nonsense = Offered { certificate: "none".into(), sealed: "none".into() };
        assert_eq!(nonsense.read(&key, "eu-1", "hub"), [Err(Fault::Sealed), Err(Fault::Unreadable)]);
        assert_eq!(Offered::default().read(&key, "eu-1", "hub"), []);
    }

    #[test]
    fn sec_3_a_token_is_never_shown() {
        let shown = Credential::Token(token("2026-01-02T00:00:00Z"));
        assert_eq!(shown.ends(), Some(at("2026-01-02T00:00:00Z")));
        let held = Held { credential: shown.clone(), since: at("2026-01-01T00:00:00Z") };
        assert!(!format!("{held:?} {:?}", shown.user(&key())).contains("secret"), "{held:?}");
    }

    #[test]
    fn two_kinds_are_never_the_same() {
        let (key, day) = (key(), token("2026-01-02T00:00:00Z"));
        let life = Validity { from: at("2026-01-01T00:00:00Z"), to: day.expires };
        let pem = Credential::Certificate(certificate(&key, &key.user("eu-1"), life));
        let token = Credential::Token(day);
        assert!(token.is_same(&token.clone()) && pem.is_same(&pem.clone()) && !token.is_same(&pem));
    }
}
