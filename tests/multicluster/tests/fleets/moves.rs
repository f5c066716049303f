//! Pods that change their cluster.

use anyhow::Result;
use multicluster::eventually;
use serde_json::json;

use crate::kit::{Disturbs, Limits, on, rolling, web};

#[test]
fn move_2_a_drained_member_gives_its_pods_away_only_when_they_are_available_elsewhere() -> Result<()> {
    on(Disturbs::Member("m2"), async |stage| {
        stage.apply(&web(10, "lab/web:1", rolling(json!({"maxUnavailable": 1}))))?;
        stage.rests(10, "lab/web:1", 10).await?;
        assert!(stage.shares().await?["m2"] > 0, "there is something to give away");
        let drain = |on: bool| {
            let patch = json!({"spec": {"drain": on}}).to_string();
            stage.fleet.hub.kubectl(&["patch", "memberclusters", "m2", "--type=merge", "--patch", &patch])
        };
        // One pod more than ten at a time: rebalance.maxSurge is 10%. None is missing: its maxUnavailable is 0.
        let limits = Limits { available: 9, pods: 11, of_image: None };
        let drained = limits.hold_during(stage, async {
            drain(true)?;
            eventually("m2 is empty", async || Ok((stage.shares().await?["m2"] == 0).then_some(()))).await?;
            stage.rests(10, "lab/web:1", 10).await
        });
        let pods = drained.await;
        drain(false)?;
        assert!(pods?.iter().all(|it| it.cluster != "m2"));
        assert_eq!(stage.sorted_shares().await?, [0, 5, 5]);
        // Nothing goes back by itself.
        stage.fleet.until_ready(&["m2"]).await?;
        stage.rests(10, "lab/web:1", 10).await?;
        assert_eq!(stage.sorted_shares().await?, [0, 5, 5]);
        Ok(())
    })
}
