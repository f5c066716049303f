//! The agent's credential for the hub: how a cluster joins over the wire, and stays known (ADR 9, JOIN-1 to 7).
//!
//! Decisions are pure: [`plan`] what to do next, [`joining`] and [`renewing`] each by what the hub shows, [`way`] which hub is
//! believed. [`identity`] is the key and the name that goes with it, [`held`] what the hub knows it by, [`kept`] what outlives a restart, [`vault`] where. The shell
//! is [`keeper`]; [`teller`] is what people hear of it. Only the leader of a cluster's agents runs it (JOIN-7).

pub mod held;
pub mod identity;
pub mod joining;
pub mod keeper;
pub mod kept;
pub mod plan;
pub mod renewing;
pub mod teller;
pub mod vault;
pub mod way;

mod ask;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use kruise_core::runtime::{
    access::{self, Right},
    client::{ConnectError, User},
};
use kube::Client;

/// How long a credential is asked for (JOIN-4).
pub const LIFE: Duration = Duration::from_secs(24 * 3600);

/// The namespace whose UID is that of its cluster.
pub(crate) const IDENTIFYING_NAMESPACE: &str = "kube-system";

/// The rights it needs in the member besides those to Secrets of its own namespace, which kept plans need as well.
pub fn needs() -> Vec<Right> {
    vec![access::cluster("", "namespaces", &["get"]).named([IDENTIFYING_NAMESPACE])]
}

/// Opens the hub for somebody.
pub type Open = Arc<dyn Fn(&User) -> Result<Client, ConnectError> + Send + Sync>;

/// What a cluster asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wish {
    /// The name.
    pub cluster: String,
    /// Labels that it proposes for its MemberCluster.
    pub labels: BTreeMap<String, String>,
    /// The region it is in.
    pub region: Option<String>,
    /// The zone it is in.
    pub zone: Option<String>,
    /// Who runs the machines.
    pub provider: Option<String>,
}

/// What the keeper of a credential is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What the cluster asks for.
    pub wish: Wish,
    /// The file with the bootstrap token.
    pub token: Option<PathBuf>,
    /// How long after it was taken up a credential is renewed, if not after a part of its life.
    pub renew_after: Option<Duration>,
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::OnceLock;

    use base64::{Engine, engine::general_purpose::STANDARD};
    use jiff::Timestamp;
    use kruise_core::api::fleet::agent_token::AgentToken;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::{
        held::{Credential, Held},
        identity::{Key, Validity},
        kept::{Kept, Membership},
    };

    pub(crate) fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// One key for all tests that need only one.
    pub(crate) fn key() -> Key {
        static KEY: OnceLock<Key> = OnceLock::new();
        KEY.get_or_init(|| Key::generate().unwrap()).clone()
    }

    /// A certificate as a signer would make it. Nobody here looks at who has signed it.
    pub(crate) fn certificate(key: &Key, user: &str, life: Validity) -> String {
        let moment = |it: Timestamp| x509_parser::time::ASN1Time::from_timestamp(it.as_second()).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        params.not_before = moment(life.from).to_datetime();
        params.not_after = moment(life.to).to_datetime();
        params.self_signed(&KeyPair::from_pem(key.pem()).unwrap()).unwrap().pem()
    }

    /// A member since the beginning of 2026, whose certificate lasts for a day.
    pub(crate) fn kept() -> Kept {
        let (key, since) = (key(), at("2026-01-01T00:00:00Z"));
        let life = Validity { from: at("2025-12-31T23:55:00Z"), to: at("2026-01-02T00:00:00Z") };
        let pem = certificate(&key, &key.user("eu-1"), life);
        Kept {
            membership: Some(Membership { namespace: "fleet-eu-1".into(), hub_uid: "hub".into() }),
            held: Some(Held { credential: Credential::Certificate(pem), since }),
            ..Kept::new("eu-1", key)
        }
    }

    /// A token that ends at this time.
    pub(crate) fn token(ends: &str) -> AgentToken {
        AgentToken { token: format!("secret-{ends}"), expires: at(ends) }
    }

    /// A token as the hub writes it down.
    pub(crate) fn sealed(key: &Key, cluster: &str, hub_uid: &str, token: &AgentToken) -> String {
        token.seal(&STANDARD.decode(key.public_key()).unwrap(), cluster, hub_uid).unwrap()
    }

    /// The same member with a token that lasts as long.
    pub(crate) fn kept_token() -> Kept {
        let (credential, since) =
            (Credential::Token(token("2026-01-02T00:00:00Z")), at("2026-01-01T00:00:00Z"));
        Kept { held: Some(Held { credential, since }), ..kept() }
    }
}
