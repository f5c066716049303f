//! What the tests of node duties have in common.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kruise_core::api::{
    container_recreate_request::v1beta1::ContainerRecreateRequest, image_pull_job::v1beta1::ImagePullJob,
    node_image::v1beta1::NodeImage,
};
use kube::{Api, Client, ResourceExt, api::PostParams};
use multicluster::{
    Cluster, cluster,
    duties::{Duties, Place},
    eventually,
    registry::Registry,
};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Tests run side by side, but for those that take the API server away from all of them.
static QUIET: RwLock<()> = RwLock::const_new(());

/// The right to be on stage.
enum Turn {
    Shared { _guard: RwLockReadGuard<'static, ()> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

/// A cluster with the duties running, a namespace and a registry of the test's own.
pub(crate) struct Stage {
    _turn: Turn,
    pub(crate) cluster: Cluster,
    pub(crate) client: Client,
    pub(crate) duties: Arc<Duties>,
    pub(crate) namespace: String,
    pub(crate) registry: Registry,
}

impl Stage {
    pub(crate) async fn set() -> Result<Self> {
        Self::with(Turn::Shared { _guard: QUIET.read().await }).await
    }

    /// A stage while there is no other.
    pub(crate) async fn alone() -> Result<Self> {
        Self::with(Turn::Alone { _guard: QUIET.write().await }).await
    }

    async fn with(turn: Turn) -> Result<Self> {
        let cluster = cluster("m1");
        let duties = Duties::of(&cluster).await?;
        let folders: Vec<_> = duties.places.iter().map(|it| it.folder.clone()).collect();
        Ok(Self {
            client: cluster.client().await?,
            namespace: cluster.namespace("duties").await?,
            registry: Registry::start(&folders).await?,
            duties,
            cluster,
            _turn: turn,
        })
    }

    /// The last node, for tests that do something to it or its daemon: they take turns.
    pub(crate) async fn last(&self) -> Result<(Place, MutexGuard<'static, ()>)> {
        static TURN: Mutex<()> = Mutex::const_new(());
        let guard = TURN.lock().await;
        Ok((self.duties.places.last().context("there is a node")?.clone(), guard))
    }

    pub(crate) fn nodes(&self) -> usize {
        self.duties.places.len()
    }

    pub(crate) fn jobs(&self) -> Api<ImagePullJob> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn requests(&self) -> Api<ContainerRecreateRequest> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn node_images(&self) -> Api<NodeImage> {
        Api::all(self.client.clone())
    }

    /// Makes a job; `spec` is merged over one that downloads `image` everywhere.
    pub(crate) async fn job(&self, name: &str, image: &str, spec: Value) -> Result<()> {
        let mut job = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "metadata": {"name": name},
            "spec": {"image": image, "completionPolicy": {"type": "Always"}, "imagePullPolicy": "IfNotPresent"},
        });
        merge(&mut job["spec"], &spec);
        self.jobs().create(&PostParams::default(), &serde_json::from_value(job)?).await?;
        Ok(())
    }

    /// Waits until a job is over.
    pub(crate) async fn finished(&self, name: &str) -> Result<ImagePullJob> {
        eventually(&format!("job {name} is over"), async || {
            let job = self.jobs().get(name).await?;
            Ok(job.status.as_ref().is_some_and(|it| it.completion_time.is_some()).then_some(job))
        })
        .await
    }

    /// Makes a pod with these containers and waits until all of them run.
    pub(crate) async fn pod(&self, name: &str, spec: Value) -> Result<Pod> {
        let mut pod = json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {"terminationGracePeriodSeconds": 1}});
        merge(&mut pod["spec"], &spec);
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        self.running(name).await
    }

    /// Waits until every container of a pod is ready.
    pub(crate) async fn running(&self, name: &str) -> Result<Pod> {
        eventually(&format!("pod {name} runs"), async || {
            let pod = self.pods().get(name).await?;
            let wanted = pod.spec.as_ref().map_or(0, |it| it.containers.len());
            Ok((containers(&pod).iter().filter(|it| it.2).count() == wanted).then_some(pod))
        })
        .await
    }

    /// Makes a recreate request.
    pub(crate) async fn request(
        &self,
        name: &str,
        pod: &str,
        containers: &[&str],
        more: Value,
    ) -> Result<()> {
        let containers: Vec<_> = containers.iter().map(|it| json!({"name": it})).collect();
        let mut request = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest", "metadata": {"name": name},
            "spec": {"podName": pod, "containers": containers},
        });
        merge(&mut request["spec"], &more);
        self.requests().create(&PostParams::default(), &serde_json::from_value(request)?).await?;
        Ok(())
    }

    /// Waits until a recreate request is over.
    pub(crate) async fn completed(&self, name: &str) -> Result<ContainerRecreateRequest> {
        eventually(&format!("request {name} is over"), async || {
            let request = self.requests().get(name).await?;
            Ok(request.status.as_ref().is_some_and(|it| it.completion_time.is_some()).then_some(request))
        })
        .await
    }

    /// Runs a command in a container.
    pub(crate) fn exec(&self, pod: &str, container: &str, command: &[&str]) -> Result<String> {
        let mut all = vec!["exec", "--namespace", &self.namespace, pod, "-c", container, "--"];
        all.extend(command);
        self.cluster.kubectl(&all)
    }

    /// Waits until our readiness gate of a pod is open.
    pub(crate) async fn in_rotation(&self, name: &str) -> Result<Pod> {
        eventually(&format!("pod {name} is in rotation"), async || {
            let pod = self.pods().get(name).await?;
            let is_true = |kind: &str| condition(&pod, kind).is_some_and(|it| it.0 == "True");
            Ok((is_true("KruisePodReady") && is_true("Ready")).then_some(pod))
        })
        .await
    }

    /// The end of a test: nothing was refused to manager or daemons, and the namespace goes.
    pub(crate) async fn end(self) -> Result<()> {
        let refused = self.duties.refused().await?;
        ensure!(refused.is_empty(), "{refused:?}");
        self.cluster.forget(&self.namespace).await
    }
}

/// Id, restarts and readiness of each container, in order of their names.
pub(crate) fn containers(pod: &Pod) -> Vec<(String, i32, bool)> {
    let mut statuses: Vec<_> =
        pod.status.iter().flat_map(|it| it.container_statuses.iter().flatten()).collect();
    statuses.sort_by(|a, b| a.name.cmp(&b.name));
    statuses
        .into_iter()
        .map(|it| (it.container_id.clone().unwrap_or_default(), it.restart_count, it.ready))
        .collect()
}

/// A condition of a pod: its status and message.
pub(crate) fn condition(pod: &Pod, kind: &str) -> Option<(String, String)> {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let found = conditions.into_iter().find(|it| it.type_ == kind)?;
    Some((found.status.clone(), found.message.clone().unwrap_or_default()))
}

/// Messages of the failed tags of an image, over all nodes.
pub(crate) async fn failures(stage: &Stage, image: &str) -> Result<Vec<String>> {
    let all = stage.node_images().list(&Default::default()).await?;
    let statuses = all.into_iter().filter_map(|it| it.status?.image_statuses.get(image).cloned());
    let tags = statuses.flat_map(|it| it.tags).filter(|it| it.phase == "Failed");
    Ok(tags.map(|it| it.message).collect())
}

pub(crate) fn uid(job: &ImagePullJob) -> Result<String> {
    job.uid().context("the API server gives every object a UID")
}

fn merge(target: &mut Value, change: &Value) {
    match (target, change) {
        (Value::Object(target), Value::Object(change)) => {
            for (key, value) in change {
                merge(target.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (target, change) => *target = change.clone(),
    }
}
