//! SEC-4 on a real API server: who writes a policy needs rights on the clusters that it can select.

use anyhow::{Result, ensure};
use multicluster::eventually;
use serde_json::{Value, json};

use crate::kit::Hub;

/// A user with the verb `place` on `tenant-1` and nowhere else.
const TENANT: &[&str] = &["--as=ann"];
/// A user who may place on all clusters, by a group.
const FLEET_USER: &[&str] = &["--as=bob", "--as-group=fleet-users"];

fn member(name: &str) -> Value {
    json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "MemberCluster",
        "metadata": {"name": name, "labels": {"team": "ann"}},
        "spec": {"clusterUid": format!("uid-of-{name}"), "publicKey": "none", "accepted": false},
    })
}

fn policy(namespace: &str, name: &str, parts: Value) -> Value {
    let mut spec = json!({"targets": [{"kind": "CloneSet", "name": "web"}]});
    spec.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
    json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "PlacementPolicy",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    })
}

fn patched(clusters: Value) -> Value {
    let step = json!({"op": "add", "path": "/spec/template/spec/priorityClassName", "value": "high"});
    json!([{"clusters": clusters, "patches": [step]}])
}

/// Both users may write policies; what they may place on is in roles of its own, as `docs/security.md` shows.
fn grant(hub: &Hub) -> Result<()> {
    let api = "rbac.authorization.k8s.io";
    let role = |name: &str, rules: Value| json!({"apiVersion": format!("{api}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
    let binding = |name: &str, role: &str, kind: &str, subject: &str| {
        json!({
            "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": api, "kind": kind, "name": subject}],
        })
    };
    let write = json!([{"apiGroups": ["fleet.kruise.io"], "resources": ["placementpolicies", "clusterplacementpolicies"],
        "verbs": ["get", "list", "create", "update", "patch"]}]);
    let place = json!([{"apiGroups": ["fleet.kruise.io"], "resources": ["memberclusters"], "verbs": ["place"],
        "resourceNames": ["tenant-1"]}]);
    let objects = [
        role("test-policy-writer", write),
        role("test-place-tenant-1", place),
        binding("test-policy-writer-ann", "test-policy-writer", "User", "ann"),
        binding("test-policy-writer-bob", "test-policy-writer", "User", "bob"),
        binding("test-place-ann", "test-place-tenant-1", "User", "ann"),
        binding("test-place-fleet-users", "kruise-fleet-place", "Group", "fleet-users"),
    ];
    for object in objects {
        let said = hub.cluster.try_kubectl(&["apply", "--filename=-"], &object.to_string())?;
        ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }
    Ok(())
}

/// What a user is told about an object; nothing if it is let in.
fn refused(hub: &Hub, user: &[&str], object: &Value) -> Result<Option<String>> {
    let arguments = [&["create", "--dry-run=server", "--filename=-"], user].concat();
    told(hub, &arguments, &object.to_string())
}

fn told(hub: &Hub, arguments: &[&str], input: &str) -> Result<Option<String>> {
    let output = hub.cluster.try_kubectl(arguments, input)?;
    Ok((!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned()))
}

#[track_caller]
fn assert_forbidden(told: Option<String>, words: &[&str]) {
    let told = told.expect("it was let in");
    assert!(told.contains("(Forbidden)") && words.iter().all(|it| told.contains(it)), "{told}");
}

// Calls of kubectl block their thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_4_a_tenant_reaches_no_cluster_that_was_not_given_to_it() -> Result<()> {
    let hub = Hub::start(&[]).await?;
    let namespace = hub.cluster.namespace("tenants").await?;
    grant(&hub)?;
    for name in ["tenant-1", "tenant-2"] {
        hub.remove(&["memberclusters", name]);
        eventually("the cluster is let in", async || Ok(Some(hub.create(&member(name))?))).await?;
    }
    let of = |parts: Value| policy(&namespace, "web", parts);
    let one = json!({"clusters": {"names": ["tenant-1"]}});
    let both = json!({"clusters": {"names": ["tenant-1", "tenant-2"]}});
    let labelled = json!({"clusters": {"labelSelector": {"matchLabels": {"team": "ann"}}}});
    let ann = |parts: &Value| refused(&hub, TENANT, &of(parts.clone()));
    assert_eq!(ann(&one)?, None);
    assert_forbidden(
        ann(&both)?,
        &["spec.clusters", "verb place", "memberclusters.fleet.kruise.io tenant-2"],
    );
    for any in [&labelled, &json!({})] {
        assert_forbidden(
            ann(any)?,
            &["spec.clusters", "verb place on all", "name clusters in spec.clusters.names"],
        );
    }
    let mut cluster_wide = of(both.clone());
    cluster_wide["kind"] = json!("ClusterPlacementPolicy");
    cluster_wide["metadata"] = json!({"name": "web"});
    assert_forbidden(refused(&hub, TENANT, &cluster_wide)?, &["spec.clusters", "tenant-2"]);
    let mut changed = one.clone();
    changed["overrides"] = patched(json!({}));
    assert_forbidden(ann(&changed)?, &["spec.overrides", "verb override", "tenant-1"]);

    let mut all = labelled.clone();
    all["overrides"] = patched(json!({}));
    assert_eq!(refused(&hub, FLEET_USER, &of(all.clone()))?, None, "bob may, by a group");
    assert_forbidden(refused(&hub, &["--as=bob"], &of(all))?, &["spec.clusters"]);

    hub.create(&of(both))?;
    let patch = |patch: &Value| {
        let text = patch.to_string();
        let what =
            ["patch", "placementpolicies", "web", "--namespace", &namespace, "--type=merge", "-p", &text];
        told(&hub, &[&what, TENANT].concat(), "")
    };
    let weights = json!({"spec": {"replicas": {"weights": [{"weight": 2}]}}});
    assert_forbidden(patch(&weights)?, &["spec.clusters", "tenant-2"]);
    assert_eq!(patch(&json!({"metadata": {"labels": {"seen": "yes"}}}))?, None, "labels reach nobody");
    assert_eq!(patch(&json!({"spec": one}))?, None, "less is within its rights");
    assert_eq!(patch(&weights)?, None, "and then the rest is");
    hub.remove(&["memberclusters", "tenant-1", "tenant-2"]);
    hub.remove(&[
        "clusterrolebindings",
        "test-policy-writer-ann",
        "test-policy-writer-bob",
        "test-place-ann",
        "test-place-fleet-users",
    ]);
    hub.remove(&["clusterroles", "test-policy-writer", "test-place-tenant-1"]);
    hub.cluster.forget(&namespace).await
}
