//! A cgroup per node, in every hierarchy of version 1 or in the one of version 2.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};

use crate::progress::now;

const ROOT: &str = "/sys/fs/cgroup";

/// Makes the cgroup `name`, usable for children with limits.
pub(super) fn create(name: &str) -> Result<()> {
    for hierarchy in hierarchies() {
        let group = hierarchy.join(name);
        fs::create_dir_all(&group).with_context(|| format!("cannot create {}", group.display()))?;
        // A new cpuset (version 1) has no cores and no memory, and takes no process until it has.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let value = fs::read_to_string(hierarchy.join(file)).unwrap_or_default();
            if is_version_1() && !value.trim().is_empty() {
                fs::write(group.join(file), value.trim())?;
            }
        }
        if let Ok(controllers) = fs::read_to_string(group.join("cgroup.controllers")) {
            let enable: Vec<String> = controllers.split_whitespace().map(|it| format!("+{it}")).collect();
            // A container's own cgroup may not hand out every controller; kubelet says so if one is missed.
            let _ = fs::write(group.join("cgroup.subtree_control"), enable.join(" "));
        }
    }
    Ok(())
}

/// Removes the cgroup `name` and all below it, waiting a moment for dying processes.
pub(super) fn remove(name: &str) {
    let started = now();
    loop {
        let left = hierarchies()
            .into_iter()
            .map(|it| it.join(name))
            .filter(|it| it.exists() && !remove_tree(it))
            .count();
        if left == 0 || started.elapsed() > Duration::from_secs(10) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn remove_tree(group: &Path) -> bool {
    for child in folders(group) {
        remove_tree(&child);
    }
    fs::remove_dir(group).is_ok()
}

fn hierarchies() -> Vec<PathBuf> {
    if is_version_1() {
        // Several controllers may share a hierarchy under two names, one of them a link.
        let own = folders(Path::new(ROOT)).into_iter().filter(|it| !it.is_symlink());
        own.filter(|it| it.join("cgroup.procs").exists()).collect()
    } else {
        vec![PathBuf::from(ROOT)]
    }
}

fn is_version_1() -> bool {
    !Path::new(ROOT).join("cgroup.controllers").exists()
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten();
    entries.filter_map(|it| it.ok().map(|it| it.path())).filter(|it| it.is_dir()).collect()
}
