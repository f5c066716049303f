//! A real node: kubelet and containerd in mount and pid namespaces of their own.
//!
//! The keeper starts a small init process ([`init`]) as the first process of the node's pid namespace. When it ends, for
//! whatever reason, the kernel ends every process of the node, and with the last of them all its mounts go too. Only
//! the bridge and the cgroups are left; [`remove_remains`] takes them away.

pub mod init;

mod cgroups;
mod config;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{
    binaries,
    control_plane::ControlPlane,
    ports,
    process::{self, Running, tied},
};

/// Everything that tells one node from another; also what its init process is started with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spec {
    /// The cluster it belongs to.
    pub cluster: String,
    /// Its name in the cluster.
    pub name: String,
    /// Where its files are.
    pub folder: PathBuf,
    /// Where its kubelet listens, on loopback.
    pub port: u16,
    /// Where its kubelet answers for its health, on loopback.
    pub health_port: u16,
    /// The registry its images come from, as `host:port`.
    pub registry: String,
    /// CPUs of the machine that pods of this node may not ask for.
    #[serde(default)]
    pub reserved_cpus: usize,
}

impl Spec {
    /// The name of its bridge; interface names have at most 15 characters.
    pub fn bridge(&self) -> String {
        format!("kf{}", self.port)
    }

    /// The name of its cgroup in every hierarchy.
    pub fn cgroup(&self) -> String {
        format!("kf-{}-{}", self.cluster, self.name)
    }

    /// The containerd socket, as other processes of the machine see it.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("containerd.sock")
    }

    /// The first two parts after `10.` of its pod network; as unique as its port.
    fn network(&self) -> (u16, u16) {
        let distance = self.port.saturating_sub(ports::FIRST);
        (192 + distance / 256, distance % 256)
    }
}

/// A node being run by this process.
#[derive(Debug)]
pub struct Node {
    spec: Spec,
    init: Running,
}

impl Node {
    /// Writes the node's files and starts it.
    pub fn start(spec: Spec, programs: &binaries::Node, control_plane: &ControlPlane) -> Result<Self> {
        for folder in ["", "kubelet", "containerd", "cni", "certs.d/_default", "logs", "pod-logs", "pki"] {
            fs::create_dir_all(spec.folder.join(folder))?;
        }
        let user = format!("system:node:{}", spec.name);
        let pki = spec.folder.join("pki");
        control_plane.authority.client(&user, "system:nodes")?.write(&pki, &user)?;
        fs::write(pki.join("ca.crt"), &control_plane.authority.certificate)?;
        let kubeconfig =
            crate::pki::kubeconfig(&spec.cluster, &control_plane.url(), &pki.join("ca.crt"), &pki, &user);
        crate::pki::write_private(&spec.folder.join("kubeconfig"), &kubeconfig)?;
        config::write(&spec, programs)?;
        cgroups::create(&spec.cgroup())?;

        let order = init::Order::new(&spec, programs);
        let file = spec.folder.join("init.json");
        fs::write(&file, serde_json::to_vec_pretty(&order)?)?;
        let mut command = tied("unshare");
        command
            .args([
                "--mount",
                "--propagation",
                "private",
                "--pid",
                "--fork",
                "--kill-child=KILL",
                "--mount-proc",
            ])
            .arg(std::env::current_exe().context("cannot find this program")?)
            .args(["lab-node", "--order"])
            .arg(&file);
        let log = spec.folder.join("logs/init.log");
        let init = Running::start(&format!("node {}", spec.name), command, &log)?;
        Ok(Self { spec, init })
    }

    /// An error if the node has ended.
    pub fn must_run(&mut self) -> Result<()> {
        self.init.must_run()
    }

    /// Ends the node and everything in it.
    pub fn stop(&mut self) {
        // `unshare` holds back every request to end, and kills the first process of the namespace when it is killed.
        self.init.kill();
        remove_remains(&self.spec);
    }
}

/// Removes what outlives a node's processes. Harmless if there is nothing.
pub fn remove_remains(spec: &Spec) {
    if Path::new("/sys/class/net").join(spec.bridge()).exists() {
        let _ = process::output(Command::new("ip").args(["link", "delete", &spec.bridge()]));
    }
    cgroups::remove(&spec.cgroup());
}
