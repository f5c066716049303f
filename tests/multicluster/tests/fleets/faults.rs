//! What goes wrong, and what must not come of it.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::DeleteParams};
use multicluster::eventually;
use serde_json::{Value, json};

use crate::{
    cases,
    kit::{Disturbs, Limits, Stage, among, lives, on, rolling, web},
};

#[test]
fn bud_6_a_member_cut_off_during_a_release_holds_its_part_and_comes_back_exact() -> Result<()> {
    on(Disturbs::Member("m1"), async |stage| {
        stage.place(json!({"rollout": {"unknownCountsAs": "LastReported"}}))?;
        // More than one member can hold, so that the rest never waits for it (BUD-6).
        let fields = |partition: Value| rolling(json!({"maxUnavailable": 5, "partition": partition}));
        stage.apply(&web(10, "lab/web:1", fields(json!(0))))?;
        stage.rests(10, "lab/web:1", 10).await?;
        let limits = Limits { available: 5, pods: 10, of_image: None };
        let cut_off = limits.hold_during(stage, async {
            stage.apply(&web(10, "lab/web:2", fields(json!("20%"))))?;
            eventually("the release is under way, in m1 too", async || {
                let pods = stage.pods().await?;
                Ok(pods.iter().any(|it| it.cluster == "m1" && it.image == "lab/web:2").then_some(()))
            })
            .await?;
            stage.fleet.member("m1").link.cut();
            stage.apply(&web(10, "lab/web:2", fields(json!(0))))?;
            eventually("it is noticed", async || {
                Ok((stage.fleet.state("m1").await? == "Offline").then_some(()))
            })
            .await?;
            let shares = stage.shares().await?;
            let theirs = shares["m1"];
            eventually("its pods are shown as unknown", async || {
                let status = stage.binding().await?["status"].clone();
                let ready = stage.web().await?["status"]["readyReplicas"].as_u64().unwrap_or(0);
                Ok((status["unknownReplicas"] == theirs && ready <= 10 - theirs).then_some(()))
            })
            .await?;
            stage.seen_by(&["m2", "m3"]).has(10 - usize::try_from(theirs)?, "lab/web:2").await?;
            assert_eq!(stage.shares().await?, shares, "nothing moves");
            let web = stage.web().await?;
            assert_ne!(web["status"]["observedGeneration"], web["metadata"]["generation"], "ST-2");
            stage.fleet.member("m1").link.mend();
            stage.rests(10, "lab/web:2", 10).await
        });
        let ended = cut_off.await;
        stage.fleet.member("m1").link.mend();
        ended?;
        assert_eq!(stage.sorted_shares().await?, [3, 3, 4]);
        stage.fleet.until_ready(&["m1"]).await
    })
}

/// Kills the hub `moment` after a release began, and has it started again.
async fn killed_at(stage: &Stage, moment: Duration, image: &str, fields: &Value) -> Result<()> {
    let limits = Limits { available: 8, pods: 11, of_image: None };
    let rolled = limits.hold_during(stage, async {
        stage.apply(&web(10, image, fields.clone()))?;
        tokio::time::sleep(moment).await;
        stage.fleet.kill("hub")?;
        stage.fleet.run_hub().await?;
        stage.rests(10, image, 10).await
    });
    rolled.await.with_context(|| format!("killed after {moment:?}")).map(drop)
}

#[test]
fn ha_3_a_hub_killed_at_any_moment_of_a_release_exceeds_nothing_and_ends_exact() -> Result<()> {
    on(Disturbs::Hub, async |stage| {
        let fields = rolling(json!({"maxUnavailable": 2, "maxSurge": 1}));
        stage.apply(&web(10, "lab/web:0", fields.clone()))?;
        stage.rests(10, "lab/web:0", 10).await?;
        let kills = cases(4, 40) as u32;
        // By hand every 50 ms in turn; else a few moments of the same two seconds.
        let step = Duration::from_millis(50) * (40 / kills).max(1);
        for kill in 1..=kills {
            killed_at(stage, step * kill, &format!("lab/web:{kill}"), &fields).await?;
        }
        Ok(())
    })
}

#[test]
fn proto_6_an_agent_that_is_killed_goes_on_at_its_plan_with_the_hub_away() -> Result<()> {
    on(Disturbs::HubAnd("m3"), async |stage| {
        stage.apply(&web(9, "lab/web:1", json!({})))?;
        let before = stage.rests(9, "lab/web:1", 9).await?;
        stage.fleet.kill("hub")?;
        stage.fleet.kill("m3")?;
        let link = &stage.fleet.member("m3").link;
        link.cut();
        stage.fleet.run("m3")?;
        // It works by the plan that it has stored: a pod that goes is replaced.
        let victim = before.iter().find(|it| it.cluster == "m3").context("m3 has a pod")?;
        let api: Api<Pod> = Api::namespaced(stage.fleet.member("m3").client.clone(), &stage.namespace);
        api.delete(&victim.name, &DeleteParams::default()).await?;
        let replaced = eventually("it is replaced", async || {
            let pods = stage.pods().await?;
            let is_there = pods.len() == 9
                && pods.iter().all(|it| it.is_ready)
                && !pods.iter().any(|it| it.uid == victim.uid);
            Ok(is_there.then_some(pods))
        });
        let replaced = replaced.await;
        link.mend();
        stage.fleet.run_hub().await?;
        let after = stage.rests(9, "lab/web:1", 9).await?;
        assert_eq!(lives(&after), lives(&replaced?), "nothing else happened to any pod");
        // The hub is not merely silent: it does what it is told.
        stage.kubectl(&["scale", "clonesets.apps.kruise.io", "web", "--replicas=6"])?;
        stage.rests(6, "lab/web:1", 6).await.map(drop)
    })
}

#[test]
fn proto_7_what_is_deleted_on_the_hub_by_hand_deletes_nothing_in_a_member() -> Result<()> {
    among(&["m3"], Disturbs::Member("m3"), async |stage| {
        stage.apply(&web(3, "lab/web:1", json!({})))?;
        let before = stage.rests(3, "lab/web:1", 3).await?;
        let object = stage.member_objects().await?["m3"]["metadata"]["uid"].clone();
        stage.fleet.hub.kubectl(&["delete", "namespace", "fleet-m3", "--wait=true"])?;
        eventually("the loss is noticed", async || {
            Ok((stage.fleet.state("m3").await? == "Offline").then_some(()))
        })
        .await?;
        assert_eq!(lives(&stage.pods().await?), lives(&before));
        stage.fleet.grant_again("m3").await?;
        stage.fleet.until_ready(&["m3"]).await?;
        let after = stage.rests(3, "lab/web:1", 3).await?;
        assert_eq!(lives(&after), lives(&before), "no pod was restarted or replaced");
        assert_eq!(stage.member_objects().await?["m3"]["metadata"]["uid"], object);
        // It is the hub's again.
        stage.kubectl(&["scale", "clonesets.apps.kruise.io", "web", "--replicas=4"])?;
        stage.rests(4, "lab/web:1", 4).await.map(drop)
    })
}
