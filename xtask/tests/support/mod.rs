//! Clusters for tests of the clusters themselves, and a look at what the machine carries.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// A cluster name of this test's own; taken down when the test ends.
#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) name: String,
}

impl Lab {
    pub(crate) fn new(what: &str) -> Result<Self> {
        Ok(Self { name: format!("lab{}-{what}", std::process::id()) })
    }

    pub(crate) fn try_xtask(&self, arguments: &[&str]) -> Result<Output> {
        Ok(Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output()?)
    }

    pub(crate) fn xtask(&self, arguments: &[&str]) -> Result<String> {
        let output = self.try_xtask(arguments)?;
        if !output.status.success() {
            bail!("xtask {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.xtask(&[&["cluster", "kubectl", &self.name], arguments].concat())
    }

    pub(crate) fn start_pod(&self) -> Result<()> {
        self.kubectl(&["run", "web", "--image=lab/web:1", "--restart=Always", "--overrides", OVERRIDES])?;
        self.kubectl(&["wait", "--for=condition=Ready", "pod/web", "--timeout=120s"])?;
        Ok(())
    }

    /// The bridges its nodes may have.
    pub(crate) fn bridges(&self) -> Result<Vec<String>> {
        let config = self.xtask(&["cluster", "kubeconfig", &self.name])?;
        let folder = Path::new(config.trim()).parent().context("a kubeconfig is in a folder")?;
        Ok(lab::cluster::Record::read(folder)?.nodes.iter().map(lab::node::Spec::bridge).collect())
    }

    pub(crate) fn kill_keeper(&self) -> Result<()> {
        let config = self.xtask(&["cluster", "kubeconfig", &self.name])?;
        let lock = Path::new(config.trim()).with_file_name("keeper.lock");
        let id = fs::read_to_string(lock)?;
        let status = Command::new("kill").args(["-KILL", id.trim()]).status()?;
        if !status.success() {
            bail!("there is no keeper {id}");
        }
        Ok(())
    }
}

const OVERRIDES: &str = r#"{"spec": {"containers": [{"name": "main", "image": "lab/web:1"}]}}"#;

impl Drop for Lab {
    fn drop(&mut self) {
        // Most tests have taken it down themselves.
        let _ = self.try_xtask(&["cluster", "down", &self.name]);
    }
}

/// What the machine carries of one cluster.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Remains {
    pub(crate) processes: BTreeSet<String>,
    pub(crate) mounts: BTreeSet<String>,
    pub(crate) links: BTreeSet<String>,
    pub(crate) cgroups: BTreeSet<String>,
    /// Network namespaces of containers.
    pub(crate) namespaces: BTreeSet<String>,
    /// Links to logs of containers.
    pub(crate) logs: BTreeSet<String>,
}

impl Remains {
    /// Everything that names the cluster, and those of its bridges that are there.
    pub(crate) fn of(cluster: &str, bridges: &[String]) -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let mounts = mounts.lines().filter_map(|it| it.split(' ').nth(4)).map(str::to_owned);
        let links = bridges.iter().filter(|it| Path::new("/sys/class/net").join(it).exists());
        Ok(Self {
            processes: processes(cluster)?,
            mounts: mounts.filter(|it| it.contains(cluster)).collect(),
            links: links.cloned().collect(),
            cgroups: cgroups()?.into_iter().filter(|it| it.contains(cluster)).collect(),
            namespaces: names_if_any("/run/netns").into_iter().filter(|it| it.starts_with("cni-")).collect(),
            logs: logs(cluster),
        })
    }
}

/// A process of the cluster has its folder in its arguments; the one that asked for it only its name.
fn processes(cluster: &str) -> Result<BTreeSet<String>> {
    let (below, whole) = (format!("/clusters/{cluster}/"), format!("/clusters/{cluster}\0"));
    let mut found = BTreeSet::new();
    for id in names(Path::new("/proc"))?.into_iter().filter(|it| it.parse::<u32>().is_ok()) {
        let arguments = fs::read(Path::new("/proc").join(&id).join("cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments);
        if arguments.contains(&below) || arguments.contains(&whole) {
            found.insert(format!("{id} {}", arguments.replace('\0', " ")));
        }
    }
    Ok(found)
}

/// Those of nodes of ours, in the one hierarchy of version 2 or in those of version 1.
fn cgroups() -> Result<BTreeSet<String>> {
    let root = Path::new("/sys/fs/cgroup");
    if !root.exists() {
        return Ok(BTreeSet::new());
    }
    let mut found = names(root)?;
    for hierarchy in found.clone().into_iter().map(|it| root.join(it)).filter(|it| it.is_dir()) {
        found.extend(names(&hierarchy)?);
    }
    found.retain(|it| it.starts_with("kf-"));
    Ok(found)
}

/// Links of the machine's folder that lead into the cluster's.
fn logs(cluster: &str) -> BTreeSet<String> {
    let folder = Path::new("/var/log/containers");
    let leads_there = |name: &String| {
        fs::read_link(folder.join(name))
            .is_ok_and(|it| it.to_string_lossy().contains(&format!("/{cluster}/")))
    };
    names_if_any("/var/log/containers").into_iter().filter(leads_there).collect()
}

fn names_if_any(folder: &str) -> BTreeSet<String> {
    names(Path::new(folder)).unwrap_or_default()
}

fn names(folder: &Path) -> Result<BTreeSet<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    Ok(entries.filter_map(|it| it.ok()?.file_name().into_string().ok()).collect())
}

/// Our program, with an ear for Ctrl-C: what a shell starts in the background may have been told to ignore it.
pub(crate) fn interruptible() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_xtask")]);
    command
}

#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
pub(crate) fn eventually(what: &str, mut ask: impl FnMut() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    while !ask()? {
        if started.elapsed() > Duration::from_secs(120) {
            bail!("waited two minutes for: {what}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
