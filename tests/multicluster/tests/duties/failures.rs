//! Recreate requests that do not end well.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use axum::{Router, routing::get};
use k8s_openapi::api::core::v1::Pod;
use kruise_core::api::container_recreate_request::v1beta1::ContainerRecreateState;
use kube::api::DeleteParams;
use multicluster::{duties::Place, eventually, processes::Frozen};
use serde_json::{Value, json};

use crate::support::{Stage, condition, containers};

const GATE: &str = "KruisePodReady";

fn place<'a>(stage: &'a Stage, pod: &Pod) -> Result<&'a Place> {
    let node = pod.spec.as_ref().and_then(|it| it.node_name.clone()).context("it has a node")?;
    stage.duties.places.iter().find(|it| it.name == node).context("the node is one of ours")
}

fn states(states: &[ContainerRecreateState]) -> Vec<(String, String, bool)> {
    states.iter().map(|it| (it.name.clone(), format!("{:?}", it.phase), it.is_killed)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_cannot_be_stopped_fails_the_request_and_the_next_is_left_alone() -> Result<()> {
    let stage = Stage::set().await?;
    let two = json!({"containers": [{"name": "app", "image": "lab/sleep:1"}, {"name": "log", "image": "lab/sleep:2"}]});
    let before = stage.pod("strict", two).await?;
    let frozen = place(&stage, &before)?.freeze_keeper(&containers(&before)[0].0)?;
    stage
        .request("strict", "strict", &["app", "log"], json!({"strategy": {"failurePolicy": "Fail"}}))
        .await?;
    let status = stage.completed("strict").await?.status.context("it has one")?;
    let expected = [("app", "Failed", false), ("log", "Pending", false)];
    assert_eq!(
        states(&status.container_recreate_states),
        expected.map(|it| (it.0.into(), it.1.into(), it.2)),
        "{status:?}"
    );
    let message = &status.container_recreate_states[0].message;
    assert!(message.starts_with("kill container error: "), "{message}");
    let after = stage.pods().get("strict").await?;
    assert_eq!(containers(&after)[1].0, containers(&before)[1].0, "the same container");
    drop(frozen);
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_cannot_be_stopped_is_passed_over_where_failures_are_ignored() -> Result<()> {
    let stage = Stage::set().await?;
    // What holds `app` up is let go when `log` is about to be stopped: the node itself asks its hook.
    let keeper = Arc::new(Mutex::new(None));
    let hand = keeper.clone();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let release = move || async move { drop::<Option<Frozen>>(hand.lock().unwrap().take()) };
    let routes = Router::new().route("/leaving", get(release));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let hook = json!({"preStop": {"httpGet": {"host": "127.0.0.1", "port": port, "path": "/leaving"}}});
    let spec = json!({
        "terminationGracePeriodSeconds": 3,
        "containers": [
            {"name": "app", "image": "lab/sleep:1"}, {"name": "log", "image": "lab/sleep:2", "lifecycle": hook},
        ],
    });
    let before = stage.pod("lenient", spec).await?;
    let frozen = place(&stage, &before)?.freeze_keeper(&containers(&before)[0].0)?;
    *keeper.lock().unwrap() = Some(frozen);
    let ignore = json!({"strategy": {"failurePolicy": "Ignore"}});
    stage.request("lenient", "lenient", &["app", "log"], ignore).await?;
    let status = stage.completed("lenient").await?.status.context("it has one")?;
    assert!(keeper.lock().unwrap().is_none(), "the hook was asked for");
    let expected = [("app", "Failed", false), ("log", "Succeeded", true)];
    assert_eq!(
        states(&status.container_recreate_states),
        expected.map(|it| (it.0.into(), it.1.into(), it.2)),
        "{status:?}"
    );
    assert_eq!(status.message, "");
    assert_eq!(containers(&stage.running("lenient").await?)[1].1, 1);
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_without_a_host_is_asked_of_the_pod_itself() -> Result<()> {
    let stage = Stage::set().await?;
    let hook = |path: &str| json!({"preStop": {"httpGet": {"port": "http", "path": path}}});
    let spec = json!({
        "terminationGracePeriodSeconds": 3,
        "containers": [{
            "name": "app", "image": "lab/web:1", "lifecycle": hook("/"), "ports": [{"name": "http", "containerPort": 80}],
        }],
    });
    stage.pod("web", spec).await?;
    stage.request("web", "web", &["app"], json!({})).await?;
    assert_eq!(stage.completed("web").await?.status.context("it has one")?.message, "");
    let told = stage.cluster.kubectl(&[
        "get",
        "events",
        "--namespace",
        &stage.namespace,
        "--output=name",
        "--field-selector=reason=FailedPreStopHook",
    ])?;
    assert_eq!(told, "", "the pod answered");
    assert_eq!(containers(&stage.running("web").await?)[0].1, 1);
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_deleted_or_runs_out_of_time_leaves_nothing_marked_not_ready() -> Result<()> {
    let stage = Stage::set().await?;
    let spec = json!({
        "readinessGates": [{"conditionType": GATE}], "containers": [{"name": "app", "image": "lab/sleep:1"}],
    });
    stage.pod("web", spec).await?;
    stage.in_rotation("web").await?;
    let out = async |name: &str, more: Value| {
        let mut all = json!({"strategy": {"unreadyGracePeriodSeconds": 600}});
        for (key, value) in more.as_object().into_iter().flatten() {
            all[key] = value.clone();
        }
        stage.request(name, "web", &["app"], all).await?;
        eventually("the pod is out of rotation", async || {
            let pod = stage.pods().get("web").await?;
            Ok(condition(&pod, GATE).is_some_and(|it| it.0 == "False").then_some(()))
        })
        .await
    };
    out("late", json!({"activeDeadlineSeconds": 5})).await?;
    let status = stage.completed("late").await?.status.context("it has one")?;
    assert_eq!(status.message, "recreating has exceeded the activeDeadlineSeconds");
    stage.in_rotation("web").await?;

    out("deleted", json!({})).await?;
    stage.requests().delete("deleted", &DeleteParams::default()).await?;
    let pod = stage.in_rotation("web").await?;
    assert_eq!(condition(&pod, GATE).context("it is there")?.1, "[]");
    assert_eq!(containers(&pod)[0].1, 0, "nothing was stopped");
    eventually("the request is gone", async || {
        Ok(stage.requests().get_opt("deleted").await?.is_none().then_some(()))
    })
    .await?;
    stage.end().await
}
