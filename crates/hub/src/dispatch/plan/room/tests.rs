use std::{collections::BTreeSet, sync::Arc};

use kruise_core::api::fleet::{
    CloneSetSlice, Counts,
    assignment::CapacityAnswer,
    keys::{self, conditions},
};

use super::*;
use crate::dispatch::{
    end::end,
    plan::{Round, tests::World},
};

/// An object of ten under a policy that says this about replicas, with agents that can answer.
fn world(replicas: Value) -> World {
    let mut world = World::new(10);
    world.object["spec"]["template"]["spec"]["containers"] =
        json!([{"name": "web", "image": "v1", "resources": {"requests": {"cpu": "1"}}}]);
    set_policy(&mut world, json!({"targets": [], "replicas": replicas}));
    for cluster in &mut world.clusters {
        Arc::make_mut(&mut cluster.facts).features = vec![features::CAPACITY.to_owned()];
    }
    world
}

fn set_policy(world: &mut World, placement: Value) {
    let winner = world.winner.as_mut().unwrap();
    winner.placement = Arc::new(serde_json::from_value(placement).unwrap());
    winner.reference.generation += 1;
}

/// A cluster answers its question.
fn answer(world: &mut World, name: &str, fit_now: u32) {
    let cluster = world.clusters.iter_mut().find(|it| it.facts.name == name).unwrap();
    let assignment = Arc::make_mut(cluster.assignment.as_mut().unwrap());
    let question = assignment.spec.capacity_question.as_ref().unwrap().id.clone();
    let status = assignment.status.get_or_insert_default();
    (status.incarnation, status.report) = (1, status.report + 1);
    status.capacity = Some(CapacityAnswer { question, fit_now, ..CapacityAnswer::default() });
}

/// Asks, and has all clusters answer.
fn answered(replicas: Value, answers: [u32; 3]) -> World {
    let mut world = world(replicas);
    let round = world.plan();
    world.store(&round, usize::MAX);
    for (name, fit) in ["a", "b", "c"].into_iter().zip(answers) {
        answer(&mut world, name, fit);
    }
    world
}

fn intents(round: &Round) -> Vec<(&str, Intent, u64)> {
    round.writes.iter().map(|it| (it.cluster.as_str(), it.spec.intent, it.spec.seq)).collect()
}

fn shares(round: &Round) -> Vec<(String, u32)> {
    let ledger = &round.save.as_ref().unwrap().ledger;
    ledger.clusters.iter().map(|(name, it)| (name.clone(), it.share.replicas)).collect()
}

fn condition(round: &Round, kind: &str) -> Option<(String, String)> {
    let found = round.standing.binding.conditions.iter().find(|it| it.type_ == kind)?;
    Some((found.reason.clone(), found.message.clone()))
}

#[test]
fn proto_8_only_policies_whose_division_depends_on_room_ask() {
    let asks = |placement: Value| matters(&serde_json::from_value(placement).unwrap());
    assert!(!asks(json!({"targets": []})));
    assert!(!asks(json!({"targets": [], "replicas": {"mode": "Duplicated", "whenShort": "Hold"}})));
    assert!(asks(json!({"targets": [], "replicas": {"whenShort": "Hold"}})));
    assert!(asks(json!({"targets": [], "replicas": {"dynamic": "FreeCapacity"}})));
    assert!(asks(json!({"targets": [], "replicas": {"mode": "Aggregated"}})));
    assert!(asks(json!({"targets": [], "tiers": [{"clusters": {}}]})));
    let plain = world(json!({}));
    assert!(plain.plan().writes.iter().all(|it| it.spec.capacity_question.is_none()));
}

#[test]
fn proto_8_clusters_without_a_share_are_asked_and_nothing_is_placed_before_they_have_answered() {
    let mut world = world(json!({"whenShort": "Hold"}));
    let round = world.plan();
    assert_eq!(intents(&round), ["a", "b", "c"].map(|it| (it, Intent::Ask, 0)));
    assert!(!round.is_settled && round.body.is_none());
    let saved = round.save.as_ref().unwrap();
    assert!(
        saved.ledger.clusters.is_empty() && saved.ledger.generation == 0,
        "nothing is promised by a question"
    );
    let (reason, message) = condition(&round, conditions::SCHEDULED).unwrap();
    assert_eq!(reason, "AskingForRoom");
    assert!(message.ends_with("a, b, c"), "{message}");
    assert_eq!(condition(&round, conditions::UNPLACED), None);
    world.store(&round, usize::MAX);
    answer(&mut world, "a", 100);
    let round = world.plan();
    assert!(round.writes.is_empty() && round.save.is_none(), "one answer is not enough");
    // Whoever does not answer in time is taken for unlimited.
    world.elapsed = PATIENCE;
    assert!(world.plan().writes.is_empty(), "however long ago the ledger was saved");
    world.clusters.iter_mut().for_each(|it| it.asked_for = PATIENCE);
    assert_eq!(shares(&world.plan()).iter().map(|it| it.1).sum::<u32>(), 10);
}

#[test]
fn split_2_what_does_not_fit_is_held_and_placed_when_there_is_room() {
    let mut world = answered(json!({"whenShort": "Hold"}), [2, 3, 0]);
    let round = world.plan();
    assert_eq!(shares(&round), [("a".to_owned(), 2), ("b".to_owned(), 3)]);
    assert_eq!(intents(&round), [("a", Intent::Apply, 1), ("b", Intent::Apply, 1)]);
    assert_eq!(round.save.as_ref().unwrap().ledger.generation, 1);
    assert_eq!(condition(&round, conditions::UNPLACED).unwrap().0, "NoRoom");
    world.store(&round, usize::MAX);
    world.obey();
    // Its pods take up what was free.
    answer(&mut world, "a", 0);
    answer(&mut world, "b", 0);
    let round = world.plan();
    world.store(&round, usize::MAX);
    let again = world.plan();
    assert!(round.writes.is_empty() && again.writes.is_empty() && again.save.is_none());
    answer(&mut world, "c", 9);
    let round = world.plan();
    assert_eq!(shares(&round)[2], ("c".to_owned(), 5));
    assert_eq!(condition(&round, conditions::UNPLACED), None);
}

#[test]
fn out_of_capacity_pods_that_wait_for_a_node_are_taken_back_and_those_that_run_stay() {
    let mut world = answered(json!({"whenShort": "Hold"}), [10, 0, 0]);
    let round = world.plan();
    world.store(&round, usize::MAX);
    world.obey();
    // Somebody else took the room of four in the meantime.
    answer(&mut world, "a", 0);
    let assignment = Arc::make_mut(world.clusters[0].assignment.as_mut().unwrap());
    let counts = &mut assignment.status.as_mut().unwrap().counts;
    *counts = Counts {
        ready: 6,
        available: 6,
        updated_available: 6,
        unavailable: 4,
        unscheduled: 4,
        ..counts.clone()
    };
    let round = world.plan();
    assert_eq!(shares(&round), [("a".to_owned(), 6)]);
    assert_eq!(condition(&round, conditions::UNPLACED).unwrap().0, "NoRoom");
}

#[test]
fn split_6_the_fewest_clusters_that_hold_them_are_taken() {
    assert_eq!(shares(&answered(json!({"mode": "Aggregated"}), [9, 12, 8]).plan()), [("b".to_owned(), 10)]);
    let two = shares(&answered(json!({"mode": "Aggregated"}), [6, 7, 5]).plan());
    assert_eq!(two.iter().map(|it| it.0.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn split_7_weights_follow_room_and_a_moving_estimate_alone_changes_nothing() {
    let mut world = answered(json!({"dynamic": "FreeCapacity"}), [40, 20, 40]);
    let round = world.plan();
    assert_eq!(shares(&round).iter().map(|it| it.1).collect::<Vec<_>>(), [4, 2, 4]);
    let weights =
        |round: &Round| round.save.as_ref().unwrap().ledger.weights.values().copied().collect::<Vec<_>>();
    assert_eq!(weights(&round), [20, 10, 20]);
    world.store(&round, usize::MAX);
    world.obey();
    let round = world.plan();
    world.store(&round, usize::MAX);
    answer(&mut world, "a", 1);
    answer(&mut world, "b", 90);
    let round = world.plan();
    assert!(round.writes.is_empty() && round.save.is_none(), "{round:?}");
    // Another generation is planned by what is so now.
    world.object["metadata"]["generation"] = json!(2);
    assert_eq!(weights(&world.plan()), [2, 20, 10]);
}

#[test]
fn split_7_what_others_were_promised_and_nobody_has_seen_is_not_free() {
    let share = |uid: &str, replicas, seen: u32, unscheduled| {
        let mut it = Assignment::default();
        it.spec.object.uid = uid.to_owned();
        it.spec.slice = Some(Slice::CloneSet(CloneSetSlice { replicas, ..CloneSetSlice::default() }));
        it.status.get_or_insert_default().counts =
            Counts { replicas: seen, unscheduled, ..Counts::default() };
        it
    };
    let all = [share("u", 50, 0, 0), share("v", 10, 7, 0), share("w", 10, 12, 0), share("x", 5, 5, 2)];
    assert_eq!(promised(&all, "u"), 3 + 2);
    let mut world = answered(json!({"whenShort": "Hold"}), [6, 6, 0]);
    world.clusters[0].promised_to_others = 4;
    assert_eq!(shares(&world.plan()), [("a".to_owned(), 2), ("b".to_owned(), 6)]);
}

#[test]
fn proto_8_agents_that_cannot_answer_are_neither_asked_nor_waited_for() {
    let mut world = world(json!({"whenShort": "Hold"}));
    Arc::make_mut(&mut world.clusters[1].facts).features.clear();
    let round = world.plan();
    assert_eq!(intents(&round), [("a", Intent::Ask, 0), ("c", Intent::Ask, 0)]);
    world.store(&round, usize::MAX);
    answer(&mut world, "a", 1);
    answer(&mut world, "c", 1);
    let total: u32 = shares(&world.plan()).iter().map(|it| it.1).sum();
    assert_eq!(total, 10, "what nobody can tell is unlimited");
}

#[test]
fn proto_8_a_question_that_is_not_asked_any_more_goes() {
    let mut world = answered(json!({"whenShort": "Hold"}), [10, 0, 0]);
    let round = world.plan();
    world.store(&round, usize::MAX);
    world.obey();
    // An end takes questions along, and they do not hold it up.
    assert_eq!(end(&world.observed(), &BTreeSet::new()).removals, ["b", "c"]);
    set_policy(
        &mut world,
        json!({"targets": [], "clusters": {"names": ["a", "b"]}, "replicas": {"whenShort": "Hold"}}),
    );
    assert_eq!(world.plan().removals, ["c"]);
    set_policy(&mut world, json!({"targets": [], "clusters": {"names": ["a"]}}));
    let round = world.plan();
    assert_eq!(round.removals, ["b", "c"]);
    assert!(round.writes.iter().all(|it| it.cluster == "a" && it.spec.capacity_question.is_none()));
}

#[test]
fn proto_8_a_question_is_about_what_needs_room_and_nothing_else() {
    let placement: Placement =
        serde_json::from_value(json!({"targets": [], "replicas": {"whenShort": "Hold"}})).unwrap();
    let body = |image: &str, cpu: &str| {
        json!({"spec": {"template": {"metadata": {"labels": {"app": image}}, "spec": {
            "containers": [{"name": "web", "image": image, "resources": {"requests": {"cpu": cpu}}}, {"name": "side"}],
            "tolerations": [], "nodeSelector": {"disk": "fast"},
            "affinity": {"podAffinity": {}, "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"a": 1}}},
        }}}})
    };
    let first = question(&placement, &body("v1", "1"), 10);
    assert_eq!(
        first.pod,
        json!({
            "containers": [{"resources": {"requests": {"cpu": "1"}}}], "nodeSelector": {"disk": "fast"},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"a": 1}}},
        })
    );
    assert_eq!(first.up_to, Some(32));
    assert_eq!(first, question(&placement, &body("v2", "1"), 16), "another image needs no other room");
    assert_ne!(first.id, question(&placement, &body("v1", "2"), 10).id);
    assert_ne!(first.id, question(&placement, &body("v1", "1"), 17).id);
}

/// A question is asked in cluster `b`, which says that it carries out plan 9: six pods.
fn forgotten(is_rebuilt: bool) -> World {
    let mut world = world(json!({"whenShort": "Hold"}));
    if is_rebuilt {
        world.object["metadata"]["finalizers"] = json!([keys::FINALIZER]);
        world.object["status"] = json!({"replicas": 10});
    }
    let round = world.plan();
    world.store(&round, usize::MAX);
    for (name, fit) in [("a", 20), ("b", 20), ("c", 20)] {
        answer(&mut world, name, fit);
    }
    let status = Arc::make_mut(world.clusters[1].assignment.as_mut().unwrap()).status.as_mut().unwrap();
    status.applied_seq = 9;
    status.applied =
        Some(Slice::CloneSet(CloneSetSlice { replicas: 6, updated: 6, ..CloneSetSlice::default() }));
    status.counts = Counts { replicas: 6, available: 6, updated: 6, ..Counts::default() };
    world
}

#[test]
fn proto_7_a_plan_that_was_forgotten_is_found_where_only_a_question_is_asked() {
    let world = forgotten(true);
    let round = world.plan();
    let total: u32 = shares(&round).iter().map(|it| it.1).sum();
    assert_eq!(total, 10, "{round:?}");
    let row = &round.save.as_ref().unwrap().ledger.clusters["b"];
    assert!(row.share.seq >= 9 && row.share.replicas <= 6, "{row:?}");
    let ending = end(&world.observed(), &BTreeSet::new());
    assert!(
        ending
            .writes
            .iter()
            .any(|it| it.cluster == "b" && it.spec.intent == Intent::Delete && it.spec.seq > 9)
    );
    assert_eq!(ending.removals, ["a", "c"], "nothing is left behind but what is told to go");
}

#[test]
fn ha_5_what_a_cluster_does_beside_a_question_leaves_that_much_less_for_others() {
    let world = forgotten(false);
    let round = world.plan();
    let others: u32 = shares(&round).iter().filter(|it| it.0 != "b").map(|it| it.1).sum();
    assert!(others <= 5, "six may be there already, and one more is what a move may have");
    assert!(round.writes.iter().all(|it| it.cluster != "b"), "SEC-5: it is not believed, and left alone");
}
