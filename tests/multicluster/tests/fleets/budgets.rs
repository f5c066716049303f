//! maxUnavailable and maxSurge over the fleet, during whole releases.

use anyhow::{Context, Result};
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::kit::{Disturbs, Limits, Stage, on, rolling, web};

/// maxUnavailable and maxSurge of ten pods, and what they come to: each with each.
fn budgets() -> Vec<(Value, usize, Value, usize)> {
    let unavailable = [(json!(1), 1), (json!(2), 2), (json!("20%"), 2)];
    let surge = [(json!(0), 0), (json!(1), 1), (json!("30%"), 3)];
    let pair = |(down, more): ((Value, usize), (Value, usize))| (down.0, down.1, more.0, more.1);
    let with = |down: (Value, usize)| surge.clone().map(|more| pair((down.clone(), more)));
    unavailable.into_iter().flat_map(with).collect()
}

async fn release(stage: &Stage, case: &(Value, usize, Value, usize)) -> Result<()> {
    let (unavailable, down, surge, more) = case;
    let fields = || rolling(json!({"maxUnavailable": unavailable, "maxSurge": surge}));
    stage.apply(&web(10, "lab/web:1", fields()))?;
    stage.rests(10, "lab/web:1", 10).await?;
    let limits = Limits { available: 10 - down, pods: 10 + more, of_image: None };
    let rolled = limits.hold_during(stage, async {
        stage.apply(&web(10, "lab/web:2", fields()))?;
        stage.rests(10, "lab/web:2", 10).await
    });
    rolled.await.with_context(|| format!("maxUnavailable {unavailable}, maxSurge {surge}")).map(drop)
}

#[test]
fn bud_3_and_bud_8_no_release_takes_down_or_adds_more_than_allowed() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        // A few at once: they have clusters in common, and nothing else.
        for few in budgets().chunks(3) {
            try_join_all(few.iter().map(|case| async move {
                let stage = stage.beside().await?;
                release(&stage, case).await?;
                stage.close().await
            }))
            .await?;
        }
        Ok(())
    })
}
