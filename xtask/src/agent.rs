//! The hub and the agent as programs: built by cargo, run beside clusters of this machine.

use std::{
    fs::File,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use lab::node;

/// Builds the agent as it is shipped, and says where cargo has put it.
pub(crate) fn build_release() -> Result<PathBuf> {
    find(&run_cargo(&["--package", "member-agent", "--release"])?, AGENT)
}

/// Builds the hub and the agent quickly, and says where cargo has put them.
pub(crate) fn build_both() -> Result<(PathBuf, PathBuf)> {
    // With the features of the whole workspace, as tests: a package of its own would compile kube anew.
    let built = run_cargo(&["--workspace", "--bin", HUB, "--bin", AGENT])?;
    Ok((find(&built, HUB)?, find(&built, AGENT)?))
}

/// Builds both as they are shipped. With the features of the whole workspace, as benchmarks.
pub(crate) fn build_both_release() -> Result<(PathBuf, PathBuf)> {
    let built = run_cargo(&["--workspace", "--release", "--bin", HUB, "--bin", AGENT])?;
    Ok((find(&built, HUB)?, find(&built, AGENT)?))
}

const AGENT: &str = "kruise-agent";
const HUB: &str = "kruise-hub";

fn run_cargo(arguments: &[&str]) -> Result<Vec<PathBuf>> {
    let mut cargo = crate::cargo();
    cargo.args(["build", "--message-format", "json"]).args(arguments);
    let output = cargo.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("our programs could not be built");
    }
    let text = String::from_utf8(output.stdout)?;
    let messages = text.lines().filter_map(|it| serde_json::from_str::<serde_json::Value>(it).ok());
    Ok(messages.filter_map(|it| it["executable"].as_str().map(PathBuf::from)).collect())
}

fn find(built: &[PathBuf], name: &str) -> Result<PathBuf> {
    let program = built.iter().find(|it| it.file_name().is_some_and(|it| it == name));
    program.cloned().with_context(|| format!("cargo does not say where {name} is"))
}

/// A program that ends with this value, and with this process however that ends.
#[derive(Debug)]
pub(crate) struct Running {
    watchman: Child,
}

/// How an agent reaches the hub that its cluster belongs to.
#[derive(Debug)]
pub(crate) struct Link {
    /// The kubeconfig with the agent's own rights.
    pub(crate) kubeconfig: PathBuf,
    /// The UID of the hub.
    pub(crate) hub_uid: String,
}

/// Webhooks that an API server of this machine, real or simulated, reaches: on loopback, at any port.
const WEBHOOKS: [(&str, &str); 3] =
    [("WEBHOOK_HOST", "127.0.0.1"), ("WEBHOOK_PORT", "0"), ("WEBHOOK_CERT_WRITER", "secret")];

/// Starts a manager for the cluster of `kubeconfig`. It logs into `log`.
pub(crate) fn start(program: &Path, kubeconfig: &Path, link: &Link, log: &Path) -> Result<Running> {
    let flags = [
        "manager",
        "--metrics-addr=127.0.0.1:0",
        "--health-probe-addr=127.0.0.1:0",
        "--feature-gates=ImagePullJobGate=true",
        // It is alone: nobody led before it, whose last writes would have to be waited for.
        "--enable-leader-election=false",
        "--kubeconfig",
    ];
    let mut command = Command::new(program);
    command.args(flags).arg(kubeconfig).env("POD_NAMESPACE", "kruise-system").envs(WEBHOOKS);
    command.arg("--hub-kubeconfig").arg(&link.kubeconfig).args(["--hub-uid", &link.hub_uid]);
    launch(&command, log)
}

/// Starts a hub. It logs into `log`.
pub(crate) fn start_hub(program: &Path, kubeconfig: &Path, log: &Path) -> Result<Running> {
    let flags = ["--metrics-addr=127.0.0.1:0", "--health-probe-addr=127.0.0.1:0", "--kubeconfig"];
    let mut command = Command::new(program);
    command.args(flags).arg(kubeconfig).envs(WEBHOOKS);
    launch(&command, log)
}

/// Starts the daemon of a node. It logs into its folder.
pub(crate) fn start_daemon(program: &Path, kubeconfig: &Path, node: &node::Spec) -> Result<Running> {
    let mut command = Command::new(program);
    command
        .args(["daemon", "--addr=127.0.0.1:0", "--kubeconfig"])
        .arg(kubeconfig)
        .arg("--socket-file")
        .arg(node.socket())
        .env("NODE_NAME", &node.name);
    launch(&command, &node.folder.join("daemon.log"))
}

fn launch(command: &Command, log: &Path) -> Result<Running> {
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    // The shell outlives us by no more than it takes to notice that its input has ended.
    let watchman = Command::new("sh")
        .args(["-c", r#""$@" & ours=$!; cat > /dev/null; kill $ours; wait $ours"#, "sh"])
        .arg(command.get_program())
        .args(command.get_args())
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        // Ctrl-C is for us: they end when we do, in our order.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(file)
        .spawn()
        .context("cannot start a program of ours")?;
    Ok(Running { watchman })
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.watchman.stdin.take());
        let _ = self.watchman.wait();
    }
}
