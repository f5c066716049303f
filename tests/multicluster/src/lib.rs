//! How do tests reach real clusters, and wait for what happens in them?
//!
//! The clusters are named by `FLEET_KUBECONFIGS=hub=PATH,m1=PATH`: `cargo xtask test` starts some and sets it; to use
//! kind clusters or any others, set it yourself.

pub mod access;
pub mod agent;
pub mod balancer;
pub mod cost;
pub mod duties;
pub mod fleet;
pub mod life;
pub mod limits;
pub mod processes;
pub mod programs;
pub mod proxy;
pub mod registry;
pub mod rough;
pub mod stage;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, CustomResourceDefinitionCondition,
    },
};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use lab::control_plane;
use serde_json::json;
use tokio::sync::Mutex;

/// How long a test waits for a condition before it fails; generous, as machines are shared.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// One cluster a test runs on.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Its name in the fleet.
    pub name: String,
    /// How to reach it.
    pub kubeconfig: PathBuf,
}

/// Where to find the cluster called `name`.
fn find(name: &str, named: &str) -> Option<PathBuf> {
    let clusters = named.split(',').filter_map(|it| it.split_once('='));
    clusters.into_iter().find(|it| it.0 == name).map(|it| it.1.into())
}

fn named() -> String {
    std::env::var("FLEET_KUBECONFIGS").unwrap_or_default()
}

/// Whether there is a cluster called `name`.
pub fn is_named(name: &str) -> bool {
    find(name, &named()).is_some()
}

/// The cluster called `name`.
pub fn cluster(name: &str) -> Cluster {
    let named = named();
    let Some(kubeconfig) = find(name, &named) else {
        panic!(
            "this test needs a cluster {name}: run `cargo xtask test`, or set FLEET_KUBECONFIGS={name}=PATH (it is {named:?})"
        );
    };
    Cluster { name: name.to_owned(), kubeconfig }
}

impl Cluster {
    /// The client configuration.
    pub async fn config(&self) -> Result<kube::Config> {
        // Harmless when it was done before; without it the first connection fails.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        Ok(kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
    }

    /// A client with all rights.
    pub async fn client(&self) -> Result<Client> {
        Ok(Client::try_from(self.config().await?)?)
    }

    /// A namespace of the test's own, with a name that no other run has.
    pub async fn namespace(&self, prefix: &str) -> Result<String> {
        let namespaces: Api<Namespace> = Api::all(self.client().await?);
        let wanted = serde_json::from_value(json!({"metadata": {"generateName": format!("{prefix}-")}}))?;
        let made = namespaces.create(&PostParams::default(), &wanted).await?;
        made.metadata.name.context("the API server names every namespace")
    }

    /// Runs kubectl and gives what it printed; an error carries what it complained about.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let output = self.try_kubectl(arguments, "")?;
        if !output.status.success() {
            bail!("kubectl {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Runs kubectl with something to read, however it ends.
    pub fn try_kubectl(&self, arguments: &[&str], input: &str) -> Result<Output> {
        use std::{io::Write, process::Stdio};
        let program = std::env::var_os("FLEET_KUBECTL").unwrap_or_else(|| "kubectl".into());
        let mut child = Command::new(program)
            .env("KUBECONFIG", &self.kubeconfig)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start kubectl")?;
        child.stdin.take().context("kubectl's input is piped")?.write_all(input.as_bytes())?;
        Ok(child.wait_with_output()?)
    }

    /// Makes every CRD of ours served, once per cluster and test program.
    pub async fn install_crds(&self) -> Result<Vec<CustomResourceDefinition>> {
        static INSTALLED: Mutex<BTreeSet<String>> = Mutex::const_new(BTreeSet::new());
        let mut installed = INSTALLED.lock().await;
        let crds = kruise_core::api::crds();
        if installed.insert(self.name.clone()) {
            let api: Api<CustomResourceDefinition> = Api::all(self.client().await?);
            for crd in &crds {
                install(&api, crd).await?;
            }
        }
        Ok(crds)
    }

    /// Kills the API server, and has it started again. Only a cluster of the project's own can do that: an error elsewhere.
    pub fn restart_server(&self) -> Result<()> {
        self.signal_keeper("HUP")
    }

    /// Has a copy kept of everything that the cluster knows; its API server is away for a moment. Only a cluster of the
    /// project's own can do that.
    pub async fn keep_copy(&self) -> Result<()> {
        self.signal_keeper("USR1")?;
        let copy = self.folder()?.join(control_plane::COPY);
        eventually("a copy is kept", async || Ok(copy.exists().then_some(()))).await?;
        self.until_it_answers().await
    }

    /// Has the cluster go back to the copy, and forget what happened since.
    pub async fn go_back(&self) -> Result<()> {
        self.signal_keeper("USR2")?;
        let copy = self.folder()?.join(control_plane::COPY);
        eventually("the copy is taken", async || Ok((!copy.exists()).then_some(()))).await?;
        self.until_it_answers().await
    }

    async fn until_it_answers(&self) -> Result<()> {
        let client = self.client().await?;
        eventually("the API server answers", async || Ok(client.apiserver_version().await.ok().map(drop)))
            .await
    }

    fn signal_keeper(&self, signal: &str) -> Result<()> {
        let keeper = std::fs::read_to_string(self.folder()?.join("keeper.lock"))
            .with_context(|| format!("nobody keeps cluster {}, so it cannot be asked for that", self.name))?;
        let status = Command::new("kill").args([&format!("-{signal}"), keeper.trim()]).status()?;
        if !status.success() {
            bail!("the keeper of cluster {} is gone", self.name);
        }
        Ok(())
    }

    /// Where a cluster of the project's own has its files.
    fn folder(&self) -> Result<&Path> {
        self.kubeconfig.parent().context("a kubeconfig is in a folder")
    }

    /// Deletes a namespace without waiting for it to be gone.
    pub async fn forget(&self, namespace: &str) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client().await?);
        namespaces.delete(namespace, &DeleteParams::background()).await?;
        Ok(())
    }
}

/// Replaces a definition that is there as a whole: an earlier run may have pointed its conversion to a server of its
/// own, and a definition may not name both that and a Service.
async fn install(api: &Api<CustomResourceDefinition>, crd: &CustomResourceDefinition) -> Result<()> {
    let name = crd.metadata.name.clone().unwrap_or_default();
    let written = match api.get_opt(&name).await? {
        None => api.create(&PostParams::default(), crd).await,
        Some(there) => {
            let mut crd = crd.clone();
            crd.metadata.resource_version = there.metadata.resource_version;
            api.replace(&name, &PostParams::default(), &crd).await
        }
    };
    written.with_context(|| format!("the API server refuses {name}"))?;
    eventually(&format!("{name} is served"), async || {
        let status = api.get(&name).await?.status.unwrap_or_default();
        let established =
            |it: &CustomResourceDefinitionCondition| it.type_ == "Established" && it.status == "True";
        Ok(status.conditions.iter().flatten().any(established).then_some(()))
    })
    .await
}

/// Asks until there is an answer, and fails with the last error, or `what`, when patience is at its end.
pub async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let mut last = None;
    let asking = async {
        loop {
            match ask().await {
                Ok(Some(answer)) => return answer,
                Ok(None) => last = None,
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(answer) => Ok(answer),
        Err(_) => match last {
            Some(error) => Err(error.context(format!("waited {PATIENCE:?} for: {what}"))),
            None => bail!("waited {PATIENCE:?} for: {what}"),
        },
    }
}
