//! An agent with exactly the rights of the generated manifests.

use anyhow::Result;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use multicluster::{
    access::{apply, as_service_account},
    agent::{NAMESPACE, agent},
    cluster, eventually,
};
use serde_json::{Value, json};

use crate::{condition, create, is_ours, ordered_pod};

/// What kubelet would report once the container `first` is ready.
fn first_is_ready() -> Value {
    let status = |name: &str, ready: bool| {
        json!({
            "name": name, "ready": ready, "image": "lab/web:1", "imageID": "", "restartCount": 0,
        })
    };
    json!({ "status": { "containerStatuses": [status("first", true), status("second", false)] } })
}

// Calls of kubectl block their thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_generated_rights_are_enough_and_no_request_is_refused() -> Result<()> {
    let cluster = cluster("m1");
    cluster.try_kubectl(&["create", "namespace", NAMESPACE], "")?;
    apply(&cluster, "rbac")?;
    apply(&cluster, "webhook")?;
    let kubeconfig = as_service_account(&cluster, "kruise-manager")?;
    let agent = agent(&cluster)
        .kubeconfig(&kubeconfig.0)
        .flag("--feature-gates=KruisePodReadinessGate=true,ImagePullJobGate=true")
        .start()
        .await?;

    let namespace = cluster.namespace("rights").await?;
    let client = cluster.client().await?;
    let (pods, maps): (Api<Pod>, Api<ConfigMap>) =
        (Api::namespaced(client.clone(), &namespace), Api::namespaced(client, &namespace));
    eventually("a pod is admitted by the agent", async || {
        let rehearsed = create(&cluster, &namespace, &ordered_pod("web"), true).await?;
        Ok(is_ours(&rehearsed).then_some(()))
    })
    .await?;
    create(&cluster, &namespace, &ordered_pod("web"), false).await?;
    eventually("the readiness gate is open", async || {
        Ok((condition(&pods.get("web").await?, "KruisePodReady") == Some("True")).then_some(()))
    })
    .await?;
    let released = async || -> Result<Vec<String>> {
        let barrier = maps.get("web-barrier").await?;
        Ok(barrier.data.unwrap_or_default().into_keys().collect())
    };
    eventually("the first container may start", async || Ok((released().await? == ["p_0"]).then_some(())))
        .await?;
    pods.patch_status("web", &PatchParams::default(), &Patch::Strategic(first_is_ready())).await?;
    eventually("the second container may start, and the pod says so", async || {
        let annotations = pods.get("web").await?.metadata.annotations.unwrap_or_default();
        let complete = annotations.contains_key("apps.kruise.io/container-launch-priority-completed");
        Ok((complete && released().await? == ["p_-1", "p_0"]).then_some(()))
    })
    .await?;

    let metrics = agent.metrics().await?;
    let refused: Vec<_> = metrics.lines().filter(|it| it.contains("code=\"403\"")).collect();
    assert!(refused.is_empty(), "{refused:?}\n{}", agent.log());
    assert!(metrics.contains("rest_client_requests_total{method=\"PATCH\",code=\"200\"}"), "{metrics}");
    assert!(!agent.log().contains("rights are missing"), "{}", agent.log());
    cluster.forget(&namespace).await
}
