//! How many pods each cluster has.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use multicluster::eventually;
use serde_json::json;

use crate::kit::{Disturbs, Seen, Stage, on, web};

/// How many replicas moved: the sum over the clusters of what each has more or less.
fn movement(before: &BTreeMap<&str, u64>, after: &BTreeMap<&str, u64>) -> u64 {
    before.iter().map(|(name, it)| it.abs_diff(after[name])).sum()
}

fn uids(pods: &[Seen]) -> BTreeSet<&str> {
    pods.iter().map(|it| it.uid.as_str()).collect()
}

/// Scales `web`, and checks that nothing moved but what had to.
async fn scale(stage: &Stage, before: &[Seen], to: usize) -> Result<Vec<Seen>> {
    let (from, shares) = (before.len(), stage.shares().await?);
    stage.kubectl(&["scale", "clonesets.apps.kruise.io", "web", &format!("--replicas={to}")])?;
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
        // By the scale subresource, as an autoscaler does.
        for to in [11, 7, 0, 10] {
            pods = scale(stage, &pods, to).await?;
        }
        assert_eq!(stage.sorted_shares().await?, [3, 3, 4]);
        eventually("each of them is told", async || {
            let events = stage.events()?;
            let placed = events.iter().filter(|it| it.starts_with("Scheduled ")).count();
            ensure!(placed >= 5, "{events:?}");
            Ok(Some(()))
        })
        .await
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
