//! Carrying out one action.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Action, Barrier, LaunchPriority};
use crate::{
    controllers::pods::{Sent, send},
    pod::{
        launch::{COMPLETED, barrier_name, key},
        patch::{Part, Pin, PodPatch},
    },
    runtime::{
        cache::pod::PodLite,
        client::{Error, call},
        key::{Key, uid},
        writes::On,
    },
};

/// When to look again at what changed under our hands.
pub(super) const OVERTAKEN: Duration = Duration::from_secs(1);

/// What became of an action.
#[derive(Debug)]
pub(super) enum Applied {
    Done,
    /// The world is not as it was looked at.
    Overtaken,
}

impl LaunchPriority {
    pub(super) async fn apply(
        &self,
        pod: &PodLite,
        barrier: Option<&Barrier>,
        action: &Action,
    ) -> Result<Applied, Error> {
        match *action {
            Action::Create(priority) => self.create(pod, priority).await,
            Action::TakeOver(priority) => {
                self.change("take over a barrier", pod, takeover(pod, barrier, priority)).await
            }
            Action::Release(priority) => {
                self.change("release a priority", pod, json!({ "data": { (key(priority)): "true" } })).await
            }
            Action::Complete => self.complete(pod).await,
        }
    }

    async fn create(&self, pod: &PodLite, priority: i64) -> Result<Applied, Error> {
        let Key { namespace, name } = Key::of(pod);
        let body = ConfigMap {
            metadata: ObjectMeta {
                name: Some(barrier_name(&name)),
                owner_references: Some(vec![owner(pod)]),
                ..ObjectMeta::default()
            },
            data: Some([(key(priority), "true".to_owned())].into()),
            ..ConfigMap::default()
        };
        let api = self.barriers(&namespace);
        settled(call("create a pod's barrier", api.create(&PostParams::default(), &body)).await)
    }

    async fn change(&self, name: &'static str, pod: &PodLite, patch: Value) -> Result<Applied, Error> {
        let Key { namespace, name: pod } = Key::of(pod);
        let (api, barrier) = (self.barriers(&namespace), barrier_name(&pod));
        settled(call(name, api.patch(&barrier, &PatchParams::default(), &Patch::Merge(&patch))).await)
    }

    async fn complete(&self, pod: &PodLite) -> Result<Applied, Error> {
        let patch = PodPatch {
            part: Part::Main,
            pin: Pin::Uid,
            body: json!({ "metadata": { "annotations": { COMPLETED: "true" } } }),
        };
        match send(
            &self.writer,
            On { call: "note that all containers may start", owner: uid(pod) },
            pod,
            &patch,
        )
        .await?
        {
            Sent::Done(_) => Ok(Applied::Done),
            Sent::Overtaken => Ok(Applied::Overtaken),
        }
    }
}

/// Everything of the earlier pod goes, and only from the barrier that was looked at.
fn takeover(pod: &PodLite, barrier: Option<&Barrier>, priority: i64) -> Value {
    let former = barrier.into_iter().flat_map(|it| &it.released);
    let mut data: BTreeMap<String, Value> = former.map(|it| (key(*it), Value::Null)).collect();
    data.insert(key(priority), "true".into());
    json!({
        "metadata": { "resourceVersion": barrier.map(|it| &it.version), "ownerReferences": [owner(pod)] },
        "data": data,
    })
}

/// The barrier goes with the pod. Not as its controller, and without holding up the pod's end.
fn owner(pod: &PodLite) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: uid(pod).to_owned(),
        controller: None,
        block_owner_deletion: None,
    }
}

fn settled(answer: Result<ConfigMap, Error>) -> Result<Applied, Error> {
    match answer {
        Ok(_) => Ok(Applied::Done),
        Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(Applied::Overtaken),
        Err(error) => Err(error),
    }
}
