//! Starts the containers of a pod in the order of their priorities (spec/admission.md 8).
//!
//! The barrier is read from the API server each time: only pods that are starting need one, and watching every ConfigMap
//! of the cluster for them would be a large right to ask for.

mod apply;
mod observe;
mod plan;

use std::{num::NonZeroUsize, sync::Arc};

use kube::Client;

use crate::runtime::{
    access::{self, Right},
    cache::{Cache, pod::PodLite},
    client::Error,
    controller::{Controller, Next, Reconcile, Settings, Triggers},
    key::Key,
    writes::Writer,
};
pub use plan::{Action, Barrier, Owner, Plan, plan, waits_in_line};

/// The controller's name in logs and metrics.
pub const NAME: &str = "launch-priority";
/// How many pods are seen to at once.
pub const WORKERS: NonZeroUsize = NonZeroUsize::new(4).expect("four is not zero");

/// What it does at the API server.
pub fn needs() -> Vec<Right> {
    vec![
        access::cluster("", "pods", &["get", "list", "watch", "patch"]),
        access::cluster("", "configmaps", &["get", "create", "patch"]),
    ]
}

/// The controller, which hears of changes to `pods` from now on.
pub fn controller(
    client: Client,
    pods: &Cache<PodLite>,
    settings: Settings,
) -> Controller<impl Reconcile + use<>> {
    let triggers = Triggers::new(settings.clock.clone());
    triggers.follow(pods, waits_in_line);
    let writer = Writer::new(client.clone(), pods.clone());
    let reconciler = LaunchPriority { client, pods: pods.clone(), writer };
    Controller::new(settings, triggers, vec![Arc::new(pods.clone())], reconciler)
}

struct LaunchPriority {
    client: Client,
    pods: Cache<PodLite>,
    writer: Writer<PodLite>,
}

impl Reconcile for LaunchPriority {
    type Error = Error;

    async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let Some(pod) = self.pods.get(&key).filter(|it| waits_in_line(it)) else { return Ok(Next::Change) };
        let barrier = self.observe(&key).await?;
        let plan = plan(&pod, barrier.as_ref());
        for action in &plan.actions {
            if let apply::Applied::Overtaken = self.apply(&pod, barrier.as_ref(), action).await? {
                return Ok(Next::After(apply::OVERTAKEN));
            }
        }
        Ok(plan.look_again_in.map_or(Next::Change, Next::After))
    }

    fn exists(&self, key: &Key) -> bool {
        self.pods.get(key).is_some()
    }
}
