//! Images that are pulled ahead of an update.

use anyhow::Result;
use kruise_core::api::cloneset::CloneSetStatus;
use multicluster::stage::{self, Stage};
use serde_json::{Value, json};

use crate::{GATED, cs_demo, image, merged};

const PARALLELISM: &str = "apps.kruise.io/image-predownload-parallelism";
const MIN_READY: &str = "apps.kruise.io/image-predownload-min-updated-ready-pods";

fn release(annotations: Value, partition: i32, tag: &str) -> Value {
    let strategy = json!({"type": "InPlaceIfPossible", "partition": partition});
    let spec = cs_demo(merged(&json!({"replicas": 5, "updateStrategy": strategy}), &image(tag)));
    merged(&spec, &json!({"metadata": {"annotations": annotations}}))
}

/// The jobs: owner, image and parallelism of each.
fn jobs(stage: &Stage) -> Result<Vec<String>> {
    let line = r#"jsonpath={range .items[*]}{.metadata.ownerReferences[0].kind}/{.metadata.ownerReferences[0].name} {.spec.image} {.spec.parallelism}{"\n"}{end}"#;
    Ok(stage.kubectl(&["get", "imagepulljob", "-o", line])?.lines().map(str::to_owned).collect())
}

async fn updated(stage: &Stage, count: i32) -> Result<()> {
    let wanted = |it: &CloneSetStatus| it.updated_available_replicas == count && it.available_replicas == 5;
    stage.status_until("cs-demo", &format!("{count} are updated"), wanted).await.map(drop)
}

#[test]
fn cln_21_a_release_in_place_pulls_its_image_where_old_pods_run() -> Result<()> {
    stage::on(GATED, async |stage| {
        stage.apply(&release(json!({PARALLELISM: "5"}), 0, "nginx:alpine"))?;
        stage.complete("cs-demo", 5).await?;
        assert_eq!(jobs(stage)?, Vec::<String>::new());
        stage.apply(&release(json!({PARALLELISM: "5"}), 4, "nginx:1.7.9"))?;
        stage.event("cs-demo", "Normal CreatedImagePullJob").await?;
        assert_eq!(jobs(stage)?, ["CloneSet/cs-demo nginx:1.7.9 5"]);
        updated(stage, 1).await?;
        stage.apply(&release(json!({PARALLELISM: "5"}), 0, "nginx:1.7.9"))?;
        stage.complete("cs-demo", 5).await?;
        multicluster::eventually("the job is gone", async || Ok(jobs(stage)?.is_empty().then_some(()))).await
    })
}

#[test]
fn cln_22_nothing_is_pulled_before_enough_pods_have_proved_well() -> Result<()> {
    stage::on(GATED, async |stage| {
        // 40 % of five are two.
        let careful = || json!({MIN_READY: "40%"});
        stage.apply(&release(careful(), 0, "nginx:alpine"))?;
        stage.complete("cs-demo", 5).await?;
        stage.apply(&release(careful(), 4, "nginx:1.7.9"))?;
        updated(stage, 1).await?;
        assert_eq!(jobs(stage)?, Vec::<String>::new());
        stage.apply(&release(careful(), 3, "nginx:1.7.9"))?;
        stage.event("cs-demo", "Normal CreatedImagePullJob").await?;
        assert_eq!(jobs(stage)?, ["CloneSet/cs-demo nginx:1.7.9 1"]);
        Ok(())
    })
}
