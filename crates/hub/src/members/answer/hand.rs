//! Tokens of agents: issued, sealed and handed over, or taken back (ADR 13). A token is in memory for as long as that takes, and in
//! nothing that is written or told.

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kruise_core::{
    api::fleet::agent_token::AgentToken,
    runtime::{
        client::{Error, call},
        clock::whole_seconds,
        key::Key,
    },
};
use kube::{
    Api,
    api::{DeleteParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use tracing::info;

use super::{Answerer, issue::Recipient, observe::Seen};
use crate::{
    members::{access::CREDENTIAL_LIFE, account::ACCOUNT},
    names::cluster_namespace,
};

impl Answerer {
    /// Issues a token, and writes it down for the one who holds the key that it is sealed to. Doing so twice makes two tokens, of
    /// which the first is never seen by anybody.
    pub(super) async fn issue(
        &self,
        cluster: &str,
        seen: &Seen,
        (to, answers): (Recipient, &str),
        key: &[u8],
    ) -> Result<(), Error> {
        let token = self.token_for(cluster).await?;
        let sealed = token.seal(key, cluster, &self.hub_uid).map_err(|source| failed(source.into()))?;
        let expires = json!({ "credentialExpiresAt": whole_seconds(token.expires) });
        let handed = json!({ "sealedCredential": sealed, "sealedFor": answers });
        match to {
            Recipient::Request => {
                self.note(cluster, seen, &expires).await?;
                // Last: with it the request is done with.
                self.tell(cluster, seen, &handed).await?;
            }
            Recipient::Member => {
                // A certificate of before is not offered beside it.
                let status = merged(merged(handed, expires), json!({ "certificate": null }));
                self.note(cluster, seen, &status).await?;
            }
        }
        info!(cluster, ?to, expires = %token.expires, "issued a token for an agent");
        Ok(())
    }

    async fn token_for(&self, cluster: &str) -> Result<AgentToken, Error> {
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &cluster_namespace(cluster));
        let life = i64::try_from(CREDENTIAL_LIFE.as_secs()).unwrap_or(i64::MAX);
        let spec = TokenRequestSpec { expiration_seconds: Some(life), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let params = PostParams::default();
        let issued = call("issue a token", api.create_token_request(ACCOUNT, &params, &request)).await?;
        let status = issued.status.ok_or_else(|| failed("the answer has no token".into()))?;
        // The server may grant less than was asked for, and it is what it has granted that counts.
        Ok(AgentToken { token: status.token, expires: status.expiration_timestamp.0 })
    }

    /// Removes exactly this ServiceAccount: another one under its name has tokens that are good.
    pub(super) async fn dismiss(&self, cluster: &str, uid: String) -> Result<(), Error> {
        let namespace = cluster_namespace(cluster);
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &namespace);
        let exactly = Preconditions { uid: Some(uid.clone()), ..Preconditions::default() };
        let params = DeleteParams::default().preconditions(exactly);
        match call("take the tokens of an agent back", api.delete(ACCOUNT, &params)).await {
            Err(error) if error.code() == Some(404) => {}
            other => drop(other?),
        }
        info!(cluster, "took the tokens of an agent back");
        self.accounts.deleted(&Key::new(&namespace, ACCOUNT), &uid);
        Ok(())
    }
}

fn merged(mut one: Value, other: Value) -> Value {
    if let (Some(one), Value::Object(other)) = (one.as_object_mut(), other) {
        one.extend(other);
    }
    one
}

fn failed(source: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::Api { call: "issue a token", source: kube::Error::Service(source) }
}
