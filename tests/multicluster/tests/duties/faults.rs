//! Daemons that die, and objects that make no sense.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use multicluster::{duties::Place, eventually};
use serde_json::{Value, json};

use crate::support::{Stage, containers};

/// The last node: the fault tests share it, so they take turns.
async fn last(stage: &Stage) -> Result<(Place, tokio::sync::MutexGuard<'static, ()>)> {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let guard = TURN.lock().await;
    Ok((stage.duties.places.last().context("there is a node")?.clone(), guard))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_killed_during_a_download_finishes_it_after_its_start() -> Result<()> {
    let stage = Stage::set().await?;
    let (place, _turn) = last(&stage).await?;
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
    let (place, _turn) = last(&stage).await?;
    let spec = json!({
        "nodeName": place.name,
        "terminationGracePeriodSeconds": 20,
        "readinessGates": [{"conditionType": "KruisePodReady"}],
        "containers": [{
            "name": "app", "image": "lab/sleep:1",
            "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> /tmp/steps; sleep 5"]}}},
        }],
    });
    stage.pod("web", spec).await?;
    stage.in_rotation("web").await?;
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
    let (place, _turn) = last(&stage).await?;
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
    let (place, _turn) = last(&stage).await?;
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
