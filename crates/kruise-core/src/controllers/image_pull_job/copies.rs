//! Making, refreshing and releasing copies of pull secrets.

use std::{collections::BTreeSet, fmt};

use dashmap::DashMap;
use k8s_openapi::{
    api::core::v1::{Namespace, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams, Preconditions},
    core::PartialObjectMeta,
};
use tracing::warn;

use super::secrets::{Copy, claims, copy_name, read_references, write_references};
use crate::{
    api::{
        image_pull_job::{keys, v1beta1::ImagePullJob},
        node_image::v1beta1::ReferenceObject,
    },
    runtime::{
        cache::Cache,
        client::{Error, call},
        key::{Key, uid, version},
    },
};

/// Why the secrets of a job cannot be brought to the nodes.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The API server did not do its part.
    #[error("the API server did not do its part")]
    Api(#[from] Error),
    /// The daemons' namespace is missing, or on its way out.
    #[error("namespace {0} must exist and not be deleted: daemons read pull secrets there")]
    NoNamespace(String),
}

/// Keeps the copies of one cluster.
pub(super) struct Copies {
    pub(super) client: Client,
    /// Names and annotations of all secrets.
    pub(super) secrets: Cache<PartialObjectMeta<Secret>>,
    /// Where the daemons read.
    pub(super) namespace: String,
    /// What was seen last, by the job's UID and the source.
    seen: DashMap<(String, String), Seen>,
}

/// What is known of the secret that a job names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    /// It was asked for and is not there. The watch tells when it appears.
    Missing,
    /// These versions of source and copy have the same content.
    Copied { source: String, copy: String },
}

impl fmt::Debug for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copies").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl Copies {
    pub(super) fn new(client: Client, secrets: Cache<PartialObjectMeta<Secret>>, namespace: String) -> Self {
        Self { client, secrets, namespace, seen: DashMap::new() }
    }

    /// Brings the secrets of a job that is under way to where daemons find them.
    pub(super) async fn claim(&self, job: &ImagePullJob) -> Result<Vec<ReferenceObject>, CopyError> {
        let names = &job.spec.template.pull_secrets;
        let namespace = job.metadata.namespace.clone().unwrap_or_default();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let reference =
            |name: String, mode: String| ReferenceObject { namespace: self.namespace.clone(), name, mode };
        if namespace == self.namespace {
            return Ok(names.iter().map(|it| reference(it.clone(), String::new())).collect());
        }
        let sources: BTreeSet<String> = names.iter().map(|it| format!("{namespace}/{it}")).collect();
        let claims = claims(&Key::of(job).to_string(), &sources, &self.known());
        for copy in &claims.release {
            self.release_one(job, copy).await?;
        }
        let mut references = Vec::new();
        for (source, copy) in claims.wanted {
            let source =
                Key::new(&namespace, source.strip_prefix(&format!("{namespace}/")).unwrap_or_default());
            if let Some((name, mode)) = self.claim_one(job, &source, copy).await? {
                references.push(reference(name, mode));
            }
        }
        Ok(references)
    }

    /// Gives back every copy that a job uses: it is over, or on its way out.
    pub(super) async fn release(&self, job: &ImagePullJob) -> Result<(), CopyError> {
        self.seen.retain(|it, _| it.0 != uid(job));
        let claims = claims(&Key::of(job).to_string(), &BTreeSet::new(), &self.known());
        for copy in &claims.release {
            self.release_one(job, copy).await?;
        }
        Ok(())
    }

    fn known(&self) -> Vec<Copy> {
        self.secrets.in_namespace(&self.namespace).iter().filter_map(|it| Copy::read(&it.metadata)).collect()
    }

    /// The copy of one secret and how it is managed; none if the secret does not exist.
    async fn claim_one(
        &self,
        job: &ImagePullJob,
        source: &Key,
        copy: Option<Copy>,
    ) -> Result<Option<(String, String)>, CopyError> {
        let name = copy.as_ref().map_or_else(|| copy_name(source), |it| it.name.clone());
        let mode = copy.map_or_else(|| keys::MODE_BATCH.to_owned(), |it| it.mode);
        let version_of = |key: &Key| self.secrets.get(key).map(|it| version(&*it).to_owned());
        let memory = (uid(job).to_owned(), source.to_string());
        let current = version_of(source).zip(version_of(&Key::new(&self.namespace, &name)));
        let current = current.map(|(source, copy)| Seen::Copied { source, copy });
        match self.seen.get(&memory).map(|it| it.value().clone()) {
            // Asked once: a watch that lags behind a secret made just before its job says the same.
            Some(Seen::Missing) if version_of(source).is_none() => return Ok(None),
            seen if seen.is_some() && seen == current => return Ok(Some((name, mode))),
            _ => {}
        }
        let sources: Api<Secret> = Api::namespaced(self.client.clone(), &source.namespace);
        let Some(original) = call("get pull secret of job", sources.get_opt(&source.name)).await? else {
            warn!(secret = %source, "a job names a pull secret that does not exist; downloads go on without it");
            self.seen.insert(memory, Seen::Missing);
            return Ok(None);
        };
        let copies: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let before = call("get copy of pull secret", copies.get_opt(&name)).await?;
        let wanted = desired(&original, source, before.as_ref(), &name, &Key::of(job).to_string());
        let after = match before {
            None => {
                self.check_namespace().await?;
                call("create copy of pull secret", copies.create(&PostParams::default(), &wanted)).await?
            }
            Some(before) if is_same(&before, &wanted) => before,
            // With the version that was read: another job may have claimed the copy meanwhile.
            Some(_) => {
                call("update copy of pull secret", copies.replace(&name, &PostParams::default(), &wanted))
                    .await?
            }
        };
        let seen = Seen::Copied { source: version(&original).to_owned(), copy: version(&after).to_owned() };
        self.seen.insert(memory, seen);
        Ok(Some((name, mode)))
    }

    async fn check_namespace(&self) -> Result<(), CopyError> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let found = call("get namespace of daemons", namespaces.get_opt(&self.namespace)).await?;
        match found.is_some_and(|it| it.metadata.deletion_timestamp.is_none()) {
            true => Ok(()),
            false => Err(CopyError::NoNamespace(self.namespace.clone())),
        }
    }

    /// Takes the job off the copy; the last one takes the copy with it.
    async fn release_one(&self, job: &ImagePullJob, copy: &Copy) -> Result<(), CopyError> {
        let copies: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let Some(mut secret) = call("get copy of pull secret", copies.get_opt(&copy.name)).await? else {
            return Ok(());
        };
        let annotations = secret.metadata.annotations.get_or_insert_default();
        let mut jobs =
            read_references(annotations.get(keys::SECRET_REFERENCES).map(String::as_str).unwrap_or_default());
        if !jobs.remove(&Key::of(job).to_string()) {
            return Ok(());
        }
        if !jobs.is_empty() {
            annotations.insert(keys::SECRET_REFERENCES.into(), write_references(&jobs));
            call("release copy of pull secret", copies.replace(&copy.name, &PostParams::default(), &secret))
                .await?;
            return Ok(());
        }
        // Only what was read: a job that has just claimed the copy keeps it.
        let only_this = Preconditions {
            uid: secret.metadata.uid.clone(),
            resource_version: secret.metadata.resource_version.clone(),
        };
        let params = DeleteParams::default().preconditions(only_this);
        match call("delete copy of pull secret", copies.delete(&copy.name, &params)).await {
            Err(error) if error.code() != Some(404) => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// The copy as it should be: the content of its source, and the job among those that use it.
fn desired(original: &Secret, source: &Key, before: Option<&Secret>, name: &str, job: &str) -> Secret {
    let listed = before.and_then(|it| it.metadata.annotations.as_ref()?.get(keys::SECRET_REFERENCES));
    let mut jobs = read_references(listed.map(String::as_str).unwrap_or_default());
    jobs.insert(job.to_owned());
    let mut annotations = original.metadata.annotations.clone().unwrap_or_default();
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    annotations.insert(keys::SECRET_SOURCE.into(), source.to_string());
    annotations.insert(keys::SECRET_REFERENCES.into(), write_references(&jobs));
    let old_mode = before.and_then(|it| it.metadata.annotations.as_ref()?.get(keys::SECRET_MODE));
    if before.is_none() || old_mode.is_some() {
        annotations.insert(keys::SECRET_MODE.into(), keys::MODE_BATCH.into());
    }
    let mut labels = original.metadata.labels.clone().unwrap_or_default();
    // Copies of older releases are told by this label; it stays.
    let old_label = before.and_then(|it| it.metadata.labels.as_ref()?.get(keys::SECRET_SOURCE_UID));
    labels.extend(old_label.map(|it| (keys::SECRET_SOURCE_UID.to_owned(), it.clone())));
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            annotations: Some(annotations),
            uid: before.and_then(|it| it.metadata.uid.clone()),
            resource_version: before.and_then(|it| it.metadata.resource_version.clone()),
            ..ObjectMeta::default()
        },
        data: original.data.clone(),
        type_: original.type_.clone(),
        ..Secret::default()
    }
}

fn is_same(a: &Secret, b: &Secret) -> bool {
    let parts = |it: &Secret| {
        let labels = it.metadata.labels.clone().unwrap_or_default();
        let annotations = it.metadata.annotations.clone().unwrap_or_default();
        (labels, annotations, it.data.clone().unwrap_or_default(), it.type_.clone())
    };
    parts(a) == parts(b)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::http::{Method, Request, Response};
    use http_body_util::BodyExt;
    use kube::{client::Body, runtime::watcher::Event};
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;
    use crate::runtime::{client, clock::Clock, metrics::Metrics, throttle::Throttle};

    /// A server that has the secret `there`, and what it was asked.
    fn copies(asked: &Arc<Mutex<Vec<String>>>) -> Copies {
        let clock = Clock::system();
        let options = client::Options {
            user_agent: "kruise-test/1".into(),
            metrics: Metrics::default(),
            throttle: Throttle::default(),
            clock: clock.clone(),
        };
        let asked = asked.clone();
        let server = service_fn(move |request: Request<Body>| {
            let (path, is_read) = (request.uri().path().to_owned(), request.method() == Method::GET);
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            asked.lock().unwrap().push(format!("{} {name}", request.method()));
            async move {
                let sent: Value =
                    serde_json::from_slice(&request.into_body().collect().await.unwrap().to_bytes())
                        .unwrap_or_default();
                let mut found =
                    json!({"metadata": {"name": name, "namespace": "ns", "resourceVersion": "7"}});
                let code = match is_read {
                    true if name == "there"
                        || path.starts_with("/api/v1/namespaces/config") && name == "config" =>
                    {
                        200
                    }
                    true => 404,
                    false => {
                        found = sent;
                        201
                    }
                };
                let gone = json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
                    "message": "it is not there",
                });
                let body = if code == 404 { gone } else { found };
                Response::builder().status(code).body(Body::from(body.to_string().into_bytes()))
            }
        });
        let secrets = Cache::new("secrets", clock, Metrics::default());
        Copies::new(client::over(server, &options), secrets, "config".into())
    }

    fn job(secret: &str) -> ImagePullJob {
        serde_json::from_value(json!({
            "metadata": {"name": "j", "namespace": "ns", "uid": "u"},
            "spec": {"image": "a", "pullSecrets": [secret], "completionPolicy": {}},
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn a_secret_that_is_not_there_is_asked_for_once_until_the_watch_shows_it() {
        let asked = Arc::default();
        let copies = copies(&asked);
        let taken = || std::mem::take(&mut *asked.lock().unwrap());
        for _ in 0..5 {
            assert!(copies.claim(&job("missing")).await.unwrap().is_empty());
        }
        assert_eq!(taken(), ["GET missing"]);
        let shown: PartialObjectMeta<Secret> = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "missing", "namespace": "ns", "uid": "s", "resourceVersion": "8"},
        }))
        .unwrap();
        copies.secrets.watched(Event::Apply(shown));
        assert!(copies.claim(&job("missing")).await.unwrap().is_empty());
        assert_eq!(taken(), ["GET missing"], "it has appeared");
        copies.release(&job("missing")).await.unwrap();
        assert!(copies.seen.is_empty(), "nothing is kept about a job that is over");
    }

    /// A secret and its job are often made together: the watch need not have shown the secret yet.
    #[tokio::test]
    async fn a_secret_that_the_watch_has_not_shown_yet_is_found() {
        let asked = Arc::default();
        let copies = copies(&asked);
        assert_eq!(copies.claim(&job("there")).await.unwrap().len(), 1);
        assert!(asked.lock().unwrap().iter().any(|it| it.starts_with("POST")), "{asked:?}");
    }

    fn secret(it: serde_json::Value) -> Secret {
        serde_json::from_value(it).unwrap()
    }

    #[test]
    fn a_copy_has_the_content_of_its_source_and_lists_its_jobs() {
        let original = secret(json!({
            "metadata": {"name": "s", "labels": {"a": "b"}, "annotations": {"x": "y"}},
            "type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="},
        }));
        let source = Key::new("ns", "s");
        let first = desired(&original, &source, None, "s-1", "ns/j");
        assert_eq!((&first.data, &first.type_), (&original.data, &original.type_));
        let annotations = first.metadata.annotations.clone().unwrap();
        assert_eq!(annotations[keys::SECRET_SOURCE], "ns/s");
        assert_eq!((annotations[keys::SECRET_MODE].as_str(), annotations["x"].as_str()), ("batch", "y"));
        let second = desired(&original, &source, Some(&first), "s-1", "ns/a");
        assert_eq!(second.metadata.annotations.as_ref().unwrap()[keys::SECRET_REFERENCES], "ns/a,ns/j");
        assert!(!is_same(&first, &second));
        assert!(is_same(&second, &desired(&original, &source, Some(&second), "s-1", "ns/a")));
    }
}
