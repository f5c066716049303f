//! maxUnavailable and maxSurge over the fleet, during whole releases.

use anyhow::{Context, Result};
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::{
    cases,
    kit::{Disturbs, Limits, Stage, on, rolling, web},
};

/// maxUnavailable and maxSurge of ten pods, and what they come to.
fn budgets() -> [(Value, usize, Value, usize); 9] {
    let one =
        |unavailable: (Value, usize), surge: (Value, usize)| (unavailable.0, unavailable.1, surge.0, surge.1);
    let unavailable = || [(json!(1), 1), (json!(2), 2), (json!("20%"), 2)];
    let surge = || [(json!(0), 0), (json!(1), 1), (json!("30%"), 3)];
    let [a, b, c] = unavailable();
    let [d, e, f] = surge();
    // The first three have every value once.
    [
        one(a.clone(), d.clone()),
        one(b.clone(), e.clone()),
        one(c.clone(), f.clone()),
        one(a.clone(), e.clone()),
        one(b.clone(), f.clone()),
        one(c.clone(), d.clone()),
        one(a, f),
        one(b, d),
        one(c, e),
    ]
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
        let cases: Vec<_> = budgets().into_iter().take(cases(3, 9)).collect();
        // A few at once: they have clusters in common, and nothing else.
        for few in cases.chunks(3) {
            try_join_all(few.iter().map(|case| async move {
                let stage = stage.beside().await?;
                release(&stage, case).await?;
                stage.close()
            }))
            .await?;
        }
        Ok(())
    })
}
