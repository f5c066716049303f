//! The chart of a workload cluster: installed, upgraded, uninstalled.

use anyhow::Result;
use multicluster::{Cluster, cluster, eventually};
use serde_json::{Value, json};

use crate::chart::{MEMBER, MEMBER_FULL, get, serve_monitors};

const CONFIGURATIONS: [(&str, &str); 2] = [
    ("mutatingwebhookconfiguration", "kruise-mutating-webhook-configuration"),
    ("validatingwebhookconfiguration", "kruise-validating-webhook-configuration"),
];

fn ours<'a>(kind: &'a str, name: &'a str) -> [&'a str; 4] {
    ["--namespace", "kruise-system", kind, name]
}

/// Everything an upgrade could change, with what tells that it was changed. Status writes change versions of Deployments,
/// not their generations.
fn versions(cluster: &Cluster) -> Result<Vec<(String, Value)>> {
    let kinds = "deployment,daemonset,service,serviceaccount,role,rolebinding,poddisruptionbudget";
    let global =
        "clusterrole,clusterrolebinding,crd,mutatingwebhookconfiguration,validatingwebhookconfiguration";
    let label = "--selector=app.kubernetes.io/instance=kruise";
    let mut found = Vec::new();
    for list in [get(cluster, &[kinds, "--all-namespaces", label])?, get(cluster, &[global, label])?] {
        for it in list["items"].as_array().into_iter().flatten() {
            let metadata = &it["metadata"];
            let version = if metadata["generation"].is_null() {
                &metadata["resourceVersion"]
            } else {
                &metadata["generation"]
            };
            let name = format!("{}/{}/{}", it["kind"], metadata["namespace"], metadata["name"]);
            found.push((name, version.clone()));
        }
    }
    Ok(found)
}

/// Whether an ordinary pod in an ordinary namespace is let in.
fn admits_pods(cluster: &Cluster, namespace: &str) -> Result<bool> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "generateName": "ordinary-", "namespace": namespace },
        "spec": { "containers": [{ "name": "main", "image": "lab/web:1" }] },
    });
    Ok(cluster.try_kubectl(&["create", "--filename", "-"], &pod.to_string())?.status.success())
}

/// What a manager does to a configuration once it runs.
fn fill_bundle(cluster: &Cluster, kind: &str, name: &str) -> Result<()> {
    let patch = json!([
        { "op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "bm90IGEgY2VydGlmaWNhdGU=" },
        { "op": "add", "path": "/metadata/annotations/template", "value": "[]" },
    ]);
    cluster.kubectl(&["patch", kind, name, "--type=json", "--patch", &patch.to_string()]).map(drop)
}

/// INS-01, INS-02, INS-04, G-01.
#[tokio::test]
async fn a_member_is_installed_upgraded_and_uninstalled() -> Result<()> {
    let cluster = cluster("m2");
    cluster.install_crds().await?;
    MEMBER.uninstall(&cluster)?;
    for (kind, name) in CONFIGURATIONS {
        // Those of other tests lead to servers that are gone.
        cluster.kubectl(&["delete", "--ignore-not-found", kind, name])?;
    }
    serve_monitors(&cluster)?;
    let namespace = cluster.namespace("charts").await?;
    let cloneset = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
        "metadata": { "name": "kept", "namespace": namespace },
        "spec": {
            "replicas": 0, "selector": { "matchLabels": { "app": "a" } },
            "template": { "metadata": { "labels": { "app": "a" } }, "spec": { "containers": [{ "name": "main", "image": "lab/web:1" }] } },
        },
    });
    assert!(cluster.try_kubectl(&["create", "--filename", "-"], &cloneset.to_string())?.status.success());

    MEMBER.install(&cluster, &[])?;
    installed_as_named(&cluster)?;
    eventually("managers and daemons are on the nodes, as their own webhooks leave them alone", async || {
        let ready =
            get(&cluster, &ours("deployment", "kruise-controller-manager"))?["status"]["readyReplicas"]
                .clone();
        let daemons = get(&cluster, &ours("daemonset", "kruise-daemon"))?["status"].clone();
        Ok((ready == 2 && daemons["numberReady"].as_u64() >= Some(1)).then_some(()))
    })
    .await?;
    assert!(!admits_pods(&cluster, &namespace)?, "the webhook of pods fails closed, and nobody answers");

    for (kind, name) in CONFIGURATIONS {
        fill_bundle(&cluster, kind, name)?;
    }
    let before = versions(&cluster)?;
    assert!(before.len() > 25, "{before:?}");
    MEMBER.install(&cluster, &[])?;
    assert_eq!(versions(&cluster)?, before, "the same values change nothing");

    MEMBER.install(&cluster, MEMBER_FULL)?;
    changed_as_asked(&cluster)?;

    MEMBER.uninstall(&cluster)?;
    for (kind, name) in CONFIGURATIONS {
        assert_eq!(get(&cluster, &[kind, name])?, Value::Null);
    }
    assert!(admits_pods(&cluster, &namespace)?, "nothing is blocked afterwards");
    let kept = get(&cluster, &["--namespace", &namespace, "clonesets.v1beta1.apps.kruise.io", "kept"])?;
    assert_eq!(kept["metadata"]["name"], "kept", "definitions and objects are still there");
    let status = &get(&cluster, &["namespace", "kruise-system"])?["status"];
    assert_eq!(status["phase"], "Active", "with the link to a hub the agent's key is in there");

    MEMBER.install(&cluster, &[])?;
    MEMBER.uninstall(&cluster)?;
    eventually("the namespace is gone, as no hub knows this cluster", async || {
        Ok(get(&cluster, &["namespace", "kruise-system"])?.is_null().then_some(()))
    })
    .await?;
    cluster.forget(&namespace).await
}

fn changed_as_asked(cluster: &Cluster) -> Result<()> {
    let deployment = get(cluster, &ours("deployment", "kruise-controller-manager"))?;
    assert_eq!(deployment["spec"]["replicas"], 3);
    let daemon = get(cluster, &ours("daemonset", "kruise-daemon"))?;
    for it in [&deployment, &daemon] {
        let image = &it["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!(*image, "mirror.example/kruise-agent:1.2.3", "all pods take the mirror's image");
    }
    let port = get(cluster, &ours("service", "kruise-webhook-service"))?["spec"]["ports"][0].clone();
    assert_eq!((&port["port"], &port["targetPort"]), (&json!(443), &json!(9443)));
    assert_eq!(get(cluster, &ours("role", "kruise-link-role"))?["kind"], "Role");
    assert_eq!(get(cluster, &ours("servicemonitor", "kruise-daemon-metrics"))?["kind"], "ServiceMonitor");
    for (kind, name) in CONFIGURATIONS {
        let configuration = get(cluster, &[kind, name])?;
        for webhook in configuration["webhooks"].as_array().into_iter().flatten() {
            let policy = if webhook["name"] == "mpod.kb.io" { "Ignore" } else { "Fail" };
            assert_eq!(webhook["failurePolicy"], policy, "{}", webhook["name"]);
            assert_eq!(webhook["timeoutSeconds"], 30);
        }
        let bundle = &configuration["webhooks"][0]["clientConfig"]["caBundle"];
        assert_eq!(*bundle, "bm90IGEgY2VydGlmaWNhdGU=", "what the manager filled in stays");
    }
    Ok(())
}

fn installed_as_named(cluster: &Cluster) -> Result<()> {
    let deployment = get(cluster, &ours("deployment", "kruise-controller-manager"))?;
    assert_eq!(deployment["spec"]["replicas"], 2);
    let daemon = get(cluster, &ours("daemonset", "kruise-daemon"))?;
    let image = |it: &Value| it["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    assert_eq!(image(&daemon), image(&deployment));
    let port = get(cluster, &ours("service", "kruise-webhook-service"))?["spec"]["ports"][0].clone();
    assert_eq!((&port["port"], &port["targetPort"]), (&json!(443), &json!(9876)));
    Ok(())
}
