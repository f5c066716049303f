//! Ends that do not wait, and words that are about one binding.

use super::*;
use crate::dispatch::end::{is_tombstone_of_another, is_withdrawn};

#[test]
fn del_2_a_silent_cluster_is_waited_for_unless_somebody_says_not_to() {
    let mut world = World::new(10);
    world.settle();
    let cluster = &mut world.clusters[2];
    (cluster.planning, cluster.shown) = (State::Offline, ClusterState::Offline);
    world.object["metadata"]["annotations"] = json!({"fleet.kruise.io/force-detach": "true"});
    let ending = end(&world.observed());
    assert_eq!(ending.writes.len(), 3, "it is told in any case");
    world.store(&Round { save: ending.save, writes: ending.writes, ..Round::default() }, usize::MAX);
    let ending = end(&world.observed());
    assert_eq!((ending.waiting.as_slice(), ending.silent.len()), (&["a".to_owned(), "b".to_owned()][..], 0));
    assert_eq!(ending.removals, Vec::<String>::new(), "its Assignment stays");
    world.object["metadata"]["annotations"] = json!({"fleet.kruise.io/force-detach": "false"});
    let ending = end(&world.observed());
    assert_eq!((ending.waiting.len(), ending.silent), (3, vec!["c".to_owned()]));
}

#[test]
fn del_5_a_word_withdraws_what_is_bound_now_and_nothing_later() {
    let mut world = World::new(10);
    world.settle();
    world.object["metadata"]["annotations"] = json!({"fleet.kruise.io/withdraw": "b-1"});
    assert!(!is_withdrawn(&world.observed()));
    world.binding.as_mut().unwrap().metadata.uid = Some("b-1".to_owned());
    assert!(is_withdrawn(&world.observed()));
    world.binding = None;
    assert!(!is_withdrawn(&world.observed()));
}

#[test]
fn del_2_the_last_word_about_another_object_of_the_name_takes_the_place() {
    let world = World::new(10);
    let mut assignment = Assignment::default();
    assignment.spec.object.uid = "before".to_owned();
    assert!(!is_tombstone_of_another(&assignment, &world.reference), "a plan is taken over");
    assignment.spec.intent = Intent::Delete;
    assert!(is_tombstone_of_another(&assignment, &world.reference));
    assert!(!is_tombstone_of_another(&assignment, &assignment.spec.object));
}
