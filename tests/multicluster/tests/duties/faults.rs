//! Daemons that die, and objects that make no sense.

use std::{ffi::OsString, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use multicluster::{eventually, processes};
use serde_json::{Value, json};

use crate::support::{Stage, containers};

/// A pod `web` in rotation, whose container takes its time to stop and leaves a trace when it begins to.
async fn slow_to_stop(stage: &Stage, node: &str) -> Result<()> {
    let spec = json!({
        "nodeName": node,
        "terminationGracePeriodSeconds": 20,
        "readinessGates": [{"conditionType": "KruisePodReady"}],
        "containers": [{
            "name": "app", "image": "lab/sleep:1",
            "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> /tmp/steps; sleep 5"]}}},
        }],
    });
    stage.pod("web", spec).await?;
    stage.in_rotation("web").await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_killed_during_a_download_finishes_it_after_its_start() -> Result<()> {
    let stage = Stage::set().await?;
    let (place, _turn) = stage.last().await?;
    let only = json!({"selector": {"names": [place.name]}, "pullPolicy": {"backoffLimit": 20}});
    stage.job("killed", &stage.registry.image("late/killed", "1"), only).await?;
    eventually("the download has begun", async || {
        Ok((stage.registry.manifests("late/killed") > 0).then_some(()))
    })
    .await?;
    stage.duties.kill_daemon(&place)?;
    stage.registry.publish("late/killed");
    stage.duties.start_daemon(&place)?;
    let status = stage.finished("killed").await?.status.context("it has one")?;
    assert_eq!((status.succeeded, status.failed), (1, 0), "{status:?}");
    assert_eq!(stage.registry.layers("late/killed"), 1, "downloaded once");
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_killed_during_a_restart_finishes_it_and_the_pod_returns_to_rotation() -> Result<()> {
    let stage = Stage::set().await?;
    let (place, _turn) = stage.last().await?;
    slow_to_stop(&stage, &place.name).await?;
    stage.request("killed", "web", &["app"], json!({"strategy": {"unreadyGracePeriodSeconds": 1}})).await?;
    eventually("the hook runs", async || {
        Ok(stage.exec("web", "app", &["cat", "/tmp/steps"]).is_ok().then_some(()))
    })
    .await?;
    stage.duties.kill_daemon(&place)?;
    stage.duties.start_daemon(&place)?;
    let status = stage.completed("killed").await?.status.context("it has one")?;
    assert_eq!(status.message, "", "{status:?}");
    assert_eq!(containers(&stage.in_rotation("web").await?)[0].1, 1, "restarted once");
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_in_a_node_image_fails_alone_and_others_are_downloaded() -> Result<()> {
    let stage = Stage::set().await?;
    let (place, _turn) = stage.last().await?;
    let name = format!("{}/open/sense", stage.registry.host);
    let limits = json!({"timeoutSeconds": -7, "backoffLimit": 0, "ttlSecondsAfterFinished": 3000});
    // A moment ago: what was asked for long ago and never answered is given up by the controller.
    let namespace = Api::<Namespace>::all(stage.client.clone()).get(&stage.namespace).await?;
    let created = namespace.metadata.creation_timestamp.context("it has one")?;
    let tag = |tag: &str| json!({"tag": tag, "createdAt": created, "pullPolicy": limits});
    let write = async |tags: &[Value]| {
        let images = json!({"UPPER/!!": {"tags": [tag("1")]}, (name.as_str()): {"tags": tags}});
        let patch = Patch::Merge(json!({"spec": {"images": images}}));
        stage.node_images().patch(&place.name, &PatchParams::default(), &patch).await.map(drop)
    };
    let refusal = write(&[tag("1"), tag("no such"), tag("1")]).await;
    assert!(matches!(&refusal, Err(kube::Error::Api(it)) if it.code == 422), "{refusal:?}");
    write(&[tag("1"), tag("no such")]).await?;
    let phases = eventually("every tag has ended", async || {
        let it = stage.node_images().get(&place.name).await?.status.context("it has one")?;
        let tags = |image: &str| it.image_statuses.get(image).map(|it| it.tags.clone()).unwrap_or_default();
        let all: Vec<_> = tags("UPPER/!!").into_iter().chain(tags(&name)).collect();
        let phases: Vec<_> = all.iter().map(|it| (it.tag.clone(), it.phase.clone())).collect();
        Ok((all.len() == 3 && all.iter().all(|it| it.completion_time.is_some())).then_some(phases))
    })
    .await?;
    let expected = [("1", "Failed"), ("1", "Succeeded"), ("no such", "Failed")];
    assert_eq!(phases, expected.map(|(tag, phase)| (tag.to_owned(), phase.to_owned())));
    let patch = Patch::Merge(json!({"spec": {"images": {"UPPER/!!": null, name: null}}}));
    stage.node_images().patch(&place.name, &PatchParams::default(), &patch).await?;
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_restarts_delays_downloads_and_restarts_and_no_more() -> Result<()> {
    let stage = Stage::set().await?;
    let (place, _turn) = stage.last().await?;
    let spec = json!({"nodeName": place.name, "containers": [{"name": "app", "image": "lab/sleep:1"}]});
    stage.pod("web", spec).await?;
    let only = json!({"selector": {"names": [place.name]}, "pullPolicy": {"backoffLimit": 20}});
    stage.job("late", &stage.registry.image("late/runtime", "1"), only).await?;
    eventually("the download has begun", async || {
        Ok((stage.registry.manifests("late/runtime") > 0).then_some(()))
    })
    .await?;
    place.kill_runtime()?;
    stage.registry.publish("late/runtime");
    stage.request("again", "web", &["app"], json!({})).await?;
    let status = stage.finished("late").await?.status.context("it has one")?;
    assert_eq!((status.succeeded, status.failed), (1, 0), "{status:?}");
    assert_eq!(stage.completed("again").await?.status.context("it has one")?.message, "");
    assert_eq!(containers(&stage.running("web").await?)[0].1, 1, "restarted once");
    stage.end().await
}

/// How long the API server is away.
const AWAY: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_away_for_a_minute_delays_work_and_no_more() -> Result<()> {
    let stage = Stage::alone().await?;
    let (place, _turn) = stage.last().await?;
    slow_to_stop(&stage, &place.name).await?;
    let only = json!({"selector": {"names": [place.name]}, "pullPolicy": {"backoffLimit": 20}});
    stage.job("away", &stage.registry.image("late/away", "1"), only).await?;
    stage.request("away", "web", &["app"], json!({"strategy": {"unreadyGracePeriodSeconds": 1}})).await?;
    eventually("the hook runs and the download was tried", async || {
        let has_begun = stage.exec("web", "app", &["cat", "/tmp/steps"]).is_ok();
        Ok((has_begun && stage.registry.manifests("late/away") > 0).then_some(()))
    })
    .await?;
    let port = stage.cluster.config().await?.cluster_url.port_u16().context("it has a port")?;
    let server = processes::with_argument(&OsString::from(format!("--secure-port={port}")));
    let frozen = processes::Frozen::new(server.context("the API server is a process of this machine")?)?;
    stage.registry.publish("late/away");
    tokio::time::sleep(AWAY).await;
    assert_eq!(stage.registry.layers("late/away"), 1, "the node went on without the API server");
    drop(frozen);
    // It has lost its lease and ended, as it must.
    stage.duties.restart_manager()?;

    let status = stage.finished("away").await?.status.context("it has one")?;
    assert_eq!((status.succeeded, status.failed), (1, 0), "{status:?}");
    assert_eq!(stage.registry.layers("late/away"), 1, "downloaded once");
    let status = stage.completed("away").await?.status.context("it has one")?;
    assert_eq!(status.message, "", "{status:?}");
    assert_eq!(containers(&stage.in_rotation("web").await?)[0].1, 1, "restarted once");
    eventually("admission is back", async || {
        let job = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "metadata": {"name": "dry"},
            "spec": {"image": "lab/web:1", "completionPolicy": {}},
        });
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        Ok(stage.jobs().create(&dry, &serde_json::from_value(job)?).await.ok().map(drop))
    })
    .await?;
    stage.end().await
}
