//! Container meta: reports on each pod of our workloads which containers run and what they were started from, and
//! restarts those that run with an environment of the past.
//!
//! In-place updates are complete when this report says so: an image of another tag may have the same content, and a
//! variable that comes from a label changes without any other sign.

pub mod plan;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use kube::api::{Patch, PatchParams};
use serde_json::json;
use tracing::{debug, warn};

use super::{
    cri::{self, ContainerState, Filter, Runtime},
    kill::{Killer, Target},
};
use crate::{
    api::common::keys::RUNTIME_CONTAINERS_META,
    pod::inplace::hashes::actual_env_hash,
    runtime::{
        cache::{
            Cache,
            pod::{ContainerLite, PodLite},
        },
        client,
        controller::{Next, Reconcile, ReconcileError, Triggers},
        key::{Key, uid},
        writes::{On, Writer},
    },
};

/// A change is looked at this long after it: usually others follow.
pub const DELAY: Duration = Duration::from_secs(1);

/// A container to be restarted is given this long to be restarted by the kubelet for another reason.
pub const RESTART_DELAY: Duration = Duration::from_secs(3);

/// When to look again after an environment could not be read.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// How long `env` may take in a container.
const ENV_TIMEOUT: Duration = Duration::from_secs(3);

/// Why a pod could not be reported on, or a container not restarted; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not take the report.
    #[error("the API server did not take the report")]
    Api(#[from] client::Error),
    /// The runtime did not do its part.
    #[error("the runtime did not do its part")]
    Runtime(#[from] cri::Error),
}

impl ReconcileError for Error {
    fn label(&self) -> &'static str {
        match self {
            Self::Api(error) => error.label(),
            Self::Runtime(error) => error.label(),
        }
    }
}

/// Reports on the pods of this node.
pub struct Reporter {
    /// The pods of the node.
    pub cache: Cache<PodLite>,
    /// Writes their annotation.
    pub writer: Writer<PodLite>,
    /// The runtimes of the node by name.
    pub runtimes: BTreeMap<String, Arc<dyn Runtime>>,
    /// Hears of containers to restart.
    pub restarts: Triggers,
    /// Whether environments are looked at.
    pub reads_env: bool,
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("runtimes", &self.runtimes.keys()).finish_non_exhaustive()
    }
}

impl Reconcile for Reporter {
    type Error = Error;

    async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let Some(pod) = self.cache.get(&key).filter(|it| !it.is_terminating()) else {
            return Ok(Next::Change);
        };
        let Some(runtime) = plan::runtime_of(&pod).and_then(|it| self.runtimes.get(it)) else {
            return Ok(Next::Change);
        };
        let containers = runtime.containers(Filter::Pod(uid(&*pod).to_owned())).await?;
        let mut entries = plan::entries(&pod, &containers, runtime.name(), self.reads_env);
        let mut again = None;
        for entry in entries.iter_mut().filter(|it| it.needs_env) {
            let spec = pod.spec.containers.iter().find(|it| it.name == entry.report.name);
            match env_hash(&**runtime, &entry.id, spec).await {
                Ok(hash) => entry.report.hashes.extracted_env_from_metadata_hash = hash,
                Err(error) => {
                    debug!(%error, container = entry.report.name, "the environment cannot be read yet");
                    again = Some(LOOK_AGAIN);
                }
            }
        }
        for it in plan::outdated(&pod, &entries) {
            // The scheme stands where namespaces do, so that the restarter finds the runtime.
            self.restarts.after(Key::new(runtime.name(), &it.id), RESTART_DELAY);
        }
        if let Some(report) = plan::report(&pod, &entries) {
            let text = serde_json::to_string(&report).unwrap_or_default();
            let body = json!({"metadata": {"annotations": {RUNTIME_CONTAINERS_META: text}}});
            let on = On { call: "report containers", owner: uid(&*pod) };
            let (patch, params) = (Patch::Strategic(body), PatchParams::default());
            // The daemon may write pods' status only; annotations can be written through it.
            match self.writer.patch(on, &pod, Some("status"), &patch, &params).await {
                Err(error) if error.code() == Some(404) => {}
                written => drop(written?),
            }
        }
        Ok(again.map_or(Next::Change, Next::After))
    }

    fn exists(&self, key: &Key) -> bool {
        self.cache.get(key).is_some()
    }
}

/// The hash of the environment that a container really has. Nothing is read where nothing comes from metadata.
async fn env_hash(runtime: &dyn Runtime, id: &str, spec: Option<&ContainerLite>) -> Result<u64, cri::Error> {
    let env = spec.map(|it| it.env.as_slice()).unwrap_or_default();
    if let Ok(hash) = actual_env_hash(env, |_| Err(())) {
        return Ok(hash);
    }
    let variables = match runtime.environment(id).await? {
        Some(variables) => variables,
        // A runtime that does not tell: ask the container itself.
        None => plan::read_env(&runtime.exec(id, vec!["env".into()], Some(ENV_TIMEOUT)).await?),
    };
    let value =
        |name: &str| variables.iter().find(|it| it.0 == name).map(|it| it.1.clone()).unwrap_or_default();
    actual_env_hash(env, |name| Ok(value(name)))
}

/// Restarts single containers by id.
pub struct Restarter {
    /// The runtimes of the node by name.
    pub runtimes: BTreeMap<String, Arc<dyn Runtime>>,
    /// Stops containers.
    pub killer: Arc<Killer>,
}

impl fmt::Debug for Restarter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Restarter").field("runtimes", &self.runtimes.keys()).finish_non_exhaustive()
    }
}

impl Reconcile for Restarter {
    type Error = Error;

    async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let Some(runtime) = self.runtimes.get(&*key.namespace) else { return Ok(Next::Change) };
        let found = runtime.containers(Filter::Id(key.name.to_string())).await?;
        // Gone or ended: the kubelet was faster, for this or for another reason.
        let Some(container) = found.first().filter(|it| it.state == ContainerState::Running) else {
            return Ok(Next::Change);
        };
        let message = format!("Stopping containerID {} by container meta restarter", container.id);
        let stopped = self.killer.kill(runtime, &Target::of_container(container), &message).await;
        if let Err(error) = &stopped {
            warn!(%error, id = container.id, "a container could not be stopped");
        }
        Ok(stopped.map(|()| Next::Change)?)
    }

    /// A container that is gone fails no more; until then failures in a row count.
    fn exists(&self, _: &Key) -> bool {
        true
    }
}
