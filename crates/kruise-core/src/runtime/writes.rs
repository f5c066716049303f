//! Writing objects so that nothing of it is forgotten: each answer, and each missing answer, goes into the cache.

use std::{iter, sync::Arc};

use json_patch::{PatchOperation, TestOperation, jsonptr::PointerBuf};
use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::Request,
};
use serde_json::{Value, json};

use super::{
    cache::{Cache, Cached},
    client::{Error, call},
    key::{Key, controller_uid, uid, version_number},
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
        self.create_text(on, key, body.to_string()).await
    }

    /// Creates like [`Writer::create`] from JSON that has to arrive byte for byte.
    pub async fn create_text(&self, on: On<'_>, key: &Key, body: String) -> Result<Arc<K>, Error> {
        let request = || {
            let bytes = body.into_bytes();
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
        let found = match self.look_up(on, key).await {
            Ok(found) => found,
            // Not the name was the conflict, but something else: a quota that many write at once.
            Err(error) if error.code() == Some(404) => return Err(conflict),
            Err(error) => {
                // Nobody could say whose it is. If it is ours (a proxy may have sent the create twice), another name for
                // the next attempt would make two.
                if error.leaves_doubt() || error.code() == Some(429) {
                    self.doubt(on, key, None, Intent::Create);
                }
                return Err(error);
            }
        };
        // One that is on its way out is no answer to a create.
        let is_ours = controller_uid(&found) == Some(on.owner) && found.meta().deletion_timestamp.is_none();
        if is_ours { Ok(self.cache.wrote(found)) } else { Err(conflict) }
    }

    /// Patches exactly this object, or one of its subresources: not a namesake that came after it, and with server-side
    /// apply nothing that would have to be created first.
    pub async fn patch(
        &self,
        on: On<'_>,
        object: &K,
        subresource: Option<&str>,
        patch: &Patch<Value>,
        params: &PatchParams,
    ) -> Result<Arc<K>, Error> {
        let (key, uid) = (Key::of(object), uid(object));
        let request = || {
            let (request, patch) = (self.request(&key), pinned(patch, uid));
            match subresource {
                Some(part) => request.patch_subresource(part, &key.name, params, &patch),
                None => request.patch(&key.name, params, &patch),
            }
            .map_err(kube::Error::BuildRequest)
        };
        let error = match call(on.call, async { self.client.request::<K>(request()?).await }).await {
            Ok(object) => return Ok(self.cache.wrote(object)),
            Err(error) => error,
        };
        let is_gone = match error.code() {
            Some(404) if subresource.is_none() => true,
            // A subresource may be missing while the object is there. Another UID is answered as a conflict or, where
            // the test of a JSON patch or the rule against changing UIDs finds it, as invalid. All of these have other
            // causes as well, so the object itself is looked at; if it does not answer, nothing is known.
            Some(404 | 409 | 422) => self.is_gone(on, &key, uid).await.unwrap_or(false),
            _ => false,
        };
        if is_gone {
            self.cache.deleted(&key, uid);
        }
        Err(self.noted(error, on, &key, Some(uid), Intent::Update))
    }

    /// Deletes exactly this object, not a namesake that came after it. If it is gone already, that is a success.
    pub async fn delete(&self, on: On<'_>, object: &K, params: DeleteParams) -> Result<(), Error> {
        self.delete_if(on, object, params, None).await
    }

    /// Deletes this object as long as it is what was looked at: a later version is a conflict, and the cache learns of it.
    pub async fn delete_as_seen(&self, on: On<'_>, object: &K, params: DeleteParams) -> Result<(), Error> {
        self.delete_if(on, object, params, object.meta().resource_version.clone()).await
    }

    async fn delete_if(
        &self,
        on: On<'_>,
        object: &K,
        params: DeleteParams,
        resource_version: Option<String>,
    ) -> Result<(), Error> {
        let (key, uid) = (Key::of(object), uid(object));
        let as_seen = |it: &str| Intent::DeleteAsSeen(version_number(it));
        let intent = resource_version.as_deref().map_or(Intent::Delete, as_seen);
        let params = params.preconditions(Preconditions { uid: Some(uid.to_owned()), resource_version });
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
            Err(error) => Err(self.noted(error, on, &key, Some(uid), intent)),
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
        if !self.is_gone(on, key, meant).await? {
            return Err(conflict);
        }
        self.cache.deleted(key, meant);
        Ok(())
    }

    /// Whether the server has no object with the UID `meant` any more: the name is free, or belongs to another one.
    /// Otherwise the cache learns what has become of it: a late watch would let us be refused again and again.
    async fn is_gone(&self, on: On<'_>, key: &Key, meant: &str) -> Result<bool, Error> {
        match self.look_up(on, key).await {
            Ok(found) if uid(&found) == meant => {
                self.cache.found(found);
                Ok(false)
            }
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(404) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// What is known of exactly this object by now.
    pub fn latest(&self, object: &K) -> Option<Arc<K>> {
        self.cache.get(&Key::of(object)).filter(|it| uid(&**it) == uid(object))
    }

    /// Reads one object from the server itself. The cache learns of it.
    pub async fn read(&self, on: On<'_>, key: &Key) -> Result<Arc<K>, Error> {
        self.look_up(on, key).await.map(|it| self.cache.wrote(it))
    }

    async fn look_up(&self, on: On<'_>, key: &Key) -> Result<K, Error> {
        let request =
            || self.request(key).get(&key.name, &Default::default()).map_err(kube::Error::BuildRequest);
        call(on.call, async { self.client.request::<K>(request()?).await }).await
    }

    fn request(&self, key: &Key) -> Request {
        Request::new(K::url_path(&(), Some(&*key.namespace).filter(|it| !it.is_empty())))
    }

    /// Passes `error` on, after noting whether the write may have happened all the same.
    fn noted(&self, error: Error, on: On<'_>, key: &Key, uid: Option<&str>, intent: Intent) -> Error {
        if error.leaves_doubt() {
            self.doubt(on, key, uid, intent);
        }
        error
    }

    fn doubt(&self, on: On<'_>, key: &Key, uid: Option<&str>, intent: Intent) {
        let owner = Some(on.owner.to_owned());
        self.cache.doubted(Doubt { key: key.clone(), uid: uid.map(str::to_owned), owner, intent });
    }
}

/// `patch`, so that the server refuses it for any object but the one with this UID.
fn pinned(patch: &Patch<Value>, uid: &str) -> Patch<Value> {
    let with_uid = |body: &Value| {
        let mut body = body.clone();
        // What is no object is no patch either: the server says so.
        if let Some(fields) = body.as_object_mut() {
            let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("uid".to_owned(), uid.into());
            }
        }
        body
    };
    match patch {
        Patch::Apply(body) => Patch::Apply(with_uid(body)),
        Patch::Merge(body) => Patch::Merge(with_uid(body)),
        Patch::Strategic(body) => Patch::Strategic(with_uid(body)),
        Patch::Json(steps) => {
            let path = PointerBuf::from_tokens(["metadata", "uid"]);
            let test = PatchOperation::Test(TestOperation { path, value: uid.into() });
            Patch::Json(json_patch::Patch(iter::once(test).chain(steps.0.iter().cloned()).collect()))
        }
        // kube knows no other kinds of patches.
        other => other.clone(),
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
