//! Volume claims of pods.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Api, ResourceExt, api::ListParams};
use multicluster::stage::{self, Stage};
use serde_json::{Value, json};

use crate::{PLAIN, merged};

const ID: &str = "apps.kruise.io/cloneset-instance-id";

fn sample_data(spec: Value) -> Value {
    let mount = json!({"name": "data-vol", "mountPath": "/usr/share/nginx/html"});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Gi"}}});
    let base = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": {"name": "sample-data", "labels": {"app": "sample"}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "sample"}},
            "template": {
                "metadata": {"labels": {"app": "sample"}},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:alpine", "volumeMounts": [mount]}]},
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data-vol"}, "spec": claim}],
        },
    });
    merged(&base, &json!({"spec": spec}))
}

/// The base manifest with another image.
fn with_image(image: &str, spec: Value) -> Value {
    let mut manifest = sample_data(spec);
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    manifest
}

/// The claims that are not on their way out, by name.
async fn claims(stage: &Stage) -> Result<Vec<PersistentVolumeClaim>> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let mut claims = api.list(&ListParams::default().labels("app=sample")).await?.items;
    claims.retain(|it| it.metadata.deletion_timestamp.is_none());
    claims.sort_by_key(ResourceExt::name_any);
    Ok(claims)
}

/// Names and uids of the claims, as soon as there are exactly `count`.
async fn settled(stage: &Stage, count: usize) -> Result<Vec<(String, Option<String>)>> {
    multicluster::eventually(&format!("{count} claims"), async || {
        let claims = claims(stage).await?;
        let named = claims.iter().map(|it| (it.name_any(), it.uid())).collect();
        Ok((claims.len() == count).then_some(named))
    })
    .await
}

#[test]
fn cln_09_every_pod_has_a_claim_of_its_own_tied_by_an_id() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let nowhere = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "nowhere",
            "resources": {"requests": {"storage": "20Gi"}}});
        let templates =
            json!({"volumeClaimTemplates": [{"metadata": {"name": "data-vol"}, "spec": nowhere}]});
        stage.apply(&sample_data(templates))?;
        stage.status_until("sample-data", "three pods", |it| it.replicas == 3).await?;
        let (pods, claims) = (stage.pods().await?, claims(stage).await?);
        assert_eq!((pods.len(), claims.len()), (3, 3));
        for (pod, claim) in pods.iter().zip(&claims) {
            let id = pod.labels().get(ID).context("a pod has an id")?;
            assert_eq!(pod.name_any(), format!("sample-data-{id}"));
            assert_eq!(claim.name_any(), format!("data-vol-sample-data-{id}"));
            assert_eq!(claim.labels().get(ID), Some(id));
            let owner = &claim.owner_references()[0];
            assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("CloneSet", "sample-data"));
        }
        let shown = stage.kubectl(&["get", "pods,pvc", "-l", "app=sample", "--no-headers"])?;
        assert_eq!(shown.matches(" Pending ").count(), 6, "{shown}");
        stage.events_like("sample-data", "Normal SuccessfulCreate", 3).await?;
        let events = stage.events("sample-data")?;
        assert_eq!(events.len(), 3, "nothing is tried again and again: {events:?}");
        Ok(())
    })
}

#[test]
fn cln_10_a_claim_goes_with_its_pod_or_waits_for_the_next() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        stage.apply(&sample_data(json!({})))?;
        stage.complete("sample-data", 3).await?;
        let three = settled(stage, 3).await?;

        // Deleted by somebody else: the claim stays, and its next pod has the same name.
        let names = stage.pod_names().await?;
        let uid = stage.pods_api().get(&names[0]).await?.uid();
        stage.kubectl(&["delete", "pod", &names[0]])?;
        stage
            .pods_until("the pod is back", |it| it.len() == 3 && it.iter().all(|it| it.uid() != uid))
            .await?;
        stage.complete("sample-data", 3).await?;
        assert_eq!((stage.pod_names().await?, settled(stage, 3).await?), (names.clone(), three.clone()));

        // By label: both are new.
        stage.kubectl(&["label", "pod", &names[0], "apps.kruise.io/specified-delete=true"])?;
        stage
            .pods_until("another pod", |it| it.len() == 3 && it.iter().all(|it| it.name_any() != names[0]))
            .await?;
        stage.complete("sample-data", 3).await?;
        let other = multicluster::eventually("another claim", async || {
            let now = settled(stage, 3).await?;
            Ok((!now.contains(&three[0])).then_some(now))
        })
        .await?;
        assert_eq!(other.iter().filter(|it| three.contains(it)).count(), 2);

        // Scaled in: both go.
        stage.apply(&sample_data(json!({"replicas": 2})))?;
        stage.complete("sample-data", 2).await?;
        let two = settled(stage, 2).await?;

        // Changed in place: the claim stays. Replaced: it does not.
        let in_place = json!({"replicas": 2, "updateStrategy": {"type": "InPlaceIfPossible"}});
        stage.apply(&with_image("nginx:1.7.9", in_place))?;
        stage.complete("sample-data", 2).await?;
        assert_eq!(settled(stage, 2).await?, two);
        let recreate = json!({"replicas": 2, "updateStrategy": {"type": "ReCreate"}});
        stage.apply(&with_image("nginx:latest", recreate))?;
        stage.complete("sample-data", 2).await?;
        multicluster::eventually("all claims are new", async || {
            let now = settled(stage, 2).await?;
            Ok(now.iter().all(|it| !two.contains(it)).then_some(()))
        })
        .await?;

        stage.kubectl(&["delete", "cloneset", "sample-data"])?;
        settled(stage, 0).await?;
        stage.pods_until("no pods", <[_]>::is_empty).await?;
        Ok(())
    })
}

#[test]
fn cln_10_an_object_written_as_v1beta1_gets_fresh_claims() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let mut beta = sample_data(json!({"replicas": 1}));
        beta["apiVersion"] = json!("apps.kruise.io/v1beta1");
        stage.apply(&beta)?;
        stage.complete("sample-data", 1).await?;
        let (names, first) = (stage.pod_names().await?, settled(stage, 1).await?);
        stage.kubectl(&["delete", "pod", &names[0]])?;
        stage.pods_until("another name", |it| it.len() == 1 && it[0].name_any() != names[0]).await?;
        stage.complete("sample-data", 1).await?;
        multicluster::eventually("another claim", async || {
            Ok((settled(stage, 1).await? != first).then_some(()))
        })
        .await?;
        Ok(())
    })
}
