//! The node duties on a real cluster: the manager for the cluster's side, and one daemon for each node, both as they
//! are shipped and with the rights of the generated manifests.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use kruise_core::api::node_image::v1beta1::NodeImage;
use kube::{Api, ResourceExt, api::ListParams};

use crate::{
    Cluster,
    access::{self, Temporary},
    agent::{self, NAMESPACE},
    eventually,
    processes::{self, Frozen, Running},
    programs,
};

/// One node of the cluster, as the machine that runs the tests sees it.
#[derive(Debug, Clone)]
pub struct Place {
    /// The node's name.
    pub name: String,
    /// Where its files are: its containerd's socket among them.
    pub folder: PathBuf,
}

impl Place {
    /// Kills the node's containerd; the node starts it again.
    pub fn kill_runtime(&self) -> Result<()> {
        let config = self.folder.join("containerd.toml");
        let pid = processes::with_argument(config.as_os_str()).context("containerd runs")?;
        processes::signal("KILL", &pid)
    }

    /// The home folder of the node's daemon: docker's configuration of the node may be in it.
    pub fn home(&self) -> PathBuf {
        self.folder.join("daemon-home")
    }

    /// Its daemon, which believes to be on `node`.
    fn daemon(&self, program: &Path, access: &Temporary, node: &str, flags: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(["daemon", "--addr=127.0.0.1:0", "--kubeconfig"])
            .arg(&access.0)
            .arg("--socket-file")
            .arg(self.folder.join("containerd.sock"))
            .args(flags)
            .env("HOME", self.home())
            .env("NODE_NAME", node)
            .env("RUST_LOG", LOGGED);
        command
    }

    /// Stops the process that looks after a running container: the runtime still answers, and cannot stop it any more.
    pub fn freeze_keeper(&self, container: &str) -> Result<Frozen> {
        let id = container.rsplit('/').next().unwrap_or_default();
        let keeper = processes::keeper(id).with_context(|| format!("nothing looks after {container}"))?;
        Frozen::new(keeper)
    }
}

/// What the processes log.
const LOGGED: &str = "info,kruise_core=debug";

/// The real nodes of a cluster; fake ones have no runtime.
async fn places(cluster: &Cluster) -> Result<Vec<Place>> {
    let folder = cluster.kubeconfig.parent().context("a kubeconfig is in a folder")?;
    let nodes: Api<Node> = Api::all(cluster.client().await?);
    let place = |node: Node| {
        let name = node.name_any();
        let folder = folder.join(name.rsplit('-').next().unwrap_or_default());
        Place { folder, name }
    };
    let nodes = nodes.list(&ListParams::default()).await?.into_iter().map(place);
    Ok(nodes.filter(|it| it.folder.join("containerd.sock").exists()).collect())
}

/// The daemons of a cluster whose manager is somebody else's. They end with this value.
#[derive(Debug)]
pub struct Daemons {
    /// The nodes.
    pub places: Vec<Place>,
    _running: Vec<Running>,
    _access: Temporary,
}

impl Daemons {
    /// Starts one on each real node, with the rights of the generated manifests, which log into `logs`.
    pub async fn start(cluster: &Cluster, logs: &Path) -> Result<Self> {
        let (program, places) = (programs::agent().await?, places(cluster).await?);
        let access = access::as_service_account(cluster, "kruise-daemon")?;
        let start = |it: &Place| {
            let log = logs.join(format!("{}-{}.log", cluster.name, it.name));
            Running::start(&it.daemon(&program, &access, &it.name, &[]), &log)
        };
        let running = places.iter().map(start).collect::<Result<_>>()?;
        Ok(Self { places, _running: running, _access: access })
    }
}

/// The processes of one cluster.
#[derive(Debug)]
pub struct Duties {
    cluster: Cluster,
    program: PathBuf,
    manager_access: Temporary,
    daemon_access: Temporary,
    /// Where logs are.
    pub logs: PathBuf,
    /// The nodes.
    pub places: Vec<Place>,
    running: Mutex<Vec<(String, Running)>>,
    /// Lets the next set of processes begin when all of this is gone: two would take each other's webhooks away.
    _life: tokio::sync::MutexGuard<'static, u32>,
}

/// How many sets of processes were started so far.
static LIVES: tokio::sync::Mutex<u32> = tokio::sync::Mutex::const_new(0);

/// The name of the manager among the processes; no node has it.
const MANAGER: &str = "manager";

impl Duties {
    /// The processes of this cluster, shared by all tests that run at the same time.
    pub async fn of(cluster: &Cluster) -> Result<Arc<Self>> {
        static DUTIES: tokio::sync::Mutex<Weak<Duties>> = tokio::sync::Mutex::const_new(Weak::new());
        let mut known = DUTIES.lock().await;
        if let Some(running) = known.upgrade() {
            return Ok(running);
        }
        let started = Arc::new(Self::start(cluster).await?);
        *known = Arc::downgrade(&started);
        Ok(started)
    }

    async fn start(cluster: &Cluster) -> Result<Self> {
        let mut life = LIVES.lock().await;
        *life += 1;
        // Of a program that was killed, perhaps: they name an address that no longer answers.
        agent::remove_webhooks(cluster);
        cluster.install_crds().await?;
        // There from an earlier test, perhaps.
        cluster.try_kubectl(&["create", "namespace", NAMESPACE], "")?;
        access::apply(cluster, "rbac")?;
        access::apply(cluster, "webhook")?;
        let client = cluster.client().await?;
        let logs = std::env::temp_dir().join(format!("duties-{}-{life}", std::process::id()));
        std::fs::create_dir_all(&logs)?;
        let it = Self {
            cluster: cluster.clone(),
            program: programs::agent().await?,
            manager_access: access::as_service_account(cluster, "kruise-manager")?,
            daemon_access: access::as_service_account(cluster, "kruise-daemon")?,
            logs,
            places: places(cluster).await?,
            running: Mutex::default(),
            _life: life,
        };
        it.start_manager()?;
        for place in &it.places {
            it.start_daemon(place)?;
        }
        let images: Api<NodeImage> = Api::all(client);
        let started =
            eventually("every node has a NodeImage with a status, and admission works", async || {
                let all = images.list(&ListParams::default()).await?;
                let answered = all.iter().filter(|it| it.status.is_some()).count();
                let is_set_up = it.log_of(MANAGER)?.contains("admission is set up");
                Ok((answered >= it.places.len() && is_set_up).then_some(()))
            });
        match started.await {
            Ok(()) => Ok(it),
            Err(error) => Err(error.context(it.log()?)),
        }
    }

    fn start_manager(&self) -> Result<()> {
        let mut command = Command::new(&self.program);
        command
            .args([
                "manager",
                "--metrics-addr=127.0.0.1:0",
                "--health-probe-addr=127.0.0.1:0",
                "--feature-gates=ImagePullJobGate=true,SidecarTerminator=true",
                "--nodeimage-creation-delay=0",
                "--kubeconfig",
            ])
            .arg(&self.manager_access.0)
            .envs(agent::VARIABLES);
        self.launch(MANAGER, command)
    }

    /// Starts the daemon of a node. Tests with images that never come must not hold up the others.
    pub fn start_daemon(&self, place: &Place) -> Result<()> {
        self.launch_daemon(&place.name, place, &["--max-workers-for-pull-image=-1"])
    }

    /// Starts the daemon of a node with more flags.
    pub fn start_daemon_with(&self, place: &Place, flags: &[&str]) -> Result<()> {
        self.launch_daemon(&place.name, place, flags)
    }

    /// Starts a daemon that believes to be on `node`, with the runtime of another.
    pub fn start_daemon_as(&self, node: &str, place: &Place) -> Result<()> {
        self.launch_daemon(node, place, &[])
    }

    fn launch_daemon(&self, node: &str, place: &Place, flags: &[&str]) -> Result<()> {
        self.launch(node, place.daemon(&self.program, &self.daemon_access, node, flags))
    }

    /// Kills the daemon of a node as the kernel would: it cannot do anything about it.
    pub fn kill_daemon(&self, place: &Place) -> Result<()> {
        let mut running = self.running();
        let at = running.iter().position(|it| it.0 == place.name).context("the daemon runs")?;
        running.remove(at).1.kill()
    }

    /// Starts the manager anew, as a node does with one that ended.
    pub fn restart_manager(&self) -> Result<()> {
        self.running().retain(|it| it.0 != MANAGER);
        self.start_manager()
    }

    /// The process id of a node's daemon.
    pub fn daemon_id(&self, place: &Place) -> Result<String> {
        let running = self.running();
        let found = running.iter().find(|it| it.0 == place.name).context("the daemon runs")?;
        Ok(found.1.pid.clone())
    }

    /// Everything that the processes have logged.
    pub fn log(&self) -> Result<String> {
        let mut text = String::new();
        for file in std::fs::read_dir(&self.logs)? {
            text.push_str(&std::fs::read_to_string(file?.path())?);
        }
        Ok(text)
    }

    /// Requests that the API server has refused to the processes for want of a right.
    pub async fn refused(&self) -> Result<Vec<String>> {
        let names: Vec<_> = self.running().iter().map(|it| it.0.clone()).collect();
        let mut refused = Vec::new();
        for name in names {
            let flag = if name == MANAGER { "metrics-addr" } else { "addr" };
            let log = self.log_of(&name)?;
            // One that was started a moment ago has asked for nothing yet.
            let Ok(at) = agent::address(log.lines(), |it| it["flag"] == flag) else { continue };
            let Ok((_, metrics)) = agent::get(at, "/metrics").await else { continue };
            let lines = metrics.lines().filter(|it| it.contains("code=\"403\""));
            refused.extend(lines.map(|it| format!("{name}: {it}")));
        }
        Ok(refused)
    }

    fn log_of(&self, name: &str) -> Result<String> {
        Ok(std::fs::read_to_string(self.logs.join(format!("{name}.log")))?)
    }

    fn running(&self) -> MutexGuard<'_, Vec<(String, Running)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launch(&self, name: &str, mut command: Command) -> Result<()> {
        command.env("RUST_LOG", LOGGED);
        let running = Running::start(&command, &self.logs.join(format!("{name}.log")))?;
        self.running().push((name.to_owned(), running));
        Ok(())
    }
}

impl Drop for Duties {
    fn drop(&mut self) {
        self.running().clear();
        agent::remove_webhooks(&self.cluster);
    }
}
