use std::{collections::BTreeSet, sync::Arc};

use kruise_core::api::fleet::{
    assignment::{Assignment, Intent, ShareState},
    member_cluster::ClusterState,
};
use scheduling::split::State;

use super::super::{Round, tests::World};
use crate::{dispatch::end::end, members::departure::Departure};

const ORPHAN: Departure = Departure { orphan: true, force: false };
const FORCE: Departure = Departure { orphan: false, force: true };

/// Ten replicas that rest on three clusters, of which `c` begins to leave.
fn leaving(departure: Departure, planning: State) -> World {
    let mut world = World::new(10);
    world.settle();
    let cluster = &mut world.clusters[2];
    (cluster.departure, cluster.planning) = (Some(departure), planning);
    cluster.shown = if planning == State::Offline { ClusterState::Offline } else { ClusterState::Draining };
    world
}

fn rows(world: &World) -> Vec<(String, u32)> {
    let ledger = &world.binding.as_ref().unwrap().spec.ledger.clusters;
    ledger.iter().map(|(name, row)| (name.clone(), row.share.replicas)).collect()
}

fn stored(world: &mut World) -> &mut Assignment {
    Arc::make_mut(world.clusters[2].assignment.as_mut().unwrap())
}

/// One round, stored; what it told `c`.
fn step(world: &mut World) -> (Round, Option<Intent>) {
    let round = world.plan();
    world.store(&round, usize::MAX);
    let told = round.writes.iter().find(|it| it.cluster == "c").map(|it| it.spec.intent);
    (round, told)
}

#[test]
fn del_6_an_orphaned_cluster_is_told_to_let_go_and_its_row_goes_when_it_has() {
    let mut world = leaving(ORPHAN, State::Draining);
    assert_eq!(step(&mut world).1, Some(Intent::Orphan));
    let others: u32 = rows(&world).iter().filter(|it| it.0 != "c").map(|it| it.1).sum();
    assert!(others <= 8, "no more than a move may add grows before it has let go: {others}");
    assert_eq!(step(&mut world).1, None, "it is told once, and waited for");
    let seq = stored(&mut world).spec.seq;
    let status = stored(&mut world).status.as_mut().unwrap();
    (status.applied_term, status.applied_seq, status.state) = (1, seq, Some(ShareState::Orphaned));
    let (round, _) = step(&mut world);
    assert_eq!(round.removals, ["c"]);
    world.clusters[2].assignment = None;
    world.obey();
    world.settle();
    assert_eq!(rows(&world), [("a".to_owned(), 5), ("b".to_owned(), 5)], "others have taken over");
}

#[test]
fn del_6_a_silent_cluster_is_not_given_up_without_force() {
    for departure in [Departure::default(), ORPHAN] {
        let mut world = leaving(departure, State::Offline);
        for _ in 0..3 {
            step(&mut world);
        }
        assert!(rows(&world).iter().any(|it| it.0 == "c"), "{departure:?}");
    }
}

#[test]
fn del_6_a_silent_cluster_that_is_forced_out_leaves_a_tombstone_and_others_take_over() {
    let mut world = leaving(FORCE, State::Offline);
    let (round, told) = step(&mut world);
    assert_eq!(told, Some(Intent::Delete));
    let row = &round.save.unwrap().ledger.clusters["c"];
    assert_eq!(row.share.seq, 2, "it is saved before it is written");
    world.settle();
    assert_eq!(rows(&world), [("a".to_owned(), 5), ("b".to_owned(), 5)]);
    assert_eq!(stored(&mut world).spec.intent, Intent::Delete, "it is told when it is back");
    assert!(world.plan().save.is_none(), "and the row does not come back");
}

#[test]
fn del_6_a_crash_before_the_tombstone_is_written_gives_it_the_number_that_was_saved() {
    let mut world = leaving(FORCE, State::Offline);
    let round = world.plan();
    world.store(&round, 0);
    let again = world.plan();
    assert_eq!(again.writes.iter().find(|it| it.cluster == "c").unwrap().spec.seq, 2);
    assert!(again.save.is_none());
}

#[test]
fn del_6_a_heard_cluster_that_is_forced_out_counts_until_it_has_obeyed() {
    let mut world = leaving(FORCE, State::Draining);
    assert_eq!(step(&mut world).1, Some(Intent::Delete));
    step(&mut world);
    assert!(rows(&world).iter().any(|it| it.0 == "c"));
}

#[test]
fn del_6_without_a_policy_clusters_leave_at_once_all_the_same() {
    let mut world = leaving(FORCE, State::Offline);
    world.winner = None;
    assert_eq!(step(&mut world).1, Some(Intent::Delete));
    step(&mut world);
    assert_eq!(rows(&world).len(), 2);
    assert_eq!(
        world.binding.as_ref().unwrap().spec.ledger.last_seq,
        2,
        "PROTO-3: its number is not forgotten"
    );
    let mut world = leaving(Departure::default(), State::Draining);
    world.winner = None;
    assert!(world.plan().writes.is_empty(), "a drain needs a policy that says where to");
}

#[test]
fn del_6_an_object_that_ends_does_not_wait_for_a_cluster_that_is_given_up() {
    let mut world = leaving(FORCE, State::Offline);
    step(&mut world);
    let ending = end(&world.observed(), &BTreeSet::new());
    assert_eq!(ending.waiting, Vec::<String>::new());
    assert_eq!(ending.writes.len(), 2, "a and b");
}
