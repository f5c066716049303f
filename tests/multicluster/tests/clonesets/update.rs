//! Releases: replaced pods, changed pods, and in which order.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use multicluster::stage;
use serde_json::{Value, json};

use crate::{PLAIN, condition, container, cs_demo, image, image_of, merged, restarts, revision, uids};

/// How many pods are ready and not on their way out.
fn ready(pods: &[Pod]) -> usize {
    pods.iter().filter(|it| condition(it, "Ready") == Some("True")).count()
}

#[test]
fn cln_11_by_default_pods_are_replaced_a_few_at_a_time() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        stage.apply(&cs_demo(json!({"replicas": 5})))?;
        stage.complete("cs-demo", 5).await?;
        let before = stage.pods().await?;
        stage.apply(&cs_demo(merged(&json!({"replicas": 5}), &image("nginx:1.7.9"))))?;
        let fewest = std::sync::atomic::AtomicUsize::new(5);
        stage
            .pods_until("all pods are new", |pods| {
                // 20 % of 5 may be missing.
                fewest.fetch_min(ready(pods), std::sync::atomic::Ordering::Relaxed);
                pods.len() == 5 && pods.iter().all(|it| image_of(it) == "nginx:1.7.9")
            })
            .await?;
        assert!(fewest.into_inner() >= 4);
        let status = stage.complete("cs-demo", 5).await?;
        assert_eq!(status.update_revision, "cs-demo-7cb9c88699");
        let after = stage.pods().await?;
        assert!(uids(&after).iter().all(|it| !uids(&before).contains(it)));
        let name = before[0].name_any();
        let told = format!(
            "Normal SuccessfulUpdatePodReCreate successfully patch pod {name} specified-delete for update"
        );
        stage.event("cs-demo", &told).await?;
        stage.event("cs-demo", &format!("Normal SuccessfulDelete succeed to delete pod {name}")).await?;
        Ok(())
    })
}

#[test]
fn cln_12_pods_are_changed_in_place_one_at_a_time_the_youngest_first() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let spec = |image: &str| {
            let second = json!({"name": "side", "image": "lab/sleep:1"});
            cs_demo(json!({
                "replicas": 3, "minReadySeconds": 2, "updateStrategy": {"type": "InPlaceIfPossible"},
                "template": {"spec": {"containers": [container(image), second]}},
            }))
        };
        stage.apply(&merged(&spec("nginx:alpine"), &json!({"spec": {"replicas": 2}})))?;
        stage.complete("cs-demo", 2).await?;
        let first_two = stage.pod_names().await?;
        stage.apply(&spec("nginx:alpine"))?;
        stage.complete("cs-demo", 3).await?;
        let before = stage.pods().await?;
        stage.apply(&spec("nginx:1.7.9"))?;
        stage.complete("cs-demo", 3).await?;

        let after = stage.pods().await?;
        assert_eq!(uids(&after), uids(&before), "no pod was replaced");
        for (old, new) in before.iter().zip(&after) {
            assert_eq!((image_of(new), restarts(new)), ("nginx:1.7.9", 1));
            assert_eq!(condition(new, "InPlaceUpdateReady"), Some("True"));
            assert!(new.annotations().contains_key("apps.kruise.io/inplace-update-state"));
            let (old, new) = (old.status.clone().unwrap_or_default(), new.status.clone().unwrap_or_default());
            assert_eq!(old.pod_ip, new.pod_ip);
            let side = |it: &k8s_openapi::api::core::v1::PodStatus| {
                it.container_statuses
                    .iter()
                    .flatten()
                    .find(|it| it.name == "side")
                    .and_then(|it| it.container_id.clone())
            };
            assert_eq!(side(&old), side(&new), "the other container keeps running");
        }
        let status = stage.cloneset("cs-demo").await?.status.unwrap_or_default();
        let events = stage.events_like("cs-demo", UPDATED, 3).await?;
        assert_eq!(events.len(), 3, "{events:?}");
        let youngest = before
            .iter()
            .map(ResourceExt::name_any)
            .find(|it| !first_two.contains(it))
            .context("a third pod")?;
        let told = format!(
            "Normal SuccessfulUpdatePodInPlace successfully update pod {youngest} in-place(revision {})",
            status.update_revision
        );
        assert_eq!(events[0], told);
        // 20 % of 3 is one pod, which counts when it has been ready for two seconds.
        let mut times: Vec<_> = after.iter().filter_map(ready_since).collect();
        times.sort_unstable();
        for pair in times.windows(2) {
            assert!(pair[1].duration_since(pair[0]).as_secs() >= 2, "{times:?}");
        }
        Ok(())
    })
}

fn ready_since(pod: &Pod) -> Option<jiff::Timestamp> {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.filter(|it| it.type_ == "Ready").find_map(|it| it.last_transition_time.as_ref().map(|it| it.0))
}

/// The base manifest, updated in place, with labels in its template.
fn labelled(labels: Value, more: Value) -> Value {
    let spec = json!({"updateStrategy": {"type": "InPlaceIfPossible"}, "template": {"metadata": {"labels": labels}}});
    cs_demo(merged(&spec, &more))
}

#[test]
fn cln_13_a_changed_label_reaches_live_pods_without_a_restart() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        stage.apply(&labelled(json!({"tier": "a"}), json!({})))?;
        stage.complete("cs-demo", 3).await?;
        let before = stage.pods().await?;
        // Not of the template, so not ours to touch.
        stage.edit_pod(&before[0].name_any(), json!({"metadata": {"labels": {"mine": "yes"}}})).await?;
        stage.apply(&labelled(json!({"tier": "b"}), json!({})))?;
        let status = stage.complete("cs-demo", 3).await?;
        let after = stage.pods().await?;
        assert_eq!(uids(&after), uids(&before));
        for pod in &after {
            assert_eq!(pod.labels().get("tier").map(String::as_str), Some("b"));
            assert_eq!((restarts(pod), revision(pod)), (0, status.update_revision.as_str()));
        }
        assert_eq!(after[0].labels().get("mine").map(String::as_str), Some("yes"));
        stage.event("cs-demo", "Normal SuccessfulUpdatePodInPlace").await?;
        Ok(())
    })
}

#[test]
fn cln_14_what_cannot_be_done_in_place_replaces_the_pods() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let spec = |image: &str, more: Value| {
            let container = merged(&container(image), &more);
            labelled(json!({}), json!({"replicas": 1, "template": {"spec": {"containers": [container]}}}))
        };
        stage.apply(&spec("nginx:alpine", json!({})))?;
        stage.complete("cs-demo", 1).await?;
        let env = json!({"env": [{"name": "A", "value": "1"}]});
        let resources = merged(&env, &json!({"resources": {"requests": {"cpu": "10m"}}}));
        let both = merged(&resources, &json!({"env": [{"name": "A", "value": "2"}]}));
        for (image, change) in [("nginx:alpine", env), ("nginx:alpine", resources), ("nginx:latest", both)] {
            let before = stage.pods().await?;
            stage.apply(&spec(image, change))?;
            stage.complete("cs-demo", 1).await?;
            let after = stage.pods().await?;
            assert_ne!(uids(&after), uids(&before));
        }
        let events = stage.event("cs-demo", "Normal SuccessfulUpdatePodReCreate").await?;
        assert!(!events.iter().any(|it| it.contains("InPlace")), "{events:?}");
        Ok(())
    })
}

#[test]
fn cln_15_in_place_only_refuses_what_it_cannot_do() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let only = json!({"replicas": 1, "updateStrategy": {"type": "InPlaceOnly"}});
        stage.apply(&cs_demo(only.clone()))?;
        stage.complete("cs-demo", 1).await?;
        let before = stage.pods().await?;
        let env = merged(&container("nginx:alpine"), &json!({"env": [{"name": "A", "value": "1"}]}));
        let said =
            stage.refused(&cs_demo(merged(&only, &json!({"template": {"spec": {"containers": [env]}}}))))?;
        assert!(
            said.contains("spec: Forbidden: with InPlaceOnly only images of containers may change"),
            "{said}"
        );
        assert!(said.contains("InPlaceIfPossible or ReCreate"), "{said}");
        let surge = merged(&only, &json!({"updateStrategy": {"maxSurge": 1}}));
        let said = stage.refused(&cs_demo(surge))?;
        assert!(
            said.contains("spec.updateStrategy.maxSurge") && said.contains("must be 0 with InPlaceOnly"),
            "{said}"
        );
        let beta = json!({
            "apiVersion": "apps.kruise.io/v1beta1",
            "spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceOnly", "maxSurge": 1}}},
        });
        let said = stage.refused(&merged(&cs_demo(json!({"replicas": 1})), &beta))?;
        assert!(said.contains("spec.updateStrategy.rollingUpdate.maxSurge"), "{said}");

        stage.apply(&cs_demo(merged(&only, &image("nginx:1.7.9"))))?;
        stage.complete("cs-demo", 1).await?;
        let after = stage.pods().await?;
        assert_eq!((uids(&after), image_of(&after[0])), (uids(&before), "nginx:1.7.9"));
        Ok(())
    })
}

/// How an event about an updated pod begins; its name follows.
const UPDATED: &str = "Normal SuccessfulUpdatePodInPlace successfully update pod ";

/// Names of pods in the order in which they were updated, by the events about them.
fn updated(events: &[String]) -> Vec<&str> {
    let told = events.iter().filter_map(|it| it.strip_prefix(UPDATED));
    told.filter_map(|it| it.split(' ').next()).collect()
}

#[test]
fn cln_20_pods_of_more_weight_are_updated_first() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let term = json!({"weight": 50, "matchSelector": {"matchLabels": {"zone": "a"}}});
        let strategy = json!({"type": "InPlaceIfPossible", "priorityStrategy": {"weightPriority": [term]}});
        let spec = json!({"replicas": 4, "updateStrategy": strategy});
        stage.apply(&cs_demo(spec.clone()))?;
        stage.complete("cs-demo", 4).await?;
        let names = stage.pod_names().await?;
        for name in &names[2..] {
            stage.kubectl(&["label", "pod", name, "zone=a"])?;
        }
        stage.apply(&cs_demo(merged(&spec, &image("nginx:1.7.9"))))?;
        stage.complete("cs-demo", 4).await?;
        let events = stage.events_like("cs-demo", UPDATED, 4).await?;
        let mut first = updated(&events);
        assert_eq!(first.len(), 4, "{events:?}");
        first.truncate(2);
        first.sort_unstable();
        assert_eq!(first, names[2..], "{events:?}");

        let order = json!({"replicas": 4, "updateStrategy": {"type": "InPlaceIfPossible",
            "priorityStrategy": {"orderPriority": [{"orderedKey": "order"}]}}});
        for (name, order) in names.iter().zip(["s-2", "s-10", "s-1", "s-3"]) {
            stage.kubectl(&["label", "pod", name, &format!("order={order}")])?;
        }
        stage.apply(&cs_demo(merged(&order, &image("nginx:latest"))))?;
        stage.complete("cs-demo", 4).await?;
        let events = stage.events_like("cs-demo", UPDATED, 8).await?;
        assert_eq!(updated(&events)[4..], [&names[1], &names[3], &names[0], &names[2]], "{events:?}");
        Ok(())
    })
}

#[test]
fn cln_20_scattered_pods_are_neither_all_first_nor_all_last() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let strategy =
            json!({"type": "InPlaceIfPossible", "scatterStrategy": [{"key": "foo", "value": "bar"}]});
        let spec = json!({"replicas": 6, "updateStrategy": strategy});
        stage.apply(&cs_demo(spec.clone()))?;
        stage.complete("cs-demo", 6).await?;
        let names = stage.pod_names().await?;
        for name in &names[..3] {
            stage.kubectl(&["label", "pod", name, "foo=bar"])?;
        }
        stage.apply(&cs_demo(merged(&spec, &image("nginx:1.7.9"))))?;
        stage.complete("cs-demo", 6).await?;
        let events = stage.events_like("cs-demo", UPDATED, 6).await?;
        let order: Vec<bool> =
            updated(&events).iter().map(|it| names[..3].iter().any(|name| name == it)).collect();
        let (early, late) = order.split_at(3);
        let marked = |half: &[bool]| half.iter().filter(|it| **it).count();
        assert_eq!(order.len(), 6, "{events:?}");
        assert!(marked(early) > 0 && marked(late) > 0, "{order:?}");
        Ok(())
    })
}

#[test]
fn cln_20_a_paused_release_updates_nothing_but_pods_still_come_and_go() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let spec = |replicas: i32, paused: bool, tag: &str| {
            let strategy =
                json!({"type": "InPlaceIfPossible", "partition": 0, "paused": paused, "maxSurge": 1});
            cs_demo(merged(&json!({"replicas": replicas, "updateStrategy": strategy}), &image(tag)))
        };
        stage.apply(&spec(3, false, "nginx:alpine"))?;
        stage.complete("cs-demo", 3).await?;
        let old = stage.pods().await?;
        stage.apply(&spec(3, true, "nginx:1.7.9"))?;
        stage
            .status_until("cs-demo", "nothing is updated", |it| it.updated_replicas == 0 && it.replicas == 3)
            .await?;
        stage.kubectl(&["delete", "pod", &old[0].name_any()])?;
        stage
            .pods_until("the lost pod is replaced", |pods| {
                pods.len() == 3 && pods.iter().all(|it| it.uid() != old[0].uid())
            })
            .await?;
        stage.apply(&spec(4, true, "nginx:1.7.9"))?;
        stage
            .status_until("cs-demo", "four pods are there", |it| it.replicas == 4 && it.ready_replicas == 4)
            .await?;
        let paused = stage.pods().await?;
        let untouched = paused.iter().filter(|it| {
            image_of(it) == "nginx:alpine" && uids(&old).contains(&it.uid().unwrap_or_default())
        });
        assert_eq!(untouched.count(), 2, "the pods that were there are as they were");
        stage.apply(&spec(4, false, "nginx:1.7.9"))?;
        stage.complete("cs-demo", 4).await?;
        assert!(stage.pods().await?.iter().all(|it| image_of(it) == "nginx:1.7.9"));
        Ok(())
    })
}
