//! Ring 4: real kubelets and containerd.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::PostParams};
use multicluster::{Cluster, cluster, eventually};
use serde_json::json;

async fn running_pod(cluster: &Cluster, namespace: &str, image: &str) -> Result<Api<Pod>> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, namespace);
    let pod = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main", "image": image,
                "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1},
            }],
        },
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    eventually("the pod is ready", async || Ok(is_ready(&pods.get("web").await?).then_some(()))).await?;
    Ok(pods)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True")
}

#[tokio::test]
async fn a_pod_from_the_local_registry_runs_and_answers_exec_and_logs() -> Result<()> {
    let cluster = cluster("m1");
    let namespace = cluster.namespace("pods").await?;
    running_pod(&cluster, &namespace, "lab/web:1").await?;
    let exec = cluster.kubectl(&["exec", "--namespace", &namespace, "web", "--", "cat", "/image-name"])?;
    assert_eq!(exec, "lab/web:1\n");
    cluster.kubectl(&[
        "exec",
        "--namespace",
        &namespace,
        "web",
        "--",
        "sh",
        "-c",
        "echo from inside > /proc/1/fd/1",
    ])?;
    let logs = eventually("the line is in the log", async || {
        let logs = cluster.kubectl(&["logs", "--namespace", &namespace, "web"])?;
        Ok((!logs.is_empty()).then_some(logs))
    })
    .await?;
    assert_eq!(logs, "from inside\n");
    cluster.forget(&namespace).await
}

#[tokio::test]
async fn a_changed_image_restarts_the_container_with_other_content() -> Result<()> {
    let cluster = cluster("m1");
    let namespace = cluster.namespace("pods").await?;
    let pods = running_pod(&cluster, &namespace, "lab/web:1").await?;
    let before = pods.get("web").await?;
    cluster.kubectl(&["set", "image", "--namespace", &namespace, "pod/web", "main=lab/web:2"])?;
    let after = eventually("the container was restarted and is ready", async || {
        let pod = pods.get("web").await?;
        let restarted = pod
            .status
            .iter()
            .flat_map(|it| it.container_statuses.iter().flatten())
            .any(|it| it.restart_count == 1);
        Ok((restarted && is_ready(&pod)).then_some(pod))
    })
    .await?;
    assert_eq!(before.uid(), after.uid());
    let image_id = |pod: &Pod| {
        pod.status.as_ref().and_then(|it| Some(it.container_statuses.as_ref()?[0].image_id.clone()))
    };
    assert_ne!(image_id(&before), image_id(&after));
    let exec = cluster.kubectl(&["exec", "--namespace", &namespace, "web", "--", "cat", "/image-name"])?;
    assert_eq!(exec, "lab/web:2\n");
    cluster.forget(&namespace).await
}
