//! Writing objects so that nothing of it is forgotten: each answer, and each missing answer, goes into the cache.

use std::sync::Arc;

use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::Request,
};
use serde_json::Value;

use super::{
    cache::{Cache, Cached},
    client::{Error, call},
    key::{Key, controller_uid, uid},
    overlay::{Doubt, Intent},
};

/// Writes objects of one kind.
#[derive(Clone)]
pub struct Writer<K> {
    client: Client,
    cache: Cache<K>,
}

impl<K> std::fmt::Debug for Writer<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Writer").field(&self.cache).finish()
    }
}

/// On whose behalf something is written, and under which name in logs and errors.
#[derive(Debug, Clone, Copy)]
pub struct On<'a> {
    /// The name of the call.
    pub call: &'static str,
    /// The UID of the object that is reconciled.
    pub owner: &'a str,
}

impl<K: Cached> Writer<K> {
    /// A writer whose answers go into `cache`.
    pub fn new(client: Client, cache: Cache<K>) -> Self {
        Self { client, cache }
    }

    /// Creates the object `body`, whose name the plan has chosen. If it exists and is ours already, that is a success.
    pub async fn create(&self, on: On<'_>, key: &Key, body: &Value) -> Result<Arc<K>, Error> {
        let request = || {
            let bytes = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
            self.request(key).create(&PostParams::default(), bytes).map_err(kube::Error::BuildRequest)
        };
        let created = call(on.call, async { self.client.request::<K>(request()?).await }).await;
        match created {
            Ok(object) => Ok(self.cache.wrote(object)),
            Err(error) if error.code() == Some(409) => self.adopt_answer(on, key, error).await,
            Err(error) => Err(self.noted(error, on, key, None, Intent::Create)),
        }
    }

    /// The name is taken: by an earlier attempt of ours, whose answer was lost, or by a stranger.
    async fn adopt_answer(&self, on: On<'_>, key: &Key, conflict: Error) -> Result<Arc<K>, Error> {
        let request =
            || self.request(key).get(&key.name, &Default::default()).map_err(kube::Error::BuildRequest);
        let found = call(on.call, async { self.client.request::<K>(request()?).await }).await?;
        match controller_uid(&found) {
            Some(owner) if owner == on.owner => Ok(self.cache.wrote(found)),
            _ => Err(conflict),
        }
    }

    /// Patches the object, or one of its subresources.
    pub async fn patch(
        &self,
        on: On<'_>,
        object: &K,
        subresource: Option<&str>,
        patch: &Patch<Value>,
        params: &PatchParams,
    ) -> Result<Arc<K>, Error> {
        let key = Key::of(object);
        let request = || {
            let request = self.request(&key);
            match subresource {
                Some(part) => request.patch_subresource(part, &key.name, params, patch),
                None => request.patch(&key.name, params, patch),
            }
            .map_err(kube::Error::BuildRequest)
        };
        match call(on.call, async { self.client.request::<K>(request()?).await }).await {
            Ok(object) => Ok(self.cache.wrote(object)),
            Err(error) => Err(self.noted(error, on, &key, Some(uid(object)), Intent::Update)),
        }
    }

    /// Deletes exactly this object, not a namesake that came after it. If it is gone already, that is a success.
    pub async fn delete(&self, on: On<'_>, object: &K, params: DeleteParams) -> Result<(), Error> {
        let (key, uid) = (Key::of(object), uid(object));
        let only_this = Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
        let params = params.preconditions(only_this);
        let request = || self.request(&key).delete(&key.name, &params).map_err(kube::Error::BuildRequest);
        match call(on.call, async { self.client.request_status::<K>(request()?).await }).await {
            Ok(answer) => {
                match answer.left().filter(is_still_there) {
                    Some(object) => drop(self.cache.wrote(object)),
                    None => self.cache.deleted(&key, uid),
                }
                Ok(())
            }
            Err(error) if error.code() == Some(404) => {
                self.cache.deleted(&key, uid);
                Ok(())
            }
            Err(error) if error.code() == Some(409) => self.check_precondition(on, &key, uid, error).await,
            Err(error) => Err(self.noted(error, on, &key, Some(uid), Intent::Delete)),
        }
    }

    /// A delete was answered 409: usually the name belongs to another object by now, and ours is gone.
    async fn check_precondition(
        &self,
        on: On<'_>,
        key: &Key,
        meant: &str,
        conflict: Error,
    ) -> Result<(), Error> {
        let request =
            || self.request(key).get(&key.name, &Default::default()).map_err(kube::Error::BuildRequest);
        match call(on.call, async { self.client.request::<K>(request()?).await }).await {
            Ok(found) if uid(&found) == meant => return Err(conflict),
            Err(error) if error.code() != Some(404) => return Err(error),
            _ => {}
        }
        self.cache.deleted(key, meant);
        Ok(())
    }

    fn request(&self, key: &Key) -> Request {
        Request::new(K::url_path(&(), Some(&*key.namespace).filter(|it| !it.is_empty())))
    }

    /// Passes `error` on, after noting what it says about the object.
    fn noted(&self, error: Error, on: On<'_>, key: &Key, uid: Option<&str>, intent: Intent) -> Error {
        if error.leaves_doubt() {
            let owner = Some(on.owner.to_owned());
            self.cache.doubted(Doubt { key: key.clone(), uid: uid.map(str::to_owned), owner, intent });
        } else if let (Some(404), Some(uid)) = (error.code(), uid) {
            self.cache.deleted(key, uid);
        }
        error
    }
}

/// Whether an object that a delete answered with still exists: it waits for finalizers or for its grace period. The
/// answer to an immediate deletion looks the same but for these.
fn is_still_there<K: Cached>(object: &K) -> bool {
    let meta = object.meta();
    let waits = meta.finalizers.as_ref().is_some_and(|it| !it.is_empty())
        || meta.deletion_grace_period_seconds.is_some_and(|it| it > 0);
    meta.deletion_timestamp.is_some() && waits
}

#[cfg(test)]
mod tests;
