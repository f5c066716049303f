//! Clusters that leave the fleet: `kubectl fleet remove` (DEL-6).

use anyhow::{Context, Result, ensure};
use multicluster::eventually;
use serde_json::{Value, json};

use crate::kit::{Disturbs, Limits, Stage, among, condition, lives, on, rolling, web};

const LEAVER: &str = "m3";

/// Plays `removal`, and then has the cluster join again as it was, whatever came of it: other tests want it back. What was removed by
/// hand is accepted by hand, and the hub does the rest. What it finds wrong it says by its result: a panic would leave the cluster out.
async fn returns(stage: &Stage, removal: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    let member = member(stage)?.context("it is there")?;
    let played = removal().await;
    if self::member(stage)?.is_some() {
        // Nothing that a test has left behind keeps it any longer.
        stage.kubectl_fleet(&["remove", LEAVER, "--force", "--timeout=5m"]).await?;
    }
    let again = json!({
        "apiVersion": member["apiVersion"], "kind": member["kind"],
        "metadata": {"name": LEAVER}, "spec": member["spec"],
    });
    stage.apply(&again)?;
    stage.fleet.until_ready(&[LEAVER]).await?;
    played
}

/// The MemberCluster, while there is one.
fn member(stage: &Stage) -> Result<Option<Value>> {
    let get = ["get", "memberclusters", LEAVER, "--ignore-not-found", "-o", "json"];
    let text = stage.fleet.hub.kubectl(&get)?;
    Ok(if text.trim().is_empty() { None } else { Some(serde_json::from_str(&text)?) })
}

/// `web` in the cluster that leaves, while there is one.
fn object(stage: &Stage) -> Result<Option<Value>> {
    let kind = "clonesets.v1beta1.apps.kruise.io";
    let get = ["get", kind, "web", "--namespace", &stage.namespace, "--ignore-not-found", "-o", "json"];
    let text = stage.fleet.member(LEAVER).cluster.kubectl(&get)?;
    Ok(if text.trim().is_empty() { None } else { Some(serde_json::from_str(&text)?) })
}

/// What gives the cluster's agent its rights on the hub.
fn rights(stage: &Stage) -> Result<String> {
    let everywhere = stage.fleet.hub.kubectl(&["get", "clusterrolebindings", "-o", "name"])?;
    let own = stage.fleet.hub.kubectl(&["get", "rolebindings", "-o", "name", "--namespace=fleet-m3"])?;
    let ours = everywhere.lines().chain(own.lines()).filter(|it| it.ends_with("/fleet-agent-m3"));
    Ok(ours.collect::<Vec<_>>().join(" "))
}

#[test]
fn del_6_a_cluster_that_is_removed_is_drained_first_within_the_budgets() -> Result<()> {
    on(Disturbs::Member(LEAVER), async |stage| {
        stage.apply(&web(9, "lab/web:1", rolling(json!({"maxUnavailable": 1}))))?;
        stage.rests(9, "lab/web:1", 9).await?;
        assert_eq!(stage.sorted_shares().await?, [3, 3, 3]);
        assert_ne!(rights(stage)?, "", "an agent has rights while its cluster is a member");
        returns(stage, async || {
            // One pod more than nine at a time: rebalance.maxSurge is 10%.
            let limits = Limits { available: 8, pods: 10, of_image: None };
            let removed = limits.hold_during(stage, async {
                let ended = stage.kubectl_fleet(&["remove", LEAVER, "--timeout=5m", "--output=json"]).await?;
                ensure!(ended.code == Some(0), "{ended:?}");
                stage.rests(9, "lab/web:1", 9).await.map(|pods| (ended, pods))
            });
            let (ended, pods) = removed.await?;
            let said: Value = serde_json::from_str(&ended.out)?;
            ensure!(said == json!({"cluster": LEAVER, "removed": true}), "{said}");
            ensure!(pods.iter().all(|it| it.cluster != LEAVER), "{pods:#?}");
            let shares = stage.sorted_shares().await?;
            ensure!(shares == [0, 4, 5], "{shares:?}");
            ensure!(
                (member(stage)?, object(stage)?) == (None, None),
                "it is gone, and nothing is left there"
            );
            eventually("its rights are gone", async || Ok(rights(stage)?.is_empty().then_some(()))).await
        })
        .await?;
        // One that joins again gets nothing back by itself, and takes its part of what is new.
        assert_eq!(stage.sorted_shares().await?, [0, 4, 5]);
        stage.apply(&web(12, "lab/web:1", rolling(json!({"maxUnavailable": 1}))))?;
        stage.rests(12, "lab/web:1", 12).await?;
        assert_eq!(stage.shares().await?[LEAVER], 3);
        Ok(())
    })
}

#[test]
fn del_6_a_removal_that_would_leave_too_few_pods_waits_until_somebody_says_force() -> Result<()> {
    among(&[LEAVER], Disturbs::Member(LEAVER), async |stage| {
        stage.apply(&web(3, "lab/web:1", rolling(json!({"maxUnavailable": 1}))))?;
        let before = stage.rests(3, "lab/web:1", 3).await?;
        returns(stage, async || {
            let begun = stage.kubectl_fleet(&["remove", LEAVER]).await?;
            ensure!(begun.code == Some(0), "{begun:?}");
            eventually("it says what holds it up", async || {
                let status = member(stage)?.context("it is there")?["status"].clone();
                let leaving = condition(&status, "Leaving");
                ensure!(leaving["reason"] == "DrainHeld", "{status}");
                Ok(Some(()))
            })
            .await?;
            let waited = stage.kubectl_fleet(&["remove", LEAVER, "--timeout=1s"]).await?;
            ensure!(waited.code == Some(4), "{waited:?}");
            ensure!(waited.err.contains("DrainHeld") && waited.err.contains(&stage.namespace), "{waited:?}");
            let listed = stage.kubectl_fleet(&["get", "clusters"]).await?;
            ensure!(listed.out.contains("m3 is leaving: DrainHeld"), "{listed:?}");
            ensure!(lives(&stage.pods().await?) == lives(&before), "nothing happened to any pod");

            let forced = stage.kubectl_fleet(&["remove", LEAVER, "--force", "--timeout=5m"]).await?;
            ensure!(forced.code == Some(0), "{forced:?}");
            ensure!(
                (member(stage)?, object(stage)?) == (None, None),
                "it is gone, and nothing is left there"
            );
            Ok(())
        })
        .await?;
        stage.rests(3, "lab/web:1", 3).await.map(drop)
    })
}

#[test]
fn del_6_an_orphaned_cluster_keeps_everything_and_the_fleet_replaces_it() -> Result<()> {
    on(Disturbs::Member(LEAVER), async |stage| {
        stage.apply(&web(9, "lab/web:1", rolling(json!({"maxUnavailable": 1}))))?;
        stage.rests(9, "lab/web:1", 9).await?;
        let (there, others) = (stage.seen_by(&[LEAVER]), stage.seen_by(&["m1", "m2"]));
        let before = there.pods().await?;
        let identity = object(stage)?.context("it is there")?["metadata"]["uid"].clone();
        returns(stage, async || {
            let limits = Limits { available: 9, pods: 12, of_image: None };
            let removed = limits.hold_during(stage, async {
                let ended = stage.kubectl_fleet(&["remove", LEAVER, "--orphan", "--timeout=5m"]).await?;
                ensure!(ended.code == Some(0) && ended.err.is_empty(), "{ended:?}");
                ensure!(ended.out.trim() == "m3 has left the fleet", "{ended:?}");
                others.rests(9, "lab/web:1", 9).await
            });
            removed.await?;
            ensure!(member(stage)?.is_none(), "it has left");
            let left = object(stage)?.context("it is left there")?;
            ensure!(left["metadata"]["uid"] == identity, "it is another object");
            let marks = format!("{}{}", left["metadata"]["labels"], left["metadata"]["annotations"]);
            ensure!(!marks.contains("fleet.kruise.io"), "{marks}");
            let owners = left["metadata"]["managedFields"].as_array().into_iter().flatten();
            let owners: Vec<&Value> = owners.map(|it| &it["manager"]).collect();
            ensure!(!owners.contains(&&json!("fleet-agent")), "{owners:?}");
            ensure!(lives(&there.pods().await?) == lives(&before), "nothing happened to any pod");
            Ok(())
        })
        .await?;
        // Nobody minds what is not the fleet's any more; it goes with this test.
        assert_eq!(lives(&there.pods().await?), lives(&before));
        let delete = ["delete", "clonesets.apps.kruise.io", "web", "--namespace", &stage.namespace];
        stage.fleet.member(LEAVER).cluster.kubectl(&delete).map(drop)
    })
}
