//! Child processes that never outlive their keeper.

use std::{
    ffi::OsStr,
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::progress::now;

/// A running child with its log.
#[derive(Debug)]
pub struct Running {
    /// What it is called in messages.
    pub name: String,
    log: PathBuf,
    child: Child,
}

/// A command that is killed by the kernel when the thread that starts it ends. A process that starts children must do
/// so on its main thread.
pub fn tied(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

impl Running {
    /// Starts `command` with both outputs appended to `log`.
    pub fn start(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name: name.to_owned(), log: log.to_owned(), child })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// An error with the end of its log if it is no longer running.
    pub fn must_run(&mut self) -> Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => bail!(
                "{} ended with {status}; the end of {}:\n{}",
                self.name,
                self.log.display(),
                tail(&self.log)
            ),
        }
    }

    /// Asks it to end, and kills it when it has not within `patience`.
    pub fn stop(&mut self, patience: Duration) {
        let asked = now();
        signal(self.child.id(), rustix::process::Signal::TERM);
        while asked.elapsed() < patience {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.kill();
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        // It may have ended just now; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal; a process that is gone is no error.
pub fn signal(id: u32, signal: rustix::process::Signal) {
    if let Some(pid) = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Runs a tool to its end and gives its output; an error carries what it said.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {shown}"))?;
    if !output.status.success() {
        bail!(
            "{shown} failed with {}:\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The last lines of a log.
pub fn tail(path: &Path) -> String {
    const BYTES: u64 = 4_000;
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_else(|error| format!("(no log: {error})"))
}
