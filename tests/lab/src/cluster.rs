//! Clusters by name: start, list, take down.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{
    binaries,
    control_plane::Ports,
    home, node, ports, process,
    progress::{Progress, now},
};

/// What a cluster should consist of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shape {
    /// Real nodes.
    pub nodes: usize,
    /// Fake nodes.
    pub fake_nodes: usize,
    /// CPUs that pods of a real node may ask for, all together; without it, as many as the machine has.
    pub node_cpus: Option<usize>,
    /// Whether claims get volumes.
    pub storage: bool,
    /// Whether there is nothing but the API server, so that nobody writes but its clients.
    pub bare: bool,
    /// Whether a bare cluster has a garbage collector all the same.
    pub collector: bool,
}

/// What is written down of a cluster before anything of it is started, so that it can always be taken down.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// Where its files are.
    pub folder: PathBuf,
    /// Where its control plane listens.
    pub ports: Ports,
    /// Where its registry listens; only clusters with real nodes have one.
    pub registry: Option<u16>,
    /// Its real nodes.
    pub nodes: Vec<node::Spec>,
    /// Names of its fake nodes.
    pub fake_nodes: Vec<String>,
    /// Whether it has a storage class.
    #[serde(default)]
    pub storage: bool,
    /// Whether it is an API server alone.
    #[serde(default)]
    pub bare: bool,
    /// Whether it has a garbage collector though it is bare.
    #[serde(default)]
    pub collector: bool,
    /// Whether it is simulated, by the process that keeps it.
    #[serde(default)]
    pub simulated: bool,
}

/// Whether a cluster's keeper is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// Its keeper is gone; what is left can be taken down.
    Dead,
}

/// A cluster that ends with this value, and with this process however that ends.
#[derive(Debug)]
pub struct Attached {
    /// What it consists of.
    pub record: Record,
    keeper: Child,
}

/// How long a cluster lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    UntilTakenDown,
    WithThisProcess,
}

impl Record {
    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Held by the keeper as long as it lives.
    pub(crate) fn lock_file(folder: &Path) -> PathBuf {
        folder.join("keeper.lock")
    }

    /// Reads what was written down in `folder`.
    pub fn read(folder: &Path) -> Result<Self> {
        let bytes = fs::read(folder.join("record.json"))?;
        serde_json::from_slice(&bytes)
            .with_context(|| format!("{} is damaged", folder.join("record.json").display()))
    }

    pub(crate) fn write(&self) -> Result<()> {
        let mut file = File::create(self.folder.join("record.json"))?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        Ok(file.sync_all()?)
    }

    fn taken_ports(&self) -> impl Iterator<Item = u16> {
        let Ports { etcd, etcd_peer, apiserver, controller_manager, scheduler } = self.ports;
        let nodes = self.nodes.iter().flat_map(|it| [it.port, it.health_port]);
        [etcd, etcd_peer, apiserver, controller_manager, scheduler]
            .into_iter()
            .chain(self.registry)
            .chain(nodes)
    }
}

/// Starts a cluster that runs until it is taken down.
pub fn up(name: &str, shape: &Shape, progress: &mut Progress) -> Result<Record> {
    let (record, _) = start(name, shape, Life::UntilTakenDown, progress)?;
    Ok(record)
}

/// Starts a cluster that ends with this process.
pub fn attached(name: &str, shape: &Shape, progress: &mut Progress) -> Result<Attached> {
    let (record, keeper) = start(name, shape, Life::WithThisProcess, progress)?;
    Ok(Attached { record, keeper })
}

impl Drop for Attached {
    fn drop(&mut self) {
        // The keeper takes everything down when its standard input ends.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Every cluster there is something of, by name.
pub fn list() -> Result<Vec<(Record, State)>> {
    let mut clusters = Vec::new();
    for entry in fs::read_dir(home::clusters()?).into_iter().flatten() {
        let folder = entry?.path();
        if let Ok(record) = Record::read(&folder) {
            let state = if keeper_id(&folder)?.is_some() { State::Running } else { State::Dead };
            clusters.push((record, state));
        }
    }
    clusters.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    Ok(clusters)
}

/// Takes a cluster down, whatever state it is in; nothing of it is left.
pub fn down(name: &str) -> Result<()> {
    let folder = home::clusters()?.join(name);
    if !folder.exists() {
        bail!("there is no cluster {name}; `cargo xtask cluster list` shows those that are there");
    }
    if let Some(keeper) = keeper_id(&folder)? {
        process::signal(keeper, rustix::process::Signal::TERM);
        let asked = now();
        while keeper_id(&folder)?.is_some() {
            if asked.elapsed() > Duration::from_secs(60) {
                // Its children die with it; what is left of them is removed below.
                process::signal(keeper, rustix::process::Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    if let Ok(record) = Record::read(&folder) {
        sweep(&record);
    }
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Removes what a dead cluster left outside its folder.
pub(crate) fn sweep(record: &Record) {
    record.nodes.iter().for_each(node::remove_remains);
}

fn start(name: &str, shape: &Shape, life: Life, progress: &mut Progress) -> Result<(Record, Child)> {
    check_name(name)?;
    let reserved_cpus = reserved_cpus(shape.node_cpus, machine_cpus()?)?;
    // Everything that can be missing is found out, and built, before the first process starts.
    binaries::control_plane(progress)?;
    if shape.nodes > 0 {
        binaries::node(progress)?;
    }
    let record = write_record(name, shape, reserved_cpus)?;
    progress.say(format!("starting cluster {name}"));

    // A copy, as the program itself may be built anew while the cluster runs.
    let program = record.folder.join("keeper");
    fs::copy("/proc/self/exe", &program).context("cannot copy this program")?;
    let mut command = Command::new(program);
    command.arg("lab-keep").arg("--folder").arg(&record.folder).process_group(0).stdout(Stdio::piped());
    match life {
        Life::UntilTakenDown => command.arg("--until-taken-down"),
        Life::WithThisProcess => &mut command,
    }
    .stdin(Stdio::piped());
    let log = File::create(record.folder.join("keeper.log"))?;
    let mut keeper = command.stderr(log).spawn().context("cannot start the keeper")?;
    let output = keeper.stdout.take().context("the keeper's output is piped")?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        if line == READY {
            if life == Life::UntilTakenDown {
                // Until now an interrupted start ends the keeper; from now on it stands by itself.
                keeper.stdin.take().context("the keeper's input is piped")?.write_all(KEEP)?;
            }
            return Ok((record, keeper));
        }
        progress.say(format!("  {line}"));
    }
    let _ = keeper.wait();
    let said = process::tail(&record.folder.join("keeper.log"));
    sweep(&record);
    bail!(
        "cluster {name} did not start:\n{said}\nIts logs are in {}; `cargo xtask cluster down {name}` removes them",
        record.folder.display()
    )
}

/// What the keeper prints last; before it, one line per step.
pub(crate) const READY: &str = "ready";

/// What a keeper reads when its cluster is to outlive the process that started it.
pub(crate) const KEEP: &[u8] = b"keep";

fn check_name(name: &str) -> Result<()> {
    let letters = name.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-');
    if name.is_empty() || name.len() > 30 || !letters || name.starts_with('-') {
        bail!("a cluster's name has 1 to 30 lower case letters, digits and dashes; {name:?} has not");
    }
    Ok(())
}

/// What each node has to keep back for its pods to find as many CPUs as wanted.
fn reserved_cpus(wanted: Option<usize>, machine: usize) -> Result<usize> {
    match wanted {
        None => Ok(0),
        Some(wanted) if (1..=machine).contains(&wanted) => Ok(machine - wanted),
        Some(wanted) => bail!("a node of this machine can have 1 to {machine} CPUs, not {wanted}"),
    }
}

/// The CPUs a kubelet counts, whatever share of them this process may use.
fn machine_cpus() -> Result<usize> {
    let text = fs::read_to_string("/proc/cpuinfo").context("cannot count the CPUs of this machine")?;
    Ok(text.lines().filter(|it| it.starts_with("processor")).count())
}

/// A name that is nobody else's from now on.
#[derive(Debug)]
pub(crate) struct Claim {
    /// Where the cluster's files belong; it is there, and empty.
    pub(crate) folder: PathBuf,
    /// One at a time: two clusters started at once must not choose the same name or ports.
    _lock: File,
}

/// Claims a name. What a dead cluster of that name left is removed.
pub(crate) fn claim(name: &str) -> Result<Claim> {
    check_name(name)?;
    let clusters = home::clusters()?;
    fs::create_dir_all(&clusters)?;
    let lock = File::create(clusters.join(".lock"))?;
    lock.lock()?;
    let folder = clusters.join(name);
    if folder.exists() {
        if keeper_id(&folder)?.is_some() {
            bail!("cluster {name} is already up; `cargo xtask cluster down {name}` takes it down");
        }
        down(name)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(Claim { folder, _lock: lock })
}

fn write_record(name: &str, shape: &Shape, reserved_cpus: usize) -> Result<Record> {
    let claim = claim(name)?;
    let folder = claim.folder.clone();
    let others = list()?;
    others.iter().filter(|it| it.1 == State::Dead).for_each(|it| sweep(&it.0));
    let taken: BTreeSet<u16> =
        others.iter().flat_map(|(it, _)| it.taken_ports().collect::<Vec<_>>()).collect();
    let chosen = ports::choose(6 + 2 * shape.nodes, &taken)?;
    let record = Record {
        name: name.to_owned(),
        ports: Ports {
            etcd: chosen[0],
            etcd_peer: chosen[1],
            apiserver: chosen[2],
            controller_manager: chosen[3],
            scheduler: chosen[4],
        },
        registry: (shape.nodes > 0).then_some(chosen[5]),
        nodes: (0..shape.nodes)
            .map(|it| node::Spec {
                cluster: name.to_owned(),
                name: format!("{name}-n{}", it + 1),
                folder: folder.join(format!("n{}", it + 1)),
                port: chosen[6 + 2 * it],
                health_port: chosen[7 + 2 * it],
                registry: format!("127.0.0.1:{}", chosen[5]),
                reserved_cpus,
            })
            .collect(),
        fake_nodes: (0..shape.fake_nodes).map(|it| format!("{name}-f{}", it + 1)).collect(),
        storage: shape.storage,
        bare: shape.bare,
        collector: shape.collector,
        simulated: false,
        folder,
    };
    record.write()?;
    Ok(record)
}

/// The keeper's process id while it lives. It holds a lock on a file that carries its id, so that a number that was
/// given to another process since is never mistaken for it.
fn keeper_id(folder: &Path) -> Result<Option<u32>> {
    let Ok(file) = File::options().read(true).write(true).open(Record::lock_file(folder)) else {
        return Ok(None);
    };
    if file.try_lock().is_ok() {
        return Ok(None);
    }
    let text = fs::read_to_string(Record::lock_file(folder))?;
    Ok(text.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_make_bad_paths_or_node_names_are_refused() {
        for bad in ["", "-a", "A", "a/b", "..", "a_b", &"x".repeat(31)] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        assert!(check_name("member-1").is_ok());
    }

    #[test]
    fn a_node_keeps_back_what_its_pods_must_not_see_and_never_has_more_than_the_machine() {
        assert_eq!(reserved_cpus(None, 8).unwrap(), 0);
        assert_eq!(reserved_cpus(Some(2), 8).unwrap(), 6);
        assert!(reserved_cpus(Some(9), 8).is_err());
        assert!(reserved_cpus(Some(0), 8).is_err());
    }
}
