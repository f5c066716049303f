//! New CloneSets.

use anyhow::{Context, Result};
use kube::ResourceExt;
use multicluster::stage;
use serde_json::json;

use crate::{GATED, PLAIN, cs_demo, image, merged, revision, uids};

#[test]
fn cln_01_a_new_cloneset_shows_its_pods_in_columns_status_and_events() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        stage.apply(&cs_demo(json!({})))?;
        let status = stage.complete("cs-demo", 3).await?;
        assert_eq!(status.observed_generation, 1);
        assert_eq!((status.available_replicas, status.updated_ready_replicas), (3, 3));
        assert_eq!(status.expected_updated_replicas, 3);
        assert_eq!(status.current_revision, "cs-demo-5c5f449787");

        let header = stage.kubectl(&["get", "cloneset", "cs-demo"])?;
        let header: Vec<&str> = header.lines().next().unwrap_or_default().split_whitespace().collect();
        let columns = ["DESIRED", "UPDATED", "UPDATED_READY", "UPDATED_AVAILABLE", "READY", "TOTAL"];
        assert_eq!(header, [&["NAME"][..], &columns, &["AGE"]].concat());
        assert_eq!(stage.row("clone", "cs-demo")?[..7], ["cs-demo", "3", "3", "3", "3", "3", "3"]);

        let names = stage.pod_names().await?;
        let events = stage.events_like("cs-demo", "Normal SuccessfulCreate", 3).await?;
        assert_eq!(events.len(), 3, "{events:?}");
        let described = stage.kubectl(&["describe", "cloneset", "cs-demo"])?;
        for wanted in ["Collision Count:             0", "Label Selector:              app=cs"] {
            assert!(described.contains(wanted), "{described}");
        }
        for name in &names {
            let told = format!("cloneset-controller  succeed to create pod {name}");
            assert!(described.contains(&told), "{described}");
            let id = name.strip_prefix("cs-demo-").context("a pod is named after its cloneset")?;
            assert_eq!(id.len(), 5);
        }
        for pod in stage.pods().await? {
            let owner = &pod.owner_references()[0];
            assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("CloneSet", "cs-demo"));
            assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
        }
        assert_eq!(stage.kubectl(&["get", "replicasets", "-o", "name"])?, "");
        Ok(())
    })
}

#[test]
fn cln_02_revisions_have_the_names_that_the_documents_print() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let strategy = json!({"replicas": 1, "updateStrategy": {"type": "InPlaceIfPossible"}});
        for (tag, name) in [
            ("nginx:alpine", "cs-demo-5c5f449787"),
            ("nginx:1.7.9", "cs-demo-7cb9c88699"),
            ("nginx:latest", "cs-demo-7c4d79f5bc"),
            ("nginx", "cs-demo-6599fc6cdd"),
        ] {
            stage.apply(&cs_demo(merged(&strategy, &image(tag))))?;
            let status = stage.complete("cs-demo", 1).await?;
            assert_eq!(status.update_revision, name);
            let shown = stage.kubectl(&["get", "pods", "-L", "controller-revision-hash", "--no-headers"])?;
            assert_eq!(shown.split_whitespace().last(), Some(name), "{shown}");
        }
        Ok(())
    })
}

#[test]
fn cln_19_a_long_name_gets_no_pods_and_an_event_that_says_why() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let long = "n".repeat(60);
        let said = stage.apply(&merged(&cs_demo(json!({})), &json!({"metadata": {"name": long}})))?;
        assert!(said.contains("Warning: metadata.name") && said.contains("CloneSetShortHash"), "{said}");
        assert!(said.contains("created"), "{said}");
        let events = stage.event(&long, "Warning FailedCreate failed to create pod").await?;
        assert!(events[0].contains("must be no more than 63"), "{events:?}");
        assert_eq!(stage.pod_names().await?, Vec::<String>::new());

        let short = merged(&cs_demo(json!({})), &json!({"metadata": {"name": "demo-cloneset"}}));
        stage.apply(&short)?;
        let status = stage.complete("demo-cloneset", 3).await?;
        let pods = stage.pods().await?;
        assert!(pods.iter().all(|it| revision(it) == status.update_revision));
        assert!(status.update_revision.starts_with("demo-cloneset-"));
        Ok(())
    })
}

#[test]
fn cln_19_with_the_gate_the_label_is_short_and_long_names_work() -> Result<()> {
    stage::on(GATED, async |stage| {
        let long = "n".repeat(60);
        let said = stage.apply(&merged(&cs_demo(json!({})), &json!({"metadata": {"name": long}})))?;
        assert!(!said.contains("Warning"), "{said}");
        let status = stage.complete(&long, 3).await?;
        let pods = stage.pods().await?;
        let hash = status.update_revision.rsplit('-').next().unwrap_or_default();
        assert!((8..=10).contains(&hash.len()), "{hash}");
        assert!(pods.iter().all(|it| revision(it) == hash));

        // As made by an agent without the gate: recognised, and left alone.
        let before = uids(&pods);
        stage.apply(&cs_demo(json!({"replicas": 1, "selector": {"matchLabels": {"app": "other"}},
            "template": {"metadata": {"labels": {"app": "other"}}}})))?;
        stage.complete("cs-demo", 1).await?;
        let all = stage.pods().await?;
        let own = all.iter().find(|it| it.name_any().starts_with("cs-demo-")).context("a pod of cs-demo")?;
        let full = format!("cs-demo-{}", revision(own));
        stage
            .edit_pod(&own.name_any(), json!({"metadata": {"labels": {"controller-revision-hash": full}}}))
            .await?;
        stage.kubectl(&["scale", "cloneset", "cs-demo", "--replicas=2"])?;
        stage.complete("cs-demo", 2).await?;
        let kept = stage.pods_api().get(&own.name_any()).await?;
        assert_eq!((kept.uid(), revision(&kept)), (own.uid(), full.as_str()));
        let long_pods: Vec<_> =
            stage.pods().await?.into_iter().filter(|it| it.name_any().starts_with("nnn")).collect();
        assert_eq!(uids(&long_pods), before);
        Ok(())
    })
}

#[test]
fn the_scale_subresource_says_how_many_pods_there_are_and_takes_another_number() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        stage.apply(&cs_demo(json!({"replicas": 1})))?;
        stage.complete("cs-demo", 1).await?;
        stage.kubectl(&["scale", "cloneset", "cs-demo", "--replicas=4"])?;
        stage.complete("cs-demo", 4).await?;
        let scale = stage.kubectl(&[
            "get",
            "cloneset",
            "cs-demo",
            "--subresource=scale",
            "-o",
            "jsonpath={.spec.replicas} {.status.replicas} {.status.selector}",
        ])?;
        assert_eq!(scale, "4 4 app=cs");
        stage.kubectl(&["scale", "cloneset", "cs-demo", "--replicas=0"])?;
        stage.complete("cs-demo", 0).await?;
        Ok(())
    })
}
