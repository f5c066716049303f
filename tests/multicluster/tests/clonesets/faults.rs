//! What must not stop the rest.

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use multicluster::{
    agent::{agent, turn},
    cluster, eventually,
};
use serde_json::json;

use crate::cs_demo;

const CRD: &str = "clonesets.apps.kruise.io";

// Calls of kubectl block their thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_cloneset_that_makes_no_sense_is_told_of_and_does_not_stop_the_others() -> Result<()> {
    // No agent runs here but this one, so the definition may be changed.
    let cluster = cluster("hub");
    let turn = turn(&cluster).await;
    cluster.install_crds().await?;
    let client = cluster.client().await?;
    let namespace = cluster.namespace("nonsense").await?;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let strict = crds.get(CRD).await?.spec.versions;
    let anything =
        json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let mut lax = serde_json::to_value(&strict)?;
    for version in lax.as_array_mut().context("a definition has versions")? {
        version["schema"] = anything.clone();
    }
    let versions = |it: serde_json::Value| Patch::Merge(json!({"spec": {"versions": it}}));
    crds.patch(CRD, &PatchParams::default(), &versions(lax)).await?;

    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "CloneSet"));
    let clonesets: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &kind);
    let nonsense: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "nonsense"},
        "spec": {"replicas": 1, "selector": [], "template": 7},
    }))?;
    eventually("the lax definition is in force", async || {
        Ok(Some(clonesets.create(&PostParams::default(), &nonsense).await.map(drop)?))
    })
    .await?;
    crds.patch(CRD, &PatchParams::default(), &versions(serde_json::to_value(&strict)?)).await?;

    let agent = agent(&cluster).in_turn(turn).start().await?;
    let about = "involvedObject.name=nonsense";
    let event = eventually("an event about it", async || {
        let events =
            cluster.kubectl(&["--namespace", &namespace, "get", "events", "--field-selector", about])?;
        Ok(events.contains("InvalidSpec").then_some(events))
    })
    .await?;
    assert!(event.contains("Warning") && event.contains("the stored object cannot be read"), "{event}");

    let manifest = cs_demo(json!({})).to_string();
    eventually("a good one is accepted", async || {
        let output = cluster.try_kubectl(&["--namespace", &namespace, "apply", "--filename=-"], &manifest)?;
        Ok(output.status.success().then_some(()))
    })
    .await?;
    eventually("the good one has its pods", async || {
        let pods = cluster.kubectl(&["--namespace", &namespace, "get", "pods", "--no-headers"])?;
        Ok((pods.lines().count() == 3).then_some(()))
    })
    .await?;
    drop(agent);
    cluster.forget(&namespace).await
}
