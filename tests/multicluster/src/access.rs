//! Processes with exactly the rights of the generated manifests.

use std::{
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context, Result};
use kube::config::Kubeconfig;
use serde_json::json;

use crate::{Cluster, agent::NAMESPACE};

/// A file that goes with this value.
#[derive(Debug)]
pub struct Temporary(pub PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Applies the manifests of a folder below `config`.
pub fn apply(cluster: &Cluster, folder: &str) -> Result<()> {
    let folder = format!("{}/../../config/{folder}", env!("CARGO_MANIFEST_DIR"));
    cluster.kubectl(&["apply", "--filename", &folder]).map(drop)
}

/// A kubeconfig with nothing but a token of this ServiceAccount.
pub fn as_service_account(cluster: &Cluster, account: &str) -> Result<Temporary> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let token = cluster.kubectl(&["create", "token", account, "--namespace", NAMESPACE])?;
    let mut config = serde_json::to_value(Kubeconfig::read_from(&cluster.kubeconfig)?)?;
    for user in config["users"].as_array_mut().context("a kubeconfig has users")? {
        user["user"] = json!({ "token": token.trim() });
    }
    let unique = format!("as-{account}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let file = Temporary(std::env::temp_dir().join(format!("{unique}.json")));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    serde_json::to_writer(options.open(&file.0)?, &config)?;
    Ok(file)
}
