//! Rounds look only at clusters that have to do with the object.

use super::*;

fn select_only(world: &mut World, names: &[&str]) {
    let winner = world.winner.as_mut().unwrap();
    let placement = Arc::make_mut(&mut winner.placement);
    placement.clusters.selector.names = names.iter().map(|it| (*it).to_owned()).collect();
}

/// Leaves clusters out as the dispatcher does.
fn leave_out(world: &mut World) -> Vec<String> {
    let winner = world.winner.clone();
    world.clusters.retain(|it| it.takes_part(winner.as_ref(), ("apps.kruise.io", "CloneSet")));
    world.clusters.iter().map(|it| it.facts.name.clone()).collect()
}

#[test]
fn clusters_that_the_policy_does_not_select_change_nothing() {
    let mut world = World::new(10);
    select_only(&mut world, &["a", "b"]);
    let round = world.plan();
    assert_eq!(round.writes.len(), 2);
    assert_eq!(leave_out(&mut world), ["a", "b"]);
    assert_eq!(world.plan(), round);
}

#[test]
fn del_5_a_cluster_that_has_a_share_takes_part_although_it_is_not_selected_any_more() {
    let mut world = World::new(10);
    let round = world.plan();
    world.store(&round, usize::MAX);
    world.obey();
    select_only(&mut world, &["a"]);
    let round = world.plan();
    assert_eq!(leave_out(&mut world), ["a", "b", "c"]);
    assert_eq!(world.plan(), round);
}
