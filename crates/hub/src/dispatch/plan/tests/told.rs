//! What people are told of members: taken over, put right, fought for, moved, well.

use kruise_core::api::fleet::{assignment::Corrected, binding::FleetBindingStatus};

use super::*;
use crate::dispatch::status::Told;

fn status<'a>(world: &'a mut World, cluster: &str) -> &'a mut AssignmentStatus {
    let cluster = world.clusters.iter_mut().find(|it| it.facts.name == cluster).unwrap();
    let status = Arc::make_mut(cluster.assignment.as_mut().unwrap()).status.as_mut().unwrap();
    // A report like any other: newer than the one before.
    status.report += 1;
    status
}

/// Stores what is said of the object.
fn tell(world: &mut World, told: FleetBindingStatus) {
    world.binding.as_mut().unwrap().status = Some(told);
}

fn condition<'a>(
    round: &'a Round,
    kind: &str,
) -> Option<&'a k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    round.standing.binding.conditions.iter().find(|it| it.type_ == kind)
}

#[test]
fn dr_1_corrections_are_told_until_they_are_stored_and_only_the_new_ones_again() {
    let mut world = World::new(10);
    world.settle();
    let corrected = |count, path: &str| {
        Some(Corrected { count, paths: vec![path.to_owned()], by: vec!["kubectl".to_owned()] })
    };
    status(&mut world, "b").corrected = corrected(2, "/spec/minReadySeconds");
    let round = world.plan();
    let notes: Vec<_> =
        round.standing.notes.iter().map(|it| (it.told, it.reason, it.message.as_str())).collect();
    let message = "put right in b: /spec/minReadySeconds changed by kubectl (2 times so far)";
    assert_eq!(notes, [(Told::Rarely, "DriftCorrected", message)]);
    assert_eq!(round.standing.binding.clusters[1].corrected, 2);
    tell(&mut world, round.standing.binding);
    assert_eq!(world.plan().standing.notes, []);
    status(&mut world, "b").corrected = corrected(3, "/spec/replicas");
    assert_eq!(world.plan().standing.notes[0].reason, "ScaleConflict");
    // A share that was made anew counts from the beginning.
    status(&mut world, "b").corrected = corrected(1, "/spec/minReadySeconds");
    assert_eq!(world.plan().standing.notes[0].reason, "DriftCorrected");
}

#[test]
fn cs_3_a_fight_for_the_replicas_is_a_scale_conflict_and_names_the_other() {
    let mut world = World::new(10);
    world.settle();
    let mut fight = |path: &str| {
        let status = status(&mut world, "b");
        (status.drift, status.drifted_by) = (vec![path.to_owned()], vec!["autoscaler".to_owned()]);
        let round = world.plan();
        let drifted = condition(&round, keys::conditions::DRIFTED).unwrap().clone();
        (drifted.reason, drifted.message, round.standing.notes[0].reason, round.standing.binding.summary)
    };
    let (reason, message, event, summary) = fight("/spec/replicas");
    assert_eq!((reason.as_str(), event, summary.as_str()), ("ScaleConflict", "ScaleConflict", "Drifted"));
    assert_eq!(message, "autoscaler scales the object in b; only the hub may");
    let (reason, _, event, _) = fight("/spec/minReadySeconds");
    assert_eq!((reason.as_str(), event), ("DriftFight", "DriftFight"));
}

#[test]
fn ad_1_an_adoption_is_told_once() {
    let mut world = World::new(10);
    world.settle();
    status(&mut world, "c").adopted = true;
    let round = world.plan();
    let note = &round.standing.notes[0];
    assert_eq!((note.reason, note.message.ends_with("taken over in c")), ("Adopted", true), "{note:?}");
    assert!(round.standing.binding.clusters[2].adopted);
    tell(&mut world, round.standing.binding);
    assert_eq!(world.plan().standing.notes, []);
}

#[test]
fn rescheduled_says_which_cluster_is_left_and_why() {
    let mut world = World::new(9);
    world.settle();
    world.clusters[0].planning = State::Draining;
    let note = |world: &World| world.plan().standing.notes[0].clone();
    let drained = note(&world);
    assert_eq!(drained.reason, "Rescheduled");
    assert!(drained.message.ends_with(": a is being drained"), "{}", drained.message);
    world.clusters[0].planning = State::Ready;
    let winner = world.winner.as_mut().unwrap();
    Arc::make_mut(&mut winner.placement).clusters.exclude = vec!["b".to_owned()];
    let excluded = note(&world);
    assert!(excluded.message.ends_with(": the policy does not select b any more"), "{}", excluded.message);
}

#[test]
fn st_4_an_object_at_rest_is_available_and_has_progressed() {
    let mut world = World::new(9);
    let first = world.plan();
    let available = condition(&first, keys::conditions::AVAILABLE).unwrap();
    assert_eq!((available.status.as_str(), available.reason.as_str()), ("False", "Starting"));
    assert_eq!(condition(&first, keys::conditions::PROGRESSING).unwrap().reason, "CloneSetUpdated");
    world.settle();
    let rests = world.plan();
    assert_eq!(condition(&rests, keys::conditions::AVAILABLE).unwrap().reason, "Enough");
    assert_eq!(condition(&rests, keys::conditions::PROGRESSING).unwrap().reason, "CloneSetAvailable");
    assert_eq!((rests.standing.binding.short_since, rests.look_again), (None, None));
}

#[test]
fn st_5_the_end_of_the_wait_is_known_beforehand() {
    let mut world = World::new(9);
    world.settle();
    let rests = world.plan();
    tell(&mut world, rests.standing.binding);
    let counts = &mut status(&mut world, "a").counts;
    (counts.available, counts.updated_available, counts.unavailable) = (0, 0, counts.replicas);
    let short = world.plan();
    let available = condition(&short, keys::conditions::AVAILABLE).unwrap();
    assert_eq!((available.status.as_str(), available.reason.as_str()), ("True", "Recovering"));
    assert!(short.standing.binding.short_since.is_some());
    assert_eq!(short.look_again, Some(Duration::from_secs(600)));
}
