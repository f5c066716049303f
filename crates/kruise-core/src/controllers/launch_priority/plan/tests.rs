//! The steps that upstream's tests pin, and what we add to them.

use serde_json::{Value, json};

use super::*;
use crate::pod::launch::waiting_entry;

/// Containers and their priorities; `None` has none.
type Containers<'a> = &'a [(&'a str, Option<i64>)];

const SIX: Containers<'static> =
    &[("a", Some(3)), ("b", Some(5)), ("c", Some(0)), ("d", None), ("e", Some(-1)), ("f", Some(3))];

fn pod(containers: Containers<'_>, ready: &[&str]) -> PodLite {
    let env = |it: &Option<i64>| it.map(|it| waiting_entry("web-barrier", it));
    let specs: Vec<Value> = containers
        .iter()
        .map(|(name, priority)| json!({ "name": name, "env": env(priority).into_iter().collect::<Vec<_>>() }))
        .collect();
    let statuses: Vec<Value> =
        containers.iter().map(|(name, _)| json!({ "name": name, "ready": ready.contains(name) })).collect();
    serde_json::from_value(json!({
        "metadata": { "name": "web", "uid": "1" },
        "spec": { "containers": specs },
        "status": { "containerStatuses": statuses },
    }))
    .unwrap()
}

fn barrier(released: &[i64]) -> Barrier {
    let ours = Owner { name: "web".to_owned(), uid: "1".to_owned() };
    Barrier { version: "7".to_owned(), released: released.iter().copied().collect(), pods: vec![ours] }
}

fn actions(ready: &[&str], released: &[i64]) -> Vec<Action> {
    plan(&pod(SIX, ready), Some(&barrier(released))).actions
}

#[test]
fn pending_are_the_priorities_of_containers_that_are_not_ready() {
    let mut distinct = SIX.to_vec();
    distinct[5] = ("f", Some(4));
    assert_eq!(Vec::from_iter(pending(&pod(&distinct, &["b"]))), [-1, 0, 3, 4]);
    assert_eq!(Vec::from_iter(pending(&pod(SIX, &["b", "f"]))), [-1, 0, 3]);
}

#[test]
fn priorities_are_released_from_the_highest_to_the_lowest() {
    assert_eq!(actions(&[], &[]), [Action::Release(5)]);
    assert_eq!(actions(&["b", "f"], &[5, 3]), []);
    assert_eq!(actions(&["a", "b", "f"], &[5, 3]), [Action::Release(0)]);
    assert_eq!(actions(&["a", "b", "c", "f"], &[5, 3, 0]), [Action::Release(-1), Action::Complete]);
}

#[test]
fn the_barrier_is_made_with_the_first_priority_in_it() {
    assert_eq!(plan(&pod(SIX, &[]), None).actions, [Action::Create(5)]);
    let alone: Containers<'_> = &[("a", Some(1)), ("b", None)];
    assert_eq!(plan(&pod(alone, &[]), None).actions, [Action::Create(1), Action::Complete]);
}

#[test]
fn a_pod_whose_last_release_was_not_noted_is_completed() {
    assert_eq!(actions(&["a", "b", "c", "f"], &[5, 3, 0, -1]), [Action::Complete]);
    // A container that fails again after the end waits for nothing.
    assert_eq!(actions(&["a", "c", "e", "f"], &[5, 3, 0, -1]), [Action::Complete]);
}

#[test]
fn a_container_that_fails_again_holds_up_those_behind_it() {
    assert_eq!(actions(&["a", "f"], &[5, 3]), []);
}

#[test]
fn a_barrier_of_an_earlier_pod_of_the_same_name_lets_nobody_through() {
    let mut stale = barrier(&[5, 3, 0, -1]);
    stale.pods = vec![Owner { name: "web".to_owned(), uid: "0".to_owned() }];
    let plan_for_stale = plan(&pod(SIX, &[]), Some(&stale));
    assert_eq!(plan_for_stale.actions, [Action::TakeOver(5)]);
    assert_eq!(plan_for_stale.look_again_in, Some(AFTER_TAKEOVER));

    // One that nobody owns, or an application does, is used as it is.
    stale.pods = vec![Owner { name: "other".to_owned(), uid: "0".to_owned() }];
    assert_eq!(plan(&pod(SIX, &[]), Some(&stale)).actions, [Action::Complete]);
}

#[test]
fn only_pods_with_containers_in_line_concern_us() {
    assert!(waits_in_line(&pod(SIX, &[])));
    assert!(!waits_in_line(&pod(SIX, &["a", "b", "c", "e", "f"])));
    assert!(!waits_in_line(&pod(&[("a", None), ("b", None)], &[])));

    let mut completed = pod(SIX, &[]);
    completed.metadata.annotations = Some([(COMPLETED.to_owned(), "true".to_owned())].into());
    assert!(!waits_in_line(&completed));

    let mut ready = pod(SIX, &[]);
    ready.status = serde_json::from_value(json!({
        "conditions": [{ "type": "ContainersReady", "status": "True" }],
    }))
    .unwrap();
    assert!(!waits_in_line(&ready));

    let mut going = pod(SIX, &[]);
    going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert!(!waits_in_line(&going));
}

/// Carries a plan out on values.
fn carry_out(plan: &Plan, barrier: &mut Option<Barrier>, pod: &mut PodLite) {
    for action in &plan.actions {
        match *action {
            Action::Create(it) | Action::TakeOver(it) => *barrier = Some(super::tests::barrier(&[it])),
            Action::Release(it) => {
                barrier.as_mut().unwrap().released.insert(it);
            }
            Action::Complete => {
                pod.metadata.annotations = Some([(COMPLETED.to_owned(), "true".to_owned())].into());
            }
        }
    }
}

#[test]
fn the_whole_way_has_no_step_twice_and_ends_complete() {
    let (mut barrier, mut ready, mut order) = (None, vec!["d"], Vec::new());
    let mut now = pod(SIX, &ready);
    while waits_in_line(&now) {
        let planned = plan(&now, barrier.as_ref());
        assert!(!planned.actions.is_empty(), "stuck with {ready:?}");
        carry_out(&planned, &mut barrier, &mut now);
        // Planning on the world it asked for gives nothing more.
        assert!(!waits_in_line(&now) || plan(&now, barrier.as_ref()).actions.is_empty());
        order.extend(planned.actions);
        let released = &barrier.as_ref().unwrap().released;
        ready.extend(SIX.iter().filter(|it| it.1.is_some_and(|it| released.contains(&it))).map(|it| it.0));
        let annotations = now.metadata.annotations.take();
        now = pod(SIX, &ready);
        now.metadata.annotations = annotations;
    }
    use Action::{Complete, Create, Release};
    assert_eq!(order, [Create(5), Release(3), Release(0), Release(-1), Complete]);
}
