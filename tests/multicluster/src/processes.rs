//! Processes of this machine that are not ours to wait for: control planes, runtimes, and what looks after containers.

use std::{ffi::OsStr, fs, process::Command};

use anyhow::{Result, ensure};

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
