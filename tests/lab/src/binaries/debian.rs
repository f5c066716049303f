//! containerd, runc, the network plugins and busybox, from Debian packages unpacked into the user's cache. Nothing is
//! installed into the system, and no service is started.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::Node;
use crate::{home, process, progress::Progress};

const PACKAGES: [&str; 5] =
    ["containerd", "runc", "containernetworking-plugins", "busybox-static", "libseccomp2"];

/// Why the packages cannot be had, if so.
pub(super) fn why_not() -> Option<String> {
    if unpacked().is_ok_and(|it| is_complete(&it)) {
        return None;
    }
    let tools = ["apt-get", "dpkg-deb"];
    let missing: Vec<&str> =
        tools.into_iter().filter(|it| process::output(Command::new(it).arg("--version")).is_err()).collect();
    (!missing.is_empty()).then(|| {
        format!("containerd is unpacked from Debian packages, and {} is not there", missing.join(" and "))
    })
}

/// Finds or unpacks the programs of a node.
pub(super) fn node(kubelet: PathBuf, progress: &mut Progress) -> Result<Node> {
    let root = unpacked()?;
    if !is_complete(&root) {
        progress.say(format!("unpacking {} into {} (36 MB)", PACKAGES.join(", "), root.display()));
        unpack(&root)?;
    }
    Ok(Node {
        kubelet,
        containerd: root.join("usr/bin/containerd"),
        path: vec![root.join("usr/bin"), root.join("usr/sbin")],
        cni: root.join("usr/lib/cni"),
        libraries: libraries(&root)?,
        busybox: root.join("bin/busybox"),
    })
}

fn unpacked() -> Result<PathBuf> {
    Ok(home::cache()?.join("node"))
}

fn is_complete(root: &Path) -> bool {
    root.join("complete").exists()
}

fn unpack(root: &Path) -> Result<()> {
    let partial = root.with_extension("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    let packages = partial.join("packages");
    fs::create_dir_all(&packages)?;
    let download = || {
        process::output(
            Command::new("apt-get").args(["download", "-q"]).args(PACKAGES).current_dir(&packages),
        )
    };
    if download().is_err() {
        // On a new machine the package lists are empty, or so old that the named versions are gone.
        process::output(Command::new("apt-get").args(["update", "-q"]))?;
        download()?;
    }
    for entry in fs::read_dir(&packages)? {
        process::output(Command::new("dpkg-deb").arg("-x").arg(entry?.path()).arg(&partial))?;
    }
    fs::remove_dir_all(&packages)?;
    fs::write(partial.join("complete"), "")?;
    if root.exists() {
        fs::remove_dir_all(root)?;
    }
    fs::rename(&partial, root)?;
    Ok(())
}

fn libraries(root: &Path) -> Result<PathBuf> {
    let folder = root.join("usr/lib");
    let multiarch = fs::read_dir(&folder)?
        .filter_map(|it| it.ok().map(|it| it.path()))
        .find(|it| it.join("libseccomp.so.2").exists())
        .context("libseccomp2 was unpacked without its library")?;
    if !multiarch.is_dir() {
        bail!("{} is not a folder", multiarch.display());
    }
    Ok(multiarch)
}
