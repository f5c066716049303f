//! Where an object runs, would run, and why.

use anyhow::Result;
use serde_json::{Value, json};

use crate::kit::{Fleet, unique};

fn cloneset(namespace: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
        "metadata": { "name": "web", "namespace": namespace },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "main", "image": "lab/web:1" }] },
            },
        },
    })
}

fn policy(namespace: &str, clusters: &[String]) -> Value {
    json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "PlacementPolicy",
        "metadata": { "name": "web", "namespace": namespace },
        "spec": {
            "targets": [{ "kind": "CloneSet", "name": "web" }],
            "clusters": { "names": clusters },
        },
    })
}

/// Replicas of each of these clusters in an answer.
fn replicas(rows: &Value, clusters: &[String], field: &str) -> Vec<u64> {
    let of = |name: &String| {
        let row = rows.as_array().into_iter().flatten().find(|it| it["cluster"] == *name)?;
        row.pointer(field).and_then(Value::as_u64)
    };
    let mut all: Vec<u64> = clusters.iter().filter_map(of).collect();
    all.sort_unstable();
    all
}

/// API-2, section 21: the planner of the hub, before anything is applied and after.
#[tokio::test]
async fn an_object_is_planned_and_explained_before_a_hub_has_seen_it() -> Result<()> {
    let fleet = Fleet::new().await?;
    let namespace = fleet.hub.namespace("plans").await?;
    let clusters = ["pa", "pb", "pc"].map(unique);
    clusters.iter().try_for_each(|it| fleet.member(it))?;
    let within = ["--namespace", namespace.as_str()];
    let run =
        |words: &[&str], input: &str| fleet.run_with(&[words, &within[..], &["-o", "json"]].concat(), input);

    let file = json!({ "apiVersion": "v1", "kind": "List", "items": [policy(&namespace, &clusters), cloneset(&namespace, 10)] });
    let planned = run(&["plan", "-f", "-"], &file.to_string())?;
    let object = &planned.json()?["objects"][0];
    assert_eq!(object["moved"], 0, "nothing runs, so nothing moves: {planned:?}");
    assert_eq!(object["policy"], "PlacementPolicy/web");
    assert_eq!(replicas(&object["clusters"], &clusters, "/planned/replicas"), [3, 3, 4]);
    assert_eq!(
        fleet.get(&["--namespace", &namespace, "cloneset", "web"])?,
        Value::Null,
        "nothing was written"
    );

    fleet.apply(&cloneset(&namespace, 10))?;
    let alone = run(&["explain", "cloneset/web"], "")?.json()?;
    assert!(alone["notPlanned"].as_str().is_some_and(|it| it.contains("policy")), "{alone}");
    let status = run(&["status", "clone/web"], "")?.json()?;
    assert_eq!(status["placed"], false);

    fleet.apply(&policy(&namespace, &clusters[..2]))?;
    let explained = run(&["explain", "cloneset/web"], "")?.json()?;
    assert_eq!(replicas(&explained["clusters"], &clusters[..2], "/replicas"), [5, 5], "{explained}");
    let rows = explained["clusters"].as_array().cloned().unwrap_or_default();
    let left_out = rows.iter().find(|it| it["cluster"] == clusters[2]);
    assert_eq!(left_out.map(|it| &it["policySays"]), Some(&json!("it is not among the names")));

    let mut bad = cloneset(&namespace, 10);
    bad["spec"]["updateStrategy"] = json!({ "rollingUpdate": { "partition": "abc" } });
    let refused = run(&["plan", "-f", "-"], &bad.to_string())?;
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.err.contains("spec.updateStrategy"), "{refused:?}");
    fleet.forget("membercluster", &clusters)?;
    fleet.hub.forget(&namespace).await
}
