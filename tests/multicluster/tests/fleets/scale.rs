//! How many pods each cluster has.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use kruise_core::api::cloneset::v1beta1::CloneSet;
use kube::{Api, api::PostParams};
use multicluster::eventually;
use serde_json::{Value, json};

use crate::kit::{Disturbs, Seen, Stage, on, web};

/// How many replicas moved: the sum over the clusters of what each has more or less.
fn movement(before: &BTreeMap<&str, u64>, after: &BTreeMap<&str, u64>) -> u64 {
    before.iter().map(|(name, it)| it.abs_diff(after[name])).sum()
}

fn uids(pods: &[Seen]) -> BTreeSet<&str> {
    pods.iter().map(|it| it.uid.as_str()).collect()
}

/// How many replicas moved by what events say: `Scheduled m1 4 -> 3, m2 3 -> 2`.
fn told_movement(events: &[String]) -> Result<u64> {
    let of_event = |event: &String| -> Result<u64> {
        let (_, told) = event.split_once(' ').context("a reason and a message")?;
        let of_cluster = |it: &str| -> Result<u64> {
            let (from, to) = it.split_once(" -> ").with_context(|| event.clone())?;
            let from = from.rsplit(' ').next().unwrap_or_default();
            Ok(from.parse::<u64>()?.abs_diff(to.parse()?))
        };
        told.split(", ").map(of_cluster).sum()
    };
    events.iter().filter(|it| it.starts_with("Scheduled ")).map(of_event).sum()
}

/// How replicas are changed.
#[derive(Debug, Clone, Copy)]
enum Scaler {
    /// By `kubectl scale`.
    Person,
    /// As a HorizontalPodAutoscaler does: it reads the scale, by which it finds the pods, and writes it back.
    Autoscaler,
}

async fn scale_by(scaler: Scaler, stage: &Stage, to: usize) -> Result<()> {
    let Scaler::Autoscaler = scaler else {
        let replicas = format!("--replicas={to}");
        return stage.kubectl(&["scale", "clonesets.apps.kruise.io", "web", &replicas]).map(drop);
    };
    let api: Api<CloneSet> = Api::namespaced(stage.fleet.client.clone(), &stage.namespace);
    let mut scale = api.get_scale("web").await?;
    let status = scale.status.take().context("a scale says how many there are")?;
    ensure!(status.selector.as_deref() == Some("app=web"), "{status:?}");
    scale.spec.get_or_insert_default().replicas = Some(i32::try_from(to)?);
    api.replace_scale("web", &PostParams::default(), &scale).await?;
    Ok(())
}

/// Scales `web`, and checks that nothing moved but what had to.
async fn scale(stage: &Stage, before: &[Seen], to: usize, scaler: Scaler) -> Result<Vec<Seen>> {
    let (from, shares) = (before.len(), stage.shares().await?);
    scale_by(scaler, stage, to).await?;
    let after = stage.rests(to, "lab/web:1", to).await?;
    let now = stage.shares().await?;
    ensure!(
        movement(&shares, &now) == from.abs_diff(to) as u64,
        "from {from} to {to}: {shares:?} became {now:?}"
    );
    let (old, new) = (uids(before), uids(&after));
    let kept = old.intersection(&new).count();
    ensure!(kept == from.min(to), "from {from} to {to}: {kept} pods were kept\n{before:#?}\n{after:#?}");
    Ok(after)
}

#[test]
fn api_1_an_unchanged_cloneset_of_ten_is_split_and_every_scaling_moves_least() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        stage.apply(&web(10, "lab/web:1", json!({})))?;
        let mut pods = stage.rests(10, "lab/web:1", 10).await?;
        assert_eq!(stage.sorted_shares().await?, [3, 3, 4]);
        let steps =
            [(11, Scaler::Autoscaler), (7, Scaler::Person), (0, Scaler::Person), (10, Scaler::Autoscaler)];
        for (to, scaler) in steps {
            pods = scale(stage, &pods, to, scaler).await?;
        }
        assert_eq!(stage.sorted_shares().await?, [3, 3, 4]);
        eventually("events tell of ten placed, one more, four and seven fewer, and ten again", async || {
            let events = stage.events()?;
            ensure!(!events.iter().any(|it| it.starts_with("Rescheduled ")), "{events:?}");
            let told = told_movement(&events)?;
            ensure!(told == 10 + 1 + 4 + 7 + 10, "{told}: {events:?}");
            Ok(Some(()))
        })
        .await
    })
}

/// A manifest of the version that most users have, with fields that stand in OpenKruise's documentation.
#[test]
fn api_1_a_manifest_of_the_older_version_is_split_like_one_of_the_newer() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        let mut older = web(
            10,
            "lab/web:1",
            json!({
                "scaleStrategy": {"podsToDelete": [], "maxUnavailable": "50%"},
                "updateStrategy": {"type": "InPlaceIfPossible", "partition": "90%", "maxUnavailable": "20%"},
                "revisionHistoryLimit": 5,
                "minReadySeconds": 0,
            }),
        );
        older["apiVersion"] = json!("apps.kruise.io/v1alpha1");
        stage.apply(&older)?;
        stage.rests(10, "lab/web:1", 10).await?;
        assert_eq!(stage.sorted_shares().await?, [3, 3, 4]);
        older["spec"]["template"]["spec"]["containers"][0]["image"] = json!("lab/web:2");
        stage.apply(&older)?;
        stage.rests(10, "lab/web:2", 1).await?;
        let written: Value = stage.web().await?["spec"]["updateStrategy"].clone();
        assert_eq!(
            written["rollingUpdate"]["partition"], "90%",
            "the user's own object is as it was: {written}"
        );
        Ok(())
    })
}

#[test]
fn split_3_weights_of_five_three_and_two_give_five_three_and_two() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        let weight = |name: &str, weight: u32| json!({"clusters": {"names": [name]}, "weight": weight});
        stage.place(json!({"replicas": {"weights": [weight("m1", 5), weight("m2", 3), weight("m3", 2)]}}))?;
        stage.apply(&web(10, "lab/web:1", json!({})))?;
        stage.rests(10, "lab/web:1", 10).await?;
        assert_eq!(stage.shares().await?.into_values().collect::<Vec<_>>(), [5, 3, 2]);
        Ok(())
    })
}
