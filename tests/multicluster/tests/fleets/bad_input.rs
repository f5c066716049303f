//! Section 23 of the specification: the rows that only members can answer.

use anyhow::{Result, ensure};
use multicluster::{eventually, stage::merged};
use serde_json::{Value, json};

use crate::kit::{Disturbs, on, web};

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

fn condition(status: &Value, kind: &str) -> Value {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|it| it["type"] == kind).cloned().unwrap_or_default()
}
