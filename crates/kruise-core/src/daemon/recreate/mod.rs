//! Container recreate: carries out the ContainerRecreateRequests of this node's pods.
//!
//! [`plan`] decides; the shell around it reads requests and containers, stops containers through
//! [`kill`](super::kill), and writes down how far it has come. All requests of one pod are worked on one after the other,
//! so the key of the queue is the pod.

mod kills;
pub mod plan;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, sync::Arc};

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tracing::info;

pub use self::kills::Kills;
use self::plan::{Act, Step};
use super::{
    cri::{self, Filter, Runtime},
    kill::{Killer, Target},
};
use crate::{
    api::container_recreate_request::{
        keys,
        v1beta1::{ContainerRecreateRequest, ContainerRecreateState, RecreatePhase},
    },
    runtime::{
        cache::{Cache, Change},
        client,
        clock::{Clock, whole_seconds},
        controller::{Next, Reconcile, ReconcileError},
        key::{Key, uid, version},
        writes::{On, Writer},
    },
};

/// Why a request could not be worked on; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not take a write.
    #[error("the API server did not take it")]
    Api(#[from] client::Error),
    /// The runtime did not tell about the pod's containers.
    #[error("the runtime does not tell about the pod's containers")]
    Runtime(#[source] cri::Error),
}

impl ReconcileError for Error {
    fn label(&self) -> &'static str {
        match self {
            Self::Api(error) => error.label(),
            Self::Runtime(_) => "runtime",
        }
    }
}

/// Works on the requests of this node.
pub struct Recreator {
    /// The requests, as the label selector of the node shows them.
    pub cache: Cache<ContainerRecreateRequest>,
    /// Writes their status.
    pub writer: Writer<ContainerRecreateRequest>,
    /// The runtimes of the node by name.
    pub runtimes: BTreeMap<String, Arc<dyn Runtime>>,
    /// Stops containers.
    pub killer: Arc<Killer>,
    /// What was stopped, also where the status does not say so yet.
    pub kills: Kills,
    /// Time.
    pub clock: Clock,
}

impl fmt::Debug for Recreator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recreator").field("runtimes", &self.runtimes.keys()).finish_non_exhaustive()
    }
}

/// The pods that a change is about. A request that completes leaves the watch, which looks like a deletion: the next
/// one for the same pod waits for exactly that.
pub fn pods_of(change: &Change<ContainerRecreateRequest>) -> Vec<Key> {
    let mut pods: Vec<_> =
        [&change.before, &change.after].into_iter().flatten().map(|it| pod_of(it)).collect();
    pods.dedup();
    pods
}

fn pod_of(request: &ContainerRecreateRequest) -> Key {
    Key::new(request.metadata.namespace.as_deref().unwrap_or_default(), &request.spec.pod_name)
}

/// Which requests a daemon watches.
pub fn selector(node: &str) -> String {
    format!("{}={node},{}=true", keys::NODE_NAME, keys::ACTIVE)
}

impl Recreator {
    fn requests(&self, pod: &Key) -> Vec<Arc<ContainerRecreateRequest>> {
        let all = self.cache.in_namespace(&pod.namespace);
        all.into_iter().filter(|it| it.spec.pod_name == *pod.name).collect()
    }

    async fn work_on(&self, request: &ContainerRecreateRequest) -> Result<Next, Error> {
        let names: Vec<&str> = self.runtimes.keys().map(String::as_str).collect();
        let runtime = match plan::before_looking(request, &names, self.clock.now()) {
            Step::Begin => {
                self.set_phase(request, RecreatePhase::Recreating).await?;
                return Ok(Next::Change);
            }
            Step::Drain(None) => return Ok(Next::Change),
            Step::Drain(Some(left)) => return Ok(Next::After(left)),
            Step::Complete(message) => return self.complete(request, None, &message).await,
            Step::Look(name) => self.runtimes[&name].clone(),
        };
        let labels = request.metadata.labels.as_ref();
        let pod_uid = labels.and_then(|it| it.get(keys::POD_UID)).cloned().unwrap_or_default();
        let containers = runtime.containers(Filter::Pod(pod_uid)).await.map_err(Error::Runtime)?;
        let stopped = self.kills.of(request);
        let mut states = plan::states(request, &containers, &stopped, runtime.name(), self.clock.now());
        let known = request.status.as_ref().map(|it| it.container_recreate_states.as_slice());
        if states != known.unwrap_or_default() {
            self.write_states(request, &states).await?;
            return Ok(Next::Change);
        }
        loop {
            let (after, act) = plan::pass(request, states, &containers);
            states = after;
            match act {
                Act::Complete => return self.complete(request, Some(&states), "").await,
                Act::Wait(None) => return Ok(Next::Change),
                Act::Wait(Some(again)) => return Ok(Next::After(again)),
                Act::Write => break,
                Act::Kill(place) => {
                    let stopped = self.kill(request, &runtime, &containers, place).await;
                    let goes_on;
                    (states, goes_on) = plan::killed(request, states, place, stopped);
                    if !goes_on {
                        break;
                    }
                }
            }
        }
        self.write_states(request, &states).await?;
        Ok(Next::Change)
    }

    /// Stops one container. This takes as long as its hook and its grace period do.
    async fn kill(
        &self,
        request: &ContainerRecreateRequest,
        runtime: &Arc<dyn Runtime>,
        containers: &[cri::Container],
        place: usize,
    ) -> Result<(), String> {
        let wanted = &request.spec.containers[place];
        let running = cri::newest(containers, &wanted.name).ok_or("the container is gone")?;
        let target = Target::of_request(request, wanted, running);
        let name = request.metadata.name.as_deref().unwrap_or_default();
        let message = format!("Stopping container {} by ContainerRecreateRequest {name}", wanted.name);
        self.killer.kill(runtime, &target, &message).await.map_err(|it| it.to_string())?;
        self.kills.add(pod_of(request), request, &wanted.name);
        Ok(())
    }

    /// Only where nothing has changed since: the controller may have completed the request meanwhile.
    async fn set_phase(&self, request: &ContainerRecreateRequest, phase: RecreatePhase) -> Result<(), Error> {
        let body = json!({"metadata": {"resourceVersion": version(request)}, "status": {"phase": phase}});
        self.patch(request, "begin recreate request", body).await
    }

    /// Wherever the request stands by now: what was stopped was stopped.
    async fn write_states(
        &self,
        request: &ContainerRecreateRequest,
        states: &[ContainerRecreateState],
    ) -> Result<(), Error> {
        let body = json!({"status": {"containerRecreateStates": states}});
        self.patch(request, "write container states", body).await
    }

    async fn complete(
        &self,
        request: &ContainerRecreateRequest,
        states: Option<&[ContainerRecreateState]>,
        message: &str,
    ) -> Result<Next, Error> {
        let now = whole_seconds(self.clock.now());
        let mut status = json!({
            "phase": RecreatePhase::Completed, "completionTime": now, "message": message,
        });
        if let Some(states) = states {
            status["containerRecreateStates"] = json!(states);
        }
        let body = json!({"metadata": {"resourceVersion": version(request)}, "status": status});
        self.patch(request, "complete recreate request", body).await?;
        info!(message, "recreate request is complete");
        Ok(Next::Change)
    }

    async fn patch(
        &self,
        request: &ContainerRecreateRequest,
        call: &'static str,
        body: Value,
    ) -> Result<(), Error> {
        let on = On { call, owner: uid(request) };
        let (patch, params) = (Patch::Merge(body), PatchParams::default());
        self.writer.patch(on, request, Some("status"), &patch, &params).await?;
        Ok(())
    }
}

impl Reconcile for Recreator {
    type Error = Error;

    async fn reconcile(&self, pod: Key) -> Result<Next, Error> {
        let requests = self.requests(&pod);
        let views: Vec<&ContainerRecreateRequest> = requests.iter().map(|it| &**it).collect();
        self.kills.keep(&pod, &views);
        let Some(choice) = plan::choose(&views) else { return Ok(Next::Change) };
        for place in choice.wait {
            self.set_phase(views[place], RecreatePhase::Pending).await?;
        }
        self.work_on(views[choice.picked]).await
    }

    fn exists(&self, pod: &Key) -> bool {
        !self.requests(pod).is_empty()
    }
}
