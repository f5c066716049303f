//! Objects that are in a member before the fleet knows them (AD-1).

use anyhow::{Context, Result, ensure};
use multicluster::{eventually, stage::merged};
use serde_json::{Value, json};

use crate::kit::{Disturbs, Limits, Seen, Stage, condition, lives, on, rolling, web};

const KIND: &str = "clonesets.v1beta1.apps.kruise.io";

/// Applies `manifest` in a member as its users do, waits until all of it runs, and says which pods those are.
async fn runs_alone(stage: &Stage, member: &'static str, manifest: &Value) -> Result<Vec<Seen>> {
    let cluster = &stage.fleet.member(member).cluster;
    cluster.kubectl(&["create", "namespace", &stage.namespace])?;
    let manifest = merged(manifest, &json!({"metadata": {"namespace": stage.namespace}}));
    let made = cluster.try_kubectl(&["apply", "--filename=-"], &manifest.to_string())?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let alone = stage.seen_by(&[member]);
    eventually(&format!("it runs in {member}"), async || {
        let found = object(stage, member)?.context("it is there")?;
        let (pods, wanted) = (alone.pods().await?, &manifest["spec"]["replicas"]);
        let is_there = pods.len() as u64 == wanted.as_u64().unwrap_or_default()
            && pods.iter().all(|it| it.is_ready)
            && found["status"]["updatedReplicas"] == *wanted
            && found["status"]["observedGeneration"] == found["metadata"]["generation"];
        Ok(is_there.then_some(pods))
    })
    .await
}

/// `web` in a member, while there is one.
fn object(stage: &Stage, member: &str) -> Result<Option<Value>> {
    let get = ["get", KIND, "web", "--namespace", &stage.namespace, "--ignore-not-found", "-o", "json"];
    let text = stage.fleet.member(member).cluster.kubectl(&get)?;
    Ok(if text.trim().is_empty() { None } else { Some(serde_json::from_str(&text)?) })
}

/// What of a member object only a write changes.
fn content(object: &Value) -> (Value, Value, Value) {
    let meta = &object["metadata"];
    (meta["uid"].clone(), meta["annotations"].clone(), object["spec"].clone())
}

/// Waits until the binding tells of a conflict in a member, and says why there is one.
async fn conflict(stage: &Stage, member: &str) -> Result<String> {
    eventually(&format!("the conflict in {member} is told"), async || {
        let status = stage.binding().await?["status"].clone();
        let told = condition(&status, "Conflict");
        let rows = status["clusters"].as_array().cloned().unwrap_or_default();
        let row = rows.iter().find(|it| it["cluster"] == member).cloned().unwrap_or_default();
        let is_named = told["message"].as_str().is_some_and(|it| it.contains(member));
        ensure!(told["status"] == "True" && is_named, "{status}");
        Ok(row["reason"].as_str().map(str::to_owned))
    })
    .await
}

/// Takes away what nobody else will, so that the namespace can go.
fn tidy(stage: &Stage, member: &str) -> Result<()> {
    let delete = ["delete", KIND, "web", "--namespace", &stage.namespace, "--ignore-not-found"];
    stage.fleet.member(member).cluster.kubectl(&delete).map(drop)
}

#[test]
fn ad_1_an_identical_object_is_taken_over_without_a_restart_and_outlives_the_hubs() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        let alone = stage.seen_by(&["m1"]);
        let before = runs_alone(stage, "m1", &web(3, "lab/web:1", json!({}))).await?;
        let identity = object(stage, "m1")?.context("it is there")?["metadata"]["uid"].clone();
        stage.apply(&web(9, "lab/web:1", json!({})))?;
        stage.rests(9, "lab/web:1", 9).await?;
        assert_eq!(stage.sorted_shares().await?, [3, 3, 3]);
        assert_eq!(lives(&alone.pods().await?), lives(&before), "no pod was restarted or replaced");
        let taken = object(stage, "m1")?.context("it is there")?;
        assert_eq!(taken["metadata"]["uid"], identity);
        assert_eq!(taken["metadata"]["annotations"]["fleet.kruise.io/adopted"], "Delete");
        let told = stage.event("Adopted").await?;
        assert!(told.contains("m1") && !told.contains("m2"), "{told}");
        eventually("the binding says so", async || {
            let status = stage.binding().await?["status"].clone();
            let rows = status["clusters"].as_array().cloned().unwrap_or_default();
            let adopted: Vec<_> =
                rows.iter().filter(|it| it["adopted"] == true).map(|it| &it["cluster"]).collect();
            ensure!(adopted == ["m1"], "{status}");
            Ok(Some(()))
        })
        .await?;
        // It is the hub's: it grows with it.
        stage.apply(&web(12, "lab/web:1", json!({})))?;
        stage.rests(12, "lab/web:1", 12).await?;
        let grown = alone.pods().await?;
        assert_eq!(grown.len(), 4);
        stage.kubectl(&["delete", KIND, "web", "--timeout=120s"])?;
        assert_eq!((object(stage, "m2")?, object(stage, "m3")?), (None, None));
        let left = object(stage, "m1")?.context("it is left there")?;
        assert_eq!(left["metadata"]["uid"], identity);
        let marks = format!("{}{}", left["metadata"]["labels"], left["metadata"]["annotations"]);
        assert!(!marks.contains("fleet.kruise.io"), "{marks}");
        assert_eq!(lives(&alone.pods().await?), lives(&grown), "it runs on");
        tidy(stage, "m1")
    })
}

#[test]
fn ad_1_without_always_an_object_that_differs_is_left_alone() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        let before = runs_alone(stage, "m2", &web(2, "lab/web:7", json!({}))).await?;
        let found = object(stage, "m2")?.context("it is there")?;
        stage.apply(&web(6, "lab/web:1", json!({})))?;
        let why = conflict(stage, "m2").await?;
        assert!(why.contains("/spec/template/spec/containers"), "{why}");
        // People find it where they look: on the object, and on its binding.
        stage.event("Conflict").await?;
        let of_binding = ["get", "events", "--field-selector=involvedObject.kind=FleetBinding", "-o", "name"];
        eventually("the binding has the event too", async || {
            Ok((!stage.kubectl(&of_binding)?.is_empty()).then_some(()))
        })
        .await?;
        // The others have theirs.
        stage.seen_by(&["m1", "m3"]).has(4, "lab/web:1").await?;
        assert_eq!(content(&object(stage, "m2")?.context("it is there")?), content(&found));
        assert_eq!(lives(&stage.seen_by(&["m2"]).pods().await?), lives(&before));
        tidy(stage, "m2")
    })
}

#[test]
fn ad_1_never_leaves_even_an_identical_object_alone() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        stage.place(json!({"whenExists": "Never"}))?;
        let before = runs_alone(stage, "m2", &web(2, "lab/web:1", json!({}))).await?;
        let found = object(stage, "m2")?.context("it is there")?;
        stage.apply(&web(6, "lab/web:1", json!({})))?;
        conflict(stage, "m2").await?;
        stage.seen_by(&["m1", "m3"]).has(4, "lab/web:1").await?;
        assert_eq!(content(&object(stage, "m2")?.context("it is there")?), content(&found));
        assert_eq!(lives(&stage.seen_by(&["m2"]).pods().await?), lives(&before));
        tidy(stage, "m2")
    })
}

#[test]
fn ad_1_always_takes_over_what_differs_and_updates_it_within_the_budget() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        stage.place(json!({"whenExists": "Always"}))?;
        let update = rolling(json!({"maxUnavailable": 1}));
        let before = runs_alone(stage, "m1", &web(3, "lab/web:7", update.clone())).await?;
        let alone = stage.seen_by(&["m1"]);
        let limits = Limits { available: 2, pods: 3, of_image: None };
        let taken = limits.hold_during(&alone, async {
            stage.apply(&web(9, "lab/web:1", update))?;
            stage.rests(9, "lab/web:1", 9).await
        });
        taken.await?;
        let after = alone.pods().await?;
        assert!(lives(&after).iter().all(|it| !lives(&before).contains(it)), "all were replaced");
        let marks = object(stage, "m1")?.context("it is there")?["metadata"]["annotations"].clone();
        assert_eq!(marks["fleet.kruise.io/adopted"], "Delete", "{marks}");
        stage.kubectl(&["delete", KIND, "web", "--timeout=120s"])?;
        assert_eq!(lives(&alone.pods().await?), lives(&after), "what was taken over runs on");
        tidy(stage, "m1")
    })
}
