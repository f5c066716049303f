//! A hub that is killed after each of its writes in turn ends where one that lives does.

use hub::members::account::Credentials;
use serde_json::{Value, json};

use crate::kit::{Cluster, HUB, Stage, play_by, text};

const KINDS: [&str; 11] = [
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
    "serviceaccounts",
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
            let fingerprint = cluster.user().rsplit(':').next().unwrap().to_owned();
            let text = text.replace(&fingerprint, "FINGERPRINT");
            all.push(serde_json::from_str(&text).unwrap());
        }
    }
    all
}

fn hide(value: &mut Value) {
    let own = [
        "certificate",
        "sealedCredential",
        "sealedFor",
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
fn killed_after(k: Option<u64>, by: Credentials) -> (Vec<Value>, bool) {
    let mut outcome = (Vec::new(), false);
    let seen = &mut outcome;
    play_by(by, &["*"], async |stage| {
        stage.token("abcdef", "*", 1, 36_000);
        let starts = stage.hub.starts();
        if let Some(k) = k {
            stage.hub.crash_after_writes(k);
        }
        let cluster = Cluster::new("eu-1", "uid-1");
        stage.ask(&cluster, "abcdef");
        stage.until("it has joined", |it| has_all(it, &cluster, by)).await;
        assert_eq!(stage.used_by("abcdef").len(), 1, "one request, one use; killed after {k:?}");
        stage.change("memberclusters/eu-1", &json!({"spec": {"accepted": false}}));
        stage.until("its rights are gone", |it| it.bound("eu-1").is_empty() && account(it).is_null()).await;
        stage.change("memberclusters/eu-1", &json!({"spec": {"accepted": true}}));
        stage.until("it has them again", |it| has_all(it, &cluster, by)).await;
        stage.pass(60).await;
        *seen = (stored(&stage, &cluster), stage.hub.starts() > starts);
    });
    outcome
}

/// UID of the account whose tokens the agent has.
fn account(stage: &Stage) -> Value {
    let path = "/api/v1/namespaces/fleet-eu-1/serviceaccounts/fleet-agent";
    stage.read(path).unwrap_or_default()["metadata"]["uid"].clone()
}

/// Whether a cluster has its rights and a credential that is good.
fn has_all(stage: &Stage, cluster: &Cluster, by: Credentials) -> bool {
    let status = stage.status(cluster.name);
    let has_credential = match by {
        Credentials::Certificate => status["certificate"].is_string(),
        Credentials::Token => {
            text(&status["sealedCredential"]).len() > 100 && status["sealedFor"] == account(stage)
        }
    };
    has_credential && stage.bound(cluster.name) == vec![cluster.user(); 3]
}

#[test]
fn join_3_a_hub_killed_after_any_write_ends_in_the_same_state() {
    ends_the_same(Credentials::Certificate);
}

#[test]
fn join_3_so_does_one_that_gives_tokens() {
    ends_the_same(Credentials::Token);
}

fn ends_the_same(by: Credentials) {
    let (whole, _) = killed_after(None, by);
    assert!(whole.len() > 15, "{whole:#?}");
    let mut kills = 0;
    for k in 1..80 {
        let (after, was_killed) = killed_after(Some(k), by);
        if !was_killed {
            break;
        }
        assert_eq!(after, whole, "killed after write {k}");
        kills = k;
    }
    assert!((20..79).contains(&kills), "{kills} writes");
}
