//! What the hub has lost, and what must not come of it: absence is not deletion.

use anyhow::{Result, ensure};
use multicluster::eventually;
use serde_json::{Value, json};

use crate::kit::{Disturbs, MEMBERS, Stage, lives, on, rolling, web};

/// What identifies the member objects.
async fn identities(stage: &Stage) -> Result<Vec<Value>> {
    Ok(stage.member_objects().await?.values().map(|it| it["metadata"]["uid"].clone()).collect())
}

/// Waits until the hub says that the members know more than it does.
async fn is_admitted(stage: &Stage) -> Result<()> {
    eventually("the hub says that it knows less than the members", async || {
        let conditions = stage.binding().await?["status"]["conditions"].clone();
        let stale = conditions.as_array().into_iter().flatten().find(|it| it["type"] == "Stale").cloned();
        let stale = stale.unwrap_or_default();
        let names_all =
            MEMBERS.iter().all(|it| stale["message"].as_str().is_some_and(|told| told.contains(it)));
        ensure!(stale["reason"] == "Restored" && names_all, "{conditions}");
        Ok(Some(()))
    })
    .await
}

#[test]
fn proto_7_crds_that_are_deleted_on_the_hub_delete_nothing_in_a_member() -> Result<()> {
    on(Disturbs::Hub, async |stage| {
        stage.apply(&web(6, "lab/web:1", json!({})))?;
        stage.rests(6, "lab/web:1", 6).await?;
        stage.apply(&web(9, "lab/web:1", json!({})))?;
        let before = stage.rests(9, "lab/web:1", 9).await?;
        let objects = identities(stage).await?;
        let crds =
            ["assignments", "fleetbindings", "fleetrevisions"].map(|it| format!("{it}.fleet.kruise.io"));
        let crds: Vec<&str> = crds.iter().map(String::as_str).collect();
        stage.fleet.hub.kubectl(&[&["delete", "crds", "--wait=true"][..], &crds].concat())?;
        stage.fleet.kill("hub")?;
        let definitions = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/crd/fleet");
        stage.fleet.hub.kubectl(&[
            "apply",
            "--server-side",
            "--force-conflicts",
            "--filename",
            definitions,
        ])?;
        stage.fleet.run_hub().await?;
        eventually("everything is acknowledged again", async || {
            let (web, binding) = (stage.web().await?, stage.binding().await?);
            let status = &binding["status"];
            let is_told =
                status["observedGeneration"] == web["metadata"]["generation"] && status["ready"] == 9;
            Ok(is_told.then_some(()))
        })
        .await?;
        let after = stage.rests(9, "lab/web:1", 9).await?;
        assert_eq!(lives(&after), lives(&before), "no pod was restarted or replaced");
        assert_eq!(identities(stage).await?, objects);
        // They are the hub's again.
        stage.kubectl(&["scale", "clonesets.apps.kruise.io", "web", "--replicas=6"])?;
        stage.rests(6, "lab/web:1", 6).await.map(drop)
    })
}

#[test]
fn proto_7_the_hubs_own_namespaces_that_are_deleted_delete_nothing_in_a_member() -> Result<()> {
    on(Disturbs::Hub, async |stage| {
        let fields = |partition: u32| rolling(json!({"maxUnavailable": 2, "partition": partition}));
        stage.apply(&web(9, "lab/web:1", fields(0)))?;
        stage.rests(9, "lab/web:1", 9).await?;
        // In the middle of a release, when members need the old body and the new one.
        stage.apply(&web(9, "lab/web:2", fields(5)))?;
        let before = stage.rests(9, "lab/web:2", 4).await?;
        let objects = identities(stage).await?;
        // With them go its key, the count of its leaderships, its certificate, its rights, and all bodies.
        stage.fleet.hub.kubectl(&["delete", "namespace", "fleet-system", "fleet-content", "--wait=true"])?;
        stage.fleet.kill("hub")?;
        stage.fleet.let_hub_in_again()?;
        stage.fleet.run_hub().await?;
        stage.fleet.until_ready(&MEMBERS).await?;
        let after = stage.rests(9, "lab/web:2", 4).await?;
        assert_eq!(lives(&after), lives(&before), "no pod was restarted or replaced");
        assert_eq!(identities(stage).await?, objects);
        // They are the hub's again, and the release goes on.
        stage.apply(&web(9, "lab/web:2", fields(0)))?;
        stage.rests(9, "lab/web:2", 9).await.map(drop)
    })
}

#[test]
fn ha_5_a_hub_restored_from_an_older_copy_deletes_and_restarts_nothing() -> Result<()> {
    on(Disturbs::Hub, async |stage| {
        stage.apply(&web(6, "lab/web:1", json!({})))?;
        stage.rests(6, "lab/web:1", 6).await?;
        stage.fleet.hub.keep_copy().await?;
        stage.fleet.until_admitted().await?;
        stage.apply(&web(9, "lab/web:2", json!({})))?;
        let before = stage.rests(9, "lab/web:2", 9).await?;
        let objects = identities(stage).await?;
        stage.fleet.kill("hub")?;
        stage.fleet.hub.go_back().await?;
        stage.fleet.until_hub_is_known().await?;
        stage.fleet.run_hub().await?;
        // Agents that ran on may not even notice; started anew they read the old plans.
        let read = MEMBERS.map(|it| stage.fleet.logged(it).len());
        for member in MEMBERS {
            stage.fleet.kill(member)?;
            stage.fleet.run(member)?;
        }
        eventually("agents refuse the old plans", async || {
            let refuses = |(name, read): (&str, usize)| {
                stage.fleet.logged(name).get(read..).is_some_and(|it| it.contains("a plan is not acted on"))
            };
            Ok(MEMBERS.into_iter().zip(read).all(refuses).then_some(()))
        })
        .await?;
        is_admitted(stage).await?;
        assert_eq!(stage.web().await?["spec"]["replicas"], 6, "the hub has forgotten");
        assert_eq!(lives(&stage.pods().await?), lives(&before), "no pod was restarted or replaced");
        assert_eq!(identities(stage).await?, objects);
        stage.fleet.until_ready(&MEMBERS).await
    })
}
