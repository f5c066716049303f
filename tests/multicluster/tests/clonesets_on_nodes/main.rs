//! Ring 4: CloneSets whose pods really run.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;
use multicluster::{
    eventually,
    stage::{self, Setting, Stage},
};
use serde_json::{Value, json};

/// The cluster with real nodes.
const NODES: Setting = Setting { cluster: "m1", flags: &[] };

/// A web server beside a container that is never updated.
fn web(replicas: i32, image: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "minReadySeconds": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "updateStrategy": {"type": "InPlaceIfPossible"},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [
                        {"name": "main", "image": image, "imagePullPolicy": "IfNotPresent",
                         "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1}},
                        {"name": "side", "image": "lab/sleep:1"},
                    ],
                },
            },
        },
    })
}

fn status<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    let statuses = pod.status.as_ref().and_then(|it| it.container_statuses.as_ref())?;
    statuses.iter().find(|it| it.name == container)
}

/// What a pod keeps through an update in place.
fn identity(pod: &Pod) -> (String, Option<String>, Option<String>, Option<String>) {
    let side = status(pod, "side").and_then(|it| it.container_id.clone());
    let address = pod.status.as_ref().and_then(|it| it.pod_ip.clone());
    (pod.name_any(), pod.uid(), address, side)
}

fn serves(stage: &Stage, pod: &str) -> Result<String> {
    stage.kubectl(&["exec", pod, "--container=main", "--", "cat", "/image-name"])
}

#[test]
fn cln_12_containers_are_restarted_in_their_pods_with_another_image() -> Result<()> {
    stage::on(NODES, async |stage| {
        stage.apply(&web(2, "lab/web:1"))?;
        stage.complete("web", 2).await?;
        let before = stage.pods().await?;
        stage.apply(&web(2, "lab/web:2"))?;
        let revision = stage.complete("web", 2).await?.update_revision;
        let after = stage.pods().await?;
        let identities = |pods: &[Pod]| pods.iter().map(identity).collect::<Vec<_>>();
        assert_eq!(identities(&after), identities(&before));
        for pod in &after {
            let name = pod.name_any();
            let restarts = |container| status(pod, container).map(|it| it.restart_count);
            assert_eq!((restarts("main"), restarts("side")), (Some(1), Some(0)));
            assert_eq!(serves(stage, &name)?, "lab/web:2\n");
            let told = format!(
                "Normal SuccessfulUpdatePodInPlace successfully update pod {name} in-place(revision {revision})"
            );
            stage.event("web", &told).await?;
            stage.event(&name, "Normal Killing Container main definition changed, will be restarted").await?;
            let row = stage.row("pod", &name)?;
            assert_eq!(row[1..4], ["2/2", "Running", "1"], "{row:?}");
        }
        // One at a time, and the next when the last has been ready for long enough.
        let mut ready: Vec<_> = after.iter().filter_map(ready_since).collect();
        ready.sort_unstable();
        assert!(ready[1].duration_since(ready[0]).as_secs() >= 2, "{ready:?}");
        Ok(())
    })
}

fn ready_since(pod: &Pod) -> Option<jiff::Timestamp> {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.filter(|it| it.type_ == "Ready").find_map(|it| it.last_transition_time.as_ref().map(|it| it.0))
}

#[test]
fn cln_12_an_image_that_cannot_be_pulled_stops_the_release_at_one_pod_and_is_rolled_back() -> Result<()> {
    stage::on(NODES, async |stage| {
        stage.apply(&web(2, "lab/web:1"))?;
        stage.complete("web", 2).await?;
        let before = stage.pods().await?;
        stage.apply(&web(2, "lab/no-such-image:1"))?;
        let pods =
            stage.pods_until("one pod waits for its image", |pods| pods.iter().any(cannot_pull)).await?;
        let broken = pods.iter().find(|it| cannot_pull(it)).context("one is broken")?.name_any();
        let status = stage.cloneset("web").await?.status.unwrap_or_default();
        assert_eq!((status.updated_replicas, status.available_replicas), (1, 1));
        stage.apply(&web(2, "lab/web:1"))?;
        stage.complete("web", 2).await?;
        let after = stage.pods().await?;
        assert_eq!(
            after.iter().map(ResourceExt::uid).collect::<Vec<_>>(),
            before.iter().map(ResourceExt::uid).collect::<Vec<_>>()
        );
        assert_eq!(serves(stage, &broken)?, "lab/web:1\n");
        Ok(())
    })
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True")
}

fn cannot_pull(pod: &Pod) -> bool {
    let waiting = status(pod, "main").and_then(|it| it.state.as_ref()?.waiting.as_ref()?.reason.as_deref());
    matches!(waiting, Some("ErrImagePull" | "ImagePullBackOff"))
}

#[test]
fn cln_10_data_survives_what_the_claim_survives() -> Result<()> {
    stage::on(NODES, async |stage| {
        let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        let spec = |image: &str| {
            let mut manifest = web(1, image);
            manifest["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": claim}]);
            manifest["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] =
                json!([{"name": "data", "mountPath": "/data"}]);
            manifest
        };
        stage.apply(&spec("lab/web:1"))?;
        stage.complete("web", 1).await?;
        let name = stage.pod_names().await?.remove(0);
        let inside =
            |script: &str| stage.kubectl(&["exec", &name, "--container=main", "--", "sh", "-c", script]);
        inside("echo kept > /data/file")?;

        stage.apply(&spec("lab/web:2"))?;
        stage.complete("web", 1).await?;
        assert_eq!(
            (serves(stage, &name)?.as_str(), inside("cat /data/file")?.as_str()),
            ("lab/web:2\n", "kept\n")
        );

        let uid = stage.pods_api().get(&name).await?.uid();
        stage.kubectl(&["delete", "pod", &name])?;
        // The status may still speak of the pod before.
        let is_back = |it: &[Pod]| it.len() == 1 && it[0].uid() != uid && is_ready(&it[0]);
        stage.pods_until("the pod is back", is_back).await?;
        stage.complete("web", 1).await?;
        assert_eq!(
            stage.pod_names().await?,
            std::slice::from_ref(&name),
            "a claim's next pod has the same name"
        );
        assert_eq!(inside("cat /data/file")?, "kept\n");

        stage.kubectl(&["label", "pod", &name, "apps.kruise.io/specified-delete=true"])?;
        let is_another = |it: &[Pod]| it.len() == 1 && it[0].name_any() != name && is_ready(&it[0]);
        stage.pods_until("another pod", is_another).await?;
        stage.complete("web", 1).await?;
        let next = stage.pod_names().await?.remove(0);
        let empty = stage.kubectl(&["exec", &next, "--container=main", "--", "ls", "/data"])?;
        assert_eq!(empty, "", "its claim went with the old pod");
        eventually("one claim is left", async || {
            let claims = stage.kubectl(&["get", "pvc", "-o", "name"])?;
            Ok((claims.trim() == format!("persistentvolumeclaim/data-{next}")).then_some(()))
        })
        .await
    })
}
