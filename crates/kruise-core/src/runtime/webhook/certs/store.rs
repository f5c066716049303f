//! Where the set of keys is kept.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use serde_json::{Value, json};

use super::{Contents, Directory, KeySet, RETIRED_AT, RETIRED_CERTS};
use crate::runtime::webhook::{Error, call, is_status, merge};

/// Where the set of keys is kept.
#[derive(Clone, Debug)]
pub enum Store {
    /// A Secret that all replicas share; they settle races by its resourceVersion.
    Secret {
        /// The Secrets of its namespace.
        api: Api<Secret>,
        /// The Secret's name.
        name: String,
    },
    /// A directory; replicas agree only if they share it.
    Directory(Directory),
    /// A Secret that somebody else fills: read, never written.
    External {
        /// The Secrets of its namespace.
        api: Api<Secret>,
        /// The Secret's name.
        name: String,
    },
}

/// What a store held at one moment.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Everything in it.
    pub contents: Contents,
    /// Which state of the store this was, where it can tell.
    pub version: Option<String>,
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The store holds what was written.
    Done,
    /// Another replica was quicker: what it wrote must be read first.
    Lost,
}

impl Store {
    /// A Secret shared by replicas.
    pub fn secret(client: Client, namespace: &str, name: &str) -> Self {
        Self::Secret { api: Api::namespaced(client, namespace), name: name.to_owned() }
    }

    /// A Secret that somebody else fills.
    pub fn external(client: Client, namespace: &str, name: &str) -> Self {
        Self::External { api: Api::namespaced(client, namespace), name: name.to_owned() }
    }

    /// What is stored, if anything.
    pub async fn read(&self) -> Result<Option<Found>, Error> {
        match self {
            Self::Secret { api, name } | Self::External { api, name } => {
                let secret = call("get the certificate secret", api.get_opt(name)).await?;
                Ok(secret.map(|it| Found {
                    contents: it.data.unwrap_or_default().into_iter().map(|(key, it)| (key, it.0)).collect(),
                    version: it.metadata.resource_version,
                }))
            }
            Self::Directory(directory) => {
                let contents = directory.read().await?;
                Ok(contents.map(|contents| Found { contents, version: None }))
            }
        }
    }

    /// Stores `keys` in place of `found`, and only of that.
    pub async fn write(&self, found: Option<&Found>, keys: &KeySet) -> Result<Written, Error> {
        match self {
            Self::Secret { api, name } => match found {
                None => create(api, name, keys).await,
                Some(found) => overwrite(api, name, found, keys).await,
            },
            Self::Directory(directory) => directory.write(keys.contents()).await.map(|()| Written::Done),
            Self::External { .. } => Err(Error::ReadOnlyStore),
        }
    }
}

async fn create(api: &Api<Secret>, name: &str, keys: &KeySet) -> Result<Written, Error> {
    let secret = Secret {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(encoded(keys)),
        ..Secret::default()
    };
    let answer = call("create the certificate secret", api.create(&PostParams::default(), &secret)).await;
    match answer {
        Ok(_) => Ok(Written::Done),
        Err(error) if is_status(&error, 409) => Ok(Written::Lost),
        Err(error) => Err(error),
    }
}

async fn overwrite(api: &Api<Secret>, name: &str, found: &Found, keys: &KeySet) -> Result<Written, Error> {
    let mut data: BTreeMap<_, _> = encoded(keys).into_iter().map(|(key, it)| (key, json!(it))).collect();
    for key in [RETIRED_CERTS, RETIRED_AT] {
        data.entry(key.to_owned()).or_insert(Value::Null);
    }
    // A patch rather than a replacement: labels and annotations of whoever installed us stay.
    let patch = json!({ "metadata": { "resourceVersion": found.version }, "data": data });
    match merge("update the certificate secret", api, name, &patch).await {
        Ok(_) => Ok(Written::Done),
        Err(error) if is_status(&error, 409) || is_status(&error, 404) => Ok(Written::Lost),
        Err(error) => Err(error),
    }
}

fn encoded(keys: &KeySet) -> BTreeMap<String, ByteString> {
    keys.contents().into_iter().map(|(key, it)| (key, ByteString(it))).collect()
}
