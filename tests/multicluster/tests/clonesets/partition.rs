//! How far a release goes.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kruise_core::api::cloneset::CloneSetStatus;
use kube::ResourceExt;
use multicluster::stage::{self, Stage};
use serde_json::{Value, json};

use crate::{GATED, PLAIN, cs_demo, image, image_of, merged, restarts, revision, uids};

fn release(replicas: i32, partition: Value, tag: &str) -> Value {
    let strategy = json!({"type": "InPlaceIfPossible", "partition": partition, "maxUnavailable": "50%"});
    cs_demo(merged(&json!({"replicas": replicas, "updateStrategy": strategy}), &image(tag)))
}

/// Waits until exactly `updated` pods are updated and everything rests.
async fn rests_at(stage: &Stage, replicas: i32, updated: i32) -> Result<CloneSetStatus> {
    let wanted = |it: &CloneSetStatus| {
        it.expected_updated_replicas == updated
            && [it.updated_replicas, it.updated_available_replicas] == [updated; 2]
            && [it.replicas, it.available_replicas] == [replicas; 2]
    };
    stage.status_until("cs-demo", &format!("{updated} of {replicas} are updated"), wanted).await
}

fn with_image(pods: &[Pod], image: &str) -> usize {
    pods.iter().filter(|it| image_of(it) == image).count()
}

#[test]
fn cln_16_a_partition_keeps_so_many_pods_old() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        stage.apply(&release(4, json!(0), "nginx:1.7.9"))?;
        stage.complete("cs-demo", 4).await?;
        let before = stage.pods().await?;
        stage.apply(&release(4, json!(2), "nginx:latest"))?;
        let status = rests_at(stage, 4, 2).await?;
        assert_eq!(
            (status.current_revision.as_str(), status.update_revision.as_str()),
            ("cs-demo-7cb9c88699", "cs-demo-7c4d79f5bc")
        );
        let pods = stage.pods().await?;
        assert_eq!(uids(&pods), uids(&before), "names and pods are kept");
        for pod in &pods {
            let is_new = revision(pod) == "cs-demo-7c4d79f5bc";
            let wanted = if is_new { ("nginx:latest", 1) } else { ("nginx:1.7.9", 0) };
            assert_eq!((image_of(pod), restarts(pod)), wanted, "{}", pod.name_any());
        }
        assert_eq!(with_image(&pods, "nginx:latest"), 2);
        let columns = "custom-columns=DATA:metadata.name,CONTAINERS:spec.containers[*].name,IMAGES:spec.containers[*].image";
        let shown = stage.kubectl(&["get", "pods", "-l", "app=cs", "-o", columns])?;
        assert_eq!(
            shown.lines().filter(|it| it.split_whitespace().skip(1).eq(["nginx", "nginx:latest"])).count(),
            2,
            "{shown}"
        );
        assert!(shown.lines().next().is_some_and(|it| it.starts_with("DATA")), "{shown}");
        assert_eq!(stage.row("cloneset", "cs-demo")?[1..7], ["4", "2", "2", "2", "4", "4"]);

        stage.apply(&release(4, json!(0), "nginx:latest"))?;
        let status = stage.complete("cs-demo", 4).await?;
        assert_eq!(status.current_revision, "cs-demo-7c4d79f5bc");
        Ok(())
    })
}

#[test]
fn cln_17_percents_keep_the_larger_part_old_but_never_all() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        stage.apply(&release(4, json!(0), "nginx:alpine"))?;
        stage.complete("cs-demo", 4).await?;
        stage.apply(&release(4, json!("99%"), "nginx:1.7.9"))?;
        rests_at(stage, 4, 1).await?;
        stage.apply(&release(4, json!("50%"), "nginx:1.7.9"))?;
        rests_at(stage, 4, 2).await?;
        stage.apply(&release(4, json!("30%"), "nginx:1.7.9"))?;
        rests_at(stage, 4, 2).await?;
        stage.apply(&release(4, json!("20%"), "nginx:1.7.9"))?;
        rests_at(stage, 4, 3).await?;
        Ok(())
    })
}

#[test]
fn cln_17_a_release_goes_in_five_batches_and_rests_at_each() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        stage.apply(&release(20, json!(0), "nginx:alpine"))?;
        stage.complete("cs-demo", 20).await?;
        let before = stage.pods().await?;
        for (partition, updated) in [(16, 4), (12, 8), (8, 12), (4, 16), (0, 20)] {
            stage.apply(&release(20, json!(partition), "nginx:1.7.9"))?;
            rests_at(stage, 20, updated).await?;
            assert_eq!(with_image(&stage.pods().await?, "nginx:1.7.9"), usize::try_from(updated)?);
        }
        assert_eq!(uids(&stage.pods().await?), uids(&before));
        Ok(())
    })
}

async fn eight_of_ten_updated(stage: &Stage) -> Result<()> {
    stage.apply(&release(10, json!(0), "nginx:alpine"))?;
    stage.complete("cs-demo", 10).await?;
    stage.apply(&release(10, json!(2), "nginx:1.7.9"))?;
    rests_at(stage, 10, 8).await.map(drop)
}

#[test]
fn cln_18_raising_the_partition_rolls_pods_back_where_the_gate_is_on() -> Result<()> {
    stage::on(GATED, async |stage| {
        eight_of_ten_updated(stage).await?;
        let before = stage.pods().await?;
        stage.apply(&release(10, json!(6), "nginx:1.7.9"))?;
        rests_at(stage, 10, 4).await?;
        let pods = stage.pods().await?;
        assert_eq!((with_image(&pods, "nginx:alpine"), uids(&pods)), (6, uids(&before)));
        assert_eq!(stage.row("cloneset", "cs-demo")?[2], "4");

        stage.apply(&release(10, json!(0), "nginx:1.7.9"))?;
        stage.complete("cs-demo", 10).await?;
        stage.apply(&release(10, json!(6), "nginx:1.7.9"))?;
        let moved = |it: &CloneSetStatus| it.updated_replicas == 10 && it.expected_updated_replicas == 4;
        stage.status_until("cs-demo", "a complete release is not rolled back", moved).await?;
        Ok(())
    })
}

#[test]
fn cln_18_raising_the_partition_moves_nothing_where_the_gate_is_off() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        eight_of_ten_updated(stage).await?;
        stage.apply(&release(10, json!(6), "nginx:1.7.9"))?;
        let rests = |it: &CloneSetStatus| it.expected_updated_replicas == 4 && it.updated_replicas == 8;
        stage.status_until("cs-demo", "nothing moves", rests).await?;
        // A change that shows that another pass has been made.
        stage.kubectl(&["scale", "cloneset", "cs-demo", "--replicas=11"])?;
        stage
            .status_until("cs-demo", "an old pod more", |it| it.replicas == 11 && it.updated_replicas == 8)
            .await?;
        Ok(())
    })
}
