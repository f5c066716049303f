//! One agent for all tests of a program, and a namespace for each of them.
//!
//! The agent starts with the first test that needs it and ends with the last. Tests wait for what they can see through
//! the API, and read what a user reads through kubectl.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, LazyLock, Weak},
};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kruise_core::api::cloneset::{CloneSetStatus, v1beta1::CloneSet};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::{runtime::Runtime, sync::Mutex};

use crate::{
    Cluster,
    agent::{Agent, agent},
    cluster, eventually,
};

/// Outlives every test, as the agent that they share may.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a process may start threads"));

/// Where tests are played.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The name of the cluster.
    pub cluster: &'static str,
    /// Flags of its agent.
    pub flags: &'static [&'static str],
}

/// A namespace of a cluster whose agent runs.
pub struct Stage {
    /// The cluster.
    pub cluster: Cluster,
    /// The test's own namespace.
    pub namespace: String,
    /// All rights.
    pub client: Client,
    agent: Arc<Agent>,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// Plays `test` on a stage of its own.
pub fn on(setting: Setting, test: impl AsyncFnOnce(&Stage) -> Result<()>) -> Result<()> {
    RUNTIME.block_on(async {
        let stage = Stage::open(setting).await?;
        test(&stage).await.with_context(|| format!("in namespace {}", stage.namespace))?;
        stage.close().await
    })
}

impl Stage {
    async fn open(Setting { cluster: name, flags }: Setting) -> Result<Self> {
        let cluster = cluster(name);
        let agent = shared(&cluster, flags).await?;
        let namespace = cluster.namespace("play").await?;
        let client = cluster.client().await?;
        Ok(Self { cluster, namespace, client, agent })
    }

    /// Leaves nothing behind that would keep the namespace from going.
    async fn close(self) -> Result<()> {
        self.kubectl(&["delete", "clonesets.apps.kruise.io", "--all", "--wait=false"])?;
        for pod in self.pods_api().list(&ListParams::default()).await? {
            if !pod.finalizers().is_empty() {
                // It may be gone by now.
                let _ = self.edit_pod(&pod.name_any(), json!({"metadata": {"finalizers": null}})).await;
            }
        }
        self.cluster.forget(&self.namespace).await
    }

    /// The agent's log.
    pub fn log(&self) -> String {
        self.agent.log()
    }

    /// Runs kubectl in the namespace.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.cluster.kubectl(&[&["--namespace", self.namespace.as_str()][..], arguments].concat())
    }

    /// `kubectl apply`: what it says, warnings of admission included.
    pub fn apply(&self, manifest: &Value) -> Result<String> {
        let output = self.try_apply(manifest)?;
        if !output.0 {
            bail!("kubectl apply: {}", output.1);
        }
        Ok(output.1)
    }

    /// What `kubectl apply` says of a manifest that must be refused.
    pub fn refused(&self, manifest: &Value) -> Result<String> {
        match self.try_apply(manifest)? {
            (false, said) => Ok(said),
            (true, said) => bail!("this should have been refused: {said}\n{manifest}"),
        }
    }

    fn try_apply(&self, manifest: &Value) -> Result<(bool, String)> {
        let arguments = ["--namespace", self.namespace.as_str(), "apply", "--filename=-"];
        let output = self.cluster.try_kubectl(&arguments, &manifest.to_string())?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8(said)?))
    }

    /// The API of pods.
    pub fn pods_api(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The pods that are not on their way out, by name.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        let mut pods = self.pods_api().list(&ListParams::default()).await?.items;
        pods.retain(|it| it.metadata.deletion_timestamp.is_none());
        pods.sort_by_key(ResourceExt::name_any);
        Ok(pods)
    }

    /// The names of the pods that are not on their way out.
    pub async fn pod_names(&self) -> Result<Vec<String>> {
        Ok(self.pods().await?.iter().map(ResourceExt::name_any).collect())
    }

    /// Merges `patch` into a pod.
    pub async fn edit_pod(&self, name: &str, patch: Value) -> Result<Pod> {
        Ok(self.pods_api().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    /// Waits until a pod is as `wanted` says.
    pub async fn pod_until(&self, name: &str, what: &str, wanted: impl Fn(&Pod) -> bool) -> Result<Pod> {
        let pods = self.pods_api();
        let what = format!("pod {name}: {what}");
        let waited = eventually(&what, async || {
            let pod = pods.get(name).await?;
            Ok(wanted(&pod).then_some(pod))
        });
        waited.await.with_context(|| self.told(name))
    }

    /// Waits until the pods are as `wanted` says.
    pub async fn pods_until(&self, what: &str, wanted: impl Fn(&[Pod]) -> bool) -> Result<Vec<Pod>> {
        eventually(what, async || {
            let pods = self.pods().await?;
            Ok(wanted(&pods).then_some(pods))
        })
        .await
    }

    /// A CloneSet as it is stored.
    pub async fn cloneset(&self, name: &str) -> Result<CloneSet> {
        Ok(Api::namespaced(self.client.clone(), &self.namespace).get(name).await?)
    }

    /// Waits until the status speaks of the spec as it is now, and says what is `wanted`.
    pub async fn status_until(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&CloneSetStatus) -> bool,
    ) -> Result<CloneSetStatus> {
        let what = format!("cloneset {name}: {what}");
        let waited = eventually(&what, async || {
            let cloneset = self.cloneset(name).await?;
            let status = cloneset.status.unwrap_or_default();
            let is_current = cloneset.metadata.generation == Some(status.observed_generation);
            Ok((is_current && wanted(&status)).then_some(status))
        });
        waited.await.with_context(|| self.told(name))
    }

    /// Waits until `count` pods are there, all of the newest revision and available.
    pub async fn complete(&self, name: &str, count: i32) -> Result<CloneSetStatus> {
        let wanted = |it: &CloneSetStatus| {
            let numbers = [it.replicas, it.updated_replicas, it.updated_available_replicas];
            numbers == [count; 3] && it.ready_replicas == count && it.current_revision == it.update_revision
        };
        self.status_until(name, &format!("{count} pods, all updated and available"), wanted).await
    }

    /// What happened to an object, oldest first: `Normal SuccessfulCreate succeed to create pod a-x`.
    pub fn events(&self, name: &str) -> Result<Vec<String>> {
        let about = format!("involvedObject.name={name}");
        // Names of events end with the time they were first seen.
        let line = r#"{range .items[*]}{.metadata.name}|{.type} {.reason} {.message}{"\n"}{end}"#;
        let said =
            self.kubectl(&["get", "events", "--field-selector", &about, "-o", &format!("jsonpath={line}")])?;
        let mut lines: Vec<&str> = said.lines().collect();
        lines.sort_unstable();
        Ok(lines.iter().filter_map(|it| it.split_once('|')).map(|it| it.1.to_owned()).collect())
    }

    /// Waits until an event about `name` begins so, and gives all events about it.
    pub async fn event(&self, name: &str, beginning: &str) -> Result<Vec<String>> {
        self.events_like(name, beginning, 1).await?;
        self.events(name)
    }

    /// Waits until at least `count` events about `name` begin so, and gives these.
    pub async fn events_like(&self, name: &str, beginning: &str, count: usize) -> Result<Vec<String>> {
        let what = format!("{count} events {beginning:?}");
        let waited = eventually(&what, async || {
            let mut events = self.events(name)?;
            events.retain(|it| it.starts_with(beginning));
            Ok((events.len() >= count).then_some(events))
        });
        waited.await.with_context(|| self.told(name))
    }

    /// One row that `kubectl get` prints.
    pub fn row(&self, kind: &str, name: &str) -> Result<Vec<String>> {
        let row = self.kubectl(&["get", kind, name, "--no-headers"])?;
        Ok(row.split_whitespace().map(str::to_owned).collect())
    }

    /// What a person would look at when something does not happen.
    fn told(&self, name: &str) -> String {
        let look = |arguments: &[&str]| self.kubectl(arguments).unwrap_or_else(|error| format!("{error:#}"));
        let events = self.events(name).unwrap_or_default().join("\n");
        let pods = look(&["get", "pods", "-L", "lifecycle.apps.kruise.io/state,controller-revision-hash"]);
        format!("{}\n{pods}\n{events}", look(&["get", "clonesets"]))
    }
}

/// The agent of a cluster, started by whoever needs it first.
async fn shared(cluster: &Cluster, flags: &[&str]) -> Result<Arc<Agent>> {
    static AGENTS: Mutex<BTreeMap<String, Weak<Agent>>> = Mutex::const_new(BTreeMap::new());
    let mut agents = AGENTS.lock().await;
    if let Some(agent) = agents.get(&cluster.name).and_then(Weak::upgrade) {
        return Ok(agent);
    }
    let builder = flags.iter().fold(agent(cluster), |it, flag| it.flag(*flag));
    // A task reads its log. It does not end with the test that happens to be first, as all tests share a runtime.
    let agent = Arc::new(builder.start().await?);
    eventually("the agent leads", async || Ok(agent.is_leader().await?.then_some(()))).await?;
    eventually("the API server asks the agent about CloneSets", async || is_asked(cluster)).await?;
    agents.insert(cluster.name.clone(), Arc::downgrade(&agent));
    Ok(agent)
}

/// Whether a CloneSet gets its defaults from the agent, in the version that has to be converted.
fn is_asked(cluster: &Cluster) -> Result<Option<()>> {
    let probe = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": {"name": "probe", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "probe"}},
            "template": {
                "metadata": {"labels": {"app": "probe"}},
                "spec": {"containers": [{"name": "main", "image": "probe"}]},
            },
        },
    });
    let arguments =
        ["create", "--dry-run=server", "--filename=-", "-o", "jsonpath={.spec.revisionHistoryLimit}"];
    let output = cluster.try_kubectl(&arguments, &probe.to_string())?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok((output.stdout == b"10").then_some(()))
}

/// `base` with `patch` merged into it.
pub fn merged(base: &Value, patch: &Value) -> Value {
    let mut merged = base.clone();
    json_patch::merge(&mut merged, patch);
    merged
}
