//! Container recreate.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use multicluster::eventually;
use serde_json::{Value, json};

use crate::support::{Stage, condition, containers};

const GATE: &str = "KruisePodReady";

fn two(app: Value) -> Value {
    let mut app = app;
    app["name"] = json!("app");
    app["image"] = json!("lab/sleep:1");
    app["volumeMounts"] = json!([{"name": "shared", "mountPath": "/shared"}]);
    json!({
        "containers": [app, {"name": "log", "image": "lab/sleep:2", "volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}],
        "volumes": [{"name": "shared", "emptyDir": {}}],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn one_container_is_restarted_after_its_hook_and_the_other_is_left_alone() -> Result<()> {
    let stage = Stage::set().await?;
    let hook =
        json!({"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> /shared/steps"]}}}});
    let before = stage.pod("web", two(hook)).await?;
    stage.request("one", "web", &["app"], json!({})).await?;
    let request = stage.completed("one").await?;
    let status = request.status.context("it has one")?;
    assert_eq!(status.message, "", "{status:?}");
    let states: Vec<_> =
        status.container_recreate_states.iter().map(|it| (format!("{:?}", it.phase), it.is_killed)).collect();
    assert_eq!(states, [("Succeeded".to_owned(), true)]);
    let after = stage.running("web").await?;
    let (old, new) = (containers(&before), containers(&after));
    assert_eq!((new[0].1, new[1].1), (1, 0), "restarts of both");
    assert_ne!(old[0].0, new[0].0, "a new container");
    assert_eq!(old[1].0, new[1].0, "the same container");
    assert_eq!(status.container_status_snapshot[0].container_id, new[0].0);
    assert_eq!(stage.exec("web", "log", &["cat", "/shared/steps"])?, "hook\n", "the hook ran once");
    eventually("the node forgets the request", async || {
        let labels = stage.requests().get("one").await?.metadata.labels.unwrap_or_default();
        Ok((!labels.contains_key("crr.apps.kruise.io/active")).then_some(()))
    })
    .await?;
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pod_leaves_rotation_before_anything_is_stopped_and_returns_afterwards() -> Result<()> {
    let stage = Stage::set().await?;
    let mut spec = two(json!({}));
    spec["readinessGates"] = json!([{"conditionType": GATE}]);
    stage.pod("web", spec).await?;
    let before = stage.in_rotation("web").await?;
    let grace = json!({"strategy": {"unreadyGracePeriodSeconds": 5}});
    stage.request("drain", "web", &["app"], grace).await?;
    let out: Pod = eventually("the pod is out of rotation", async || {
        let pod = stage.pods().get("web").await?;
        Ok(condition(&pod, GATE).is_some_and(|it| it.0 == "False").then_some(pod))
    })
    .await?;
    let key =
        format!("[{{\"userAgent\":\"ContainerRecreateRequest\",\"key\":\"{}/drain\"}}]", stage.namespace);
    assert_eq!(condition(&out, GATE).context("it is there")?.1, key);
    assert_eq!(containers(&before)[0].0, containers(&out)[0].0, "nothing is stopped yet");
    let status = stage.completed("drain").await?.status.context("it has one")?;
    assert_eq!(status.message, "");
    assert_eq!(containers(&stage.in_rotation("web").await?)[0].1, 1);
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn in_order_the_second_container_waits_until_the_first_is_back() -> Result<()> {
    let stage = Stage::set().await?;
    let slow = json!({"lifecycle": {"postStart": {"exec": {"command": ["sleep", "4"]}}}});
    stage.pod("web", two(slow)).await?;
    stage.request("order", "web", &["app", "log"], json!({"strategy": {"orderedRecreate": true}})).await?;
    let status = stage.completed("order").await?.status.context("it has one")?;
    assert_eq!(status.message, "", "{status:?}");
    let pod = stage.running("web").await?;
    assert_eq!(containers(&pod).iter().map(|it| it.1).collect::<Vec<_>>(), [1, 1]);
    let statuses = pod.status.context("it has one")?.container_statuses.unwrap_or_default();
    let of = |name: &str| statuses.iter().find(|it| it.name == name);
    let started = of("app").and_then(|it| Some(it.state.as_ref()?.running.as_ref()?.started_at.as_ref()?.0));
    let ended =
        of("log").and_then(|it| Some(it.last_state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0));
    let (started, ended) = (started.context("app runs")?, ended.context("log was stopped")?);
    assert!(ended.duration_since(started).as_secs() >= 4, "{started} {ended}");
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_request_for_the_same_container_waits_for_the_first_and_is_done() -> Result<()> {
    let stage = Stage::set().await?;
    let slow = json!({"lifecycle": {"preStop": {"exec": {"command": ["sleep", "3"]}}}});
    let mut spec = two(slow);
    spec["terminationGracePeriodSeconds"] = json!(10);
    stage.pod("web", spec).await?;
    stage.request("first", "web", &["app"], json!({})).await?;
    eventually("the first has begun", async || {
        Ok(stage.requests().get("first").await?.status.and_then(|it| it.phase).map(drop))
    })
    .await?;
    stage.request("second", "web", &["app"], json!({"strategy": {"forceRecreate": true}})).await?;
    for name in ["first", "second"] {
        assert_eq!(stage.completed(name).await?.status.context("it has one")?.message, "", "{name}");
    }
    assert_eq!(containers(&stage.running("web").await?)[0].1, 2, "once for each");
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_and_a_deleted_pod_end_a_request_with_the_reason() -> Result<()> {
    let stage = Stage::set().await?;
    let slow = json!({"lifecycle": {"preStop": {"exec": {"command": ["sleep", "20"]}}}});
    let mut spec = two(slow);
    spec["terminationGracePeriodSeconds"] = json!(30);
    stage.pod("web", spec.clone()).await?;
    stage
        .request("late", "web", &["app"], json!({"activeDeadlineSeconds": 3, "ttlSecondsAfterFinished": 5}))
        .await?;
    let status = stage.completed("late").await?.status.context("it has one")?;
    assert_eq!(status.message, "recreating has exceeded the activeDeadlineSeconds");
    let told = eventually("the container that was not recreated is named", async || {
        let reason = "--field-selector=reason=RecreateFailed";
        let told = stage.cluster.kubectl(&["get", "events", "--namespace", &stage.namespace, reason])?;
        Ok(told.contains("late").then_some(told))
    })
    .await?;
    assert!(told.contains("container app was not recreated: recreating has exceeded"), "{told}");
    eventually("the request is gone", async || {
        Ok(stage.requests().get_opt("late").await?.is_none().then_some(()))
    })
    .await?;
    stage.pod("other", spec).await?;
    stage.request("gone", "other", &["app"], json!({})).await?;
    eventually("the work has begun", async || {
        let phase = stage.requests().get("gone").await?.status.and_then(|it| it.phase);
        Ok(phase.map(drop))
    })
    .await?;
    stage.pods().delete("other", &DeleteParams::default()).await?;
    let status = stage.completed("gone").await?.status.context("it has one")?;
    assert_eq!(status.message, "pod has gone");
    stage.end().await
}
