//! Adding and removing pods (cloneset.md 7.3 to 7.6, 17.4).

use serde_json::json;

use super::Village;
use crate::controllers::cloneset::plan::Action;

/// A village in which `count` pods are available.
fn settled(spec: serde_json::Value) -> Village {
    let mut village = Village::new(spec);
    village.settle();
    village.log.clear();
    village
}

#[test]
fn missing_pods_are_made_at_once_and_become_available() {
    let mut village = Village::new(json!({"replicas": 5}));
    assert_eq!(village.pass(usize::MAX), 5);
    village.settle();
    assert_eq!((village.pods.len(), village.available()), (5, 5));
    for name in village.names() {
        assert_eq!(village.state(&name), "Normal");
        assert!(name.starts_with("web-") && name.len() == "web-".len() + 5, "{name}");
    }
    village.change(json!({"replicas": 0}));
    village.settle();
    assert!(village.pods.is_empty());
}

#[test]
fn a_pod_stays_in_preparation_until_it_has_a_node() {
    let mut village = Village::new(json!({"replicas": 1}));
    village.pass(usize::MAX);
    let name = village.names()[0].clone();
    village.pass(usize::MAX);
    assert_eq!(village.state(&name), "PreparingNormal", "openkruise/kruise#1485: never before binding");
    village.tick();
    village.pass(usize::MAX);
    assert_eq!(village.state(&name), "Normal");
}

#[test]
fn scale_max_unavailable_makes_pods_one_after_the_other_and_says_so() {
    let mut village =
        Village::new(json!({"replicas": 4, "minReadySeconds": 10, "scaleStrategy": {"maxUnavailable": 1}}));
    let mut made = Vec::new();
    for second in 0..80 {
        let plan = village.plan();
        if village.pods.len() < 4 {
            let allowed = i64::from(village.available() == village.pods.len());
            let missing = 4 - village.pods.len() as i64;
            assert_eq!(plan.limited_to, (missing > allowed).then_some(allowed));
        }
        let before = village.pods.len();
        village.pass(usize::MAX);
        if village.pods.len() > before {
            made.push(second);
        }
        village.tick();
    }
    assert_eq!(made.len(), 4);
    for pair in made.windows(2) {
        assert!((10..=15).contains(&(pair[1] - pair[0])), "{made:?}");
    }
}

#[test]
fn a_named_pod_goes_alone_when_the_replicas_shrink_with_it() {
    for by_label in [false, true] {
        let mut village = settled(json!({"replicas": 5}));
        let name = village.names()[2].clone();
        if by_label {
            village.label(&name, "apps.kruise.io/specified-delete", json!("x"));
            village.change(json!({"replicas": 4}));
        } else {
            village.change(json!({"replicas": 4, "scaleStrategy": {"podsToDelete": [name]}}));
        }
        village.settle();
        assert_eq!(village.log.iter().filter(|it| it.starts_with("delete")).count(), 1);
        assert!(village.log.contains(&format!("delete {name}")) && village.pods.len() == 4);
    }
}

#[test]
fn a_named_pod_is_replaced_when_the_replicas_stay() {
    let mut village = settled(json!({"replicas": 5}));
    let name = village.names()[0].clone();
    village.change(json!({"scaleStrategy": {"podsToDelete": [name]}}));
    village.settle();
    assert_eq!(village.pods.len(), 5);
    assert!(!village.pods.contains_key(&name));
}

/// CLN-07: five pods, one of them down; who goes first when a pod is named?
#[test]
fn a_named_pod_waits_for_its_successor_where_the_budget_is_used_up() {
    for (unavailable, named_is_down, first) in
        [(2, false, "delete"), (1, false, "create"), (1, true, "delete")]
    {
        let mut village = settled(json!({
            "replicas": 5,
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": 1}},
        }));
        let names = village.names();
        village.broken.push(names[0].clone());
        village.tick();
        let named = if named_is_down { &names[0] } else { &names[1] };
        village.label(named, "apps.kruise.io/specified-delete", json!("true"));
        village.pass(usize::MAX);
        assert!(village.log[0].starts_with(first), "{unavailable} {named_is_down}: {:?}", village.log);
        for _ in 0..10 {
            village.tick();
            village.pass(usize::MAX);
            assert!(village.pods.len() <= 6);
        }
        assert_eq!(village.pods.len(), 5);
        assert!(!village.pods.contains_key(named));
    }
}

#[test]
fn naming_a_broken_and_a_ready_pod_takes_only_one_down_at_a_time() {
    let mut village =
        settled(json!({"replicas": 5, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}));
    let names = village.names();
    village.broken.push(names[0].clone());
    village.tick();
    for name in &names[..2] {
        village.label(name, "apps.kruise.io/specified-delete", json!("true"));
    }
    for _ in 0..20 {
        village.pass(usize::MAX);
        assert!(village.available() >= 4, "{:?}", village.log);
        village.tick();
    }
    assert!(!village.pods.contains_key(&names[0]) && !village.pods.contains_key(&names[1]));
}

#[test]
fn scaling_in_spares_ready_pods_beyond_the_budget() {
    let mut village = Village::new(json!({"replicas": 5, "minReadySeconds": 9999}));
    for _ in 0..10 {
        village.pass(usize::MAX);
        village.tick();
    }
    village.log.clear();
    village.change(json!({"replicas": 3}));
    // 20% of 3 is one, two are too many, five are down for lack of seconds: nothing may go.
    assert!(village.plan().is_empty());
    village.change(json!({"minReadySeconds": 0}));
    let name = village.names()[0].clone();
    village.label(&name, "apps.kruise.io/specified-delete", json!("true"));
    village.pass(usize::MAX);
    assert_eq!(village.log, [format!("delete {name}")], "the named one goes first, and alone in its pass");
}

#[test]
fn scaling_in_prefers_the_cheap_and_the_young() {
    let mut village = settled(json!({"replicas": 3}));
    let names = village.names();
    let cost = |cost: &str| json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}});
    let part = crate::pod::patch::Part::Main;
    village.patch(&names[1], part, &cost("-5"));
    village.patch(&names[2], part, &cost("100"));
    village.change(json!({"replicas": 2}));
    village.settle();
    assert_eq!(village.log, [format!("delete {}", names[1])]);
    village.change(json!({"replicas": 1}));
    village.settle();
    assert_eq!(village.names(), [names[2].clone()], "the dear one outlives the others");
}

#[test]
fn on_delete_leaves_pods_alone_and_removes_old_ones_first() {
    let mut village = settled(json!({"replicas": 5, "updateStrategy": {"type": "OnDelete"}}));
    let old = village.update_revision().to_owned();
    village.image("web:2");
    village.settle();
    assert_eq!(village.count(&old), 5, "nothing happens by itself");
    for name in village.names().iter().take(2) {
        village.pods.remove(name);
    }
    village.settle();
    assert_eq!(village.count(&old), 3, "what was deleted comes back new");
    village.change(json!({"replicas": 3}));
    village.settle();
    assert_eq!(village.count(&old), 1, "old pods go first");
    village.change(json!({"replicas": 5}));
    village.settle();
    assert_eq!(village.count(&old), 1);
}

#[test]
fn a_named_pod_of_a_small_on_delete_set_can_be_deleted() {
    let mut village = settled(json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}}));
    let name = village.names()[0].clone();
    village.label(&name, "apps.kruise.io/specified-delete", json!("true"));
    village.settle();
    assert!(!village.pods.contains_key(&name) && village.pods.len() == 3);
}

#[test]
fn a_failed_pod_is_replaced_and_its_id_is_not_used_again() {
    let mut village = settled(json!({"replicas": 3, "scaleStrategy": {"enablePVCReuse": true}}));
    let name = village.names()[0].clone();
    village.pods.get_mut(&name).unwrap()["status"]["phase"] = json!("Failed");
    village.pass(usize::MAX);
    assert_eq!(village.pods.len(), 4, "openkruise/kruise#2473: an evicted pod is replaced");
    assert!(village.pods.contains_key(&name), "and stays for a person to look at");
}

#[test]
fn what_may_have_happened_is_asked_for_again_under_the_same_name() {
    use crate::controllers::cloneset::plan::{self, Doubts, World, limits::Limits};
    let village = Village::new(json!({"replicas": 2}));
    let doubts = Doubts { created: ["bbbbb".to_owned()].into(), ..Doubts::default() };
    let version = plan::Version::named("web-r1".into());
    let world = World {
        cloneset: &village.cloneset,
        active: &[],
        inactive: &[],
        claims: &[],
        update: &version,
        current: &version,
        history: &[],
        occupied: &Default::default(),
        doubts: &doubts,
        nodes: &Default::default(),
        options: village.options,
        now: village.now,
    };
    let limits = Limits::of(&village.cloneset.spec);
    let plan = plan::plan(&world, &limits, &[], &mut || 0);
    let ids: Vec<_> = plan
        .scale
        .iter()
        .map(|it| match it {
            Action::Create(it) => it.id.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids, ["bbbbb"], "the other one waits until it is known what became of this one");
}

/// The plan of a settled village in which the first pod may have been changed, after `change`.
fn plan_in_doubt(
    spec: serde_json::Value,
    change: impl FnOnce(&mut Village),
) -> crate::controllers::cloneset::plan::Plan {
    use crate::controllers::cloneset::plan::Doubts;
    let mut village = settled(spec);
    change(&mut village);
    village.doubts = Doubts { changed: [village.names().remove(0)].into(), ..Doubts::default() };
    village.plan()
}

#[test]
fn a_pod_that_may_be_updating_counts_as_down() {
    let spec = json!({"replicas": 2, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}});
    let plan = plan_in_doubt(spec, |village| village.image("web:2"));
    let [Action::Change(change)] = plan.update.as_slice() else { panic!("{plan:?}") };
    assert!(change.pod.metadata.name.is_some(), "one of two, and that is the one in doubt or none");
}

/// Found by the simulation: a pod in doubt that was named for deletion went although two others were down.
#[test]
fn a_pod_in_doubt_is_not_taken_down_as_if_that_cost_nothing() {
    let spec = json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}});
    let break_the_others = |village: &mut Village| {
        let names = village.names();
        village.broken = names[1..].to_vec();
        village.tick();
        names[0].clone()
    };
    let plan = plan_in_doubt(spec.clone(), |village| {
        let name = break_the_others(village);
        village.label(&name, "apps.kruise.io/specified-delete", json!("true"));
    });
    assert!(plan.scale.is_empty(), "{plan:?}");
    let plan = plan_in_doubt(spec, |village| {
        let name = break_the_others(village);
        village.image("web:2");
        assert!(village.pods.contains_key(&name));
    });
    let touched = plan.update.iter().filter_map(|it| match it {
        Action::Change(it) => it.pod.metadata.name.clone(),
        other => panic!("{other:?}"),
    });
    assert_eq!(touched.count(), 1, "a broken pod may be mended, the one in doubt is left alone");
}

/// Found by the simulation: a pod that was down went when it was available again, because the first request for it had no
/// answer.
#[test]
fn a_pod_that_was_asked_to_go_while_it_was_down_goes_for_nothing_only_as_long_as_it_is() {
    use crate::controllers::cloneset::plan::Doubts;
    let spec = json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}});
    for is_down in [true, false] {
        let mut village = settled(spec.clone());
        let names = village.names();
        // Another one is down anyway: the budget is used up.
        village.broken = if is_down { names[..2].to_vec() } else { names[1..2].to_vec() };
        village.tick();
        village.doubts = Doubts { deleted_as_seen: [names[0].clone()].into(), ..Doubts::default() };
        let deaths: Vec<_> = village.plan().scale;
        match (is_down, deaths.as_slice()) {
            (true, [Action::Delete(it)]) => assert!(it.only_as_seen, "{it:?}"),
            (false, []) => {}
            (_, other) => panic!("{is_down}: {other:?}"),
        }
    }
}
