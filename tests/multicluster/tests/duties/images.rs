//! Image pulls.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use multicluster::{eventually, registry};
use serde_json::json;

use crate::support::{Stage, failures, uid};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_reaches_every_node_one_at_a_time_and_a_second_job_downloads_nothing() -> Result<()> {
    let stage = Stage::set().await?;
    let image = stage.registry.image("slow/app", "1");
    stage.job("all", &image, json!({"parallelism": 1})).await?;
    let status = stage.finished("all").await?.status.context("it has one")?;
    let nodes = i32::try_from(stage.nodes())?;
    assert_eq!(
        (status.desired, status.succeeded, status.failed, status.active),
        (nodes, nodes, 0, 0),
        "{status:?}"
    );
    assert_eq!(status.message, "job has completed");
    assert_eq!(stage.registry.layers("slow/app"), stage.nodes(), "each node downloaded once");
    assert_eq!(stage.registry.most_at_once("slow/app"), 1, "never two nodes at once");

    stage.job("again", &image, json!({"parallelism": 10})).await?;
    let status = stage.finished("again").await?.status.context("it has one")?;
    assert_eq!(status.succeeded, nodes);
    assert_eq!(stage.registry.layers("slow/app"), stage.nodes(), "the images were there");
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_selected_by_name_by_label_and_by_pod() -> Result<()> {
    let stage = Stage::set().await?;
    let place = &stage.duties.places[0].name;
    let desired = async |name: &str, repository: &str, selector| -> Result<(i32, usize)> {
        stage.job(name, &stage.registry.image(repository, "1"), selector).await?;
        let status = stage.finished(name).await?.status.context("it has one")?;
        assert_eq!(status.succeeded, status.desired, "{status:?}");
        Ok((status.desired, stage.registry.layers(repository)))
    };
    let by_name = json!({"selector": {"names": [place, "unknown"]}});
    assert_eq!(desired("name", "open/by-name", by_name).await?, (1, 1));
    let by_label = json!({"selector": {"matchLabels": {"kubernetes.io/hostname": place}}});
    assert_eq!(desired("label", "open/by-label", by_label).await?, (1, 1));
    stage.pod("here", json!({"containers": [{"name": "main", "image": "lab/sleep:1"}]})).await?;
    let by_pod = json!({"podSelector": {"matchLabels": {"app": "here"}}});
    assert_eq!(desired("pod", "open/by-pod", by_pod).await?, (1, 1));
    let nobody = json!({"podSelector": {"matchLabels": {"app": "nobody"}}});
    assert_eq!(desired("none", "open/none", nobody).await?, (0, 0));
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_is_downloaded_as_it_is_named() -> Result<()> {
    let stage = Stage::set().await?;
    let image = format!("{}/open/digest@{}", stage.registry.host, stage.registry.digest("open/digest", "2"));
    stage.job("digest", &image, json!({"parallelism": 5})).await?;
    let status = stage.finished("digest").await?.status.context("it has one")?;
    assert_eq!((status.succeeded, status.failed), (status.desired, 0), "{status:?}");
    stage.job("again", &image, json!({"parallelism": 5})).await?;
    stage.finished("again").await?;
    assert_eq!(stage.registry.layers("open/digest"), stage.nodes(), "found by its digest the second time");
    stage.end().await
}

async fn pull_secret(stage: &Stage, name: &str, password: &str) -> Result<()> {
    let config = json!({"auths": {(stage.registry.host.as_str()): {"username": registry::USER, "password": password}}});
    let secret = serde_json::from_value(json!({
        "metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": config.to_string()},
    }))?;
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), &stage.namespace);
    secrets.create(&PostParams::default(), &secret).await?;
    Ok(())
}

/// Copies of the namespace's secrets in the daemons' namespace.
async fn copies(stage: &Stage) -> Result<Vec<Secret>> {
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), "kruise-daemon-config");
    let prefix = format!("{}/", stage.namespace);
    let is_ours = |it: &Secret| {
        let annotations = it.metadata.annotations.clone().unwrap_or_default();
        annotations.get("imagepulljobs.kruise.io/source-key").is_some_and(|it| it.starts_with(&prefix))
    };
    Ok(secrets.list(&ListParams::default()).await?.into_iter().filter(is_ours).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_image_needs_its_secret_and_nothing_of_it_is_logged() -> Result<()> {
    let stage = Stage::set().await?;
    pull_secret(&stage, "right", registry::PASSWORD).await?;
    let wrong = "not-the-password-0815";
    pull_secret(&stage, "wrong", wrong).await?;
    let image = stage.registry.image("private/app", "1");
    let once = json!({"backoffLimit": 0});
    stage
        .job("wrong", &image, json!({"pullSecrets": ["wrong"], "pullPolicy": once, "parallelism": 5}))
        .await?;
    let status = stage.finished("wrong").await?.status.context("it has one")?;
    assert_eq!((status.succeeded, status.failed), (0, status.desired), "{status:?}");
    assert_eq!(status.failed_nodes.len(), stage.nodes());
    let name = format!("{}/private/app", stage.registry.host);
    let messages = failures(&stage, &name).await?;
    assert!(messages.iter().all(|it| it.contains("401 Unauthorized")), "{messages:?}");

    stage.job("right", &image, json!({"pullSecrets": ["right", "missing"], "parallelism": 5})).await?;
    let status = stage.finished("right").await?.status.context("it has one")?;
    assert_eq!((status.succeeded, status.failed), (status.desired, 0), "{status:?}");
    eventually("the copies are gone with their jobs", async || {
        Ok(copies(&stage).await?.is_empty().then_some(()))
    })
    .await?;
    let log = stage.duties.log()?;
    for secret in [registry::PASSWORD, wrong] {
        assert!(!log.contains(secret), "a password was logged");
    }
    let events: Api<Event> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let told = eventually("the job hears which nodes failed", async || {
        let all = events.list(&ListParams::default()).await?;
        let told: Vec<Event> =
            all.into_iter().filter(|it| it.reason.as_deref() == Some("PullImageFailed")).collect();
        Ok((!told.is_empty()).then_some(told))
    })
    .await?;
    assert_eq!(told[0].involved_object.kind.as_deref(), Some("ImagePullJob"));
    assert!(told.iter().all(|it| !it.message.as_deref().unwrap_or_default().contains(wrong)));
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_appears_later_on_a_slow_registry_is_found_by_a_later_attempt() -> Result<()> {
    let stage = Stage::set().await?;
    let place = stage.duties.places[0].name.clone();
    let only = json!({"selector": {"names": [place]}, "pullPolicy": {"backoffLimit": 20}});
    stage.job("late", &stage.registry.image("late/slow-app", "1"), only).await?;
    eventually("it was asked for in vain", async || {
        Ok((stage.registry.manifests("late/slow-app") > 0).then_some(()))
    })
    .await?;
    stage.registry.publish("late/slow-app");
    let status = stage.finished("late").await?.status.context("it has one")?;
    assert_eq!((status.succeeded, status.failed), (1, 0), "{status:?}");
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_registry_is_given_up_after_the_timeout_and_asked_as_often_as_told() -> Result<()> {
    let stage = Stage::set().await?;
    let place = stage.duties.places[0].name.clone();
    let limits = json!({"timeoutSeconds": 2, "backoffLimit": 1});
    let only = json!({"selector": {"names": [place]}, "pullPolicy": limits});
    stage.job("silent", &stage.registry.image("hang/app", "1"), only).await?;
    let job = stage.finished("silent").await?;
    let status = job.status.clone().context("it has one")?;
    assert_eq!((status.succeeded, status.failed), (0, 1), "{status:?}");
    let name = format!("{}/hang/app", stage.registry.host);
    let messages = failures(&stage, &name).await?;
    assert!(messages[0].contains("is canceled after 2s"), "{messages:?}");
    assert_eq!(stage.registry.manifests("hang/app"), 2, "one attempt and one more");
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_ends_a_job_and_its_time_takes_it_and_its_tags_away() -> Result<()> {
    let stage = Stage::set().await?;
    let place = stage.duties.places[0].name.clone();
    let limits = json!({"timeoutSeconds": 2, "backoffLimit": 100});
    let end = json!({"type": "Always", "activeDeadlineSeconds": 4, "ttlSecondsAfterFinished": 2});
    let only = json!({"selector": {"names": [place]}, "pullPolicy": limits, "completionPolicy": end});
    stage.job("endless", &stage.registry.image("hang/deadline", "1"), only).await?;
    let job = stage.finished("endless").await?;
    let status = job.status.clone().context("it has one")?;
    assert_eq!(status.message, "job exceeds activeDeadlineSeconds");
    assert_eq!((status.failed, status.active), (1, 0));
    let owner = uid(&job)?;
    eventually("the job is gone", async || {
        Ok(stage.jobs().get_opt("endless").await?.is_none().then_some(()))
    })
    .await?;
    eventually("its tag is gone", async || {
        let all = stage.node_images().list(&ListParams::default()).await?;
        let mut tags = all.iter().flat_map(|it| it.spec.images.values()).flat_map(|it| &it.tags);
        let is_ours = tags.any(|it| it.owner_references.iter().any(|it| it.uid.as_deref() == Some(&owner)));
        Ok((!is_ours).then_some(()))
    })
    .await?;
    stage.end().await
}
