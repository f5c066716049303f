//! Stops the sidecars of pods whose own work is done (spec/images-and-recreate.md 4.4).
//!
//! A job's pod ends when all of its containers have ended, and a sidecar does not end by itself. Where it says so in its
//! environment, the node is asked to stop it, by a [`ContainerRecreateRequest`]: nothing starts it again, as such pods do
//! not restart what has ended.

mod plan;

#[cfg(test)]
mod tests;

use std::{fmt, num::NonZeroUsize, sync::Arc, time::Duration};

use kube::Client;
use serde_json::{Value, json};

use super::pods::{Sent, send};
use crate::{
    api::{
        APPS_GROUP,
        container_recreate_request::{FailurePolicy, v1beta1::ContainerRecreateRequest},
    },
    runtime::{
        access::{self, Right},
        cache::{Cache, Feed, node::NodeLite, pod::PodLite},
        client::Error,
        clock::Clock,
        controller::{Controller, Next, Reconcile, Settings, Triggers},
        events::{Recorder, Severity, about},
        key::{Key, uid},
        writes::{On, Writer},
    },
};
pub use plan::{Action, env, is_due, plan};

/// The controller's name in logs and metrics.
pub const NAME: &str = "sidecar-terminator";
/// How many pods are seen to at once.
pub const WORKERS: NonZeroUsize = NonZeroUsize::new(3).expect("three is not zero");
/// Reason of the event on a pod whose sidecars are stopped.
pub const EVENT: &str = "SidecarTerminator";

/// When to look at a pod again that changed under our hands.
const SOON: Duration = Duration::from_secs(1);
/// When to look at a pod again whose node is not there: it is new, or the pod will go with it.
const WITHOUT_NODE: Duration = Duration::from_secs(15);

/// What it does at the API server.
pub fn needs() -> Vec<Right> {
    vec![
        access::cluster("", "pods", &["get", "list", "watch", "patch"]),
        access::cluster("", "pods/status", &["patch"]),
        access::cluster("", "nodes", &["list", "watch"]),
        access::cluster(APPS_GROUP, "containerrecreaterequests", &["get", "list", "watch", "create"]),
    ]
}

/// What it reads.
#[derive(Debug, Clone)]
pub struct Caches {
    /// The pods.
    pub pods: Cache<PodLite>,
    /// The nodes they run on.
    pub nodes: Cache<NodeLite>,
    /// What nodes were asked to stop.
    pub requests: Cache<ContainerRecreateRequest>,
}

/// The controller, which hears of changes to the caches from now on.
pub fn controller(
    client: Client,
    caches: &Caches,
    recorder: Recorder,
    settings: Settings,
) -> Controller<impl Reconcile + use<>> {
    let triggers = Triggers::new(settings.clock.clone());
    triggers.follow(&caches.pods, is_due);
    // Whoever deletes a request that was of no use wants another one.
    let wake = triggers.clone();
    caches.requests.on_change(move |change| {
        if let (Some(gone), None) = (&change.before, &change.after) {
            wake.now(Key::new(&change.key().namespace, &gone.spec.pod_name));
        }
    });
    let feeds: Vec<Arc<dyn Feed>> = vec![
        Arc::new(caches.pods.clone()),
        Arc::new(caches.nodes.clone()),
        Arc::new(caches.requests.clone()),
    ];
    let reconciler = SidecarTerminator {
        pods: Writer::new(client.clone(), caches.pods.clone()),
        requests: Writer::new(client, caches.requests.clone()),
        caches: caches.clone(),
        recorder,
        clock: settings.clock.clone(),
    };
    Controller::new(settings, triggers, feeds, reconciler)
}

struct SidecarTerminator {
    caches: Caches,
    pods: Writer<PodLite>,
    requests: Writer<ContainerRecreateRequest>,
    recorder: Recorder,
    clock: Clock,
}

impl fmt::Debug for SidecarTerminator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SidecarTerminator").field(&self.caches).finish()
    }
}

impl SidecarTerminator {
    /// Carries one action out; answers with the pod as it is afterwards.
    async fn apply(&self, pod: Arc<PodLite>, action: &Action) -> Result<Sent, Error> {
        match action {
            Action::Replace { containers, patch } => {
                let on = On { call: "replace images of sidecars", owner: uid(&*pod) };
                let sent = send(&self.pods, on, &pod, patch).await?;
                if let Sent::Done(pod) = &sent {
                    self.tell(pod, containers, "with another image");
                }
                Ok(sent)
            }
            Action::End(patch) => {
                let on = On { call: "end a pod before its sidecars", owner: uid(&*pod) };
                send(&self.pods, on, &pod, patch).await
            }
            Action::Stop { containers, name } => {
                let on = On { call: "ask for sidecars to be stopped", owner: uid(&*pod) };
                let key = Key::new(pod.metadata.namespace.as_deref().unwrap_or_default(), name);
                self.requests.create(on, &key, &request(&pod, containers, &key)).await?;
                self.tell(&pod, containers, "by a ContainerRecreateRequest");
                Ok(Sent::Done(pod))
            }
        }
    }

    fn tell(&self, pod: &PodLite, containers: &[String], how: &str) {
        let told = format!("all other containers have ended; stopping {} {how}", containers.join(", "));
        self.recorder.record(about(pod), Severity::Normal, EVENT, told);
    }
}

impl Reconcile for SidecarTerminator {
    type Error = Error;

    async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let Some(mut pod) = self.caches.pods.get(&key).filter(|it| is_due(it)) else {
            return Ok(Next::Change);
        };
        let node = pod.spec.node_name.as_deref().unwrap_or_default();
        let Some(node) = self.caches.nodes.get(&Key::new("", node)) else {
            return Ok(Next::After(WITHOUT_NODE));
        };
        let has_request = |name: &str| self.caches.requests.get(&Key::new(&key.namespace, name)).is_some();
        for action in plan(&pod, node.is_virtual(), has_request, self.clock.now()) {
            match self.apply(pod, &action).await? {
                Sent::Done(after) => pod = after,
                Sent::Overtaken => return Ok(Next::After(SOON)),
            }
        }
        Ok(Next::Change)
    }

    fn exists(&self, key: &Key) -> bool {
        self.caches.pods.get(key).is_some()
    }
}

/// The request goes when its pod does.
fn request(pod: &PodLite, containers: &[String], key: &Key) -> Value {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid(pod), "controller": true});
    let containers: Vec<Value> = containers.iter().map(|it| json!({"name": it})).collect();
    json!({
        "apiVersion": format!("{APPS_GROUP}/v1beta1"),
        "kind": "ContainerRecreateRequest",
        "metadata": {"namespace": &*key.namespace, "name": &*key.name, "ownerReferences": [owner]},
        "spec": {
            "podName": name,
            "containers": containers,
            "strategy": {"failurePolicy": FailurePolicy::Ignore, "forceRecreate": true},
        },
    })
}
