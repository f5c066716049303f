//! The report on containers, and restarts for an environment of the past.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kruise_core::api::cloneset::v1beta1::CloneSet;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use multicluster::eventually;
use serde_json::{Value, json};

use crate::support::{Stage, containers};

const REPORT: &str = "apps.kruise.io/runtime-containers-meta";

fn report(pod: &Pod) -> Option<Value> {
    serde_json::from_str(pod.annotations().get(REPORT)?).ok()
}

/// A CloneSet of one pod on `node`, whose first container reads a label.
async fn make(stage: &Stage, node: &str) -> Result<Api<CloneSet>> {
    let sets: Api<CloneSet> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let env =
        json!([{"name": "RELEASE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['release']"}}}]);
    let template = json!({
        "metadata": {"labels": {"app": "owner", "release": "1"}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {"name": "app", "image": "lab/sleep:1", "env": env}, {"name": "log", "image": "lab/sleep:2"},
            ],
        },
    });
    let set = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "owner"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "owner"}}, "template": template,
            "updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible"}},
        },
    }))?;
    sets.create(&PostParams::default(), &set).await?;
    Ok(sets)
}

/// The pod of the CloneSet once it runs.
async fn owned_pod(stage: &Stage) -> Result<Pod> {
    let name = eventually("the CloneSet has a pod", async || {
        let pods = stage.pods().list(&ListParams::default().labels("app=owner")).await?;
        Ok(pods.items.first().map(ResourceExt::name_any))
    })
    .await?;
    stage.running(&name).await
}

/// Waits until both containers are reported with their environment.
async fn reported(stage: &Stage, pod: &str) -> Result<Vec<Value>> {
    eventually("both containers are reported with their environment", async || {
        let report = report(&stage.pods().get(pod).await?);
        let has_env =
            |it: &Value| it["hashes"]["extractedEnvFromMetadataHash"].as_u64().is_some_and(|it| it > 0);
        let list = report.and_then(|it| it["containers"].as_array().cloned()).unwrap_or_default();
        Ok((list.len() == 2 && list.iter().all(has_env)).then_some(list))
    })
    .await
}

async fn relabel(stage: &Stage, pod: &str, release: &str) -> Result<()> {
    let patch = Patch::Merge(json!({"metadata": {"labels": {"release": release}}}));
    stage.pods().patch(pod, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// A CloneSet in a namespace that goes would ask for pods in vain, and every refusal counts as a missing right.
async fn end(stage: Stage, sets: Api<CloneSet>) -> Result<()> {
    sets.delete("owner", &DeleteParams::foreground()).await?;
    eventually("the CloneSet is gone", async || Ok(sets.get_opt("owner").await?.is_none().then_some(())))
        .await?;
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_started_while_its_daemon_was_away_is_reported_at_its_next_change() -> Result<()> {
    let stage = Stage::set().await?;
    let (place, _turn) = stage.last().await?;
    stage.duties.kill_daemon(&place)?;
    let sets = make(&stage, &place.name).await?;
    let pod = owned_pod(&stage).await?;
    assert!(report(&pod).is_none(), "nobody is there to report");
    stage.duties.start_daemon(&place)?;
    let owned = pod.name_any();
    let mut changes = 0;
    // It is not known when the daemon has seen the pod for the first time: only a change after that counts.
    eventually("a change was seen", async || {
        changes += 1;
        relabel(&stage, &owned, &format!("by-hand-{changes}")).await?;
        Ok(report(&stage.pods().get(&owned).await?))
    })
    .await?;
    let list = reported(&stage, &owned).await?;
    let expected: Vec<_> = containers(&pod).into_iter().map(|it| it.0).collect();
    assert_eq!(list.iter().filter_map(|it| it["containerID"].as_str()).collect::<Vec<_>>(), expected);
    end(stage, sets).await
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_are_reported_and_restarted_once_for_another_environment() -> Result<()> {
    let stage = Stage::set().await?;
    // The last node's daemon is away at times, and what started meanwhile is not reported before it changes.
    let sets = make(&stage, &stage.duties.places[0].name).await?;
    let before = owned_pod(&stage).await?;
    let owned = before.name_any();
    let reported = reported(&stage, &owned).await?;
    let app = reported.iter().find(|it| it["name"] == "app").context("app is reported")?;
    assert_eq!(app["containerID"], containers(&before)[0].0);
    let plain = kruise_core::pod::inplace::hashes::plain_hash("app", "lab/sleep:1");
    assert_eq!(app["hashes"]["plainHash"], plain, "the kubelet's own hash");

    // Another label alone restarts nothing: the other container's restart, asked for afterwards, comes first.
    relabel(&stage, &owned, "by-hand").await?;
    stage.request("other", &owned, &["log"], json!({})).await?;
    stage.completed("other").await?;
    let pod = stage.running(&owned).await?;
    assert_eq!(containers(&pod).iter().map(|it| it.1).collect::<Vec<_>>(), [0, 1]);

    let release = json!({"spec": {"template": {"metadata": {"labels": {"release": "2"}}}}});
    sets.patch("owner", &PatchParams::default(), &Patch::Merge(release)).await?;
    let pod = eventually("the container was restarted and reported", async || {
        let pod = stage.pods().get(&owned).await?;
        let now = containers(&pod);
        let list = report(&pod).and_then(|it| it["containers"].as_array().cloned()).unwrap_or_default();
        let app = list.iter().find(|it| it["name"] == "app").cloned().unwrap_or_default();
        let is_new = app["containerID"] == now[0].0 && app["restartCount"] == 1;
        let has_env = app["hashes"]["extractedEnvFromMetadataHash"].as_u64().is_some_and(|it| it > 0);
        Ok((now[0].1 == 1 && now[0].2 && is_new && has_env).then_some(pod))
    })
    .await?;
    assert_eq!(containers(&pod)[1].1, 1, "the other one was left alone");
    assert_eq!(stage.exec(&owned, "app", &["sh", "-c", "echo $RELEASE"])?, "2\n");
    end(stage, sets).await
}
