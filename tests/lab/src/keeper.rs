//! The process that owns one cluster.
//!
//! It prints one line per step and `ready` at the end of the start. It runs until it is asked to end, or, for a cluster
//! that lives with the process that asked for it, until its standard input ends: that happens however the other
//! process goes away. A hang-up signal makes it kill the API server and start it again; the first user signal makes it keep a copy of
//! what etcd has, and the second go back to that copy.

use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
    time::Duration,
};

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::{Node as NodeObject, ServiceAccount};
use kube::{Api, Client, ResourceExt, api::ListParams};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    binaries,
    cluster::{KEEP, READY, Record, sweep},
    control_plane::{self, ControlPlane},
    fakenode,
    node::Node,
    progress::{Progress, now},
    registry, storage,
};

const PATIENCE: Duration = Duration::from_secs(180);

/// When the cluster ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// When standard input does.
    WithInput,
    /// When standard input ends before it was told to keep the cluster; after that, never.
    WhenAsked,
}

/// Removes what a cluster leaves outside its folder, also when the keeper panics.
struct Sweeper<'a>(&'a Record);

impl Drop for Sweeper<'_> {
    fn drop(&mut self) {
        sweep(self.0);
    }
}

/// Runs the cluster recorded in `folder`. Must be called on the main thread: children are tied to the thread that
/// starts them.
pub fn run(folder: &Path, ends: Ends) -> Result<()> {
    let record = Record::read(folder)?;
    let _lock = take_lock(folder)?;
    let sweeper = Sweeper(&record);
    // Two providers may be in the build; one has to be named before the first connection.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(keep(&record, ends));
    drop(sweeper);
    // After a failure the logs stay, for the person who has to find out why.
    if ends == Ends::WithInput && result.is_ok() {
        let _ = std::fs::remove_dir_all(folder);
    }
    result
}

/// The lock says that this cluster has a keeper, and which process it is.
pub(crate) fn take_lock(folder: &Path) -> Result<File> {
    let mut file =
        File::options().create(true).truncate(false).write(true).open(Record::lock_file(folder))?;
    let started = now();
    // Whoever lists clusters holds the lock for a moment, to see whether it is free.
    while file.try_lock().is_err() {
        if started.elapsed() > Duration::from_secs(5) {
            bail!("this cluster has a keeper already");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    file.set_len(0)?;
    write!(file, "{}", std::process::id())?;
    Ok(file)
}

async fn keep(record: &Record, ends: Ends) -> Result<()> {
    let mut parts = Parts::default();
    let stop = CancellationToken::new();
    let asked = until_asked(ends);
    tokio::pin!(asked);
    let started = tokio::select! {
        result = parts.start(record, &stop) => result,
        result = &mut asked => return result.map(|()| parts.stop(&stop)),
    };
    let result = match started {
        Ok(()) => {
            say(READY);
            tokio::select! {
                result = &mut asked => result,
                result = parts.watch() => result,
            }
        }
        Err(error) => Err(error),
    };
    parts.stop(&stop);
    result
}

async fn until_asked(ends: Ends) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let ended = CancellationToken::new();
    let end = ended.clone();
    // Nothing can interrupt a read of standard input; the thread ends with the process.
    std::thread::spawn(move || {
        let mut input = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut input);
        if ends == Ends::WithInput || input != KEEP {
            end.cancel();
        }
    });
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = ended.cancelled() => {}
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Parts {
    control_plane: Option<ControlPlane>,
    nodes: Vec<Node>,
    /// Parts that run inside the keeper.
    tasks: Vec<JoinHandle<()>>,
}

impl Parts {
    async fn start(&mut self, record: &Record, stop: &CancellationToken) -> Result<()> {
        let mut progress = Progress::start();
        let programs = binaries::control_plane(&mut progress)?;
        let node_names = record.nodes.iter().map(|it| it.name.clone()).collect();
        say("control plane");
        let control_plane =
            ControlPlane::create(&record.name, &record.folder, programs, record.ports, node_names)?;
        let control_plane = self.control_plane.insert(control_plane);
        if record.bare {
            control_plane.start_bare().await?;
            return if record.collector { control_plane.start_collector() } else { Ok(()) };
        }
        control_plane.start().await?;
        let client = control_plane::client(&record.kubeconfig()).await?;

        if let Some(port) = record.registry {
            say(&format!("registry and {} nodes", record.nodes.len()));
            let programs = binaries::node(&mut progress)?;
            self.tasks.push(tokio::spawn(ended(
                "registry",
                registry::serve(port, programs.busybox.clone(), stop.clone()),
            )));
            for spec in &record.nodes {
                self.nodes.push(Node::start(spec.clone(), &programs, control_plane)?);
            }
        }
        if !record.fake_nodes.is_empty() {
            say(&format!("{} fake nodes", record.fake_nodes.len()));
            let names = record.fake_nodes.clone();
            self.tasks
                .push(tokio::spawn(ended("fake nodes", fakenode::run(client.clone(), names, stop.clone()))));
        }
        if record.storage {
            say("storage class");
            let folder = record.folder.join("volumes");
            self.tasks
                .push(tokio::spawn(ended("storage", storage::run(client.clone(), folder, stop.clone()))));
        }
        say("waiting for nodes and service accounts");
        self.wait_usable(&client, record).await
    }

    /// Until every node is Ready and pods can be created, which needs the default service account.
    async fn wait_usable(&mut self, client: &Client, record: &Record) -> Result<()> {
        let started = now();
        let wanted = record.nodes.len() + record.fake_nodes.len();
        loop {
            self.must_run()?;
            let ready = ready_nodes(client).await.unwrap_or_default();
            let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
            if ready.len() == wanted && accounts.get_opt("default").await?.is_some() {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                bail!(
                    "after {PATIENCE:?} only {} of {wanted} nodes are Ready: {}",
                    ready.len(),
                    ready.join(", ")
                );
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn watch(&mut self) -> Result<()> {
        let mut hang_up = signal(SignalKind::hangup())?;
        let mut copy = signal(SignalKind::user_defined1())?;
        let mut back = signal(SignalKind::user_defined2())?;
        loop {
            self.must_run()?;
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
                _ = hang_up.recv() => {
                    if let Some(it) = &mut self.control_plane {
                        it.restart_apiserver().await?;
                    }
                }
                _ = copy.recv() => {
                    if let Some(it) = &mut self.control_plane {
                        it.keep_copy().await?;
                    }
                }
                _ = back.recv() => {
                    if let Some(it) = &mut self.control_plane {
                        it.go_back().await?;
                    }
                }
            }
        }
    }

    fn must_run(&mut self) -> Result<()> {
        self.control_plane.iter_mut().try_for_each(ControlPlane::must_run)?;
        self.nodes.iter_mut().try_for_each(Node::must_run)?;
        if self.tasks.iter().any(JoinHandle::is_finished) {
            bail!("a part inside the keeper has ended; its reason is in this log");
        }
        Ok(())
    }

    fn stop(&mut self, stop: &CancellationToken) {
        stop.cancel();
        self.nodes.iter_mut().for_each(Node::stop);
        self.control_plane.iter_mut().for_each(ControlPlane::stop);
    }
}

/// Tells the process that waits for the cluster, if it is still there.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Says why a part that should run for ever has ended.
async fn ended(name: &'static str, part: impl Future<Output = Result<()>>) {
    if let Err(error) = part.await {
        eprintln!("{name} ended: {error:#}");
    }
}

async fn ready_nodes(client: &Client) -> Result<Vec<String>> {
    let nodes: Api<NodeObject> = Api::all(client.clone());
    let nodes = nodes.list(&ListParams::default()).await?;
    let is_ready = |node: &NodeObject| {
        let conditions = node.status.iter().flat_map(|it| it.conditions.iter().flatten());
        conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True")
    };
    Ok(nodes.items.iter().filter(|it| is_ready(it)).map(ResourceExt::name_any).collect())
}
