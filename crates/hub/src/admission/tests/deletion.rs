use serde_json::json;

use super::refusal;
use crate::admission::deletion::{Reach, reached, review};

#[test]
fn del_4_protected_objects_are_not_deleted() {
    for kind in
        ["CloneSet", "ImagePullJob", "ImageListPullJob", "Namespace", "PlacementPolicy", "MemberCluster"]
    {
        let object = json!({"kind": kind, "metadata": {"name": "web",
            "annotations": {"fleet.kruise.io/deletion-protection": "true"}}});
        let refused = refusal(review(&object, Reach::default())).unwrap();
        assert!(refused.contains(kind) && refused.contains("deletion-protection"), "{refused}");
    }
    let free = json!({"kind": "CloneSet", "metadata": {"name": "web",
        "annotations": {"fleet.kruise.io/deletion-protection": "false"}}});
    assert_eq!(refusal(review(&free, Reach::default())), None);
}

#[test]
fn del_4_a_namespace_on_several_clusters_needs_its_name_as_confirmation() {
    let namespace = |confirmed: &str| {
        json!({"kind": "Namespace", "metadata": {"name": "shop",
            "annotations": {"fleet.kruise.io/confirm-delete": confirmed}}})
    };
    let wide = Reach { clusters: 2, ..Reach::default() };
    assert!(refusal(review(&namespace("bank"), wide)).unwrap().contains("confirm-delete=shop"));
    assert_eq!(refusal(review(&namespace("shop"), wide)), None);
    assert_eq!(refusal(review(&namespace(""), Reach { clusters: 1, ..wide })), None);
}

#[test]
fn del_4_the_protection_of_openkruise_counts_replicas_over_the_fleet() {
    let object = |word: &str| json!({"kind": "CloneSet", "metadata": {"name": "web", "labels": {"policy.kruise.io/delete-protection": word}}});
    let running = Reach { replicas: 3, ..Reach::default() };
    assert!(refusal(review(&object("Always"), Reach::default())).is_some());
    assert!(refusal(review(&object("Cascading"), running)).unwrap().contains("3 replicas"));
    assert_eq!(refusal(review(&object("Cascading"), Reach::default())), None);
}

#[test]
fn del_4_a_cluster_that_runs_several_objects_of_a_namespace_counts_once() {
    let binding = |clusters: &[&str]| {
        let row = |it: &&str| json!({"cluster": it, "state": "Ready", "seq": 1});
        let mut rows: Vec<_> = clusters.iter().map(row).collect();
        // One that the policy selects and that lacks the kind has a row, and runs nothing.
        rows.push(json!({"cluster": "left-out", "state": "Ready"}));
        serde_json::from_value(json!({
            "metadata": {"name": "b"}, "spec": {"object": {"apiVersion": "v1", "kind": "k", "name": "n", "uid": "u"}},
            "status": {"clusters": rows},
        }))
        .unwrap()
    };
    assert_eq!(reached(&[binding(&["a", "b"]), binding(&["b"]), binding(&[])]), 2);
}
