//! The agent as a program: built by cargo, run beside a cluster of this machine.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use lab::node;

/// How an agent is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Quickly.
    Dev,
    /// As it is shipped.
    Release,
}

/// Builds the agent and says where cargo has put it.
pub(crate) fn build(profile: Profile) -> Result<PathBuf> {
    let mut cargo = crate::cargo();
    cargo.args(["build", "--message-format", "json"]);
    match profile {
        // With the features of the whole workspace, as tests: a package of its own would compile kube anew.
        Profile::Dev => cargo.args(["--workspace", "--bin", "kruise-agent"]),
        Profile::Release => cargo.args(["--package", "member-agent", "--release"]),
    };
    let output = cargo.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("kruise-agent could not be built");
    }
    let text = String::from_utf8(output.stdout)?;
    let messages = text.lines().filter_map(|it| serde_json::from_str::<serde_json::Value>(it).ok());
    let program = messages.filter_map(|it| it["executable"].as_str().map(PathBuf::from)).next_back();
    program.context("cargo does not say where kruise-agent is")
}

/// An agent that ends with this value, and with this process however that ends.
#[derive(Debug)]
pub(crate) struct Running {
    watchman: Child,
}

/// Starts a manager for the cluster of `kubeconfig`. It logs into `log`.
pub(crate) fn start(program: &Path, kubeconfig: &Path, log: &Path) -> Result<Running> {
    let flags = [
        "manager",
        "--metrics-addr=127.0.0.1:0",
        "--health-probe-addr=127.0.0.1:0",
        "--feature-gates=ImagePullJobGate=true",
        "--kubeconfig",
    ];
    let variables = [
        ("POD_NAMESPACE", "kruise-system"),
        ("WEBHOOK_HOST", "127.0.0.1"),
        ("WEBHOOK_PORT", "0"),
        ("WEBHOOK_CERT_WRITER", "secret"),
    ];
    launch(Command::new(program).args(flags).arg(kubeconfig).envs(variables), log)
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
        .args(["-c", r#""$@" & agent=$!; cat > /dev/null; kill $agent; wait $agent"#, "sh"])
        .arg(command.get_program())
        .args(command.get_args())
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(file)
        .spawn()
        .context("cannot start kruise-agent")?;
    Ok(Running { watchman })
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.watchman.stdin.take());
        let _ = self.watchman.wait();
    }
}
