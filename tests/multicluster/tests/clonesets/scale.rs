//! More pods, fewer pods, and which ones go.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use multicluster::stage::{self, Stage};
use serde_json::{Value, json};

use crate::{PLAIN, condition, cs_demo, merged, uids};

#[test]
fn cln_03_pods_are_added_one_after_the_other() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        stage.apply(&cs_demo(json!({"minReadySeconds": 3})))?;
        let before = {
            stage.complete("cs-demo", 3).await?;
            stage.pods().await?
        };
        let brake = json!({"minReadySeconds": 3, "scaleStrategy": {"maxUnavailable": 1}, "replicas": 5});
        stage.apply(&cs_demo(brake))?;
        stage.complete("cs-demo", 5).await?;
        let after = stage.pods().await?;
        let kept: Vec<Pod> =
            after.iter().filter(|it| before.iter().any(|old| old.uid() == it.uid())).cloned().collect();
        assert_eq!(kept.len(), 3, "the existing pods are not touched");
        let mut born: Vec<&Pod> =
            after.iter().filter(|it| !uids(&before).contains(&it.uid().unwrap_or_default())).collect();
        born.sort_by_key(|it| it.creation_timestamp().map(|it| it.0));
        let times: Vec<_> = born.iter().filter_map(|it| it.creation_timestamp()).map(|it| it.0).collect();
        assert!(times[1].duration_since(times[0]).as_secs() >= 3, "{times:?}");

        let events = stage
            .event(
                "cs-demo",
                &format!("Normal SuccessfulCreate succeed to create pod {}", born[1].name_any()),
            )
            .await?;
        let limited =
            "Warning ScaleUpLimited scaleUp is limited because of scaleStrategy.maxUnavailable, limit: ";
        let at = |text: String| {
            events.iter().position(|it| *it == text).with_context(|| format!("{text}: {events:?}"))
        };
        let created =
            |pod: &Pod| at(format!("Normal SuccessfulCreate succeed to create pod {}", pod.name_any()));
        let order =
            [at(format!("{limited}1"))?, created(born[0])?, at(format!("{limited}0"))?, created(born[1])?];
        assert!(order.is_sorted(), "{events:?}");
        Ok(())
    })
}

/// Waits until no pod is named any more.
async fn list_is_empty(stage: &Stage) -> Result<()> {
    multicluster::eventually("the list is empty", async || {
        let named = stage.cloneset("cs-demo").await?.spec.scale_strategy.pods_to_delete;
        Ok(named.is_empty().then_some(()))
    })
    .await
}

#[test]
fn cln_04_a_named_pod_goes_and_no_other_and_the_list_is_emptied() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        stage.apply(&cs_demo(json!({"replicas": 4})))?;
        stage.complete("cs-demo", 4).await?;
        let mut names = stage.pod_names().await?;
        let gone = names.remove(2);
        let named = cs_demo(json!({"replicas": 3, "scaleStrategy": {"podsToDelete": [gone]}}));
        stage.apply(&named)?;
        stage.complete("cs-demo", 3).await?;
        let deleted = format!("Normal SuccessfulDelete succeed to delete pod {gone}");
        stage.event("cs-demo", &deleted).await?;
        assert_eq!(stage.pod_names().await?, names);
        let deletions: Vec<_> =
            stage.events("cs-demo")?.into_iter().filter(|it| it.contains("SuccessfulDelete")).collect();
        assert_eq!(deletions, [deleted]);
        list_is_empty(stage).await?;
        let shown = ["get", "cloneset", "cs-demo", "-o", "jsonpath={.spec.scaleStrategy.podsToDelete}"];
        assert!(matches!(stage.kubectl(&shown)?.as_str(), "" | "[]"));

        // CLN-06: the same file once more.
        let said = stage.refused(&named)?;
        for part in
            ["spec.scaleStrategy.podsToDelete", &format!("there is no pod {gone}"), "pods of this cloneset"]
        {
            assert!(said.contains(part), "{said}");
        }
        Ok(())
    })
}

#[test]
fn cln_06_a_file_that_names_a_deleted_pod_is_refused_and_without_the_list_it_passes() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        stage.apply(&cs_demo(json!({})))?;
        stage.complete("cs-demo", 3).await?;
        let gone = stage.pod_names().await?.remove(0);
        let named =
            |replicas: i32| cs_demo(json!({"replicas": replicas, "scaleStrategy": {"podsToDelete": [gone]}}));
        stage.apply(&named(2))?;
        stage.complete("cs-demo", 2).await?;
        list_is_empty(stage).await?;
        // A real node takes its time to stop it.
        multicluster::eventually("the pod is gone", async || {
            Ok(stage.pods_api().get_opt(&gone).await?.is_none().then_some(()))
        })
        .await?;
        let said = stage.refused(&named(2))?;
        assert!(said.contains(&format!("there is no pod {gone}")), "{said}");
        let said = stage.apply(&cs_demo(json!({"replicas": 2, "minReadySeconds": 1})))?;
        assert!(said.contains("configured"), "{said}");
        Ok(())
    })
}

/// Waits until a pod is gone and another has taken its place.
async fn replaced(stage: &Stage, before: &[String], gone: &str) -> Result<String> {
    stage.complete("cs-demo", i32::try_from(before.len())?).await?;
    let pods = stage
        .pods_until(&format!("{gone} is replaced"), |pods| {
            pods.len() == before.len() && pods.iter().all(|it| it.name_any() != gone)
        })
        .await?;
    let new = pods.iter().map(ResourceExt::name_any).find(|it| !before.contains(it));
    new.context("one pod is new")
}

#[test]
fn cln_05_named_and_labelled_pods_are_replaced_and_deleted_ones_too() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        stage.apply(&cs_demo(json!({})))?;
        stage.complete("cs-demo", 3).await?;

        let before = stage.pod_names().await?;
        stage.apply(&cs_demo(json!({"scaleStrategy": {"podsToDelete": [before[0]]}})))?;
        let new = replaced(stage, &before, &before[0]).await?;
        let told = |what: &str, name: &str| {
            format!("Normal Successful{what} succeed to {} pod {name}", what.to_lowercase())
        };
        let events = stage.event("cs-demo", &told("Create", &new)).await?;
        let at = |text: &str| events.iter().position(|it| it == text);
        assert!(at(&told("Delete", &before[0])).is_some(), "{events:?}");
        assert!(at(&told("Delete", &before[0])) < at(&told("Create", &new)), "{events:?}");

        let before = stage.pod_names().await?;
        stage.kubectl(&["label", "pod", &before[1], "apps.kruise.io/specified-delete=whatever"])?;
        replaced(stage, &before, &before[1]).await?;
        stage.event("cs-demo", &told("Delete", &before[1])).await?;

        let before = stage.pod_names().await?;
        stage.kubectl(&["delete", "pod", &before[2]])?;
        let new = replaced(stage, &before, &before[2]).await?;
        let events = stage.event("cs-demo", &told("Create", &new)).await?;
        assert!(!events.contains(&told("Delete", &before[2])), "somebody else deleted it: {events:?}");
        Ok(())
    })
}

/// The readiness gate by which a test decides whether a pod is ready.
const GATE: &str = "fleet.test/ready";

/// Sets the test's readiness gate of a pod.
async fn set_ready(stage: &Stage, name: &str, ready: bool) -> Result<()> {
    let status = if ready { "True" } else { "False" };
    let patch = json!({"status": {"conditions": [{"type": GATE, "status": status}]}});
    stage.pods_api().patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await?;
    stage.pod_until(name, "is as ready as asked", |it| condition(it, "Ready") == Some(status)).await.map(drop)
}

fn gated(spec: Value) -> Value {
    let gates = json!({"template": {"spec": {"readinessGates": [{"conditionType": GATE}]}}});
    cs_demo(merged(&gates, &spec))
}

/// Five pods of which the first is not available; gives their names.
async fn five_with_one_down(stage: &Stage, unavailable: i32, surge: i32) -> Result<Vec<String>> {
    let strategy = json!({"maxUnavailable": unavailable, "maxSurge": surge});
    stage.apply(&gated(json!({"replicas": 5, "updateStrategy": strategy})))?;
    let pods = stage.pods_until("five pods", |it| it.len() == 5).await?;
    let names: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
    for name in &names[1..] {
        set_ready(stage, name, true).await?;
    }
    stage.status_until("cs-demo", "four are available", |it| it.available_replicas == 4).await?;
    Ok(names)
}

#[test]
fn cln_07_with_room_for_it_the_old_pod_goes_first() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let names = five_with_one_down(stage, 2, 1).await?;
        stage.kubectl(&["label", "pod", &names[1], "apps.kruise.io/specified-delete=true"])?;
        let new = stage.pods_until("pod-b is replaced", |pods| {
            pods.len() == 5 && pods.iter().all(|it| it.name_any() != names[1])
        });
        let new = new.await?.iter().map(ResourceExt::name_any).find(|it| !names.contains(it));
        let created = format!("Normal SuccessfulCreate succeed to create pod {}", new.context("one is new")?);
        let events = stage.event("cs-demo", &created).await?;
        let deleted = format!("Normal SuccessfulDelete succeed to delete pod {}", names[1]);
        let at = |text: &str| events.iter().position(|it| it == text);
        assert!(at(&deleted).is_some() && at(&deleted) < at(&created), "{events:?}");
        Ok(())
    })
}

#[test]
fn cln_07_without_room_the_new_pod_comes_first_and_unavailable_pods_go_at_once() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let names = five_with_one_down(stage, 1, 1).await?;
        stage.kubectl(&["label", "pod", &names[1], "apps.kruise.io/specified-delete=true"])?;
        let six = stage.pods_until("one above the replicas", |it| it.len() == 6).await?;
        let new =
            six.iter().map(ResourceExt::name_any).find(|it| !names.contains(it)).context("one is new")?;
        assert!(six.iter().any(|it| it.name_any() == names[1]), "pod-b waits for its successor");
        set_ready(stage, &new, true).await?;
        let five = stage.pods_until("pod-b is gone", |it| it.len() == 5).await?;
        assert!(five.iter().all(|it| it.name_any() != names[1]));

        stage.kubectl(&["label", "pod", &names[0], "apps.kruise.io/specified-delete=true"])?;
        let next = stage.pods_until("pod-a is replaced", |pods| {
            pods.len() == 5 && pods.iter().all(|it| it.name_any() != names[0])
        });
        let next = next.await?.iter().map(ResourceExt::name_any).find(|it| !names.contains(it) && *it != new);
        let created =
            format!("Normal SuccessfulCreate succeed to create pod {}", next.context("one is new")?);
        let events = stage.event("cs-demo", &created).await?;
        let deleted = |name: &str| format!("Normal SuccessfulDelete succeed to delete pod {name}");
        let at = |text: &str| events.iter().position(|it| it == text);
        let first = format!("Normal SuccessfulCreate succeed to create pod {new}");
        assert!(at(&first) < at(&deleted(&names[1])), "{events:?}");
        assert!(at(&deleted(&names[0])) < at(&created), "{events:?}");
        Ok(())
    })
}

#[test]
fn cln_08_the_cheapest_ready_pod_goes_first_but_an_unready_one_before_it() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        stage.apply(&gated(json!({"replicas": 5})))?;
        let pods = stage.pods_until("five pods", |it| it.len() == 5).await?;
        let names: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
        for (name, cost) in names.iter().zip(["-5", "100", "10", "", "1000"]) {
            if !cost.is_empty() {
                stage.kubectl(&[
                    "annotate",
                    "pod",
                    name,
                    &format!("controller.kubernetes.io/pod-deletion-cost={cost}"),
                ])?;
            }
        }
        for name in &names[..4] {
            set_ready(stage, name, true).await?;
        }
        stage.status_until("cs-demo", "four are available", |it| it.available_replicas == 4).await?;
        for gone in [&names[4], &names[0], &names[3], &names[2]] {
            let left = stage.pod_names().await?.len() - 1;
            stage.kubectl(&["scale", "cloneset", "cs-demo", &format!("--replicas={left}")])?;
            let pods = stage.pods_until("one pod less", |it| it.len() == left).await?;
            assert!(pods.iter().all(|it| it.name_any() != *gone), "{gone} should be gone of {names:?}");
            stage.event("cs-demo", &format!("Normal SuccessfulDelete succeed to delete pod {gone}")).await?;
        }
        assert_eq!(stage.pod_names().await?, [names[1].clone()]);
        Ok(())
    })
}
