//! Section 23 of the specification: the rows that only members can answer. The others are in `joining`.

use anyhow::{Context, Result, ensure};
use multicluster::{eventually, stage::merged};
use serde_json::{Value, json};

use crate::kit::{Disturbs, Stage, condition, lives, on, web};

#[test]
fn row_3_a_policy_that_comes_to_select_no_cluster_changes_nothing_that_runs() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        stage.apply(&web(6, "lab/web:1", json!({})))?;
        let before = stage.rests(6, "lab/web:1", 6).await?;
        stage.place(json!({"clusters": {"names": ["nowhere"]}}))?;
        // One after the other: the hub may hear of an object before it hears of a policy that was written earlier.
        is_placed_nowhere(stage).await?;
        stage.apply(&web(9, "lab/web:2", json!({})))?;
        is_placed_nowhere(stage).await?;
        assert_eq!(stage.sorted_shares().await?, [2, 2, 2]);
        assert_eq!(lives(&stage.pods().await?), lives(&before), "nothing happened to any pod");
        // Selected again, they catch up.
        stage.place(json!({}))?;
        stage.rests(9, "lab/web:2", 9).await.map(drop)
    })
}

/// Waits until the binding says that no cluster was chosen for the object as it is now.
async fn is_placed_nowhere(stage: &Stage) -> Result<()> {
    eventually("the binding says that no cluster was chosen", async || {
        let (web, status) = (stage.web().await?, stage.binding().await?["status"].clone());
        let scheduled = condition(&status, "Scheduled");
        let is_told = scheduled["status"] == "False" && scheduled["reason"] == "NoCluster";
        ensure!(is_told && scheduled["observedGeneration"] == web["metadata"]["generation"], "{status}");
        Ok(Some(()))
    })
    .await
}

#[test]
fn row_6_a_patch_that_does_not_apply_keeps_out_one_cluster_and_the_others_go_on() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        stage.place(json!({"overrides": [{
            "clusters": {"names": ["m2"]},
            "patches": [{"op": "replace", "path": "/spec/template/spec/nodeName", "value": "nowhere"}],
        }]}))?;
        stage.apply(&web(4, "lab/web:1", json!({})))?;
        stage.rests(4, "lab/web:1", 4).await?;
        assert_eq!(stage.shares().await?.into_values().collect::<Vec<_>>(), [2, 0, 2]);
        eventually("the binding says why", async || {
            let status = stage.binding().await?["status"].clone();
            let rows = status["clusters"].as_array().cloned().unwrap_or_default();
            let row = rows.iter().find(|it| it["cluster"] == "m2").cloned().unwrap_or_default();
            let reason = row["reason"].as_str().unwrap_or_default();
            let applied = condition(&status, "Applied");
            ensure!(
                reason.starts_with("spec.overrides[0] does not apply") && applied["status"] == "False",
                "{status}"
            );
            Ok(Some(()))
        })
        .await
    })
}

/// Has a member serve CloneSets as the fleet asks for them, or not. Those that are there stay in any case.
fn serve(stage: &Stage, member: &str, is_served: bool) -> Result<()> {
    let (cluster, crd) = (&stage.fleet.member(member).cluster, "clonesets.apps.kruise.io");
    let stored: Value = serde_json::from_str(&cluster.kubectl(&["get", "crd", crd, "-o", "json"])?)?;
    let mut versions = stored["spec"]["versions"].as_array().into_iter().flatten();
    let place = versions.position(|it| it["name"] == "v1beta1").context("it has the version")?;
    let path = format!("/spec/versions/{place}/served");
    let patch = json!([{"op": "replace", "path": path, "value": is_served}]).to_string();
    cluster.kubectl(&["patch", "crd", crd, "--type=json", "--patch", &patch]).map(drop)
}

#[test]
fn row_9_a_member_that_lacks_the_kind_gets_nothing_new_and_keeps_what_it_has() -> Result<()> {
    on(Disturbs::Member("m3"), async |stage| {
        stage.apply(&web(6, "lab/web:1", json!({})))?;
        stage.rests(6, "lab/web:1", 6).await?;
        let there = stage.seen_by(&["m3"]);
        let before = there.pods().await?;
        assert_eq!(before.len(), 2);
        serve(stage, "m3", false)?;
        let second = stage.beside().await?;
        let lacking = lacks_the_kind(stage, &second).await;
        serve(stage, "m3", true)?;
        let closed = second.close().await;
        lacking.and(closed)?;
        assert_eq!(lives(&there.pods().await?), lives(&before), "nothing happened to any pod");
        // It serves the kind again, and is used again.
        eventually("m3 takes part", async || {
            let status = stage.binding().await?["status"].clone();
            let scheduled = condition(&status, "Scheduled");
            ensure!(scheduled["status"] == "True" && scheduled["message"] == "", "{status}");
            Ok(Some(()))
        })
        .await?;
        stage.apply(&web(12, "lab/web:1", json!({})))?;
        stage.rests(12, "lab/web:1", 12).await?;
        assert_eq!(stage.sorted_shares().await?, [4, 4, 4]);
        Ok(())
    })
}

async fn lacks_the_kind(stage: &Stage, second: &Stage) -> Result<()> {
    eventually("the hub knows", async || {
        let status = stage.binding().await?["status"].clone();
        let message = condition(&status, "Scheduled")["message"].clone();
        ensure!(message == "APINotSupported: the kind is not served by m3", "{status}");
        Ok(Some(()))
    })
    .await?;
    second.apply(&web(6, "lab/web:1", json!({})))?;
    second.rests(6, "lab/web:1", 6).await?;
    ensure!(second.shares().await?["m3"] == 0, "it is left out");
    stage.apply(&web(9, "lab/web:1", json!({})))?;
    stage.seen_by(&["m1", "m2"]).has(7, "lab/web:1").await?;
    ensure!(stage.shares().await?["m3"] == 2, "it is frozen");
    Ok(())
}

#[test]
fn row_10_a_report_that_cannot_be_true_is_refused_and_the_one_before_is_kept() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        stage.apply(&web(6, "lab/web:1", json!({})))?;
        stage.rests(6, "lab/web:1", 6).await?;
        let hub = &stage.fleet.hub;
        let of_m1 = ["--namespace", "fleet-m1"];
        let shares = hub.kubectl(&[&["get", "assignments", "-o", "json"][..], &of_m1].concat())?;
        let shares: Value = serde_json::from_str(&shares)?;
        let is_ours = |it: &&Value| it["spec"]["object"]["namespace"] == stage.namespace.as_str();
        let share =
            shares["items"].as_array().into_iter().flatten().find(is_ours).cloned().unwrap_or_default();
        let name = share["metadata"]["name"].as_str().unwrap_or_default();
        let report = share["status"]["report"].as_u64().unwrap_or_default();
        let say = |counts: Value, report: u64| {
            let patch = json!({"status": {"report": report, "counts": counts}}).to_string();
            let patch = ["patch", "assignments", name, "--subresource=status", "--type=merge", "-p", &patch];
            hub.try_kubectl(&[&patch[..], &of_m1].concat(), "")
        };
        // What nobody could read any more is not even stored.
        for replicas in [json!(-1), json!(1_u64 << 32), json!(1e19)] {
            let refused = say(json!({"replicas": replicas}), report + 1)?;
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            ensure!(!refused.status.success() && said.contains("status.counts.replicas"), "{said}");
        }

        // More than any cluster may have, and more new pods than there are pods.
        for (place, counts) in
            (1..).zip([json!({"replicas": 900_000, "available": 900_000}), json!({"updated": 50})])
        {
            let said = say(counts.clone(), report + place)?;
            ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
            let told = format!("ReportRefused report {}.{}", share["status"]["incarnation"], report + place);
            stage.event(&told).await?;
            let status = stage.web().await?["status"].clone();
            ensure!(status["replicas"] == 6 && status["availableReplicas"] == 6, "{counts}: {status}");
        }
        // The agent's next report is as good as ever.
        stage.apply(&web(9, "lab/web:1", json!({})))?;
        stage.rests(9, "lab/web:1", 9).await.map(drop)
    })
}

#[test]
fn row_11_an_object_of_another_hub_is_a_conflict_and_is_not_touched() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        let theirs = &stage.fleet.member("m3").cluster;
        let marks = json!({"metadata": {
            "namespace": stage.namespace, "annotations": {"fleet.kruise.io/hub-uid": "another"},
        }});
        theirs.kubectl(&["create", "namespace", &stage.namespace])?;
        let manifest = merged(&web(1, "lab/web:7", json!({})), &marks).to_string();
        let made = theirs.try_kubectl(&["create", "--filename=-"], &manifest)?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        stage.apply(&web(6, "lab/web:1", json!({})))?;
        eventually("the conflict is told", async || {
            let status = stage.binding().await?["status"].clone();
            let conflict = condition(&status, "Conflict");
            let names_it = conflict["message"].as_str().is_some_and(|it| it.contains("m3"));
            ensure!(conflict["status"] == "True" && names_it, "{status}");
            Ok(Some(()))
        })
        .await?;
        let spec = stage.member_objects().await?["m3"]["spec"].clone();
        let image = spec.pointer("/template/spec/containers/0/image").cloned();
        assert_eq!((&spec["replicas"], image), (&json!(1), Some(json!("lab/web:7"))));
        // Nothing of ours is left in the way of those who tidy up.
        theirs
            .kubectl(&["--namespace", &stage.namespace, "delete", "clonesets.apps.kruise.io", "web"])
            .map(drop)
    })
}
