//! What a policy or a cluster says, and what people are told of it.

use kruise_core::api::fleet::{keys::features, policy::OnFailure};

use super::*;

fn condition<'a>(
    round: &'a Round,
    kind: &str,
) -> &'a k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition {
    round.standing.binding.conditions.iter().find(|it| it.type_ == kind).unwrap()
}

fn shares(round: &Round) -> Vec<u32> {
    let ledger = &round.save.as_ref().unwrap().ledger;
    ledger.clusters.values().map(|it| it.share.replicas).collect()
}

fn updated(ledger: &Saved) -> u32 {
    ledger.clusters.values().map(|it| it.share.updated).sum()
}

/// Comes to rest in the middle of a release: every cluster has as many pods of the target as its share says.
fn settle_released(world: &mut World) {
    for _ in 0..20 {
        let round = world.plan();
        if round.save.is_none() && round.writes.is_empty() {
            return;
        }
        world.store(&round, usize::MAX);
        world.obey();
        for cluster in &mut world.clusters {
            let assignment = Arc::make_mut(cluster.assignment.as_mut().unwrap());
            let Some(Slice::CloneSet(slice)) = &assignment.spec.slice else { continue };
            let counts = &mut assignment.status.as_mut().unwrap().counts;
            (counts.updated, counts.updated_available) = (slice.updated, slice.updated);
            if assignment.spec.target != assignment.spec.stable {
                counts.stable = slice.replicas - slice.updated;
            }
        }
    }
    panic!("it does not come to rest");
}

fn facts(world: &mut World, place: usize) -> &mut ClusterFacts {
    Arc::make_mut(&mut world.clusters[place].facts)
}

#[test]
fn rel_7_a_rollback_without_waves_is_told_once_and_with_its_reason() {
    let mut world = World::new(6);
    let placement = Arc::make_mut(&mut world.winner.as_mut().unwrap().placement);
    placement.rollout.on_failure = OnFailure::Rollback;
    world.settle();
    world.object["spec"]["template"]["spec"]["containers"] = json!([{"name": "web", "image": "bad"}]);
    world.object["metadata"]["generation"] = json!(2);
    // Clusters take what they are given, and no pod of it ever comes up.
    let mut rolled_back = None;
    for _ in 0..5 {
        let round = world.plan();
        world.store(&round, usize::MAX);
        world.elapsed = 601;
        if round.standing.notes.iter().any(|it| it.reason == keys::events::ROLLED_BACK) {
            rolled_back = Some(round);
            break;
        }
        assert_eq!(condition(&round, keys::conditions::RELEASED).reason, "Releasing");
    }
    let round = rolled_back.expect("it is rolled back, and an event tells");
    let told = condition(&round, keys::conditions::RELEASED).clone();
    assert_eq!((told.status.as_str(), told.reason.as_str()), ("False", "RolledBack"));
    assert!(told.message.contains("made no progress within the deadline"), "{}", told.message);
    assert!(told.message.contains("until the template is edited"), "{}", told.message);
    // The round that follows knows it from what was told.
    world.binding.as_mut().unwrap().status = Some(round.standing.binding);
    world.elapsed = 1;
    let next = world.plan();
    assert_eq!(condition(&next, keys::conditions::RELEASED).message, told.message);
    assert!(next.standing.notes.iter().all(|it| it.reason != keys::events::ROLLED_BACK));
    // And an edit ends it.
    world.object["spec"]["template"]["spec"]["containers"] = json!([{"name": "web", "image": "good"}]);
    assert_eq!(condition(&world.plan(), keys::conditions::RELEASED).reason, "Releasing");
}

#[test]
fn ha_6_a_cluster_with_an_agent_that_is_too_old_is_told_with_the_field() {
    let mut world = World::new(9);
    world.object["spec"]["scaleStrategy"] = json!({"maxUnavailable": 9});
    for place in [0, 1] {
        facts(&mut world, place).features = vec![features::SCALE_MAX_UNAVAILABLE.to_owned()];
    }
    let round = world.plan();
    assert_eq!(shares(&round).iter().sum::<u32>(), 9);
    assert_eq!(round.writes.iter().map(|it| it.cluster.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let row = round.standing.binding.clusters.iter().find(|it| it.cluster == "c").unwrap();
    assert!(row.reason.contains("too old for ScaleMaxUnavailable"), "{}", row.reason);
    // It is used as soon as its agent is newer.
    facts(&mut world, 2).features = vec![features::SCALE_MAX_UNAVAILABLE.to_owned()];
    assert_eq!(world.plan().writes.len(), 3);
}

#[test]
fn rev_5_a_raised_partition_takes_pods_back_only_where_every_cluster_does() {
    for clusters_that_do in [2, 3] {
        let mut world = World::new(6);
        for place in 0..clusters_that_do {
            facts(&mut world, place).features = vec![features::PARTITION_ROLLBACK.to_owned()];
        }
        world.settle();
        world.object["spec"]["template"]["spec"]["containers"] = json!([{"name": "web", "image": "v2"}]);
        world.object["spec"]["updateStrategy"] =
            json!({"rollingUpdate": {"partition": 1, "maxUnavailable": 6}});
        settle_released(&mut world);
        world.object["spec"]["updateStrategy"] =
            json!({"rollingUpdate": {"partition": "100%", "maxUnavailable": 6}});
        let before = updated(&world.binding.as_ref().unwrap().spec.ledger);
        let after = world.plan().save.map_or(before, |it| updated(&it.ledger));
        assert!(before >= 5);
        assert_eq!(after == 0, clusters_that_do == 3, "{before} -> {after}");
    }
}

#[test]
fn move_5_a_policy_that_was_deleted_and_made_again_evens_out() {
    for (uid, evens_out) in [("other", true), ("first", false)] {
        let mut world = World::new(9);
        let reference = &mut world.winner.as_mut().unwrap().reference;
        (reference.uid, reference.generation) = ("first".to_owned(), 1);
        let placement = Arc::make_mut(&mut world.winner.as_mut().unwrap().placement);
        placement.clusters.exclude = vec!["c".to_owned()];
        world.settle();
        let winner = world.winner.as_mut().unwrap();
        Arc::make_mut(&mut winner.placement).clusters.exclude = Vec::new();
        winner.reference.uid = uid.to_owned();
        let round = world.plan();
        assert_eq!(round.writes.iter().any(|it| it.cluster == "c"), evens_out, "{uid}: {:?}", round.writes);
    }
}

#[test]
fn cs_5_a_drain_that_leaves_pods_with_volumes_says_so_on_the_binding() {
    let mut world = World::new(9);
    world.object["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}}]);
    world.settle();
    world.clusters[1].planning = State::Draining;
    let round = world.plan();
    assert!(round.writes.is_empty(), "{:?}", round.writes);
    let held = condition(&round, keys::conditions::DRAIN_HELD);
    assert_eq!(held.reason, "HasVolumes");
    assert!(held.message.contains("kubectl fleet drain b --move-stateful"), "{}", held.message);
    facts(&mut world, 1).moves_stateful = true;
    assert!(!world.plan().writes.is_empty(), "now they move");
}
