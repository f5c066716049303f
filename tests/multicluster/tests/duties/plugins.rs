//! Credentials of the node: what a program on it knows, and docker's configuration.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use anyhow::{Context, Result};
use multicluster::registry;
use serde_json::{Value, json};

use crate::support::Stage;

/// A folder with a plugin that knows the password for `host`, and its configuration.
struct Plugin(PathBuf);

impl Plugin {
    fn write(host: &str) -> Result<Self> {
        let it = Self(std::env::temp_dir().join(format!("plugin-{}", std::process::id())));
        fs::create_dir_all(&it.0)?;
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig",
            "providers": [{
                "name": "vault", "matchImages": [host], "defaultCacheDuration": "1m",
                "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "args": ["get"],
            }],
        });
        fs::write(it.file("config.yaml"), config.to_string())?;
        let answer = json!({
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse",
            "cacheKeyType": "Registry", "cacheDuration": "1m",
            "auth": {host: {"username": registry::USER, "password": registry::PASSWORD}},
        });
        fs::write(it.file("answer"), answer.to_string())?;
        let program = "#!/bin/sh\ncd \"$(dirname \"$0\")\"\ncat > asked\ncat answer\n";
        fs::write(it.file("vault"), program)?;
        fs::set_permissions(it.file("vault"), fs::Permissions::from_mode(0o755))?;
        Ok(it)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_the_node_logs_in_where_the_job_names_no_secret() -> Result<()> {
    let stage = Stage::set().await?;
    let (place, _turn) = stage.last().await?;
    let image = stage.registry.image("private/plugin", "1");
    let only = json!({"selector": {"names": [place.name]}, "pullPolicy": {"backoffLimit": 0}});
    stage.job("without", &image, only.clone()).await?;
    let status = stage.finished("without").await?.status.context("it has one")?;
    assert_eq!((status.succeeded, status.failed), (0, 1), "{status:?}");

    let plugin = Plugin::write(&stage.registry.host)?;
    let (config, programs) = (plugin.file("config.yaml"), plugin.0.display().to_string());
    let config = config.display().to_string();
    stage.duties.kill_daemon(&place)?;
    let flags =
        ["--max-workers-for-pull-image=-1", "--plugin-config-file", &config, "--plugin-bin-dir", &programs];
    stage.duties.start_daemon_with(&place, &flags)?;
    stage.job("with", &image, only).await?;
    let status = stage.finished("with").await?.status.context("it has one")?;
    assert_eq!((status.succeeded, status.failed), (1, 0), "{status:?}");
    let asked: Value = serde_json::from_slice(&fs::read(plugin.file("asked"))?)?;
    // As the kubelet asks: for the repository, whatever the tag.
    let repository = format!("{}/private/plugin", stage.registry.host);
    assert_eq!(asked["kind"], "CredentialProviderRequest");
    assert_eq!(asked["image"], repository);
    assert!(!stage.duties.log()?.contains(registry::PASSWORD), "a password was logged");

    stage.duties.kill_daemon(&place)?;
    stage.duties.start_daemon(&place)?;
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_configuration_of_the_node_logs_in_where_the_job_names_no_secret() -> Result<()> {
    let stage = Stage::set().await?;
    let (place, _turn) = stage.last().await?;
    let login = json!({"username": registry::USER, "password": registry::PASSWORD});
    let config = json!({"auths": {(stage.registry.host.as_str()): login}});
    let folder = place.home().join(".docker");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("config.json"), config.to_string())?;
    // A daemon that has looked a moment ago looks again only after minutes.
    stage.duties.kill_daemon(&place)?;
    stage.duties.start_daemon(&place)?;
    let only = json!({"selector": {"names": [place.name]}, "pullPolicy": {"backoffLimit": 0}});
    stage.job("with", &stage.registry.image("private/docker", "1"), only).await?;
    let status = stage.finished("with").await?.status.context("it has one")?;
    fs::remove_dir_all(place.home())?;
    assert_eq!((status.succeeded, status.failed), (1, 0), "{status:?}");
    assert!(!stage.duties.log()?.contains(registry::PASSWORD), "a password was logged");
    stage.end().await
}
