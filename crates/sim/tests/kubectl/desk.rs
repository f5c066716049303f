//! A served cluster and a kubectl that is pointed at it.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use jiff::Timestamp;
use sim::{World, fleet, serve::Served};
use tokio::runtime::Runtime;

/// How often, and how far apart, something is looked at before it counts as broken: five minutes.
const TRIES: u32 = 1_500;
const BETWEEN: Duration = Duration::from_millis(200);

pub(crate) struct Desk {
    _world: World,
    served: Served,
    folder: PathBuf,
    _runtime: Runtime,
}

/// What kubectl said.
pub(crate) struct Said {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) good: bool,
}

impl Desk {
    /// A cluster with two nodes that runs on the real clock.
    pub(crate) fn open() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sim-kubectl-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (world, served) = runtime.block_on(async {
            let world = World::at(7, now());
            fleet().members(1).nodes(2).build(&world);
            let served = world.serve("member-1").unwrap();
            (world, served)
        });
        served.write_kubeconfig(&folder.join("kubeconfig")).unwrap();
        Self { _world: world, served, folder, _runtime: runtime }
    }

    pub(crate) fn served(&self) -> &Served {
        &self.served
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let program = std::env::var_os("FLEET_KUBECTL").unwrap_or_else(|| "kubectl".into());
        let mut command = Command::new(program);
        command.env("KUBECONFIG", self.folder.join("kubeconfig"));
        // Discovery is kept in a folder: one of its own, so that no other cluster's is read.
        command.env("KUBECACHEDIR", self.folder.join("cache")).args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        let output = self.command(arguments).output().expect("kubectl can be started");
        Said::from(output)
    }

    /// What kubectl prints; it must succeed.
    pub(crate) fn get(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments);
        assert!(said.good, "kubectl {}: {}{}", arguments.join(" "), said.out, said.err);
        said.out
    }

    /// What kubectl complains about; it must fail.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments);
        assert!(!said.good, "kubectl {} went well: {}", arguments.join(" "), said.out);
        said.err
    }

    /// Writes a manifest, for `-f`.
    pub(crate) fn manifest(&self, name: &str, value: &serde_json::Value) -> String {
        let path = self.folder.join(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path.display().to_string()
    }

    /// Applies a manifest; the rest of the command line is `arguments`.
    pub(crate) fn apply(&self, value: &serde_json::Value, arguments: &[&str]) -> Said {
        let path = self.manifest("manifest.json", value);
        self.run(&[&["apply", "-f", &path], arguments].concat())
    }

    /// Runs kubectl until it prints what is waited for.
    pub(crate) fn until(&self, arguments: &[&str], is_so: impl Fn(&str) -> bool) -> String {
        for _ in 0..TRIES {
            let said = self.run(arguments);
            if said.good && is_so(&said.out) {
                return said.out;
            }
            std::thread::sleep(BETWEEN);
        }
        panic!("kubectl {} never printed it: {}", arguments.join(" "), self.run(arguments).out);
    }

    /// Starts a kubectl that goes on printing.
    pub(crate) fn follow(&self, arguments: &[&str]) -> Followed {
        let mut child = self.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Followed { child, out }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { out: text(&output.stdout), err: text(&output.stderr), good: output.status.success() }
    }
}

/// A kubectl that goes on printing; it ends with this.
pub(crate) struct Followed {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Followed {
    /// Reads on until a line is as wanted.
    pub(crate) fn until(&mut self, is_it: impl Fn(&str) -> bool) -> String {
        loop {
            let mut line = String::new();
            let read = self.out.read_line(&mut line).unwrap();
            assert!(read > 0, "kubectl ended before it printed the line");
            if is_it(&line) {
                return line;
            }
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "people look at this world: it shows the time of their clocks")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// The words of a table's row, split where columns are.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
