//! One partition over the fleet.

use anyhow::Result;
use serde_json::{Value, json};

use crate::kit::{Disturbs, Limits, Stage, among, on, rolling, web};

/// Releases by partitions, and calls `at` with the number of new pods where each comes to rest. The numbers are the same in
/// one cluster as over several.
async fn step_by_step(stage: &Stage, mut at: impl AsyncFnMut(usize) -> Result<()>) -> Result<()> {
    let fields = |partition: Value| rolling(json!({"maxUnavailable": 2, "partition": partition}));
    stage.apply(&web(10, "lab/web:1", fields(json!(0))))?;
    stage.rests(10, "lab/web:1", 10).await?;
    // Said three times in different ways, the last two of them the same.
    for (partition, new) in [(json!("90%"), 1), (json!("50%"), 5), (json!(5), 5), (json!(0), 10)] {
        let limits = Limits { available: 8, pods: 10, of_image: Some(("lab/web:2", new)) };
        limits
            .hold_during(stage, async {
                stage.apply(&web(10, "lab/web:2", fields(partition)))?;
                stage.rests(10, "lab/web:2", new).await
            })
            .await?;
        at(new).await?;
    }
    Ok(())
}

#[test]
fn rev_2_a_partition_is_exact_over_the_fleet_and_never_overshot() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        step_by_step(stage, async |new| {
            if new == 1 {
                // REV-6: where no pod is due the new template is not even known.
                let given = stage.member_objects().await?;
                let image = |it: &Value| it.pointer("/spec/template/spec/containers/0/image").cloned();
                let knows = given.values().filter(|it| image(it) == Some(json!("lab/web:2"))).count();
                assert_eq!(knows, 1, "{given:#?}");
            }
            Ok(())
        })
        .await
    })
}

#[test]
fn rev_2_in_one_cluster_the_same_partitions_give_the_same_counts() -> Result<()> {
    among(&["m1"], Disturbs::Nothing, async |stage| step_by_step(stage, async |_| Ok(())).await)
}
