//! The programs a cluster consists of: found where they already are, else built or unpacked into the user's cache.
//!
//! Order: the folder named by `KUBEBUILDER_ASSETS`, then `PATH`, then our cache. Only what is missing is made.

mod debian;
mod go;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail};

use crate::{home, process, progress::Progress};

/// The Kubernetes release that is built where none is found.
pub const KUBERNETES: &str = "1.34.4";
/// The etcd release that is built where none is found.
pub const ETCD: &str = "3.6.5";
/// The Helm release that is built where none is found.
pub const HELM: &str = "3.19.5";
/// The oldest minor release of Kubernetes 1 that the clusters are started with.
const OLDEST_MINOR: u32 = 33;

const CONTROL_PLANE: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];

/// What every control plane runs, and `kubectl`.
#[derive(Debug, Clone)]
pub struct ControlPlane {
    /// The store.
    pub etcd: PathBuf,
    /// The API server.
    pub apiserver: PathBuf,
    /// Garbage collection, namespaces, service accounts, signing.
    pub controller_manager: PathBuf,
    /// Binds pods to nodes.
    pub scheduler: PathBuf,
    /// The command line.
    pub kubectl: PathBuf,
}

/// What every real node runs.
#[derive(Debug, Clone)]
pub struct Node {
    /// Runs pods.
    pub kubelet: PathBuf,
    /// Runs containers.
    pub containerd: PathBuf,
    /// Folders put first in containerd's `PATH`: its shim and runc.
    pub path: Vec<PathBuf>,
    /// The network plugins.
    pub cni: PathBuf,
    /// Libraries the unpacked programs may need.
    pub libraries: PathBuf,
    /// The only program in our images.
    pub busybox: PathBuf,
}

/// Finds or builds what a control plane needs.
pub fn control_plane(progress: &mut Progress) -> Result<ControlPlane> {
    let found = kubernetes(&CONTROL_PLANE, progress)?;
    let [apiserver, controller_manager, scheduler, kubectl] = found.as_slice() else {
        bail!("the build gave {} programs, not {}", found.len(), CONTROL_PLANE.len());
    };
    let etcd = match existing("etcd") {
        Some(it) => it,
        None => go::etcd(&cache("etcd", ETCD)?, progress)?,
    };
    Ok(ControlPlane {
        etcd,
        apiserver: apiserver.clone(),
        controller_manager: controller_manager.clone(),
        scheduler: scheduler.clone(),
        kubectl: kubectl.clone(),
    })
}

/// Finds, builds or unpacks what a node needs.
pub fn node(progress: &mut Progress) -> Result<Node> {
    if let Some(reason) = why_no_nodes() {
        bail!("real nodes cannot run here: {reason}");
    }
    let kubelet = kubernetes(&["kubelet"], progress)?.remove(0);
    debian::node(kubelet, progress)
}

/// Finds or builds Helm.
pub fn helm(progress: &mut Progress) -> Result<PathBuf> {
    match existing("helm") {
        Some(it) => Ok(it),
        None => go::helm(&cache("helm", HELM)?, progress),
    }
}

/// A kubectl that is there already, if any: for clusters that need nothing else, nothing is built.
pub fn kubectl() -> Option<PathBuf> {
    let built = || cache("kubernetes", KUBERNETES).ok().map(|it| it.join("kubectl")).filter(|it| it.exists());
    existing("kubectl").or_else(built)
}

/// Why this machine cannot run control planes, if so.
pub fn why_no_control_planes() -> Option<String> {
    let folder = cache("kubernetes", KUBERNETES).ok()?;
    let have = |name: &str| existing(name).is_some() || folder.join(name).exists();
    let have_etcd =
        existing("etcd").is_some() || cache("etcd", ETCD).is_ok_and(|it| it.join("etcd").exists());
    let complete = have_etcd && CONTROL_PLANE.iter().all(|it| have(it));
    if complete || process::output(Command::new("go").arg("version")).is_ok() {
        return None;
    }
    let missing = "etcd and Kubernetes are neither in KUBEBUILDER_ASSETS nor on PATH";
    Some(format!("{missing}, and there is no `go` to build them with"))
}

/// Why this machine cannot run real nodes, if so.
pub fn why_no_nodes() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("kubelet and containerd need root; fake nodes (`--fake-nodes N`) do not".to_owned());
    }
    if !Path::new("/sys/fs/cgroup").join("cpu").exists()
        && !Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
    {
        return Some("no cgroup hierarchy is mounted at /sys/fs/cgroup".to_owned());
    }
    if process::output(Command::new("ip").arg("-V")).is_err() {
        return Some("bridges are removed with `ip`, and it is not there; install iproute2".to_owned());
    }
    let namespaces = process::output(Command::new("unshare").args(["--mount", "--pid", "--fork", "true"]));
    if let Err(error) = namespaces {
        return Some(format!("this user cannot make mount and pid namespaces: {error:#}"));
    }
    debian::why_not()
}

fn kubernetes(names: &[&str], progress: &mut Progress) -> Result<Vec<PathBuf>> {
    let folder = cache("kubernetes", KUBERNETES)?;
    let missing: Vec<&str> =
        names.iter().copied().filter(|it| existing(it).is_none() && !folder.join(it).exists()).collect();
    if !missing.is_empty() {
        go::kubernetes(&folder, &missing, progress)?;
    }
    Ok(names.iter().map(|it| existing(it).unwrap_or_else(|| folder.join(it))).collect())
}

/// A program of the assets folder or of `PATH`, if it is not too old.
fn existing(name: &str) -> Option<PathBuf> {
    let assets = env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    assets
        .into_iter()
        .chain(env::split_paths(&path))
        .map(|it| it.join(name))
        .find(|it| it.is_file() && is_recent(name, it))
}

fn is_recent(name: &str, program: &Path) -> bool {
    let arguments: &[&str] = match name {
        "kubectl" => &["version", "--client", "--output=json"],
        "etcd" => return true,
        "helm" => return takes_ownership(program),
        _ => &["--version"],
    };
    process::output(Command::new(program).args(arguments)).is_ok_and(|it| minor_of(&it) >= Some(OLDEST_MINOR))
}

/// Helm 3.17 and newer can; what tests left behind on a cluster is not Helm's.
fn takes_ownership(helm: &Path) -> bool {
    let help = process::output(Command::new(helm).args(["upgrade", "--help"]));
    help.is_ok_and(|it| it.contains("--take-ownership"))
}

/// The minor number of the first `v1.N` in a text.
fn minor_of(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("v1.")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn cache(name: &str, version: &str) -> Result<PathBuf> {
    let folder = home::cache()?.join(format!("{name}-{version}"));
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minor_release_is_read_from_every_form_of_version_text() {
        assert_eq!(minor_of("Kubernetes v1.34.4"), Some(34));
        assert_eq!(minor_of(r#"{"clientVersion": {"major": "1", "gitVersion": "v1.20.2"}}"#), Some(20));
        assert_eq!(minor_of("etcd Version: 3.6.5"), None);
    }
}
