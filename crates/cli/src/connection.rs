//! The way to the hub: every request goes through here and has a deadline.

use std::{path::PathBuf, time::Duration};

use kruise_core::runtime::{
    client::{self, Options, Source, call},
    clock::Clock,
    metrics::Metrics,
    throttle::Throttle,
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::Error;

/// How often an answer is looked for that somebody else gives.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The hub, as one person sees it.
#[derive(Clone)]
pub struct Hub {
    /// The client.
    pub client: Client,
    /// The namespace of objects that are named without one.
    pub namespace: String,
    /// The time.
    pub clock: Clock,
    source: (Option<PathBuf>, Option<String>),
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl Hub {
    /// Finds the way.
    pub async fn connect(
        kubeconfig: Option<PathBuf>,
        context: Option<String>,
        namespace: Option<String>,
    ) -> Result<Self, Error> {
        let clock = Clock::system();
        let options = Options {
            user_agent: concat!("kubectl-fleet/", env!("CARGO_PKG_VERSION")).to_owned(),
            metrics: Metrics::default(),
            throttle: Throttle::default(),
            clock: clock.clone(),
        };
        let source = Source::Kubeconfig { path: kubeconfig.clone(), context: context.clone() };
        let client = client::connect(&source, &options).await.map_err(Error::Connect)?;
        let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        Ok(Self { client, namespace, clock, source: (kubeconfig, context) })
    }

    /// The kubeconfig file and the context that were named.
    pub fn source(&self) -> (Option<&PathBuf>, Option<&str>) {
        (self.source.0.as_ref(), self.source.1.as_deref())
    }

    /// Everything of a kind.
    pub fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// Everything of a kind in a namespace.
    pub fn within<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Asks until there is an answer, or until it takes too long.
    pub async fn wait<T>(
        &self,
        timeout: Duration,
        what: &str,
        mut ask: impl AsyncFnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let asking = async {
            loop {
                if let Some(answer) = ask().await? {
                    return Ok(answer);
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let late = |_| Error::TimedOut(format!("waited {timeout:?} for: {what}"));
        tokio::time::timeout(timeout, asking).await.map_err(late)?
    }
}

/// One object; an error that names it if it is not there.
pub async fn get<K>(api: &Api<K>, what: &str, name: &str) -> Result<K, Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let missing = || Error::NotFound(format!("there is no {what} {name}"));
    call("get", api.get_opt(name)).await?.ok_or_else(missing)
}

/// All objects that match.
pub async fn list<K>(api: &Api<K>, parameters: &ListParams) -> Result<Vec<K>, Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    Ok(call("list", api.list(parameters)).await?.items)
}

/// Makes an object.
pub async fn create<K>(api: &Api<K>, object: &K) -> Result<K, Error>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    Ok(call("create", api.create(&PostParams::default(), object)).await?)
}

/// Deletes exactly this object; one that is gone already is deleted.
pub async fn delete<K>(api: &Api<K>, name: &str, uid: Option<&str>) -> Result<(), Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let exactly = Preconditions { uid: uid.map(str::to_owned), ..Preconditions::default() };
    let parameters = DeleteParams::default().preconditions(exactly);
    match call("delete", api.delete(name, &parameters)).await {
        Err(error) if error.code() == Some(404) => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

/// Changes fields of an object that is there.
pub async fn patch<K>(api: &Api<K>, name: &str, change: &Value) -> Result<K, Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let parameters =
        PatchParams { field_manager: Some("kubectl-fleet".to_owned()), ..PatchParams::default() };
    Ok(call("patch", api.patch(name, &parameters, &Patch::Merge(change))).await?)
}
