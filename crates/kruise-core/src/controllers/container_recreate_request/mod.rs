//! ContainerRecreateRequest: the cluster's side of it. The node's side is [`daemon::recreate`](crate::daemon::recreate).

pub mod plan;

#[cfg(test)]
mod tests;

use std::{fmt, num::NonZeroUsize, sync::Arc};

use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tracing::{info, warn};

use self::plan::{Action, plan};
use crate::{
    admission::container_recreate_request::{World, fill},
    api::{
        APPS_GROUP,
        container_recreate_request::{
            events, keys,
            v1beta1::{ContainerRecreateRequest, RecreatePhase},
        },
    },
    pod::patch::PodPatch,
    runtime::{
        access::{self, Right},
        cache::{
            Cache, Change,
            pod::{ContainerStateLite, PodLite},
            shared::Word,
        },
        client::Error,
        clock::{Clock, whole_seconds},
        controller::{Controller, Next, Reconcile, Settings, Triggers},
        events::{Recorder, Severity, about},
        key::{Key, uid, version},
        writes::{On, Writer},
    },
};

/// The controller's name in logs and metrics.
pub const NAME: &str = "containerrecreaterequest";
/// How many requests are seen to at once.
pub const WORKERS: NonZeroUsize = NonZeroUsize::new(3).expect("three is not zero");

/// What it does at the API server, its admission included: that reads pods and nodes one by one.
pub fn needs() -> Vec<Right> {
    vec![
        access::cluster(
            APPS_GROUP,
            "containerrecreaterequests",
            &["get", "list", "watch", "patch", "delete"],
        ),
        access::cluster(APPS_GROUP, "containerrecreaterequests/status", &["patch"]),
        access::cluster("", "pods", &["get", "list", "watch"]),
        access::cluster("", "pods/status", &["patch"]),
        access::cluster("", "nodes", &["get"]),
    ]
}

/// The controller, which hears of changes to the caches from now on.
pub fn controller(
    client: Client,
    requests: &Cache<ContainerRecreateRequest>,
    pods: &Cache<PodLite>,
    recorder: Recorder,
    settings: Settings,
) -> Controller<impl Reconcile + use<>> {
    let triggers = Triggers::new(settings.clock.clone());
    triggers.follow_all(requests);
    let (wake, known) = (triggers.clone(), requests.clone());
    pods.on_change(move |change| {
        for key in requests_of(change, &known) {
            wake.now(key);
        }
    });
    let reconciler = Requests {
        requests: requests.clone(),
        pods: pods.clone(),
        writer: Writer::new(client.clone(), requests.clone()),
        pod_writer: Writer::new(client.clone(), pods.clone()),
        client,
        recorder,
        clock: settings.clock.clone(),
    };
    let feeds: Vec<Arc<dyn crate::runtime::cache::Feed>> =
        vec![Arc::new(requests.clone()), Arc::new(pods.clone())];
    Controller::new(settings, triggers, feeds, reconciler)
}

/// The open requests that a change of a pod matters to.
fn requests_of(change: &Change<PodLite>, requests: &Cache<ContainerRecreateRequest>) -> Vec<Key> {
    let states = |it: &PodLite| -> (Option<Word>, Vec<_>) {
        let all = it.status.container_statuses.iter().chain(&it.status.init_container_statuses);
        let state = |it: &ContainerStateLite| (it.running.is_some(), it.terminated.is_some());
        let each = all.map(|it| (it.container_id.clone(), it.ready, it.restart_count, state(&it.state)));
        (it.status.phase.clone(), each.collect())
    };
    let pod = match (&change.before, &change.after) {
        (Some(before), Some(after))
            if states(before) == states(after) && before.is_terminating() == after.is_terminating() =>
        {
            return Vec::new();
        }
        (_, Some(pod)) | (Some(pod), None) => pod,
        (None, None) => return Vec::new(),
    };
    let all = requests.in_namespace(pod.metadata.namespace.as_deref().unwrap_or_default());
    let is_about = |it: &ContainerRecreateRequest| {
        let labelled = it.metadata.labels.as_ref().and_then(|it| it.get(keys::POD_UID));
        labelled.map(String::as_str) == Some(uid(&**pod))
            && it.status.as_ref().is_none_or(|it| it.completion_time.is_none())
    };
    all.iter().filter(|it| is_about(it)).map(|it| Key::of(&**it)).collect()
}

struct Requests {
    requests: Cache<ContainerRecreateRequest>,
    pods: Cache<PodLite>,
    writer: Writer<ContainerRecreateRequest>,
    pod_writer: Writer<PodLite>,
    client: Client,
    recorder: Recorder,
    clock: Clock,
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Requests").field(&self.requests).finish()
    }
}

impl Requests {
    /// Carries one action out; answers with the request as it is afterwards.
    async fn apply(
        &self,
        request: Arc<ContainerRecreateRequest>,
        pod: Option<&PodLite>,
        action: Action,
    ) -> Result<Arc<ContainerRecreateRequest>, Error> {
        match action {
            Action::PatchPod(patch) => {
                if let Some(pod) = pod {
                    self.patch_pod(pod, patch).await?;
                }
                Ok(request)
            }
            Action::SetFinalizers(list) => {
                let metadata = json!({"finalizers": list, "resourceVersion": version(&*request)});
                let body = json!({"metadata": metadata});
                self.patch(&request, "set finalizers of recreate request", None, body).await
            }
            Action::DropActive => {
                let body = json!({"metadata": {"labels": {keys::ACTIVE: null}}});
                self.patch(&request, "drop label of recreate request", None, body).await
            }
            Action::Fill => self.fill(&request).await,
            Action::WriteConditions(list) => {
                // Only where nothing has changed since: an earlier write whose answer was lost has set the moment.
                let metadata = json!({"resourceVersion": version(&*request)});
                let body = json!({"metadata": metadata, "status": {"conditions": list}});
                self.patch(&request, "write conditions of recreate request", Some("status"), body).await
            }
            Action::WriteSnapshot(list) => {
                let body = json!({"status": {"containerStatusSnapshot": list}});
                self.patch(&request, "write container snapshot", Some("status"), body).await
            }
            Action::Complete { message } => self.complete(&request, message).await,
            Action::Delete => {
                let on = On { call: "delete recreate request", owner: uid(&*request) };
                self.writer.delete(on, &request, DeleteParams::background()).await?;
                Ok(request)
            }
        }
    }

    /// A pod that is gone needs no change.
    async fn patch_pod(&self, pod: &PodLite, patch: PodPatch) -> Result<(), Error> {
        let mut body = patch.body;
        body["metadata"] = json!({"resourceVersion": version(pod)});
        let on = On { call: "change readiness of pod", owner: uid(pod) };
        let (patch, params) = (Patch::Strategic(body), PatchParams::default());
        match self.pod_writer.patch(on, pod, Some("status"), &patch, &params).await {
            Err(error) if error.code() != Some(404) => Err(error),
            _ => Ok(()),
        }
    }

    /// Ends the request. Its states stay as the node left them, so people are told which containers that leaves undone.
    async fn complete(
        &self,
        request: &ContainerRecreateRequest,
        message: &str,
    ) -> Result<Arc<ContainerRecreateRequest>, Error> {
        info!(message, "recreate request ends");
        let status = json!({
            "phase": RecreatePhase::Completed,
            "completionTime": whole_seconds(self.clock.now()),
            "message": message,
        });
        let body = json!({"metadata": {"resourceVersion": version(request)}, "status": status});
        let ended = self.patch(request, "complete recreate request", Some("status"), body).await?;
        for container in plan::unfinished(&ended, message) {
            let told = format!("container {container} was not recreated: {message}");
            self.recorder.record(about(&*ended), Severity::Warning, events::RECREATE_FAILED, told);
        }
        Ok(ended)
    }

    /// Does what admission does, where it was not asked: in one write, so that no node ever sees half of it.
    async fn fill(&self, request: &ContainerRecreateRequest) -> Result<Arc<ContainerRecreateRequest>, Error> {
        let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
        let world = World::read(&self.client, namespace, &request.spec.pod_name).await?;
        match fill(&json!(request), &world) {
            Ok(filled) => {
                let body = json!({
                    "metadata": {"labels": filled["metadata"]["labels"], "resourceVersion": version(request)},
                    "spec": filled["spec"],
                });
                self.patch(request, "fill in recreate request", None, body).await
            }
            Err(denial) => {
                warn!(message = denial.message, "recreate request cannot be done");
                self.complete(request, &denial.message).await
            }
        }
    }

    async fn patch(
        &self,
        request: &ContainerRecreateRequest,
        call: &'static str,
        part: Option<&str>,
        body: Value,
    ) -> Result<Arc<ContainerRecreateRequest>, Error> {
        let on = On { call, owner: uid(request) };
        self.writer.patch(on, request, part, &Patch::Merge(body), &PatchParams::default()).await
    }
}

impl Reconcile for Requests {
    type Error = Error;

    async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let Some(mut request) = self.requests.get(&key) else { return Ok(Next::Change) };
        let pod = self.pods.get(&Key::new(&key.namespace, &request.spec.pod_name));
        let todo = plan(&request, pod.as_deref(), self.clock.now());
        for action in todo.actions {
            // Each write is bound to what the one before left, and the first to what was looked at.
            request = self.apply(request, pod.as_deref(), action).await?;
        }
        Ok(todo.look_again_in.map_or(Next::Change, Next::After))
    }

    fn exists(&self, key: &Key) -> bool {
        self.requests.get(key).is_some()
    }
}
