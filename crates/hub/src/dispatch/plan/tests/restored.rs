//! HA-5: a hub that may have been restored from an older copy.

use kruise_core::api::fleet::assignment::RevisionRef;

use super::*;

#[test]
fn ha_5_nothing_is_written_for_anybody_before_every_cluster_with_a_part_was_heard() {
    let mut world = World::new(10);
    world.settle();
    world.object["spec"]["replicas"] = json!(20);
    for cluster in &mut world.clusters {
        cluster.word = caution::Word::Awaited;
    }
    let is_silent =
        |round: &Round| round.writes.is_empty() && round.save.is_none() && round.look_again.is_some();
    assert!(is_silent(&world.plan()));
    (world.clusters[0].word, world.clusters[1].word) = (caution::Word::Heard, caution::Word::Heard);
    let round = world.plan();
    assert!(is_silent(&round), "what the third may be doing is not known");
    assert_eq!(round.standing.notes, [], "and what is stored may be as old");
    // One that is Offline is frozen, and not waited for.
    world.clusters[2].planning = State::Offline;
    assert!(world.plan().writes.iter().any(|it| it.cluster == "a"));
    world.clusters[2].planning = State::Ready;
    world.clusters[2].word = caution::Word::Heard;
    assert_eq!(world.plan().writes.len(), 3);
}

#[test]
fn sec_5_a_cluster_whose_word_never_fits_is_left_alone_and_holds_nobody_up() {
    let mut world = World::new(9);
    world.settle();
    world.object["spec"]["replicas"] = json!(12);
    world.clusters[1].word = caution::Word::Doubted;
    let round = world.plan();
    assert!(!round.writes.is_empty() && round.writes.iter().all(|it| it.cluster != "b"));
    let stale =
        round.standing.binding.conditions.iter().find(|it| it.type_ == keys::conditions::STALE).unwrap();
    assert_eq!((stale.reason.as_str(), stale.message.contains('b')), ("NotHeard", true));
    // Its next word may fit, and a Lease that is renewed as always wakes nobody.
    world.settle();
    assert!(world.plan().look_again.is_some());
    world.clusters[1].word = caution::Word::Heard;
    assert_eq!(world.plan().look_again, None);
}

#[test]
fn ha_4_a_round_at_rest_is_the_same_whoever_is_awaited() {
    let mut world = World::new(10);
    world.settle();
    let heard = world.plan();
    world.clusters[1].word = caution::Word::Awaited;
    assert_eq!(world.plan(), heard);
}

#[test]
fn ha_5_what_a_cluster_does_by_a_newer_plan_leaves_that_much_less_for_others() {
    let mut world = World::new(9);
    world.settle();
    // The copy knows 3 + 3 + 3; meanwhile b was given 6.
    let assignment = Arc::make_mut(world.clusters[1].assignment.as_mut().unwrap());
    let status = assignment.status.as_mut().unwrap();
    status.applied_seq = 9;
    status.applied =
        Some(Slice::CloneSet(CloneSetSlice { replicas: 6, updated: 6, ..CloneSetSlice::default() }));
    (status.counts.replicas, status.counts.available) = (6, 6);
    world.object["spec"]["replicas"] = json!(10);
    let granted =
        |round: &Round, cluster: &str| round.save.as_ref().unwrap().ledger.clusters[cluster].share.replicas;
    let round = world.plan();
    assert_eq!(granted(&round, "a") + granted(&round, "c"), 6, "12 may be there already");
    // A person looks at it, and the hub goes on from there.
    let binding = world.binding.as_mut().unwrap();
    binding.metadata.annotations = Some([(keys::RECOVER.to_owned(), "{\"b\": 9}".to_owned())].into());
    let round = world.plan();
    let row = &round.save.as_ref().unwrap().ledger.clusters["b"];
    assert!(row.share.seq >= 9 && row.share.replicas <= 6, "{row:?}");
    assert!(round.writes.iter().all(|it| it.cluster != "b" || it.spec.seq > 9));
    assert!(round.standing.binding.conditions.iter().all(|it| it.reason != "Restored"));
}

#[test]
fn sec_5_a_cluster_that_was_just_given_something_cannot_make_up_a_newer_plan() {
    let mut world = World::new(9);
    world.settle();
    // The same as if its first plan were not acknowledged yet.
    let row = world.binding.as_mut().unwrap().spec.ledger.clusters.get_mut("b").unwrap();
    (row.report, row.acknowledged) = (None, false);
    let assignment = Arc::make_mut(world.clusters[1].assignment.as_mut().unwrap());
    let status = assignment.status.as_mut().unwrap();
    (status.applied_seq, status.report) = (i64::MAX as u64, status.report + 1);
    status.stable =
        Some(RevisionRef { name: "frv-mine".to_owned(), hash: "1".to_owned(), ..RevisionRef::default() });
    world.object["spec"]["replicas"] = json!(12);
    let round = world.plan();
    let saved = &round.save.as_ref().unwrap().ledger;
    assert!(saved.clusters["b"].share.seq < 100, "{:?}", saved.clusters["b"].share);
    assert_ne!(saved.stable.as_ref().map(|it| it.name.as_str()), Some("frv-mine"));
    assert!(round.writes.iter().all(|it| it.cluster != "b"), "it is left alone");
    assert!(!round.writes.is_empty(), "and the others are not");
}

/// Everything that the hub had stored of the object is lost, and written anew; clusters know plan 9 and say so.
fn lost(world: &mut World) -> Round {
    world.settle();
    world.binding = None;
    let take = |it: &mut Cluster| it.assignment.take().unwrap().status.clone().unwrap();
    let said: Vec<AssignmentStatus> = world.clusters.iter_mut().map(take).collect();
    // Nobody has renewed its Lease yet.
    world.clusters.iter_mut().for_each(|it| it.planning = State::Offline);
    let round = world.plan();
    world.store(&round, 0);
    world.clusters.iter_mut().for_each(|it| it.planning = State::Ready);
    let round = world.plan();
    world.store(&round, usize::MAX);
    for (cluster, said) in world.clusters.iter_mut().zip(said) {
        let assignment = Arc::make_mut(cluster.assignment.as_mut().unwrap());
        let report = said.report + 1;
        assignment.status = Some(AssignmentStatus { applied_seq: 9, report, ..said });
    }
    world.plan()
}

#[test]
fn proto_7_a_ledger_that_was_lost_is_rebuilt_from_what_clusters_say() {
    let mut world = World::new(9);
    world.object["metadata"]["finalizers"] = json!([keys::FINALIZER]);
    world.object["status"] = json!({"observedGeneration": 1});
    let round = lost(&mut world);
    assert_eq!(round.writes.len(), 3, "{:?}", round.standing.binding.conditions);
    assert!(round.writes.iter().all(|it| it.spec.seq > 9));
    world.store(&round, usize::MAX);
    world.obey();
    world.settle();
    let ledger = &world.binding.as_ref().unwrap().spec.ledger;
    assert!(!ledger.rebuilt, "a cluster that is new from now on is new");
}

#[test]
fn sec_5_the_ledger_of_a_new_object_was_not_lost() {
    for finalizers in [json!([]), json!([keys::FINALIZER])] {
        let mut world = World::new(9);
        world.object["metadata"]["finalizers"] = finalizers;
        assert!(lost(&mut world).writes.is_empty());
    }
}

#[test]
fn ha_5_a_plan_under_a_term_that_its_cluster_refuses_is_written_anew() {
    let mut world = World::new(9);
    world.settle();
    let status = |world: &mut World, term| {
        let assignment = Arc::make_mut(world.clusters[1].assignment.as_mut().unwrap());
        assignment.status.as_mut().unwrap().applied_term = term;
    };
    let seq = world.clusters[1].assignment.as_ref().unwrap().spec.seq;
    status(&mut world, 5);
    let round = world.plan();
    let written: Vec<_> = round.writes.iter().map(|it| (it.cluster.as_str(), it.spec.seq)).collect();
    assert_eq!(written, [("b", seq + 1)]);
    // So is one that ends the object.
    let ending = end(&world.observed(), &BTreeSet::new());
    for write in ending.writes {
        let cluster = world.clusters.iter_mut().find(|it| it.facts.name == write.cluster).unwrap();
        Arc::make_mut(cluster.assignment.as_mut().unwrap()).spec = AssignmentSpec { term: 1, ..write.spec };
    }
    let again: Vec<_> =
        end(&world.observed(), &BTreeSet::new()).writes.into_iter().map(|it| it.cluster).collect();
    assert_eq!(again, ["b"]);
    status(&mut world, u64::MAX);
    assert_eq!(
        end(&world.observed(), &BTreeSet::new()).writes,
        [],
        "SEC-5: one that lies is not answered for ever"
    );
}

#[test]
fn proto_7_a_ledger_is_being_rebuilt_until_everything_is_granted() {
    let mut world = World::new(9);
    world.settle();
    // After a start parts are granted one by one, as clusters are heard: `a` has none yet, and the others have answered.
    let ledger = &mut world.binding.as_mut().unwrap().spec.ledger;
    ledger.rebuilt = true;
    ledger.clusters.remove("a");
    world.clusters[0].assignment = None;
    world.clusters[0].planning = State::Unconfirmed;
    let known = world.binding.as_ref().unwrap().spec.ledger.clone();
    let after = world.plan().save.map_or(known, |it| it.ledger);
    assert!(after.rebuilt && after.clusters["b"].acknowledged, "{after:?}");
    world.clusters[0].planning = State::Ready;
    world.settle();
    assert!(!world.binding.unwrap().spec.ledger.rebuilt);
}

/// A cluster that is given an object again says that it gave it up under this number.
fn gave_up(number: u64, state: ShareState) -> World {
    let mut world = World::new(10);
    let round = world.plan();
    world.store(&round, usize::MAX);
    let assignment = Arc::make_mut(world.clusters[1].assignment.as_mut().unwrap());
    assignment.status = Some(AssignmentStatus {
        incarnation: 1,
        report: 1,
        applied_term: 1,
        applied_seq: number,
        state: Some(state),
        ..AssignmentStatus::default()
    });
    world
}

fn next_number(world: &World) -> Option<u64> {
    world.plan().writes.iter().find(|it| it.cluster == "b").map(|it| it.spec.seq)
}

#[test]
fn proto_3_a_number_that_went_with_an_earlier_ledger_is_learnt_from_who_gave_the_object_up() {
    assert_eq!(next_number(&gave_up(7, ShareState::Deleted)), Some(8));
    assert_eq!(next_number(&gave_up(7, ShareState::Orphaned)), Some(8));
    assert_eq!(next_number(&gave_up(7, ShareState::Settled)), None, "HA-5: it carries something out");
    assert_eq!(next_number(&gave_up(1 << 40, ShareState::Deleted)), None, "SEC-5: nobody ever wrote that");
    // One whose share is known to have been there is not believed so easily.
    let mut world = gave_up(7, ShareState::Deleted);
    let ledger = &mut world.binding.as_mut().unwrap().spec.ledger;
    ledger.clusters.get_mut("b").unwrap().acknowledged = true;
    assert_eq!(next_number(&world), None);
}
