//! The chart of the management cluster: installed, upgraded, uninstalled.

use anyhow::Result;
use multicluster::cluster;
use serde_json::Value;

use crate::chart::{HUB, HUB_FULL, get, serve_monitors};

const CONFIGURATIONS: [(&str, &str); 2] = [
    ("mutatingwebhookconfiguration", "kruise-hub-mutating-webhook-configuration"),
    ("validatingwebhookconfiguration", "kruise-hub-validating-webhook-configuration"),
];

fn ours<'a>(kind: &'a str, name: &'a str) -> [&'a str; 4] {
    ["--namespace", "fleet-system", kind, name]
}

#[tokio::test]
async fn a_hub_is_installed_upgraded_and_uninstalled() -> Result<()> {
    let cluster = cluster("hub");
    cluster.install_crds().await?;
    HUB.uninstall(&cluster)?;
    for (kind, name) in CONFIGURATIONS {
        // Those of other tests lead to servers that are gone.
        cluster.kubectl(&["delete", "--ignore-not-found", kind, name])?;
    }
    serve_monitors(&cluster)?;

    HUB.install(&cluster, &[])?;
    let deployment = get(&cluster, &ours("deployment", "kruise-hub"))?;
    assert_eq!(deployment["spec"]["replicas"], 2);
    let account = &deployment["spec"]["template"]["spec"]["serviceAccountName"];
    assert_eq!(
        get(&cluster, &ours("serviceaccount", account.as_str().unwrap_or_default()))?["kind"],
        "ServiceAccount"
    );
    let policy = cluster.kubectl(&[
        "get",
        "crd",
        "placementpolicies.fleet.kruise.io",
        "--output=jsonpath={.metadata.annotations}",
    ])?;
    assert!(policy.contains("\"meta.helm.sh/release-name\":\"hub\""), "{policy}");

    HUB.install(&cluster, HUB_FULL)?;
    let deployment = get(&cluster, &ours("deployment", "kruise-hub"))?;
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(
        deployment["spec"]["template"]["spec"]["containers"][0]["image"],
        "mirror.example/kruise-hub:1.2.3"
    );
    assert_eq!(get(&cluster, &ours("servicemonitor", "kruise-hub"))?["kind"], "ServiceMonitor");
    let service = get(&cluster, &ours("service", "kruise-hub-webhook-service"))?;
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 9443);
    for (kind, name) in CONFIGURATIONS {
        let webhooks = &get(&cluster, &[kind, name])?["webhooks"];
        assert!(webhooks.as_array().is_some_and(|it| !it.is_empty()), "{kind}: {webhooks}");
    }

    HUB.uninstall(&cluster)?;
    assert_eq!(get(&cluster, &ours("deployment", "kruise-hub"))?, Value::Null);
    for (kind, name) in CONFIGURATIONS {
        assert_eq!(
            get(&cluster, &[kind, name])?,
            Value::Null,
            "a webhook that nobody answers refuses everything"
        );
    }
    for namespace in ["fleet-system", "fleet-content"] {
        let status = &get(&cluster, &["namespace", namespace])?["status"];
        assert_eq!(status["phase"], "Active", "{namespace} holds what agents rely on");
    }
    assert_eq!(
        get(&cluster, &["crd", "memberclusters.fleet.kruise.io"])?["kind"],
        "CustomResourceDefinition"
    );
    Ok(())
}
