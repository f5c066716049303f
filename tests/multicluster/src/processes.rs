//! Processes of this machine: our own programs, and those that are not ours to wait for, such as control planes, runtimes, and
//! what looks after containers.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};

/// A process that ends when this does, and when the test program does, however that ends.
#[derive(Debug)]
pub struct Running {
    /// A shell, which waits for the end of its input.
    watchman: Child,
    /// The id of the program's process.
    pub pid: String,
}

impl Running {
    /// Starts a program that logs into `log`.
    pub fn start(command: &Command, log: &Path) -> Result<Self> {
        let log = File::options().create(true).append(true).open(log)?;
        let mut watchman = Command::new("sh")
            .args(["-c", r#""$@" >&2 & echo $!; cat > /dev/null; kill $! 2> /dev/null; wait $!"#, "sh"])
            .arg(command.get_program())
            .args(command.get_args())
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("cannot start a program of ours")?;
        let mut pid = String::new();
        BufReader::new(watchman.stdout.take().context("its output is piped")?).read_line(&mut pid)?;
        Ok(Self { watchman, pid: pid.trim().to_owned() })
    }

    /// Kills it as the kernel would: it cannot do anything about it.
    pub fn kill(&self) -> Result<()> {
        signal("KILL", &self.pid)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.watchman.stdin.take());
        let _ = self.watchman.wait();
    }
}

/// A process that does nothing until this value goes.
#[derive(Debug)]
pub struct Frozen(String);

impl Frozen {
    /// Stops a process.
    pub fn new(pid: String) -> Result<Self> {
        signal("STOP", &pid)?;
        Ok(Self(pid))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = signal("CONT", &self.0);
    }
}

/// Sends a signal.
pub fn signal(name: &str, pid: &str) -> Result<()> {
    let status = Command::new("kill").args([&format!("-{name}"), pid]).status()?;
    ensure!(status.success(), "cannot send {name} to {pid}");
    Ok(())
}

/// The process that was started with this argument.
pub fn with_argument(argument: &OsStr) -> Option<String> {
    pids().find(|pid| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.split(|it| *it == 0).any(|it| it == argument.as_encoded_bytes())
    })
}

/// The parent of a container's first process.
pub fn keeper(container: &str) -> Option<String> {
    pids().filter(|it| read(it, "cgroup").contains(container)).map(|it| parent(&it)).find(|parent| {
        // Other processes of the container are children of the first one.
        !read(parent, "cgroup").contains(container)
    })
}

fn parent(pid: &str) -> String {
    let status = read(pid, "status");
    let line = status.lines().find_map(|it| it.strip_prefix("PPid:"));
    line.unwrap_or_default().trim().to_owned()
}

/// The name of the program that a process runs, as far as the kernel keeps it: fifteen letters.
pub(crate) fn program(pid: &str) -> String {
    read(pid, "comm").trim().to_owned()
}

fn read(pid: &str, file: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

pub(crate) fn pids() -> impl Iterator<Item = String> {
    let all = fs::read_dir("/proc").into_iter().flatten();
    let names = all.filter_map(|it| it.ok()?.file_name().into_string().ok());
    names.filter(|it| it.bytes().all(|it| it.is_ascii_digit()))
}
