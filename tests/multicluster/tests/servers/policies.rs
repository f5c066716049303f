//! What a real API server says to placement policies: good ones pass, bad ones are refused with the field's name.

use anyhow::Result;
use multicluster::cluster;
use serde_json::{Value, json};

fn policy(namespace: &str, name: &str, more: &Value) -> Value {
    let mut spec = json!({"targets": [{"kind": "CloneSet", "name": "web"}]});
    if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
        spec.extend(more.clone());
    }
    json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "PlacementPolicy",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    })
}

#[tokio::test]
async fn a_policy_with_every_kind_of_field_is_accepted_and_listed() -> Result<()> {
    let cluster = cluster("hub");
    cluster.install_crds().await?;
    let namespace = cluster.namespace("policies").await?;
    let more = json!({
        "clusters": {"labelSelector": {"matchLabels": {"env": "prod"}}},
        "replicas": {
            "weights": [{"clusters": {"names": ["eu-1"]}, "weight": 2}],
            "perCluster": [{"clusters": {}, "min": 1}],
        },
        "rollout": {
            "order": "Waves",
            "waves": [
                {"name": "canary", "clusters": {"names": ["eu-1"]}, "soak": "10m", "approval": "After"},
                {"name": "rest"},
            ],
            "prePull": {"enabled": true},
        },
    });
    let output =
        cluster.try_kubectl(&["create", "-f", "-"], &policy(&namespace, "web", &more).to_string())?;
    assert!(output.status.success(), "{output:?}");
    let listed = cluster.kubectl(&["get", "pp", "--namespace", &namespace])?;
    let header: Vec<&str> = listed.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(header, ["NAME", "TARGETS", "CLUSTERS", "MODE", "ORDER"], "{listed}");
    cluster.forget(&namespace).await
}

/// The rows of "Bad input" in the rules of the fleet that concern one policy alone.
#[tokio::test]
async fn bad_policies_are_refused_with_the_name_of_the_field() -> Result<()> {
    let cluster = cluster("hub");
    cluster.install_crds().await?;
    let namespace = cluster.namespace("policies").await?;
    let everywhere = json!({"clusters": {}});
    let bounded = |min: i64, max: i64| {
        let mut row = everywhere.clone();
        row["min"] = json!(min);
        row["max"] = json!(max);
        json!({"replicas": {"perCluster": [row]}})
    };
    let weighted = |weight: i64| json!({"replicas": {"weights": [{"clusters": {}, "weight": weight}]}});
    let cases = [
        ("weight-low", weighted(-1), "weight"),
        ("weight-high", weighted(10_001), "weight"),
        ("bounds", bounded(3, 2), "min must not be above max"),
        ("share", json!({"spread": [{"topologyKey": "zone", "maxShare": "0%"}]}), "maxShare"),
        ("stuck", json!({"rebalance": {"maxSurge": 0, "maxUnavailable": 0}}), "maxSurge and maxUnavailable"),
        ("hasty", json!({"failover": {"enabled": true, "after": "79s"}}), "after must be at least 80s"),
        ("unfenced", json!({"failover": {"enabled": true, "fencing": "SelfFence"}}), "fenceAfter"),
        (
            "owned",
            json!({"overrides": [{"clusters": {}, "patches": [{"op": "replace", "path": "/spec/replicas", "value": 1}]}]}),
            "belongs to the fleet",
        ),
        (
            "owned-parent",
            json!({"overrides": [{"clusters": {}, "patches": [{"op": "replace", "path": "/spec/updateStrategy", "value": {}}]}]}),
            "belongs to the fleet",
        ),
        ("mode", json!({"replicas": {"mode": "Scattered"}}), "spec.replicas.mode"),
    ];
    for (name, more, expected) in cases {
        let output =
            cluster.try_kubectl(&["create", "-f", "-"], &policy(&namespace, name, &more).to_string())?;
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{name} was accepted");
        assert!(complaint.contains(expected), "{name}: {complaint}");
    }
    cluster.forget(&namespace).await
}
