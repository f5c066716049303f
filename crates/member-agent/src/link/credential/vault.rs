//! The Secret in which an agent keeps its credential. Of two agents that write at once, one is refused and reads again.

use k8s_openapi::api::core::v1::Secret;
use kruise_core::runtime::client::{Error, call};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::kept::{Kept, SECRET, TYPE};

/// What was found.
#[derive(Debug)]
pub enum Found {
    /// Nothing yet.
    Nothing,
    /// This, in this version.
    Kept(Box<Kept>, String),
    /// Something that cannot be used, by name.
    Unusable(&'static str),
}

/// Where it is kept.
#[derive(Clone)]
pub struct Vault {
    secrets: Api<Secret>,
}

impl Vault {
    /// The vault in the agent's own `namespace`.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { secrets: Api::namespaced(client, namespace) }
    }

    /// What is kept.
    pub async fn load(&self) -> Result<Found, Error> {
        let Some(secret) = call("read our credential", self.secrets.get_opt(SECRET)).await? else {
            return Ok(Found::Nothing);
        };
        let version = secret.metadata.resource_version.clone().unwrap_or_default();
        Ok(match Kept::read(&secret) {
            Ok(kept) => Found::Kept(Box::new(kept), version),
            Err(what) => Found::Unusable(what),
        })
    }

    /// Keeps the first of it.
    pub async fn create(&self, kept: &Kept) -> Result<(), Error> {
        let mut data = kept.data();
        if let Some(data) = data.as_object_mut() {
            data.retain(|_, it| !it.is_null());
        }
        let secret = json!({"metadata": {"name": SECRET}, "type": TYPE, "data": data});
        let secret: Secret = serde_json::from_value(secret).expect("this is a Secret");
        call("keep our key", self.secrets.create(&PostParams::default(), &secret)).await.map(drop)
    }

    /// Keeps `kept` in place of `version`; refused if somebody else has written since.
    pub async fn put(&self, kept: &Kept, version: &str) -> Result<(), Error> {
        let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "data": kept.data()}));
        call("keep our credential", self.secrets.patch(SECRET, &PatchParams::default(), &patch))
            .await
            .map(drop)
    }
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vault")
    }
}
