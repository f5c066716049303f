//! Pull secrets of jobs, with a hub that has the rights of the generated manifests and no others.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::kit::{Disturbs, Stage, on};

fn keep(stage: &Stage) -> Result<String> {
    let login = ["--docker-server=registry.example", "--docker-username=a", "--docker-password=b"];
    stage.kubectl(&[&["create", "secret", "docker-registry", "registry"][..], &login].concat())
}

#[test]
fn ipj_6_a_hub_without_the_right_to_secrets_says_what_grants_it_and_places_nothing() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        stage.place(json!({"targets": [{"kind": "ImagePullJob", "labelSelector": {}}]}))?;
        keep(stage)?;
        stage.apply(&json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "metadata": {"name": "web"},
            "spec": {
                "image": "lab/web:1", "completionPolicy": {"type": "Always"}, "pullSecrets": ["registry"],
            },
        }))?;
        let event =
            stage.event("PullSecretsNotBrought spec.pullSecrets: the hub may not read the Secret ").await?;
        ensure!(event.contains("pullSecrets.enabled=true"), "{event}");
        let shares = stage.kubectl(&["get", "assignments", "--all-namespaces", "-o", "json"])?;
        ensure!(!shares.contains(".dockerconfigjson"), "nothing of it is on its way");
        stage.kubectl(&["delete", "imagepulljobs.apps.kruise.io", "--all", "--wait=false"]).map(drop)
    })
}
