//! Room: replicas are placed by what members say that still fits.

use anyhow::{Result, ensure};
use multicluster::eventually;
use serde_json::{Value, json};

use crate::kit::{Disturbs, on, web};

/// `web` with pods of half a node: each member has two nodes of 32 CPUs, and so room for four.
fn halves(replicas: u32) -> Value {
    let mut web = web(replicas, "lab/web:1", json!({}));
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "16"}});
    web
}

#[test]
fn proto_8_with_hold_nothing_is_placed_that_does_not_fit() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        stage.place(json!({"replicas": {"whenShort": "Hold"}}))?;
        stage.apply(&halves(14))?;
        eventually("twelve are placed, and two are told not to be", async || {
            let shares = stage.sorted_shares().await?;
            ensure!(shares.iter().all(|it| *it <= 4), "{shares:?}");
            let pods = stage.pods().await?;
            let conditions = stage.binding().await?["status"]["conditions"].clone();
            let is_short = conditions
                .as_array()
                .into_iter()
                .flatten()
                .any(|it| it["type"] == "Unplaced" && it["status"] == "True" && it["reason"] == "NoRoom");
            let is_there = shares == [4, 4, 4] && pods.len() == 12 && pods.iter().all(|it| it.is_ready);
            Ok((is_there && is_short).then_some(()))
        })
        .await?;
        // What fits is placed as ever.
        stage.apply(&halves(9))?;
        stage.rests(9, "lab/web:1", 9).await?;
        ensure!(stage.sorted_shares().await? == [3, 3, 3]);
        Ok(())
    })
}
