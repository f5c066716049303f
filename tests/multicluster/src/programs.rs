//! Our programs, as tests start them: those that variables name, else the ones that cargo builds.

use std::{path::PathBuf, process::Stdio};

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::{process::Command, sync::OnceCell};

/// `FLEET_AGENT`, else the agent that cargo builds.
pub async fn agent() -> Result<PathBuf> {
    static PROGRAM: OnceCell<PathBuf> = OnceCell::const_new();
    PROGRAM.get_or_try_init(|| find("kruise-agent", "FLEET_AGENT")).await.cloned()
}

/// `FLEET_HUB`, else the hub that cargo builds.
pub async fn hub() -> Result<PathBuf> {
    static PROGRAM: OnceCell<PathBuf> = OnceCell::const_new();
    PROGRAM.get_or_try_init(|| find("kruise-hub", "FLEET_HUB")).await.cloned()
}

/// `FLEET_CLI`, else the `kubectl-fleet` that cargo builds.
pub async fn cli() -> Result<PathBuf> {
    static PROGRAM: OnceCell<PathBuf> = OnceCell::const_new();
    PROGRAM.get_or_try_init(|| find("kubectl-fleet", "FLEET_CLI")).await.cloned()
}

async fn find(name: &str, variable: &str) -> Result<PathBuf> {
    if let Some(program) = std::env::var_os(variable) {
        return Ok(program.into());
    }
    let output = Command::from(lab::cargo::command())
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        // With the features of the whole workspace, as the tests: a package of its own would compile kube anew.
        .args(["build", "--workspace", "--bin", name, "--message-format", "json"])
        .stderr(Stdio::inherit())
        .output()
        .await?;
    let text = String::from_utf8(output.stdout)?;
    let messages = text.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok());
    let program = messages.filter_map(|it| it["executable"].as_str().map(PathBuf::from)).next_back();
    program.with_context(|| format!("cargo could not build {name}"))
}
