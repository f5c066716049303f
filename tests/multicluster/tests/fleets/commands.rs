//! Section 21: what `kubectl fleet` says of a fleet that runs, and the numbers it ends with.

use anyhow::Result;
use serde_json::{Value, json};

use crate::kit::{Disturbs, on, rolling, web};

#[test]
fn section_21_plan_says_what_would_move_and_writes_nothing_and_explain_says_why() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        stage.apply(&web(9, "lab/web:1", rolling(json!({"maxUnavailable": 1}))))?;
        stage.rests(9, "lab/web:1", 9).await?;
        let file = stage.fleet.logs().join(format!("{}.json", stage.namespace));
        let of = ["--namespace", stage.namespace.as_str(), "--output=json"];
        let plan = async |manifest: &Value| {
            std::fs::write(&file, manifest.to_string())?;
            let name = file.to_string_lossy().into_owned();
            stage.kubectl_fleet(&[&["plan", "-f", &name], &of[..]].concat()).await
        };

        // A policy that leaves one cluster out moves its three pods.
        let policy = json!({
            "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "PlacementPolicy",
            "metadata": {"name": "all", "namespace": stage.namespace},
            "spec": {"targets": [{"kind": "CloneSet", "labelSelector": {}}], "clusters": {"names": ["m1", "m2"]}},
        });
        // What the hub notes in a binding while it rests is its own affair.
        let written = async || {
            let policy = stage.kubectl(&["get", "placementpolicies", "all", "-o", "json"])?;
            anyhow::Ok((policy, stage.binding().await?["spec"]["policy"].clone(), stage.shares().await?))
        };
        let before = written().await?;
        let moved = plan(&policy).await?;
        assert_eq!(moved.code, Some(2), "{moved:?}");
        let said: Value = serde_json::from_str(&moved.out)?;
        let ours = format!("CloneSet {}/web", stage.namespace);
        let mut planned = said["objects"].as_array().into_iter().flatten();
        let planned = planned.find(|it| it["object"] == ours.as_str()).cloned().unwrap_or_default();
        assert_eq!(planned["moved"], 3, "{said}");
        assert_eq!(written().await?, before, "nothing is written");

        let scaled = plan(&web(12, "lab/web:1", rolling(json!({"maxUnavailable": 1})))).await?;
        assert_eq!(scaled.code, Some(0), "what grows does not move: {scaled:?}");
        let refused = plan(&web(12, "lab/web:1", rolling(json!({"partition": "abc"})))).await?;
        assert_eq!(refused.code, Some(3), "{refused:?}");

        let explained = stage.kubectl_fleet(&[&["explain", "cloneset/web"], &of[..]].concat()).await?;
        assert_eq!(explained.code, Some(0), "{explained:?}");
        let said: Value = serde_json::from_str(&explained.out)?;
        let shares: Vec<u64> = said["clusters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|it| it["replicas"].as_u64())
            .collect();
        assert_eq!(shares, [3, 3, 3], "{said}");
        let nobody = stage.kubectl_fleet(&[&["explain", "cloneset/nobody"], &of[..]].concat()).await?;
        assert_eq!(nobody.code, Some(1), "{nobody:?}");
        Ok(())
    })
}
