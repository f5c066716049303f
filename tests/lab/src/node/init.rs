//! The first process of a node: starts containerd and kubelet, starts them again should they end, and collects what
//! dead shims leave behind. It ends when it is told to; the kernel then ends everything else in the node.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::Spec;
use crate::{binaries, process};

/// What to start.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    spec: Spec,
    kubelet: PathBuf,
    containerd: PathBuf,
    path: Vec<PathBuf>,
    libraries: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Containerd,
    Kubelet,
}

impl Order {
    pub(super) fn new(spec: &Spec, programs: &binaries::Node) -> Self {
        Self {
            spec: spec.clone(),
            kubelet: programs.kubelet.clone(),
            containerd: programs.containerd.clone(),
            path: programs.path.clone(),
            libraries: programs.libraries.clone(),
        }
    }

    fn command(&self, part: Part) -> Result<Command> {
        let folder = &self.spec.folder;
        let (mut command, log) = match part {
            Part::Containerd => {
                let mut command = Command::new(&self.containerd);
                command.arg("--config").arg(folder.join("containerd.toml"));
                command.env("PATH", self.search_path()?).env("LD_LIBRARY_PATH", &self.libraries);
                (command, "containerd.log")
            }
            Part::Kubelet => {
                let mut command = Command::new(&self.kubelet);
                command
                    .arg("--config")
                    .arg(folder.join("kubelet.json"))
                    .arg("--kubeconfig")
                    .arg(folder.join("kubeconfig"))
                    .arg("--root-dir")
                    .arg(folder.join("kubelet"))
                    .arg("--cert-dir")
                    .arg(folder.join("pki"))
                    .args(["--hostname-override", &self.spec.name])
                    .arg("--node-labels")
                    .arg("fleet.kruise.io/lab=true");
                (command, "kubelet.log")
            }
        };
        let log = fs::OpenOptions::new().create(true).append(true).open(folder.join("logs").join(log))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }

    fn search_path(&self) -> Result<OsString> {
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        Ok(std::env::join_paths(self.path.iter().cloned().chain(std::env::split_paths(&inherited)))?)
    }
}

/// Runs the node of the order in `file` until it is killed.
pub fn run(file: &Path) -> Result<()> {
    let order: Order =
        serde_json::from_slice(&fs::read(file)?).context("the order of the node cannot be read")?;
    // Sockets, network namespaces and links to logs of this node, out of sight of the machine and of other nodes.
    for folder in ["/run/containerd", "/run/netns", "/var/log/containers"] {
        fs::create_dir_all(folder)?;
        process::output(Command::new("mount").args(["-t", "tmpfs", "tmpfs", folder]))?;
    }
    let mut containerd = order.command(Part::Containerd)?.spawn().context("cannot start containerd")?.id();
    let mut kubelet = order.command(Part::Kubelet)?.spawn().context("cannot start kubelet")?.id();
    loop {
        // All children of dead parents come to the first process of the namespace; each has to be waited for.
        let Some((ended, status)) = rustix::process::wait(rustix::process::WaitOptions::empty())? else {
            continue;
        };
        let ended = u32::try_from(ended.as_raw_nonzero().get()).unwrap_or_default();
        let part = if ended == containerd {
            Part::Containerd
        } else if ended == kubelet {
            Part::Kubelet
        } else {
            continue;
        };
        eprintln!("{part:?} ended with {status:?}; starting it again");
        thread::sleep(Duration::from_secs(1));
        let again = order.command(part)?.spawn()?.id();
        match part {
            Part::Containerd => containerd = again,
            Part::Kubelet => kubelet = again,
        }
    }
}
