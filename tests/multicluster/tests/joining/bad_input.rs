//! Section 23 of the specification: every row that the hub's API server answers, with its answer.

use anyhow::Result;
use multicluster::eventually;
use serde_json::{Value, json};

use crate::kit::Hub;

/// What is expected of one input.
enum Answer {
    /// Refused; the answer has all of these words.
    Denied(&'static [&'static str]),
    /// Let in, with a warning that has these words.
    Warned(&'static str),
    /// Let in without a word.
    Accepted,
}

use Answer::{Accepted, Denied, Warned};

fn policy(namespace: &str, parts: Value) -> Value {
    let mut spec = json!({"targets": [{"kind": "CloneSet", "name": "web"}]});
    spec.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
    json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "PlacementPolicy",
        "metadata": {"name": "web", "namespace": namespace}, "spec": spec,
    })
}

fn cloneset(namespace: &str, name: &str, replicas: i64, rolling: Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "lab/web:1"}]},
            },
            "updateStrategy": {"rollingUpdate": rolling},
        },
    })
}

fn member(name: &str) -> Value {
    json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "MemberCluster",
        "metadata": {"name": name, "labels": {"env": "prod"}},
        "spec": {"clusterUid": format!("uid-of-{name}"), "publicKey": "none", "accepted": true, "region": "eu"},
    })
}

fn numbers(namespace: &str) -> Vec<(&'static str, Value, Answer)> {
    let object = |rolling: Value| cloneset(namespace, "web", 3, rolling);
    let policy = |parts: Value| policy(namespace, parts);
    const PARTITION: &str = "partition";
    vec![
        ("row 1", object(json!({"partition": "abc"})), Denied(&[PARTITION])),
        ("row 1", object(json!({"partition": -1})), Denied(&[PARTITION])),
        ("row 1", object(json!({"partition": "101%"})), Denied(&[PARTITION])),
        ("row 1", object(json!({"partition": "100%"})), Accepted),
        (
            "row 1",
            policy(json!({"replicas": {"weights": [{"weight": -1}]}})),
            Denied(&["spec.replicas.weights[0].weight"]),
        ),
        (
            "row 1",
            policy(json!({"replicas": {"perCluster": [{"min": 5, "max": 3}]}})),
            Denied(&["spec.replicas.perCluster[0].min", "above max"]),
        ),
        (
            "row 1",
            policy(json!({"spread": [{"topologyKey": "region", "maxShare": "0%"}]})),
            Denied(&["spec.spread[0].maxShare", "0%"]),
        ),
        (
            "row 1",
            policy(json!({"spread": [{"topologyKey": "moon"}]})),
            Denied(&["spec.spread[0].topologyKey", "unknown"]),
        ),
        (
            "row 2",
            object(json!({"maxUnavailable": 0, "maxSurge": 0})),
            Denied(&["spec.updateStrategy.rollingUpdate.maxUnavailable"]),
        ),
        (
            "row 2",
            policy(json!({"rebalance": {"maxSurge": 0, "maxUnavailable": 0}})),
            Denied(&["spec.rebalance.maxUnavailable", "no move"]),
        ),
        ("row 7", cloneset(namespace, "web", 1_000_001, json!({})), Denied(&["spec.replicas", "1000000"])),
        ("row 7", cloneset(namespace, "web", 1_000_000, json!({})), Accepted),
    ]
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|it| format!("nowhere-{it}")).collect()
}

fn policies(namespace: &str) -> Vec<(&'static str, Value, Answer)> {
    let policy = |parts: Value| policy(namespace, parts);
    let wave = |name: &str, cluster: &str| json!({"name": name, "clusters": {"names": [cluster]}});
    let waves = |waves: Value| policy(json!({"rollout": {"order": "Waves", "waves": waves}}));
    let fenced = |after: &str| {
        policy(json!({"failover": {"enabled": true, "after": after, "fencing": "SelfFence",
            "fenceAfter": "60s", "fenceGrace": "30s"}}))
    };
    let step = |path: &str| {
        policy(json!({"overrides": [{"patches": [{"op": "replace", "path": path, "value": 1}]}]}))
    };
    vec![
        ("row 3", policy(json!({"clusters": {"names": ["nowhere"]}})), Warned("selects no cluster")),
        ("row 4", waves(json!([wave("a", "bad-1"), wave("b", "bad-1")])), Warned("waves a and b: a counts")),
        // Waves and failover come later, and that is said; the rows are about nothing else.
        ("row 4", waves(json!([wave("a", "bad-1")])), Warned("spec.rollout.order")),
        (
            "row 5",
            policy(json!({"failover": {"enabled": true, "after": "79s"}})),
            Denied(&["spec.failover.after", "80s"]),
        ),
        ("row 5", fenced("132s"), Denied(&["spec.failover.after", "fenceAfter + fenceGrace + 40s"])),
        ("row 5", fenced("133s"), Warned("spec.failover.enabled")),
        ("row 6", step("/spec/replicas"), Denied(&["spec.overrides[0].patches", "belongs to the fleet"])),
        ("row 6", step("/spec/selector"), Denied(&["spec.overrides[0].patches", "belongs to the fleet"])),
        ("row 6", step("/spec/template/spec/priorityClassName"), Accepted),
        (
            "row 7",
            policy(json!({"clusters": {"names": names(5_001)}})),
            Denied(&["spec.clusters.names", "5000"]),
        ),
        ("row 7", policy(json!({"clusters": {"names": names(5_000)}})), Warned("selects no cluster")),
    ]
}

// Calls of kubectl block their thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_answered_as_the_specification_says() -> Result<()> {
    let hub = Hub::start(&[]).await?;
    let namespace = hub.cluster.namespace("bad-input").await?;
    for name in ["bad-1", "bad-2"] {
        hub.remove(&["memberclusters", name]);
        eventually("the cluster is let in", async || Ok(Some(hub.create(&member(name))?))).await?;
        // They serve CloneSets; so policies that name them select somebody.
        let status = json!({"status": {"apis": ["apps.kruise.io/v1beta1/CloneSet"]}}).to_string();
        hub.cluster.kubectl(&[
            "patch",
            "memberclusters",
            name,
            "--subresource=status",
            "--type=merge",
            "-p",
            &status,
        ])?;
    }
    let mut wrong = Vec::new();
    for (row, input, answer) in numbers(&namespace).into_iter().chain(policies(&namespace)) {
        let (is_let_in, said) = hub.judge(&input)?;
        let fits = match answer {
            Denied(words) => !is_let_in && words.iter().all(|it| said.contains(it)),
            Warned(words) => is_let_in && said.contains("Warning:") && said.contains(words),
            Accepted => is_let_in && !said.contains("Warning:"),
        };
        if !fits {
            wrong.push(format!("{row}: {}\n  was let in: {is_let_in}, and was told: {said}", input["spec"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    scaled_too_far(&hub, &namespace)?;
    placed_nowhere(&hub, &namespace).await?;
    hub.remove(&["memberclusters", "bad-1", "bad-2"]);
    hub.cluster.forget(&namespace).await
}

/// Row 7 through the subresource that autoscalers write.
fn scaled_too_far(hub: &Hub, namespace: &str) -> Result<()> {
    hub.create(&cloneset(namespace, "scaled", 3, json!({})))?;
    let what = "clonesets.apps.kruise.io/scaled";
    let scale = |replicas: &str| {
        hub.cluster.try_kubectl(&["scale", what, "--namespace", namespace, "--dry-run=server", replicas], "")
    };
    let refused = scale("--replicas=1000001")?;
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("spec.replicas") && said.contains("1000000"),
        "{said}"
    );
    let allowed = scale("--replicas=1000000")?;
    assert!(allowed.status.success(), "{}", String::from_utf8_lossy(&allowed.stderr));
    hub.cluster.kubectl(&["delete", what, "--namespace", namespace]).map(drop)
}

/// Rows 3 and 8: let in, and told in the conditions of the binding; long names are no error.
async fn placed_nowhere(hub: &Hub, namespace: &str) -> Result<()> {
    let long = "a-name-so-long-that-nothing-can-be-made-from-it-without-cutting";
    let parts = json!({"targets": [{"kind": "CloneSet", "name": long}], "clusters": {"names": ["nowhere"]}});
    hub.create(&policy(namespace, parts))?;
    hub.create(&cloneset(namespace, long, 3, json!({})))?;
    eventually("the binding says that no cluster was chosen", async || {
        let bindings = hub.get(&["fleetbindings", "--namespace", namespace])?;
        let Some(binding) = bindings["items"].get(0) else { return Ok(None) };
        let name = binding["metadata"]["name"].as_str().unwrap_or_default();
        assert!(name.len() <= 63 && name.starts_with("cloneset.a-name-so-long"), "{name}");
        let conditions = binding["status"]["conditions"].as_array().into_iter().flatten();
        let scheduled = conditions.into_iter().find(|it| it["type"] == "Scheduled");
        Ok(scheduled.filter(|it| it["status"] == "False" && it["reason"] == "NoCluster").map(drop))
    })
    .await?;
    let gone = ["get", "clonesets.apps.kruise.io", "--namespace", namespace, "-o", "name"];
    hub.remove(&["clonesets.apps.kruise.io", long, "--namespace", namespace]);
    eventually("the object is gone", async || Ok(hub.cluster.kubectl(&gone)?.is_empty().then_some(()))).await
}
