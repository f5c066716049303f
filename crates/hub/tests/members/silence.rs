//! Clusters that fall silent, one or many at once (STATE-3), and what the hub does about their Leases and roles (JOIN-3).

use http::Method;
use serde_json::json;

use crate::kit::{HUB, Stage, play, text};

const CLUSTERS: [&str; 4] = ["a", "b", "c", "d"];

/// Four clusters that joined by hand.
async fn four(stage: &Stage) {
    for name in CLUSTERS {
        let member = json!({
            "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "MemberCluster", "metadata": {"name": name},
            "spec": {"clusterUid": format!("uid-{name}"), "publicKey": "", "accepted": true},
        });
        stage
            .world
            .write(HUB, Method::POST, "/apis/fleet.kruise.io/v1alpha1/memberclusters", &member)
            .unwrap();
    }
    stage
        .until("they have their Leases", |it| CLUSTERS.iter().all(|name| it.read(&lease(name)).is_some()))
        .await;
    for name in CLUSTERS {
        stage.change(&format!("memberclusters/{name}/status"), &json!({"status": {"reportedEpoch": 0}}));
    }
}

fn lease(cluster: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/fleet-{cluster}/leases/agent")
}

/// Lets time pass in which these clusters renew their Leases.
async fn beat(stage: &Stage, clusters: &[&str], seconds: u64) {
    for _ in 0..seconds / 10 {
        for name in clusters {
            let renewed = json!({"spec": {"holderIdentity": format!("{}", stage.world.now())}});
            stage.world.write(HUB, Method::PATCH, &lease(name), &renewed).unwrap();
        }
        stage.pass(10).await;
    }
}

fn state(stage: &Stage, cluster: &str) -> String {
    text(&stage.member(cluster).unwrap()["status"]["state"])
}

fn is_suspect(stage: &Stage) -> bool {
    let shown: Vec<bool> = CLUSTERS
        .iter()
        .map(|name| {
            let status = stage.member(name).unwrap()["status"].clone();
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|it| it["type"] == "SelfSuspect" && it["status"] == "True")
        })
        .collect();
    let counted = stage.measure("self_suspect") == Some(1.0);
    assert!(shown.iter().all(|it| *it == counted), "metric {counted}, conditions {shown:?}");
    counted
}

#[test]
fn state_3_many_clusters_that_vanish_at_once_make_the_hub_doubt_itself_until_an_operator_overrules_it() {
    play(&[], async |stage| {
        four(&stage).await;
        beat(&stage, &CLUSTERS, 90).await;
        assert_eq!(CLUSTERS.map(|it| state(&stage, it)), ["Ready"; 4]);
        beat(&stage, &CLUSTERS[1..], 60).await;
        assert_eq!((state(&stage, "a").as_str(), is_suspect(&stage)), ("Offline", false));
        beat(&stage, &CLUSTERS[2..], 60).await;
        assert_eq!((state(&stage, "b").as_str(), is_suspect(&stage)), ("Offline", true));
        assert!(stage.events("MemberCluster").contains(&"SelfSuspect".to_owned()));
        // It does not go away by waiting.
        beat(&stage, &CLUSTERS[2..], 700).await;
        assert!(is_suspect(&stage));
        let annotated = |value| json!({"metadata": {"annotations": {"fleet.kruise.io/trust-view": value}}});
        stage.change("memberclusters/c", &annotated(json!("true")));
        beat(&stage, &CLUSTERS[2..], 20).await;
        assert!(!is_suspect(&stage), "the operator's word");
        // When the word is taken back, what was Offline for long is not news any more.
        stage.change("memberclusters/c", &annotated(json!(null)));
        beat(&stage, &CLUSTERS[2..], 20).await;
        assert!(!is_suspect(&stage));
    });
}

#[test]
fn state_3_the_doubt_ends_a_minute_after_the_clusters_are_back() {
    play(&[], async |stage| {
        four(&stage).await;
        beat(&stage, &CLUSTERS, 90).await;
        beat(&stage, &CLUSTERS[2..], 60).await;
        assert!(is_suspect(&stage));
        beat(&stage, &CLUSTERS, 60).await;
        assert_eq!((state(&stage, "a").as_str(), is_suspect(&stage)), ("Ready", true));
        beat(&stage, &CLUSTERS, 90).await;
        assert!(!is_suspect(&stage));
    });
}

#[test]
fn state_3_the_doubt_is_told_once_and_again_by_a_hub_that_begins_anew() {
    play(&[], async |stage| {
        let told = |it: &Stage| it.events("MemberCluster").iter().filter(|it| *it == "SelfSuspect").count();
        four(&stage).await;
        beat(&stage, &CLUSTERS, 90).await;
        // Two at the same time.
        beat(&stage, &CLUSTERS[2..], 120).await;
        assert_eq!((is_suspect(&stage), told(&stage)), (true, 1));
        // Nothing happens to any cluster after this, and the new hub has its doubt all the same.
        stage.hub.crash();
        beat(&stage, &CLUSTERS[2..], 60).await;
        assert_eq!((stage.hub.starts(), is_suspect(&stage), told(&stage)), (2, true, 2));
    });
}

#[test]
fn join_3_a_lease_and_roles_that_somebody_deletes_are_made_again() {
    play(&[], async |stage| {
        const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
        four(&stage).await;
        beat(&stage, &CLUSTERS, 90).await;
        let role = format!("{RBAC}/namespaces/fleet-a/roles/fleet-agent-a");
        let rules = stage.read(&role).unwrap()["rules"].clone();
        stage.delete(&lease("a"));
        stage.delete(&role);
        // What its agent cannot renew makes it Offline, and that makes the hub look.
        beat(&stage, &CLUSTERS[1..], 60).await;
        assert_eq!(state(&stage, "a"), "Offline");
        assert!(stage.read(&lease("a")).is_some());
        assert_eq!(stage.read(&role).unwrap()["rules"], rules);
        beat(&stage, &CLUSTERS, 120).await;
        assert_eq!(CLUSTERS.map(|it| state(&stage, it)), ["Ready"; 4]);
    });
}
