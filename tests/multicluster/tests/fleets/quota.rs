//! What a namespace may hold over the fleet (SPLIT-9).

use anyhow::{Result, ensure};
use multicluster::{eventually, stage::merged};
use serde_json::{Value, json};

use crate::kit::{Disturbs, Stage, on, rolling, web};

const QUOTA: &str = "fleet.kruise.io/quota-pods";

fn named(name: &str, manifest: &Value) -> Value {
    merged(manifest, &json!({"metadata": {"name": name}}))
}

/// What is said when somebody may not have so many pods.
fn refusal(answer: Result<()>) -> Result<String> {
    let Err(refused) = answer else { anyhow::bail!("it was let in") };
    let said = format!("{refused:#}");
    ensure!(said.contains("spec.replicas") && said.contains(QUOTA), "{said}");
    Ok(said)
}

fn scale(stage: &Stage, name: &str, replicas: u32) -> Result<()> {
    let replicas = format!("--replicas={replicas}");
    stage.kubectl(&["scale", "clonesets.apps.kruise.io", name, &replicas]).map(drop)
}

#[test]
fn split_9_more_pods_than_the_namespace_may_have_are_denied_however_they_are_asked_for() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        stage.fleet.hub.kubectl(&["annotate", "namespace", &stage.namespace, &format!("{QUOTA}=9")])?;
        let plain = |replicas| web(replicas, "lab/web:1", json!({}));
        refusal(stage.apply(&plain(10)))?;
        stage.apply(&plain(6))?;
        stage.rests(6, "lab/web:1", 6).await?;

        let said = refusal(stage.apply(&named("api", &plain(4))))?;
        assert!(said.contains("allows 9") && said.contains("6 are taken"), "{said}");
        stage.apply(&named("api", &plain(2)))?;
        let said = refusal(stage.apply(&web(6, "lab/web:1", rolling(json!({"maxSurge": 2})))))?;
        assert!(said.contains("8 replicas and surge pods") && said.contains("2 are taken"), "{said}");
        refusal(scale(stage, "web", 8))?;
        assert_eq!(stage.web().await?["spec"]["replicas"], 6, "nothing was stored");
        scale(stage, "web", 7)?;
        eventually("all of them run", async || {
            let pods = stage.pods().await?;
            Ok((pods.len() == 9 && pods.iter().all(|it| it.is_ready)).then_some(()))
        })
        .await?;

        // Who has more than a limit that came later keeps it, and may be mended or made smaller.
        let lower = format!("{QUOTA}=4");
        stage.fleet.hub.kubectl(&["annotate", "namespace", &stage.namespace, &lower, "--overwrite"])?;
        refusal(scale(stage, "web", 8))?;
        stage.apply(&web(7, "lab/web:2", json!({})))?;
        scale(stage, "web", 6)?;
        stage.kubectl(&["delete", "clonesets.apps.kruise.io", "api", "--timeout=120s"])?;
        stage.rests(6, "lab/web:2", 6).await.map(drop)
    })
}
