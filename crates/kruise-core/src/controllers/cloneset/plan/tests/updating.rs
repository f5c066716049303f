//! Updating pods (cloneset.md 8, 17.2, 17.5).

use serde_json::{Value, json};

use super::Village;

fn settled(spec: Value) -> Village {
    let mut village = Village::new(spec);
    village.settle();
    village.log.clear();
    village
}

fn rolling(policy: &str, more: Value) -> Value {
    let mut block = json!({"podUpdatePolicy": policy});
    json_patch::merge(&mut block, &more);
    json!({"rollingUpdate": block})
}

fn done(village: &Village, what: &str) -> usize {
    village.log.iter().filter(|it| it.starts_with(what)).count()
}

#[test]
fn recreating_marks_pods_first_and_replaces_all() {
    let mut village = settled(json!({"replicas": 5, "updateStrategy": rolling("ReCreate", json!({}))}));
    let before = village.names();
    village.image("web:2");
    village.pass(usize::MAX);
    assert_eq!(village.log.len(), 1, "20% of 5 is one: {:?}", village.log);
    assert!(village.log[0].starts_with("Replace"));
    assert_eq!(village.pods.len(), 5, "marking deletes nothing yet");
    village.settle();
    assert_eq!(village.count("web-r2"), 5);
    assert!(before.iter().all(|it| !village.pods.contains_key(it)));
    assert_eq!(village.current_revision(), "web-r2");
}

#[test]
fn in_place_updates_keep_every_pod() {
    let mut village =
        settled(json!({"replicas": 4, "updateStrategy": rolling("InPlaceIfPossible", json!({}))}));
    let before = village.names();
    village.image("web:2");
    village.settle();
    assert_eq!(village.names(), before);
    assert_eq!(village.count("web-r2"), 4);
    assert_eq!((done(&village, "InPlace"), done(&village, "delete"), done(&village, "create")), (4, 0, 0));
    assert!(village.pods.values().all(|it| it["spec"]["containers"][0]["image"] == "web:2"));
}

#[test]
fn what_cannot_be_done_in_place_is_recreated_or_refused() {
    let env = json!({"template": {"spec": {"containers": [{"name": "main", "image": "web:1", "env": [{"name": "A", "value": "1"}]}]}}});
    let mut village =
        settled(json!({"replicas": 3, "updateStrategy": rolling("InPlaceIfPossible", json!({}))}));
    let before = village.names();
    village.change(env.clone());
    village.settle();
    assert!(before.iter().all(|it| !village.pods.contains_key(it)));

    let mut village = settled(json!({"replicas": 3, "updateStrategy": rolling("InPlaceOnly", json!({}))}));
    village.change(env);
    let plan = village.plan();
    assert!(plan.is_empty());
    let trouble = plan.trouble.unwrap();
    assert!(trouble.contains("InPlaceIfPossible") && trouble.contains("web-"), "{trouble}");
}

#[test]
fn a_partition_is_where_the_release_rests() {
    let strategy = |partition: Value| {
        rolling("InPlaceIfPossible", json!({"partition": partition, "maxUnavailable": 10}))
    };
    let mut village = settled(json!({"replicas": 10, "updateStrategy": strategy(json!(0))}));
    village.change(json!({"updateStrategy": strategy(json!("90%"))}));
    village.image("web:2");
    for (partition, updated) in
        [(json!("90%"), 1), (json!("50%"), 5), (json!(5), 5), (json!(3), 7), (json!(0), 10)]
    {
        village.change(json!({"updateStrategy": strategy(partition.clone())}));
        village.settle();
        assert_eq!(village.count("web-r2"), updated, "{partition}");
        let expected = if updated == 10 { "web-r2" } else { "web-r1" };
        assert_eq!(village.current_revision(), expected);
    }
}

#[test]
fn a_lost_old_pod_comes_back_old_while_the_partition_keeps_it() {
    let mut village = settled(
        json!({"replicas": 4, "updateStrategy": rolling("InPlaceIfPossible", json!({"partition": 2}))}),
    );
    village.image("web:2");
    village.settle();
    let old: Vec<_> = village
        .pods
        .iter()
        .filter(|(_, it)| it["metadata"]["labels"]["controller-revision-hash"] == "web-r1")
        .map(|it| it.0.clone())
        .collect();
    assert_eq!(old.len(), 2);
    village.pods.remove(&old[0]);
    village.settle();
    assert_eq!((village.count("web-r1"), village.count("web-r2")), (2, 2));
}

#[test]
fn a_grown_partition_takes_pods_back_only_where_the_gate_is_on() {
    for gate in [false, true] {
        let strategy = |partition: i32| rolling("InPlaceIfPossible", json!({"partition": partition}));
        let mut village = Village::new(json!({"replicas": 10, "updateStrategy": strategy(0)}));
        village.options.partition_rollback = gate;
        village.settle();
        village.change(json!({"updateStrategy": strategy(2)}));
        village.image("web:2");
        village.settle();
        assert_eq!(village.count("web-r2"), 8);
        village.change(json!({"updateStrategy": strategy(6)}));
        village.settle();
        assert_eq!(village.count("web-r2"), if gate { 4 } else { 8 });
        let old = village.pods.values().filter(|it| it["spec"]["containers"][0]["image"] == "web:1").count();
        assert_eq!(old, if gate { 6 } else { 2 });
    }
}

#[test]
fn paused_updates_nothing_and_surges_nothing_but_replaces_what_is_lost() {
    let paused = |paused: bool| rolling("ReCreate", json!({"paused": paused, "maxSurge": 3, "partition": 0}));
    let mut village = settled(json!({"replicas": 4, "updateStrategy": paused(false)}));
    village.change(json!({"updateStrategy": paused(true)}));
    village.image("web:2");
    village.settle();
    assert_eq!((village.count("web-r1"), village.pods.len()), (4, 4), "openkruise/kruise#1153");
    let name = village.names()[0].clone();
    village.pods.remove(&name);
    village.change(json!({"replicas": 5}));
    village.settle();
    assert_eq!((village.count("web-r1"), village.count("web-r2")), (3, 2));
    village.change(json!({"updateStrategy": paused(false)}));
    village.settle();
    assert_eq!((village.count("web-r2"), village.pods.len()), (5, 5));
}

#[test]
fn new_pods_become_ready_while_paused() {
    let mut village =
        Village::new(json!({"replicas": 2, "updateStrategy": rolling("ReCreate", json!({"paused": true}))}));
    village.settle();
    assert_eq!(village.available(), 2, "openkruise/kruise#892, #2291");
}

#[test]
fn broken_new_pods_stop_a_release() {
    let mut village = settled(
        json!({"replicas": 5, "updateStrategy": rolling("InPlaceIfPossible", json!({"maxUnavailable": 2}))}),
    );
    village.broken = village.names();
    village.image("web:2");
    for _ in 0..20 {
        village.pass(usize::MAX);
        village.tick();
    }
    assert_eq!(village.count("web-r2"), 2);
    village.broken.clear();
    village.settle();
    assert_eq!(village.count("web-r2"), 5);
}

#[test]
fn pods_that_are_down_are_updated_first_and_not_all_at_once() {
    let mut village = settled(
        json!({"replicas": 5, "updateStrategy": rolling("InPlaceIfPossible", json!({"maxUnavailable": 2}))}),
    );
    village.broken = village.names();
    village.tick();
    village.image("web:2");
    village.pass(usize::MAX);
    assert_eq!(done(&village, "InPlace"), 2, "openkruise/kruise#898");
}

/// Two broken pods, eight missing ones, and `scaleStrategy.maxUnavailable: 2`: nothing may be added before a pod is mended,
/// and what is missing has used up the budget for updates.
fn stuck(policy: &str) -> Village {
    let mut village = settled(json!({"replicas": 2, "updateStrategy": rolling(policy, json!({}))}));
    village.broken = village.names();
    village.tick();
    village.change(json!({"replicas": 10, "scaleStrategy": {"maxUnavailable": 2}}));
    village.image("web:2");
    village
}

#[test]
fn pods_that_hold_up_the_scale_up_are_replaced_though_others_are_missing() {
    let mut village = stuck("ReCreate");
    village.pass(usize::MAX);
    assert_eq!(village.log.len(), 1, "one at a time: {:?}", village.log);
    village.settle();
    assert_eq!((village.count("web-r2"), village.available()), (10, 10));
}

#[test]
fn pods_that_hold_up_the_scale_up_are_mended_in_place_one_after_the_other() {
    let mut village = stuck("InPlaceIfPossible");
    for _ in 0..5 {
        village.pass(usize::MAX);
        village.tick();
    }
    assert_eq!((done(&village, "InPlace"), village.pods.len()), (1, 2), "one that stays down is enough");
    village.broken.clear();
    village.settle();
    assert_eq!((village.count("web-r2"), village.available()), (10, 10));
}

#[test]
fn labels_alone_change_without_an_extra_pod() {
    let mut village = settled(
        json!({"replicas": 5, "updateStrategy": rolling("InPlaceIfPossible", json!({"maxSurge": 2}))}),
    );
    let before = village.names();
    village.change(json!({"template": {"metadata": {"labels": {"tier": "b"}}}}));
    village.settle();
    assert_eq!(village.names(), before, "openkruise/kruise#2369");
    assert!(village.pods.values().all(|it| it["metadata"]["labels"]["tier"] == "b"));
}

#[test]
fn surge_makes_new_pods_first() {
    let mut village = settled(
        json!({"replicas": 5, "updateStrategy": rolling("ReCreate", json!({"maxUnavailable": 0, "maxSurge": 1}))}),
    );
    village.image("web:2");
    for _ in 0..200 {
        village.pass(usize::MAX);
        assert!(village.available() >= 5, "{:?}", village.log);
        village.tick();
    }
    assert_eq!((village.count("web-r2"), village.pods.len()), (5, 5));
}

/// An extra pod whose creation is not answered may be there all the same. One that is refused must not hold the others up.
#[test]
fn what_fits_the_partition_beside_an_extra_pod_is_told_apart() {
    let strategy = |partition: i64| {
        rolling("InPlaceIfPossible", json!({"partition": partition, "maxUnavailable": 1, "maxSurge": 1}))
    };
    for (partition, beside) in [(2, 0), (1, 1), (0, 2)] {
        let mut village = settled(json!({"replicas": 3, "updateStrategy": strategy(partition)}));
        village.image("web:2");
        let plan = village.plan();
        let numbers = (plan.scale.len(), plan.update.len(), plan.beside);
        assert_eq!(numbers, (1, 1, beside), "partition {partition}");
    }
}

#[test]
fn grace_comes_between_leaving_rotation_and_the_new_image() {
    let strategy = rolling("InPlaceIfPossible", json!({"inPlaceUpdateStrategy": {"gracePeriodSeconds": 5}}));
    let mut village = settled(json!({"replicas": 1, "updateStrategy": strategy}));
    let name = village.names()[0].clone();
    village.image("web:2");
    village.pass(usize::MAX);
    assert_eq!(village.count("web-r2"), 1, "it counts as updated at once");
    let image = |village: &Village| village.pods[&name]["spec"]["containers"][0]["image"].clone();
    for _ in 0..4 {
        village.tick();
        let plan = village.plan();
        assert!(plan.look_again.is_some());
        village.pass(usize::MAX);
        assert_eq!((image(&village), village.available()), (json!("web:1"), 0));
    }
    village.settle();
    assert_eq!((image(&village), village.available()), (json!("web:2"), 1));
}

#[test]
fn priority_decides_who_is_first() {
    let strategy = rolling(
        "InPlaceIfPossible",
        json!({
            "maxUnavailable": 1, "priorityStrategy": {"weightPriority": [{"weight": 50, "matchSelector": {"matchLabels": {"zone": "a"}}}]},
        }),
    );
    let mut village = settled(json!({"replicas": 4, "updateStrategy": strategy}));
    let chosen = village.names()[3].clone();
    village.label(&chosen, "zone", json!("a"));
    village.image("web:2");
    village.pass(usize::MAX);
    assert_eq!(village.log, [format!("InPlace {chosen}")]);
}

#[test]
fn a_pod_without_the_short_hash_gets_it() {
    let mut village = settled(json!({"replicas": 1}));
    let name = village.names()[0].clone();
    village.label(&name, "pod-template-hash", Value::Null);
    village.pass(usize::MAX);
    assert_eq!(village.pods[&name]["metadata"]["labels"]["pod-template-hash"], "r1");
}

#[test]
fn toggling_the_short_hash_updates_nobody() {
    let mut village = settled(json!({"replicas": 2}));
    village.options.short_hash = true;
    assert!(village.plan().is_empty());
    village.change(json!({"replicas": 3}));
    village.settle();
    let short = village
        .pods
        .values()
        .filter(|it| it["metadata"]["labels"]["controller-revision-hash"] == "r1")
        .count();
    assert_eq!(short, 1);
}

#[test]
fn a_pod_that_cannot_be_made_does_not_keep_the_others_from_an_update() {
    let mut village = settled(
        json!({"replicas": 5, "updateStrategy": rolling("InPlaceIfPossible", json!({"maxUnavailable": 2}))}),
    );
    let name = village.names()[0].clone();
    village.pods.remove(&name);
    village.image("web:2");
    let plan = village.plan();
    assert_eq!((plan.scale.len(), plan.update.len()), (1, 1), "the lost pod uses half of the budget");
}

/// The status says that the pod is down, and only the next pass says otherwise.
#[test]
fn a_pod_in_doubt_is_looked_at_again_though_nothing_changes() {
    let mut village = Village::new(json!({"replicas": 3}));
    village.settle();
    assert_eq!(village.plan().look_again, None);
    let name = village.names()[0].clone();
    village.doubts.changed.insert(name);
    let plan = village.plan();
    assert!(plan.is_empty() && plan.look_again.is_some(), "{plan:?}");
}
