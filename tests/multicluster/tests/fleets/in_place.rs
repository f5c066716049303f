//! Containers that are restarted in place, in the numbers of the fleet. On real nodes as well (docs/clusters.md).

use anyhow::Result;
use serde_json::{Value, json};

use crate::kit::{Disturbs, Limits, Seen, among, rolling, web};

/// Which pods there are, whatever became of their containers.
fn identities(pods: &[Seen]) -> Vec<&str> {
    pods.iter().map(|it| it.uid.as_str()).collect()
}

#[test]
fn rev_2_a_partition_restarts_exactly_its_containers_in_place() -> Result<()> {
    among(&["m1", "m2"], Disturbs::Nothing, async |stage| {
        let fields = |partition: Value| {
            rolling(json!({
                "podUpdatePolicy": "InPlaceOnly", "maxUnavailable": 2, "partition": partition,
            }))
        };
        stage.apply(&web(6, "lab/web:1", fields(json!(0))))?;
        let before = stage.rests(6, "lab/web:1", 6).await?;
        assert_eq!(stage.sorted_shares().await?, [3, 3]);
        assert!(before.iter().all(|it| it.restarts == 0), "{before:?}");
        for (partition, new) in [(json!("90%"), 1), (json!("50%"), 3), (json!(0), 6)] {
            let limits = Limits { available: 4, pods: 6, of_image: Some(("lab/web:2", new)) };
            let after = limits
                .hold_during(stage, async {
                    stage.apply(&web(6, "lab/web:2", fields(partition)))?;
                    stage.rests(6, "lab/web:2", new).await
                })
                .await?;
            assert_eq!(identities(&after), identities(&before), "no pod was replaced");
            for pod in &after {
                let restarted = i32::from(pod.image == "lab/web:2");
                assert_eq!(pod.restarts, restarted, "once where the image is new, never else: {pod:?}");
            }
        }
        Ok(())
    })
}
