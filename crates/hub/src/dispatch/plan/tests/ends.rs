//! Ends that do not wait, and words that are about one binding.

use std::collections::BTreeMap;

use kruise_core::api::fleet::policy::DeletionPolicy;

use super::*;
use crate::dispatch::end::{is_tombstone_of_another, is_withdrawn, untold, unwritable};

#[test]
fn del_2_a_silent_cluster_is_waited_for_unless_somebody_says_not_to() {
    let mut world = World::new(10);
    world.settle();
    let cluster = &mut world.clusters[2];
    (cluster.planning, cluster.shown) = (State::Offline, ClusterState::Offline);
    world.object["metadata"]["annotations"] = json!({"fleet.kruise.io/force-detach": "true"});
    let ending = end(&world.observed(), &BTreeSet::new());
    assert_eq!(ending.writes.len(), 3, "it is told in any case");
    world.store(&Round { save: ending.save, writes: ending.writes, ..Round::default() }, usize::MAX);
    let ending = end(&world.observed(), &BTreeSet::new());
    assert_eq!((ending.waiting.as_slice(), ending.silent.len()), (&["a".to_owned(), "b".to_owned()][..], 0));
    assert_eq!(ending.removals, Vec::<String>::new(), "its Assignment stays");
    world.object["metadata"]["annotations"] = json!({"fleet.kruise.io/force-detach": "false"});
    let ending = end(&world.observed(), &BTreeSet::new());
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

/// A fleet at rest whose Assignment for `b` somebody has deleted.
fn without_its_assignment() -> World {
    let mut world = World::new(10);
    world.settle();
    world.clusters[1].assignment = None;
    world
}

#[test]
fn del_1_a_cluster_whose_assignment_is_gone_is_told_under_a_number_of_its_own_until_it_has_obeyed() {
    let mut world = without_its_assignment();
    let known = world.binding.as_ref().unwrap().spec.ledger.clusters["b"].share.seq;
    let ending = end(&world.observed(), &BTreeSet::new());
    assert_eq!(ending.writes.len(), 3);
    let write = ending.writes.iter().find(|it| it.cluster == "b").unwrap();
    assert_eq!((write.spec.intent, write.spec.seq), (Intent::Delete, known + 1));
    assert_eq!(ending.save.as_ref().unwrap().ledger.clusters["b"].share.seq, known + 1);
    world.store(&Round { save: ending.save, writes: ending.writes, ..Round::default() }, usize::MAX);
    let ending = end(&world.observed(), &BTreeSet::new());
    assert_eq!((ending.writes.len(), ending.waiting.len()), (0, 3));
}

#[test]
fn del_1_a_share_that_a_crash_kept_from_being_written_is_taken_back_all_the_same() {
    let mut world = World::new(10);
    let round = world.plan();
    world.store(&round, 1);
    let ending = end(&world.observed(), &BTreeSet::new());
    assert_eq!(
        ending.writes.len(),
        3,
        "whether somebody has deleted it or it never was cannot be told apart"
    );
    // Nobody is there to read it in a cluster that is no member any more.
    world.clusters.iter_mut().for_each(|it| it.is_member &= it.assignment.is_some());
    assert_eq!(end(&world.observed(), &BTreeSet::new()).writes.len(), 1);
}

#[test]
fn del_3_a_cluster_whose_assignment_is_gone_is_told_what_the_policy_or_the_others_say_and_never_more() {
    let mut world = without_its_assignment();
    let told = |world: &World| {
        let ending = end(&world.observed(), &BTreeSet::new());
        let write = ending.writes.into_iter().find(|it| it.cluster == "b").unwrap().spec;
        (write.intent, write.deletion)
    };
    let orphan = Placement { deletion: DeletionPolicy::Orphan, ..Placement::default() };
    world.winner.as_mut().unwrap().placement = Arc::new(orphan);
    assert_eq!(told(&world), (Intent::Orphan, DeletionPolicy::Orphan));
    world.winner = None;
    assert_eq!(told(&world), (Intent::Delete, DeletionPolicy::Delete), "as the others were told last");
    // A question comes first and has the default of the field; who has a share was told to keep it.
    let [asked, _, placed] = &mut world.clusters[..] else { unreachable!("there are three") };
    let spec = |it: &mut Cluster, spec: AssignmentSpec| {
        Arc::make_mut(it.assignment.as_mut().unwrap()).spec = spec;
    };
    spec(asked, AssignmentSpec { intent: Intent::Ask, ..AssignmentSpec::default() });
    let kept = placed.assignment.as_ref().unwrap().spec.clone();
    spec(placed, AssignmentSpec { deletion: DeletionPolicy::Orphan, ..kept });
    assert_eq!(told(&world), (Intent::Orphan, DeletionPolicy::Orphan));
    world.clusters.iter_mut().for_each(|it| it.assignment = None);
    assert_eq!(told(&world), (Intent::Orphan, DeletionPolicy::Orphan), "nobody knows any more");
}

#[test]
fn proto_7_who_cannot_be_told_is_waited_for_and_nothing_is_made_of_that() {
    let mut world = without_its_assignment();
    let standing = ObjectMeta::default();
    let going: ObjectMeta =
        serde_json::from_value(json!({"deletionTimestamp": "2030-01-01T00:00:10Z"})).unwrap();
    let to = |kind: Option<&ObjectMeta>, namespace: Option<&ObjectMeta>| {
        let namespaces: BTreeMap<_, _> =
            namespace.map(|it| ("b".to_owned(), it.clone())).into_iter().collect();
        unwritable(untold(&world.observed()), kind, &namespaces)
    };
    let (nobody, b) = (BTreeSet::new(), BTreeSet::from(["b".to_owned()]));
    assert_eq!(to(Some(&standing), Some(&standing)), nobody);
    assert_eq!(to(Some(&standing), None), b);
    assert_eq!(to(Some(&standing), Some(&going)), b);
    assert_eq!((to(None, Some(&standing)), to(Some(&going), Some(&standing))), (b.clone(), b.clone()));
    let ending = end(&world.observed(), &b);
    assert!(ending.writes.iter().all(|it| it.cluster != "b"));
    assert_eq!((ending.waiting, ending.unwritable), (vec!["b".to_owned()], vec!["b".to_owned()]));
    assert!(ending.save.unwrap().ledger.clusters.contains_key("b"), "it is not forgotten");
    world.object["metadata"]["annotations"] = json!({"fleet.kruise.io/force-detach": "true"});
    assert_eq!(end(&world.observed(), &b).waiting, Vec::<String>::new());
}
