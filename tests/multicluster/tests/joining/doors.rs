//! The hub's admission beyond bad input: identities, deletions, quotas, and both versions of a kind.

use anyhow::{Context, Result};
use multicluster::eventually;
use serde_json::{Value, json};

use crate::kit::Hub;

fn cloneset(namespace: &str, version: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": format!("apps.kruise.io/{version}"), "kind": "CloneSet",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "lab/web:1"}]},
            },
        },
    })
}

fn member(name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "MemberCluster", "metadata": {"name": name},
        "spec": {"clusterUid": uid, "publicKey": "none", "accepted": false},
    })
}

#[track_caller]
fn assert_denied(answer: Result<(bool, String)>, words: &str) {
    let (is_let_in, said) = answer.unwrap();
    assert!(!is_let_in && said.contains(words), "let in: {is_let_in}; {said}");
}

/// A CloneSet is taken in its older version, given back in both, and judged by the rules of a member and of the fleet (G-07).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_pass_the_rules_of_a_member_and_of_the_fleet_in_both_versions() -> Result<()> {
    let hub = Hub::start(&[]).await?;
    let namespace = hub.cluster.namespace("doors").await?;
    let mut old = cloneset(&namespace, "v1alpha1", 3);
    old["spec"]["updateStrategy"] = json!({"partition": "50%"});
    eventually("the hub converts", async || Ok(Some(hub.create(&old)?))).await?;
    let stored = hub.get(&["clonesets.v1beta1.apps.kruise.io", "web", "--namespace", &namespace])?;
    let rolling = &stored["spec"]["updateStrategy"]["rollingUpdate"];
    assert_eq!((&rolling["partition"], &rolling["podUpdatePolicy"]), (&json!("50%"), &json!("ReCreate")));

    // A rule of members, one of the API server's own, and one of the fleet, told in the fields of the older version too.
    let mut mismatch = cloneset(&namespace, "v1beta1", 1);
    mismatch["spec"]["selector"] = json!({"matchLabels": {"app": "other"}});
    assert_denied(hub.judge(&mismatch), "spec.template.metadata.labels");
    let mut nameless = cloneset(&namespace, "v1beta1", 1);
    nameless["metadata"]["name"] = json!("other");
    nameless["spec"]["template"]["spec"]["containers"][0]["image"] = json!("");
    assert_denied(hub.judge(&nameless), "image");
    let mut stuck = cloneset(&namespace, "v1alpha1", 3);
    stuck["metadata"]["name"] = json!("other");
    stuck["spec"]["updateStrategy"] = json!({"maxUnavailable": 0, "maxSurge": 0});
    assert_denied(hub.judge(&stuck), "maxUnavailable");
    // podsToDelete of pods that are not here: which pods there are is known to members only (CS-1).
    let pods =
        json!({"spec": {"scaleStrategy": {"podsToDelete": ["web-abcde", "eu-1/web-fghij"]}}}).to_string();
    let patch = ["patch", "clonesets.apps.kruise.io", "web", "--namespace", &namespace, "--type=merge", "-p"];
    hub.cluster.kubectl(&[&patch[..], &[&pods]].concat())?;

    // A limit of the namespace counts replicas and surge of everything in it (SPLIT-9).
    hub.cluster.kubectl(&["annotate", "namespace", &namespace, "fleet.kruise.io/quota-pods=5"])?;
    let mut second = cloneset(&namespace, "v1beta1", 3);
    second["metadata"]["name"] = json!("second");
    assert_denied(hub.judge(&second), "spec.replicas");
    second["spec"]["replicas"] = json!(2);
    let (is_let_in, said) = hub.judge(&second)?;
    assert!(is_let_in, "{said}");

    let job = |parallelism: Value| {
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
            "metadata": {"name": "job", "namespace": namespace},
            "spec": {"image": "lab/web:1", "parallelism": parallelism},
        })
    };
    assert_denied(hub.judge(&job(json!("10%"))), "parallelism");
    hub.create(&job(json!(3)))?;
    let job = hub.get(&["imagepulljobs.apps.kruise.io", "job", "--namespace", &namespace])?;
    assert_eq!(job["spec"]["completionPolicy"]["type"], "Always", "defaults of a member");
    assert!(job["metadata"]["finalizers"].is_null(), "nobody here would take it off: {job}");
    hub.cluster.forget(&namespace).await
}

/// DEL-4, JOIN-6, API-3 at the door of the hub.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identities_are_kept_and_protected_objects_stay() -> Result<()> {
    let hub = Hub::start(&[]).await?;
    hub.remove(&["memberclusters", "door-1"]);
    eventually("the cluster is let in", async || Ok(Some(hub.create(&member("door-1", "uid-1"))?))).await?;
    assert_denied(hub.judge(&member("door-2", "uid-1")), "IdentityMismatch");
    let system = hub.get(&["namespace", "kube-system"])?;
    let own = system["metadata"]["uid"].as_str().context("a UID")?;
    assert_denied(hub.judge(&member("door-2", own)), "HubCannotBeMember");
    assert_denied(hub.judge(&member("system", "uid-2")), "belongs to the fleet itself");
    let patch = |patch: Value| {
        let text = patch.to_string();
        let arguments = ["patch", "memberclusters", "door-1", "--type=merge", "-p", &text];
        let output = hub.cluster.try_kubectl(&arguments, "")?;
        Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
    };
    assert_denied(patch(json!({"spec": {"publicKey": "another"}})), "IdentityMismatch");

    let protect = json!({"metadata": {"annotations": {"fleet.kruise.io/deletion-protection": "true"}}});
    assert!(patch(protect)?.0);
    let output = hub.cluster.try_kubectl(&["delete", "memberclusters", "door-1"], "")?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("protected from deletion"), "{said}");
    assert!(patch(json!({"metadata": {"annotations": {"fleet.kruise.io/deletion-protection": null}}}))?.0);
    hub.cluster.kubectl(&["delete", "memberclusters", "door-1"])?;

    let namespace = hub.cluster.namespace("doors").await?;
    hub.cluster.kubectl(&[
        "annotate",
        "namespace",
        &namespace,
        "fleet.kruise.io/deletion-protection=true",
    ])?;
    let output = hub.cluster.try_kubectl(&["delete", "namespace", &namespace], "")?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("protected from deletion"), "{said}");
    hub.cluster.kubectl(&["annotate", "namespace", &namespace, "fleet.kruise.io/deletion-protection-"])?;
    hub.cluster.forget(&namespace).await
}
