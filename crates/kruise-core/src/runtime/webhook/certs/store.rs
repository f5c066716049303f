//! Where the set of keys is kept.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{DeleteParams, ObjectMeta, PostParams, Preconditions},
};

use super::{Contents, Directory, KeySet, RETIRED_AT, RETIRED_CERTS};
use crate::runtime::webhook::{Error, call, is_status};

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
    /// The Secret it came from, if it was one.
    pub secret: Option<Secret>,
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
                Ok(secret.map(|it| {
                    let data = it.data.iter().flatten();
                    let contents = data.map(|(key, it)| (key.clone(), it.0.clone())).collect();
                    Found { contents, secret: Some(it) }
                }))
            }
            Self::Directory(directory) => {
                let contents = directory.read().await?;
                Ok(contents.map(|contents| Found { contents, secret: None }))
            }
        }
    }

    /// Stores `keys` in place of `found`, and only of that.
    pub async fn write(&self, found: Option<&Found>, keys: &KeySet) -> Result<Written, Error> {
        match self {
            Self::Secret { api, name } => match found.and_then(|it| it.secret.clone()) {
                None => create(api, name, keys).await,
                Some(secret) => overwrite(api, name, secret, keys).await,
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

/// Replaces the whole object, because the roles of existing installations allow no patches of Secrets. It is the object
/// that was read, so labels and annotations of whoever made it stay, and its resourceVersion settles races.
async fn overwrite(
    api: &Api<Secret>,
    name: &str,
    mut secret: Secret,
    keys: &KeySet,
) -> Result<Written, Error> {
    let read = secret.metadata.resource_version.clone();
    let data = secret.data.get_or_insert_default();
    data.retain(|key, _| ![RETIRED_CERTS, RETIRED_AT].contains(&key.as_str()));
    data.extend(encoded(keys));
    let answer =
        call("update the certificate secret", api.replace(name, &PostParams::default(), &secret)).await;
    match answer {
        Ok(_) => Ok(Written::Done),
        Err(error) if is_status(&error, 409) || is_status(&error, 404) => Ok(Written::Lost),
        // Immutable: it has to make room for another one.
        Err(error) if is_status(&error, 422) => delete(api, name, read).await.map(|()| Written::Lost),
        Err(error) => Err(error),
    }
}

async fn delete(api: &Api<Secret>, name: &str, read: Option<String>) -> Result<(), Error> {
    let unchanged = Preconditions { resource_version: read, uid: None };
    let params = DeleteParams { preconditions: Some(unchanged), ..DeleteParams::default() };
    match call("delete the certificate secret", api.delete(name, &params)).await {
        Err(error) if !is_status(&error, 409) && !is_status(&error, 404) => Err(error),
        _ => Ok(()),
    }
}

fn encoded(keys: &KeySet) -> BTreeMap<String, ByteString> {
    keys.contents().into_iter().map(|(key, it)| (key, ByteString(it))).collect()
}
