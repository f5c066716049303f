//! Work of others around updates and deletions of pods.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kruise_core::api::cloneset::CloneSetStatus;
use kube::ResourceExt;
use multicluster::stage::{self, Stage};
use serde_json::{Value, json};

use crate::{PLAIN, condition, cs_demo, image, image_of, merged, restarts, state};

const BLOCKER: &str = "example.io/unready-blocker";
const LABEL: &str = "example.io/block-unready";

/// A CloneSet whose pods carry a finalizer that its hooks know.
fn with_finalizer(lifecycle: Value, spec: Value) -> Value {
    let base = json!({
        "lifecycle": lifecycle,
        "template": {"metadata": {"finalizers": [BLOCKER]}},
        "updateStrategy": {"type": "InPlaceIfPossible"},
    });
    cs_demo(merged(&base, &spec))
}

fn timestamp(pod: &Pod) -> Option<String> {
    pod.annotations().get("lifecycle.apps.kruise.io/timestamp").cloned()
}

async fn in_state(stage: &Stage, name: &str, wanted: &str) -> Result<Pod> {
    stage.pod_until(name, &format!("is {wanted}"), |it| state(it) == wanted).await
}

#[test]
fn cln_23_a_hook_holds_a_pod_back_before_and_after_its_update() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let hook = json!({"inPlaceUpdate": {"finalizersHandler": [BLOCKER]}});
        let spec = |tag: &str| with_finalizer(hook.clone(), merged(&json!({"replicas": 2}), &image(tag)));
        stage.apply(&spec("nginx:alpine"))?;
        stage.complete("cs-demo", 2).await?;
        let names = stage.pod_names().await?;
        for name in &names {
            in_state(stage, name, "Normal").await?;
        }
        stage.apply(&spec("nginx:1.7.9"))?;
        let pods = stage
            .pods_until("a pod prepares its update", |it| it.iter().any(|it| state(it) == "PreparingUpdate"))
            .await?;
        let held: Vec<&Pod> = pods.iter().filter(|it| state(it) == "PreparingUpdate").collect();
        assert_eq!(held.len(), 1, "20 % of two is one");
        let name = held[0].name_any();
        assert_eq!((image_of(held[0]), restarts(held[0])), ("nginx:alpine", 0));
        let shown =
            stage.kubectl(&["get", "pod", &name, "-L", "lifecycle.apps.kruise.io/state", "--no-headers"])?;
        assert!(shown.trim_end().ends_with("PreparingUpdate"), "{shown}");

        stage.edit_pod(&name, json!({"metadata": {"finalizers": null}})).await?;
        let updated = in_state(stage, &name, "Updated").await?;
        assert_eq!((image_of(&updated), restarts(&updated)), ("nginx:1.7.9", 1));
        let counted = |it: &CloneSetStatus| it.updated_replicas == 1 && it.available_replicas == 1;
        stage.status_until("cs-demo", "an updated pod is not available yet", counted).await?;
        let other = names.iter().find(|it| **it != name).cloned().unwrap_or_default();
        assert_eq!(state(&stage.pods_api().get(&other).await?), "Normal", "its turn has not come");

        // Without its handler the other one will not be held back before, but waits for it after.
        let other_now = stage.edit_pod(&other, json!({"metadata": {"finalizers": null}})).await?;
        assert_eq!(image_of(&other_now), "nginx:alpine");
        stage.edit_pod(&name, json!({"metadata": {"finalizers": [BLOCKER]}})).await?;
        let done = in_state(stage, &name, "Normal").await?;
        assert!(
            timestamp(held[0]).is_some() && timestamp(&done) >= timestamp(held[0]),
            "{:?}",
            timestamp(&done)
        );
        in_state(stage, &other, "Updated").await?;
        stage.edit_pod(&other, json!({"metadata": {"finalizers": [BLOCKER]}})).await?;
        stage.complete("cs-demo", 2).await?;
        Ok(())
    })
}

/// A CloneSet whose pods carry a label that holds their deletion back.
fn with_label(spec: Value) -> Value {
    let base = json!({
        "lifecycle": {"preDelete": {"labelsHandler": {LABEL: "true"}}},
        "template": {"metadata": {"labels": {LABEL: "true"}}},
    });
    cs_demo(merged(&base, &spec))
}

/// Waits for the one pod that prepares its deletion.
async fn preparing(stage: &Stage) -> Result<String> {
    let is_preparing = |it: &&Pod| state(it) == "PreparingDelete";
    let pods =
        stage.pods_until("a pod prepares its deletion", |it| it.iter().any(|it| is_preparing(&it))).await?;
    let held: Vec<String> = pods.iter().filter(is_preparing).map(ResourceExt::name_any).collect();
    assert_eq!(held.len(), 1, "{held:?}");
    Ok(held[0].clone())
}

#[test]
fn cln_24_a_hook_holds_a_deletion_back_and_the_pod_is_not_updated_meanwhile() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let strategy = json!({"type": "InPlaceIfPossible", "maxUnavailable": 2});
        let spec = |replicas: i32, tag: &str| {
            with_label(merged(&json!({"replicas": replicas, "updateStrategy": strategy}), &image(tag)))
        };
        stage.apply(&spec(4, "nginx:alpine"))?;
        stage.complete("cs-demo", 4).await?;
        stage.apply(&spec(3, "nginx:alpine"))?;
        let held = preparing(stage).await?;
        stage.apply(&spec(3, "nginx:1.7.9"))?;
        stage
            .pods_until("all others are updated", |pods| {
                pods.iter().all(|it| (image_of(it) == "nginx:1.7.9") == (it.name_any() != held))
            })
            .await?;
        assert_eq!(state(&stage.pods_api().get(&held).await?), "PreparingDelete");
        stage.kubectl(&["label", "pod", &held, &format!("{LABEL}-")])?;
        stage.event("cs-demo", &format!("Normal SuccessfulDelete succeed to delete pod {held}")).await?;
        stage.complete("cs-demo", 3).await?;

        // Somebody else's deletion is not held back; one by label is.
        let names = stage.pod_names().await?;
        stage.kubectl(&["delete", "pod", &names[0]])?;
        stage.complete("cs-demo", 3).await?;
        stage.kubectl(&["label", "pod", &names[1], "apps.kruise.io/specified-delete=true"])?;
        let held = preparing(stage).await?;
        assert_eq!(held, names[1]);
        // A pod that does not match the hook goes at once.
        stage.kubectl(&["label", "--overwrite", "pod", &held, &format!("{LABEL}=false")])?;
        stage
            .pods_until("it is replaced", |it| it.len() == 3 && it.iter().all(|it| it.name_any() != held))
            .await?;
        Ok(())
    })
}

#[test]
fn cln_24_a_hook_holds_the_deletions_of_a_recreate_update_back() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let spec = |tag: &str| with_label(merged(&json!({"replicas": 1}), &image(tag)));
        stage.apply(&spec("nginx:alpine"))?;
        stage.complete("cs-demo", 1).await?;
        stage.apply(&spec("nginx:1.7.9"))?;
        let held = preparing(stage).await?;
        let pod = stage.pods_api().get(&held).await?;
        assert!(pod.labels().contains_key("apps.kruise.io/specified-delete"));
        assert_eq!(image_of(&pod), "nginx:alpine");
        stage.kubectl(&["label", "pod", &held, &format!("{LABEL}-")])?;
        stage.complete("cs-demo", 1).await?;
        assert_ne!(stage.pod_names().await?, [held]);
        Ok(())
    })
}

fn kruise_ready(pod: &Pod) -> (String, String) {
    let mut conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let found = conditions.rfind(|it| it.type_ == "KruisePodReady");
    found.map(|it| (it.status.clone(), it.message.clone().unwrap_or_default())).unwrap_or_default()
}

/// Addresses that a Service sends traffic to.
fn served(stage: &Stage) -> Result<Vec<String>> {
    let path =
        r#"jsonpath={range .items[*].endpoints[?(@.conditions.ready==true)]}{.targetRef.name}{"\n"}{end}"#;
    let mut names: Vec<String> =
        stage.kubectl(&["get", "endpointslices", "-o", path])?.lines().map(str::to_owned).collect();
    names.sort_unstable();
    Ok(names)
}

#[test]
fn cln_25_a_pod_gets_no_traffic_any_more_before_its_container_stops() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        stage.apply(&json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "cs"}, "ports": [{"port": 80}]},
        }))?;
        let hook = json!({"markPodNotReady": true, "finalizersHandler": [BLOCKER]});
        let hooks = json!({"preDelete": hook, "inPlaceUpdate": hook});
        let spec = |replicas: i32, tag: &str| {
            with_finalizer(hooks.clone(), merged(&json!({"replicas": replicas}), &image(tag)))
        };
        stage.apply(&spec(2, "nginx:alpine"))?;
        stage.complete("cs-demo", 2).await?;
        let serves = async |what: &str, wanted: &[String]| {
            multicluster::eventually(what, async || Ok((served(stage)? == wanted).then_some(()))).await
        };
        let names = stage.pod_names().await?;
        serves("both pods get traffic", &names).await?;

        stage.apply(&spec(2, "nginx:1.7.9"))?;
        let pods = stage
            .pods_until("one prepares its update", |it| it.iter().any(|it| state(it) == "PreparingUpdate"));
        let pods = pods.await?;
        let (held, other): (Vec<&Pod>, Vec<&Pod>) =
            pods.iter().partition(|it| state(it) == "PreparingUpdate");
        let (name, other) = (held[0].name_any(), other[0].name_any());
        let closed =
            |key: &str| ("False".to_owned(), format!(r#"[{{"userAgent":"Lifecycle","key":"{key}"}}]"#));
        let pod =
            stage.pod_until(&name, "is not ready", |it| condition(it, "Ready") == Some("False")).await?;
        assert_eq!(
            (kruise_ready(&pod), image_of(&pod), restarts(&pod)),
            (closed("preUpdateHook"), "nginx:alpine", 0)
        );
        serves("the held pod gets no traffic", std::slice::from_ref(&other)).await?;
        stage.edit_pod(&name, json!({"metadata": {"finalizers": null}})).await?;
        let pod = in_state(stage, &name, "Updated").await?;
        assert_eq!((kruise_ready(&pod).0.as_str(), image_of(&pod)), ("True", "nginx:1.7.9"));
        stage.edit_pod(&name, json!({"metadata": {"finalizers": [BLOCKER]}})).await?;

        in_state(stage, &other, "PreparingUpdate").await?;
        stage.edit_pod(&other, json!({"metadata": {"finalizers": null}})).await?;
        in_state(stage, &other, "Updated").await?;
        stage.edit_pod(&other, json!({"metadata": {"finalizers": [BLOCKER]}})).await?;
        stage.complete("cs-demo", 2).await?;
        serves("both pods get traffic again", &names).await?;

        stage.apply(&spec(1, "nginx:1.7.9"))?;
        let name = preparing(stage).await?;
        let pod =
            stage.pod_until(&name, "is not ready", |it| condition(it, "Ready") == Some("False")).await?;
        assert_eq!(kruise_ready(&pod), closed("preDeleteHook"));
        let left: Vec<String> = names.iter().filter(|it| **it != name).cloned().collect();
        serves("the pod about to go gets no traffic", &left).await?;
        assert_eq!(pod.status.and_then(|it| it.phase).as_deref(), Some("Running"));
        stage.edit_pod(&name, json!({"metadata": {"finalizers": null}})).await?;
        stage.complete("cs-demo", 1).await?;
        Ok(())
    })
}

#[test]
fn cln_26_a_deletion_is_taken_back_while_a_hook_holds_it() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let spec = |replicas: i32| with_label(json!({"replicas": replicas}));
        stage.apply(&spec(4))?;
        stage.complete("cs-demo", 4).await?;
        let names = stage.pod_names().await?;
        stage.apply(&spec(3))?;
        let held = preparing(stage).await?;
        stage.apply(&spec(4))?;
        in_state(stage, &held, "Normal").await?;
        stage.complete("cs-demo", 4).await?;
        assert_eq!(stage.pod_names().await?, names, "no new pod is made");

        let specified = "apps.kruise.io/specified-delete";
        stage.kubectl(&["label", "pod", &names[0], &format!("{specified}=true")])?;
        assert_eq!(preparing(stage).await?, names[0]);
        stage.kubectl(&["label", "pod", &names[0], &format!("{specified}-")])?;
        in_state(stage, &names[0], "Normal").await?;
        stage.complete("cs-demo", 4).await?;
        assert_eq!(stage.pod_names().await?, names);
        Ok(())
    })
}

#[test]
fn cln_26_a_deletion_that_has_stopped_traffic_is_final() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let hook = json!({"lifecycle": {"preDelete": {"markPodNotReady": true}}});
        let spec = |replicas: i32| with_label(merged(&json!({"replicas": replicas}), &hook));
        stage.apply(&spec(2))?;
        stage.complete("cs-demo", 2).await?;
        stage.apply(&spec(1))?;
        let held = preparing(stage).await?;
        stage.apply(&spec(2))?;
        stage.status_until("cs-demo", "the change was seen", |_| true).await?;
        assert_eq!(state(&stage.pods_api().get(&held).await?), "PreparingDelete");
        stage.kubectl(&["label", "pod", &held, &format!("{LABEL}-")])?;
        stage
            .pods_until("it is replaced", |it| it.len() == 2 && it.iter().all(|it| it.name_any() != held))
            .await?;
        stage.complete("cs-demo", 2).await?;
        Ok(())
    })
}
