//! The node duties on a real cluster: one process for the cluster's side, and one daemon for each node.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kruise_core::api::node_image::v1beta1::NodeImage;
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::{Cluster, eventually};

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
        let is_it = |pid: &str| {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            command.split(|it| *it == 0).any(|it| it == config.as_os_str().as_encoded_bytes())
        };
        let pids = std::fs::read_dir("/proc")?.filter_map(|it| it.ok()?.file_name().into_string().ok());
        let pid = pids.into_iter().find(|it| is_it(it)).context("containerd runs")?;
        let status = Command::new("kill").args(["-KILL", &pid]).status()?;
        anyhow::ensure!(status.success(), "containerd {pid} cannot be killed");
        Ok(())
    }
}

/// A process that ends when this does.
#[derive(Debug)]
struct Running {
    child: Child,
    _input: ChildStdin,
}

/// The processes of one cluster.
#[derive(Debug)]
pub struct Duties {
    program: PathBuf,
    kubeconfig: PathBuf,
    /// Where logs are.
    pub logs: PathBuf,
    /// The nodes.
    pub places: Vec<Place>,
    running: Mutex<Vec<(String, Running)>>,
}

impl Duties {
    /// The processes of this cluster, started once for all tests of a program. `program` is the `duties` binary.
    pub async fn of(cluster: &Cluster, program: &str) -> Result<&'static Self> {
        static DUTIES: OnceCell<Duties> = OnceCell::const_new();
        DUTIES.get_or_try_init(|| Self::start(cluster, program)).await
    }

    async fn start(cluster: &Cluster, program: &str) -> Result<Self> {
        cluster.install_crds().await?;
        let client = cluster.client().await?;
        let folder = cluster.kubeconfig.parent().context("a kubeconfig is in a folder")?;
        let nodes: Api<Node> = Api::all(client.clone());
        let mut places = Vec::new();
        for node in nodes.list(&ListParams::default()).await? {
            let name = node.name_any();
            let short = name.rsplit('-').next().unwrap_or_default();
            places.push(Place { folder: folder.join(short), name: name.clone() });
        }
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let wanted = serde_json::from_value(json!({"metadata": {"name": "kruise-daemon-config"}}))?;
        let _ = namespaces.create(&PostParams::default(), &wanted).await;
        let logs = std::env::temp_dir().join(format!("duties-{}", std::process::id()));
        std::fs::create_dir_all(&logs)?;
        let it = Self {
            program: program.into(),
            kubeconfig: cluster.kubeconfig.clone(),
            logs,
            places,
            running: Mutex::default(),
        };
        it.launch("manager", &["manager".as_ref(), it.kubeconfig.as_path()])?;
        for place in &it.places {
            it.start_daemon(place)?;
        }
        let images: Api<NodeImage> = Api::all(client);
        eventually("every node has a NodeImage with a status", async || {
            let all = images.list(&ListParams::default()).await?;
            let answered = all.iter().filter(|it| it.status.is_some()).count();
            Ok((answered >= it.places.len()).then_some(()))
        })
        .await?;
        Ok(it)
    }

    /// Starts the daemon of a node.
    pub fn start_daemon(&self, place: &Place) -> Result<()> {
        let socket = place.folder.join("containerd.sock");
        self.launch(&place.name, &["daemon".as_ref(), &self.kubeconfig, place.name.as_ref(), &socket])
    }

    /// Kills the daemon of a node as the kernel would: it cannot do anything about it.
    pub fn kill_daemon(&self, place: &Place) -> Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let at = running.iter().position(|it| it.0 == place.name).context("the daemon runs")?;
        let (_, mut daemon) = running.remove(at);
        daemon.child.kill()?;
        daemon.child.wait()?;
        Ok(())
    }

    /// Everything that the processes have logged.
    pub fn log(&self) -> Result<String> {
        let mut text = String::new();
        for file in std::fs::read_dir(&self.logs)? {
            text.push_str(&std::fs::read_to_string(file?.path())?);
        }
        Ok(text)
    }

    fn launch(&self, name: &str, arguments: &[&Path]) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.logs.join(format!("{name}.log")))?;
        let mut child = Command::new(&self.program)
            .args(arguments)
            .env("RUST_LOG", "info,kruise_core=debug")
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start the duties program")?;
        // The process ends when this end of the pipe is closed, however that happens.
        let input = child.stdin.take().context("its input is piped")?;
        let running = Running { child, _input: input };
        self.running.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), running));
        Ok(())
    }
}
