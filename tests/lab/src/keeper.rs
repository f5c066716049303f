//! The process that owns one cluster.
//!
//! It prints one line per step and `ready` at the end of the start. It runs until it is asked to end, or, for a cluster
//! that lives with the process that asked for it, until its standard input ends: that happens however the other
//! process goes away.

use std::{fs::File, io::Write, path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{Node as NodeObject, ServiceAccount};
use kube::{Api, Client, ResourceExt, api::ListParams};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    binaries,
    cluster::{READY, Record, sweep},
    control_plane::{self, ControlPlane},
    fakenode,
    node::Node,
    progress::{Progress, now},
    registry,
};

const PATIENCE: Duration = Duration::from_secs(180);

/// When the cluster ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// When standard input does.
    WithInput,
    /// Never.
    WhenAsked,
}

/// Runs the cluster recorded in `folder`. Must be called on the main thread: children are tied to the thread that
/// starts them.
pub fn run(folder: &Path, ends: Ends) -> Result<()> {
    let record = Record::read(folder)?;
    let mut lock = File::create(Record::lock_file(folder))?;
    lock.try_lock().context("this cluster has a keeper already")?;
    write!(lock, "{}", std::process::id())?;
    // Two providers may be in the build; one has to be named before the first connection.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(keep(&record, ends));
    sweep(&record);
    // After a failure the logs stay, for the person who has to find out why.
    if ends == Ends::WithInput && result.is_ok() {
        let _ = std::fs::remove_dir_all(folder);
    }
    result
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
            println!("{READY}");
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
    if ends == Ends::WithInput {
        let ended = ended.clone();
        // Nothing can interrupt a read of standard input; the thread ends with the process.
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            ended.cancel();
        });
    }
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
}

impl Parts {
    async fn start(&mut self, record: &Record, stop: &CancellationToken) -> Result<()> {
        let mut progress = Progress::start();
        let programs = binaries::control_plane(&mut progress)?;
        let node_names = record.nodes.iter().map(|it| it.name.clone()).collect();
        println!("control plane");
        let control_plane =
            ControlPlane::create(&record.name, &record.folder, programs, record.ports, node_names)?;
        let control_plane = self.control_plane.insert(control_plane);
        control_plane.start().await?;
        let client = control_plane::client(&record.kubeconfig()).await?;

        if let Some(port) = record.registry {
            println!("registry and {} nodes", record.nodes.len());
            let programs = binaries::node(&mut progress)?;
            tokio::spawn(ended("registry", registry::serve(port, programs.busybox.clone(), stop.clone())));
            for spec in &record.nodes {
                self.nodes.push(Node::start(spec.clone(), &programs, control_plane)?);
            }
        }
        if !record.fake_nodes.is_empty() {
            println!("{} fake nodes", record.fake_nodes.len());
            let names = record.fake_nodes.clone();
            tokio::spawn(ended("fake nodes", fakenode::run(client.clone(), names, stop.clone())));
        }
        println!("waiting for nodes and service accounts");
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
        loop {
            self.must_run()?;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    fn must_run(&mut self) -> Result<()> {
        self.control_plane.iter_mut().try_for_each(ControlPlane::must_run)?;
        self.nodes.iter_mut().try_for_each(Node::must_run)
    }

    fn stop(&mut self, stop: &CancellationToken) {
        stop.cancel();
        self.nodes.iter_mut().for_each(Node::stop);
        self.control_plane.iter_mut().for_each(ControlPlane::stop);
    }
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
