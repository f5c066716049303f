//! Opens our readiness gate on new pods (spec/cloneset.md 11).
//!
//! Admission adds the gate; until its condition exists, kubelet keeps the pod out of rotation. This controller sets the
//! condition once. Whoever closes the gate later does so on a condition that is already there.
//!
//! Pods of CloneSets are not its business: their controller has more to say on a new pod, and says it all at once.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use kube::Client;

use super::{
    cloneset,
    pods::{Sent, send},
};
use crate::{
    pod::readiness,
    runtime::{
        access::{self, Right},
        cache::{Cache, pod::PodLite},
        client::Error,
        clock::Clock,
        controller::{Controller, Next, Reconcile, Settings, Triggers},
        key::{Key, uid},
        writes::{On, Writer},
    },
};

/// The controller's name in logs and metrics.
pub const NAME: &str = "pod-readiness";
/// How many pods are seen to at once.
pub const WORKERS: NonZeroUsize = NonZeroUsize::new(3).expect("three is not zero");

/// When to look at a pod again that changed under our hands. Usually the watch shows it sooner.
const OVERTAKEN: Duration = Duration::from_secs(1);

/// What it does at the API server.
pub fn needs() -> Vec<Right> {
    vec![
        access::cluster("", "pods", &["get", "list", "watch"]),
        access::cluster("", "pods/status", &["patch"]),
    ]
}

/// The controller, which hears of changes to `pods` from now on.
pub fn controller(
    client: Client,
    pods: &Cache<PodLite>,
    settings: Settings,
) -> Controller<impl Reconcile + use<>> {
    let triggers = Triggers::new(settings.clock.clone());
    triggers.follow(pods, is_ours);
    let reconciler = PodReadiness {
        writer: Writer::new(client, pods.clone()),
        pods: pods.clone(),
        clock: settings.clock.clone(),
    };
    Controller::new(settings, triggers, vec![Arc::new(pods.clone())], reconciler)
}

fn is_ours(pod: &PodLite) -> bool {
    readiness::awaits_first_word(pod) && cloneset::wake::owner(pod).is_none()
}

#[derive(Debug)]
struct PodReadiness {
    pods: Cache<PodLite>,
    writer: Writer<PodLite>,
    clock: Clock,
}

impl Reconcile for PodReadiness {
    type Error = Error;

    async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let Some(pod) = self.pods.get(&key) else { return Ok(Next::Change) };
        let Some(patch) = readiness::initial(&pod, self.clock.now()).filter(|_| is_ours(&pod)) else {
            return Ok(Next::Change);
        };
        match send(&self.writer, On { call: "open a pod's readiness gate", owner: uid(&*pod) }, &pod, &patch)
            .await?
        {
            Sent::Done(_) => Ok(Next::Change),
            Sent::Overtaken => Ok(Next::After(OVERTAKEN)),
        }
    }

    fn exists(&self, key: &Key) -> bool {
        self.pods.get(key).is_some()
    }
}
