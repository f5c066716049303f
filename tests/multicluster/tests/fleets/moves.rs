//! Pods that change their cluster.

use anyhow::{Result, ensure};
use multicluster::eventually;
use serde_json::json;

use crate::kit::{Disturbs, Limits, on, rolling, web};

#[test]
fn move_2_a_drained_member_gives_its_pods_away_only_when_they_are_available_elsewhere() -> Result<()> {
    on(Disturbs::Member("m2"), async |stage| {
        stage.apply(&web(10, "lab/web:1", rolling(json!({"maxUnavailable": 1}))))?;
        stage.rests(10, "lab/web:1", 10).await?;
        assert!(stage.shares().await?["m2"] > 0, "there is something to give away");
        let fleet = async |arguments: &[&str]| {
            let ended = stage.kubectl_fleet(arguments).await?;
            ensure!(ended.code == Some(0), "{arguments:?}: {ended:?}");
            Ok(())
        };
        // One pod more than ten at a time: rebalance.maxSurge is 10%. None is missing, as pods appear elsewhere first: the
        // CloneSet's own maxUnavailable is for updates, and that of the rebalance is 0.
        let limits = Limits { available: 10, pods: 11, of_image: None };
        let drained = limits.hold_during(stage, async {
            fleet(&["drain", "m2"]).await?;
            eventually("m2 is empty", async || Ok((stage.shares().await?["m2"] == 0).then_some(()))).await?;
            stage.rests(10, "lab/web:1", 10).await
        });
        let pods = drained.await;
        fleet(&["uncordon", "m2"]).await?;
        assert!(pods?.iter().all(|it| it.cluster != "m2"));
        assert_eq!(stage.sorted_shares().await?, [0, 5, 5]);
        // Nothing goes back by itself.
        stage.fleet.until_ready(&["m2"]).await?;
        stage.rests(10, "lab/web:1", 10).await?;
        assert_eq!(stage.sorted_shares().await?, [0, 5, 5]);
        Ok(())
    })
}
