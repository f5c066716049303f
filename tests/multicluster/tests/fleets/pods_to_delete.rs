//! Pods that a user names for deletion.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use multicluster::{access, agent::remove_webhooks, eventually};
use serde_json::json;

use crate::kit::{Disturbs, Seen, Stage, on, web};

fn named(pods: &[&str]) -> serde_json::Value {
    json!({"scaleStrategy": {"podsToDelete": pods}})
}

fn uids(pods: &[Seen]) -> BTreeSet<String> {
    pods.iter().map(|it| it.uid.clone()).collect()
}

#[test]
fn cs_1_and_split_8_named_pods_go_with_the_scale_down_and_nobody_in_their_place() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        stage.apply(&web(6, "lab/web:1", json!({})))?;
        let before = stage.rests(6, "lab/web:1", 6).await?;
        let bare = &before[0];
        let full = before.iter().find(|it| it.cluster != bare.cluster).context("two clusters have pods")?;
        let qualified = format!("{}/{}", full.cluster, full.name);
        stage.apply(&web(4, "lab/web:1", named(&[&bare.name, &qualified])))?;
        let after = stage.rests(4, "lab/web:1", 4).await?;
        let mut wanted = uids(&before);
        wanted.remove(&bare.uid);
        wanted.remove(&full.uid);
        assert_eq!(uids(&after), wanted, "of {before:#?} there are {after:#?}");
        Ok(())
    })
}

/// Gives a pod of `m2` the name that a pod of another cluster has, while its agent is away.
async fn rename(stage: &Stage, theirs: &Seen, name: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(stage.fleet.member("m2").client.clone(), &stage.namespace);
    let mut twin = pods.get(&theirs.name).await?;
    pods.delete(&theirs.name, &DeleteParams::default()).await?;
    twin.metadata.name = Some(name.to_owned());
    (twin.metadata.uid, twin.metadata.resource_version, twin.metadata.creation_timestamp) =
        (None, None, None);
    (twin.metadata.managed_fields, twin.status) = (None, None);
    if let Some(spec) = &mut twin.spec {
        spec.node_name = None;
    }
    eventually("the twin is stored", async || Ok(Some(pods.create(&PostParams::default(), &twin).await?)))
        .await?;
    // It gets ready with the agent, which opens its readiness gate.
    eventually("the twin is there, the other one gone", async || {
        let pods = stage.pods().await?;
        let is_there = pods.iter().any(|it| it.cluster == "m2" && it.name == name);
        Ok((is_there && !pods.iter().any(|it| it.uid == theirs.uid)).then_some(()))
    })
    .await
}

#[test]
fn cs_1_a_name_that_two_clusters_have_is_told_and_deletes_nothing() -> Result<()> {
    on(Disturbs::Member("m2"), async |stage| {
        stage.apply(&web(6, "lab/web:1", json!({})))?;
        let pods = stage.rests(6, "lab/web:1", 6).await?;
        let one = pods.iter().find(|it| it.cluster == "m1").context("m1 has a pod")?;
        let other = pods.iter().find(|it| it.cluster == "m2").context("m2 has a pod")?;
        stage.fleet.kill("m2")?;
        // With nobody to answer, its webhooks would refuse every pod.
        let member = &stage.fleet.member("m2").cluster;
        remove_webhooks(member);
        let renamed = rename(stage, other, &one.name).await;
        access::apply(member, "webhook")?;
        stage.fleet.run("m2")?;
        renamed?;
        let before = stage.rests(6, "lab/web:1", 6).await?;
        stage.apply(&web(6, "lab/web:1", named(&[&one.name])))?;
        let told = stage.event("AmbiguousPod ").await?;
        assert!(
            told.contains(&format!("m1/{}", one.name)) && told.contains(&format!("m2/{}", one.name)),
            "{told}"
        );
        assert_eq!(uids(&stage.rests(6, "lab/web:1", 6).await?), uids(&before));
        // One of the two goes for another reason; the other one is not meant because of that.
        stage.apply(&web(4, "lab/web:1", named(&[&one.name])))?;
        let after = stage.rests(4, "lab/web:1", 4).await?;
        assert!(uids(&after).is_subset(&uids(&before)), "of {before:#?} there are {after:#?}");
        Ok(())
    })
}
