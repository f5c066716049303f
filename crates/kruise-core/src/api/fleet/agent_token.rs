//! The token of an agent, as it travels: sealed to the agent's key (JOIN-4).

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::seal::{self, AGENT_TOKEN, Purpose};

/// A token for the hub.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentToken {
    /// The token itself.
    pub token: String,
    /// When it ends, by the hub's clock.
    pub expires: Timestamp,
}

impl AgentToken {
    /// Seals it to the agent of `cluster`, whose public key is `key`: SubjectPublicKeyInfo, DER.
    pub fn seal(&self, key: &[u8], cluster: &str, hub_uid: &str) -> Result<String, seal::Error> {
        let content = serde_json::to_vec(self).map_err(|_| seal::Error::Closed)?;
        seal::seal(key, &Purpose { content: AGENT_TOKEN, cluster, hub_uid }, &content)
    }

    /// Opens what the hub `hub_uid` has sealed to the agent of `cluster`, with the agent's private key: PKCS#8, PEM.
    pub fn open(private: &str, cluster: &str, hub_uid: &str, sealed: &str) -> Result<Self, seal::Error> {
        let content = seal::open(private, &Purpose { content: AGENT_TOKEN, cluster, hub_uid }, sealed)?;
        // Whoever has sealed something else has not meant us.
        serde_json::from_slice(&content).map_err(|_| seal::Error::Closed)
    }
}

/// Tokens stay out of logs (SEC-3).
impl fmt::Debug for AgentToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentToken").field("expires", &self.expires).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{KeyPair, PublicKeyData};

    use super::*;

    #[test]
    fn join_4_a_token_is_for_the_agent_of_one_cluster_at_one_hub() {
        let pair = KeyPair::generate().unwrap();
        let (private, public) = (pair.serialize_pem(), pair.subject_public_key_info());
        let token = AgentToken { token: "secret".into(), expires: "2026-01-02T00:00:00Z".parse().unwrap() };
        let sealed = token.seal(&public, "eu-1", "hub").unwrap();
        assert!(!sealed.contains("secret"));
        assert_eq!(AgentToken::open(&private, "eu-1", "hub", &sealed), Ok(token.clone()));
        assert_eq!(AgentToken::open(&private, "eu-2", "hub", &sealed), Err(seal::Error::Closed));
        assert_eq!(AgentToken::open(&private, "eu-1", "other", &sealed), Err(seal::Error::Closed));
        let purpose = Purpose { content: AGENT_TOKEN, cluster: "eu-1", hub_uid: "hub" };
        let nonsense = seal::seal(&public, &purpose, b"{}").unwrap();
        assert_eq!(AgentToken::open(&private, "eu-1", "hub", &nonsense), Err(seal::Error::Closed));
        assert!(!format!("{token:?}").contains("secret"), "SEC-3");
    }
}
