//! Agents that are known by a token: the ServiceAccount whose tokens they have (JOIN-4, ADR 13).
//!
//! It has the same name in every cluster's namespace, so that the hub's right to issue tokens can be bound to that name. What tells
//! the agents of two clusters apart is the namespace; what tells those of two keys apart is the account's UID: one that was made
//! for another key is deleted, and every token of it dies with it.

use k8s_openapi::api::core::v1::ServiceAccount;
use kruise_core::{
    api::fleet::keys::{AGENT_KEY, CLUSTER},
    runtime::key::uid,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::names::{cluster_namespace, fitted};

/// The name of the ServiceAccount, in each cluster's own namespace.
pub const ACCOUNT: &str = "fleet-agent";

/// By what agents are known on the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Credentials {
    /// Client certificates, which the API server signs.
    #[default]
    Certificate,
    /// Tokens of ServiceAccounts, sealed to the agents' keys.
    Token,
}

/// A ServiceAccount that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Tokens of another UID are worth nothing.
    pub uid: String,
    /// The fingerprint of the key that its tokens are sealed to.
    pub key: String,
}

impl Account {
    /// What is known of it.
    pub fn of(stored: &ServiceAccount) -> Self {
        let key = stored.annotations().get(AGENT_KEY).cloned().unwrap_or_default();
        Self { uid: uid(stored).to_owned(), key }
    }
}

/// The user that the holder of a token is.
pub fn user(cluster: &str) -> String {
    format!("{USER_PREFIX}{}:{ACCOUNT}", cluster_namespace(cluster))
}

/// The namespace of the agent that a user is, if it is one.
pub fn namespace_of(user: &str) -> Option<&str> {
    let (namespace, name) = user.strip_prefix(USER_PREFIX)?.split_once(':')?;
    (name == ACCOUNT).then_some(namespace)
}

const USER_PREFIX: &str = "system:serviceaccount:";

/// The ServiceAccount of a cluster's agent with this key.
pub(super) fn object(cluster: &str, key: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {
            "name": ACCOUNT, "namespace": cluster_namespace(cluster), "labels": { CLUSTER: fitted(cluster) },
            "annotations": { CLUSTER: cluster, AGENT_KEY: key },
        },
        // No pod has any business with it.
        "automountServiceAccountToken": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_4_the_user_of_an_account_is_that_of_its_namespace() {
        assert_eq!(user("eu-1"), "system:serviceaccount:fleet-eu-1:fleet-agent");
        assert_eq!(namespace_of(&user("eu-1")), Some("fleet-eu-1"));
        for other in [
            "system:serviceaccount:fleet-eu-1:default",
            "fleet:agent:eu-1",
            "system:serviceaccount:fleet-agent",
        ] {
            assert_eq!(namespace_of(other), None, "{other}");
        }
    }

    #[test]
    fn join_6_an_account_says_whose_key_it_was_made_for() {
        let mut stored = object("eu-1", "0123456789abcdef");
        stored["metadata"]["uid"] = json!("uid-1");
        let stored: ServiceAccount = serde_json::from_value(stored).unwrap();
        assert_eq!(Account::of(&stored), Account { uid: "uid-1".into(), key: "0123456789abcdef".into() });
        assert_eq!(stored.automount_service_account_token, Some(false));
        assert_eq!(Account::of(&ServiceAccount::default()).key, "", "somebody else's");
    }
}
