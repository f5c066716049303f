//! `cargo xtask up` as a first-time user has it: simulated clusters, and the hub and the agents as processes.

mod support;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

const MEMBERS: [&str; 3] = ["m1", "m2", "m3"];

/// How often, and how far apart, something is looked at before it counts as broken. The programs may have to be built first.
const TRIES: u32 = 6_000;
const BETWEEN: Duration = Duration::from_millis(200);

/// A fleet of its own, in a folder of its own.
struct Up {
    home: PathBuf,
    process: Child,
}

impl Up {
    fn start() -> Result<Self> {
        let home = std::env::temp_dir().join(format!("xtask-up-{}", std::process::id()));
        fs::create_dir_all(&home)?;
        let said = File::create(home.join("said"))?;
        let process = support::interruptible()
            .arg("up")
            .env("KRUISE_FLEET_HOME", &home)
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said)
            .spawn()?;
        Ok(Self { home, process })
    }

    fn clusters(&self) -> PathBuf {
        self.home.join("state/clusters")
    }

    fn said(&self) -> String {
        fs::read_to_string(self.home.join("said")).unwrap_or_default()
    }

    async fn until<T>(&mut self, what: &str, mut look: impl AsyncFnMut(&Self) -> Result<T>) -> Result<T> {
        for _ in 0..TRIES {
            if let Ok(seen) = look(self).await {
                return Ok(seen);
            }
            if let Some(status) = self.process.try_wait()? {
                bail!("it ended with {status} before {what}:\n{}", self.said());
            }
            tokio::time::sleep(BETWEEN).await;
        }
        let last = look(self).await;
        last.with_context(|| format!("waited in vain until {what}:\n{}", self.said()))
    }

    /// A client of a cluster, by its kubeconfig.
    async fn client(&self, cluster: &str) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(self.clusters().join(cluster).join("kubeconfig"))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// Ctrl-C.
    fn interrupt(&mut self) -> Result<ExitStatus> {
        Command::new("kill").args(["-INT", &self.process.id().to_string()]).status()?;
        Ok(self.process.wait()?)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // After a failure; otherwise it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.home);
    }
}

fn of_kind(client: &Client, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), "default", &resource)
}

/// Ready pods by cluster.
async fn ready_pods(clients: &[Client]) -> Result<Vec<usize>> {
    let mut ready = Vec::new();
    for client in clients {
        let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
        let pods = pods.list(&ListParams::default().labels("app=web")).await?;
        let is_ready = |it: &&Pod| {
            let conditions = it.status.as_ref().and_then(|it| it.conditions.as_ref());
            conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True")
        };
        ready.push(pods.items.iter().filter(is_ready).count());
    }
    Ok(ready)
}

/// Whether the hub says that so many pods are wanted and all of them are ready.
async fn rests(hub: &Client, pods: u64) -> Result<()> {
    let bindings = of_kind(hub, "fleet.kruise.io", "v1alpha1", "FleetBinding");
    let status = &bindings.get("cloneset.web").await?.data["status"];
    anyhow::ensure!(status["desired"] == pods && status["ready"] == pods, "{status}");
    Ok(())
}

/// Processes that name a folder in their arguments.
fn processes_below(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let arguments = fs::read(entry?.path().join("cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
        if arguments.contains(&*folder.to_string_lossy()) {
            found.push(arguments);
        }
    }
    Ok(found)
}

#[tokio::test]
async fn a_fleet_of_simulated_clusters_splits_scales_refuses_and_ends_with_ctrl_c() -> Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut up = Up::start()?;
    up.until("it says what to type", async |up| {
        up.said().contains("Ctrl-C ends").then_some(()).context("no")
    })
    .await?;
    let hub = up.client("hub").await?;
    let mut members = Vec::new();
    for name in MEMBERS {
        members.push(up.client(name).await?);
    }
    up.until("ten pods are ready", async |_| rests(&hub, 10).await).await?;
    let split = ready_pods(&members).await?;
    assert_eq!(split.iter().sum::<usize>(), 10, "{split:?}");
    assert!(split.iter().all(|it| *it >= 3), "ten pods on three members: {split:?}");

    let policies = of_kind(&hub, "fleet.kruise.io", "v1alpha1", "PlacementPolicy");
    let wrong: Value = json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "PlacementPolicy", "metadata": {"name": "wrong"},
        "spec": {"targets": [{"kind": "CloneSet", "name": "web"}], "spread": [{"topologyKey": "moon"}]},
    });
    let refused = policies.create(&PostParams::default(), &serde_json::from_value(wrong)?).await;
    let refused = refused.map(|it| it.data).unwrap_err().to_string();
    assert!(refused.contains("vplacementpolicy.fleet.kruise.io"), "{refused}");

    let clonesets = of_kind(&hub, "apps.kruise.io", "v1beta1", "CloneSet");
    let seven = json!({"spec": {"replicas": 7}});
    clonesets.patch_scale("web", &PatchParams::default(), &Patch::Merge(seven)).await?;
    up.until("seven pods are left", async |_| {
        rests(&hub, 7).await?;
        let left = ready_pods(&members).await?;
        anyhow::ensure!(left.iter().sum::<usize>() == 7, "{left:?}");
        Ok(())
    })
    .await?;

    let home = up.home.clone();
    assert!(processes_below(&home)?.len() >= 4, "a hub and three agents");
    let status = up.interrupt()?;
    assert!(status.success(), "{status}: {}", up.said());
    assert_eq!(processes_below(&home)?, Vec::<String>::new());
    for name in [&["hub"][..], &MEMBERS].concat() {
        assert!(!up.clusters().join(name).exists(), "{name} has left its folder");
    }
    Ok(())
}
