//! A hub that is killed after each of its writes in turn ends where one that lives does.

use serde_json::{Value, json};

use crate::kit::{Cluster, HUB, Stage, play};

const KINDS: [&str; 10] = [
    "joinrequests.fleet.kruise.io",
    "memberclusters.fleet.kruise.io",
    "certificatesigningrequests.certificates.k8s.io",
    "configmaps",
    "namespaces",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "leases.coordination.k8s.io",
];

/// Everything that is stored, but for what differs from run to run: times, UIDs, keys and certificates.
fn stored(stage: &Stage, cluster: &Cluster) -> Vec<Value> {
    let mut all = Vec::new();
    for kind in KINDS {
        for object in stage.world.cluster(HUB).server().list(kind) {
            let mut object = object.value();
            let metadata = &object["metadata"];
            let kept = json!({
                "name": metadata["name"], "namespace": metadata["namespace"], "labels": metadata["labels"],
                "annotations": metadata["annotations"], "owners": metadata["ownerReferences"].as_array().map(Vec::len),
            });
            object["metadata"] = kept;
            hide(&mut object);
            let text =
                object.to_string().replace(&cluster.user(), "USER").replace(&cluster.public_key(), "KEY");
            all.push(serde_json::from_str(&text).unwrap());
        }
    }
    all
}

fn hide(value: &mut Value) {
    let own = [
        "certificate",
        "request",
        "decidedAt",
        "credentialExpiresAt",
        "stateSince",
        "lastTransitionTime",
        "hubUid",
        "used-by",
        "expires",
        "lastUpdateTime",
        "uid",
    ];
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if own.contains(&name.as_str()) { *field = json!("...") } else { hide(field) }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        _ => {}
    }
}

/// Joins, is revoked and accepted again with the hub killed right after its `k`-th write. What is stored then, and
/// whether it was killed.
fn killed_after(k: Option<u64>) -> (Vec<Value>, bool) {
    let mut outcome = (Vec::new(), false);
    let seen = &mut outcome;
    play(&["*"], async |stage| {
        stage.token("abcdef", "*", 1, 36_000);
        let starts = stage.hub.starts();
        if let Some(k) = k {
            stage.hub.crash_after_writes(k);
        }
        let cluster = Cluster::new("eu-1", "uid-1");
        stage.ask(&cluster, "abcdef");
        stage.joined(&cluster).await;
        assert_eq!(stage.used_by("abcdef").len(), 1, "one request, one use; killed after {k:?}");
        stage.change("memberclusters/eu-1", &json!({"spec": {"accepted": false}}));
        stage.until("its rights are gone", |it| it.bound("eu-1").is_empty()).await;
        stage.change("memberclusters/eu-1", &json!({"spec": {"accepted": true}}));
        stage.until("it has them again", |it| it.bound("eu-1") == vec![cluster.user(); 3]).await;
        stage.pass(60).await;
        *seen = (stored(&stage, &cluster), stage.hub.starts() > starts);
    });
    outcome
}

#[test]
fn join_3_a_hub_killed_after_any_write_ends_in_the_same_state() {
    let (whole, _) = killed_after(None);
    assert!(whole.len() > 15, "{whole:#?}");
    let mut kills = 0;
    for k in 1..60 {
        let (after, was_killed) = killed_after(Some(k));
        if !was_killed {
            break;
        }
        assert_eq!(after, whole, "killed after write {k}");
        kills = k;
    }
    assert!((20..59).contains(&kills), "{kills} writes");
}
