//! Section 23, row 7: how many clusters a fleet may have.

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kruise_core::api::fleet::member_cluster::MemberCluster;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use multicluster::eventually;
use serde_json::{Value, json};

use crate::kit::{Ground, Hub};

/// The most clusters of a fleet.
const MOST: usize = 5_000;
/// How many are written at once.
const AT_ONCE: usize = 32;

fn member(name: &str) -> Value {
    json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "MemberCluster", "metadata": {"name": name},
        "spec": {"clusterUid": format!("uid-of-{name}"), "publicKey": "none", "accepted": false},
    })
}

async fn come(members: &Api<MemberCluster>, count: usize) -> Result<()> {
    let made = stream::iter((0..count).map(Ok)).try_for_each_concurrent(AT_ONCE, |it| async move {
        let wanted = serde_json::from_value(member(&format!("crowd-{it}")))?;
        members.create(&PostParams::default(), &wanted).await?;
        anyhow::Ok(())
    });
    made.await
}

/// What is gone already is as good as deleted.
fn known<T>(answer: kube::Result<T>) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

async fn go(members: &Api<MemberCluster>) -> Result<()> {
    let there = members.list_metadata(&ListParams::default()).await?;
    let gone = stream::iter(there.items).map(Ok).try_for_each_concurrent(AT_ONCE, |it| async move {
        let name = it.name_any();
        known(members.delete(&name, &DeleteParams::default()).await)?;
        // The hub that would let it go may have been killed; one that runs takes nothing more on of what is being deleted.
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        known(members.patch_metadata(&name, &PatchParams::default(), &free).await)?;
        anyhow::Ok(())
    });
    gone.await
}

async fn one_more_and_no_more(hub: &Hub) -> Result<()> {
    let last = member("crowd-last");
    eventually("the last one is let in", async || Ok(Some(hub.create(&last)?))).await?;
    // Who stands at the door counts those it has heard of.
    let limit = format!("the fleet has {MOST} clusters, which is the most it may have");
    let denied = eventually("one too many is denied", async || {
        let (is_let_in, said) = hub.judge(&member("crowd-too-many"))?;
        ensure!(!is_let_in && said.contains(&limit), "let in: {is_let_in}; {said}");
        Ok(Some(()))
    });
    denied.await?;
    // Those that are there can be changed, and make room.
    hub.cluster.kubectl(&["label", "memberclusters", "crowd-0", "seen=yes"])?;
    hub.cluster.kubectl(&["delete", "memberclusters", "crowd-last"])?;
    let next = member("crowd-too-many");
    eventually("there is room for another one", async || Ok(Some(hub.create(&next)?))).await
}

// Calls of kubectl block their thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_7_a_cluster_above_the_most_of_a_fleet_is_denied_with_the_limit() -> Result<()> {
    let ground = Ground::take().await?;
    let members: Api<MemberCluster> = Api::all(ground.cluster.client().await?);
    go(&members).await?;
    // All but one while nobody is at the door: what is shown is who stands there when the fleet is full.
    come(&members, MOST - 1).await?;
    let hub = Hub::start_on(ground, &[]).await?;
    let shown = one_more_and_no_more(&hub).await;
    // Whatever was shown, the next test wants none of them.
    hub.open_doors();
    let gone = go(&members).await;
    shown.and(gone)
}
