use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kruise_core::api::fleet::policy::{
    ClusterSelector, Failover, OnFailure, Rebalance, SpreadRule, Tier, Wave as PolicyWave,
    WhenShort as ApiWhenShort,
};
use proptest::prelude::*;
use scheduling::{
    numbers::IntOrPercent,
    round::{Ledger, plan},
};

use super::*;
use crate::ledger;

fn facts(name: &str) -> ClusterFacts {
    ClusterFacts {
        name: name.to_owned(),
        labels: BTreeMap::from([("size".to_owned(), name[..1].to_owned())]),
        region: Some(name[..1].to_owned()),
        apis: vec!["apps.kruise.io/v1beta1/CloneSet".to_owned()],
        ..ClusterFacts::default()
    }
}

fn member(facts: &ClusterFacts) -> Member<'_> {
    Member {
        facts,
        state: State::Ready,
        has_row: false,
        current: 0,
        free: None,
        running: 0,
        promised_to_others: 0,
        named: &[],
        seeding: Seeding::Able,
        dispatched: 0,
        stopped: false,
    }
}

fn numbers(replicas: u32) -> PodNumbers {
    PodNumbers {
        replicas,
        partition: None,
        unavailable: None,
        surge: None,
        scale_unavailable: None,
        paused: false,
        in_place_only: false,
        stateful: false,
        pods_to_delete: Vec::new(),
        pre_download: None,
    }
}

fn object<'a>(numbers: &'a PodNumbers, placement: &'a Placement) -> Object<'a> {
    Object {
        uid: "uid",
        kind: ("apps.kruise.io", "CloneSet"),
        numbers,
        per_cluster: false,
        target: Revision(1),
        placement,
        policy: PolicyMark { id: 1, generation: 1 },
        cause: fit::Cause::Spec,
        weights_in_use: const { &BTreeMap::new() },
        may_weigh_anew: false,
        partition_rollback: false,
        after: None,
        pre_pull: None,
        elapsed: 0,
    }
}

fn names(names: &[&str]) -> ClusterSelector {
    ClusterSelector { names: names.iter().map(|it| (*it).to_owned()).collect(), ..ClusterSelector::default() }
}

fn percent(percent: u32) -> IntOrPercent {
    IntOrPercent::Percent(Percent::whole(percent))
}

/// Plans a first round, and gives the replicas by cluster.
fn placed(numbers: &PodNumbers, placement: &Placement, fleet: &[Member<'_>]) -> Vec<(String, u32)> {
    let prepared = prepare(&object(numbers, placement), fleet).unwrap();
    let empty = ledger::read(&Default::default(), &prepared.names(), None);
    let start = Ledger { rows: empty.rows, ..Ledger::new(Revision(1)) };
    let plan = plan(&prepared.world(), &start).unwrap();
    plan.ledger.rows.iter().map(|it| (it.cluster.to_string(), it.share.replicas)).collect()
}

fn sorted(placed: Vec<(String, u32)>) -> Vec<u32> {
    let mut counts: Vec<u32> = placed.into_iter().map(|it| it.1).collect();
    counts.sort_unstable();
    counts
}

#[test]
fn ten_replicas_over_three_clusters_are_four_three_and_three() {
    let facts = ["a", "b", "c"].map(facts);
    let fleet = facts.each_ref().map(member);
    assert_eq!(sorted(placed(&numbers(10), &Placement::default(), &fleet)), [3, 3, 4]);
}

#[test]
fn a_cluster_takes_its_largest_weight_and_one_without() {
    let weight = |clusters, weight| ClusterWeight { clusters, weight };
    let mut placement = Placement::default();
    placement.replicas.weights =
        vec![weight(names(&["a"]), 2), weight(names(&["a", "b"]), 5), weight(names(&["b"]), 3)];
    let facts = ["a", "b", "c"].map(facts);
    let fleet = facts.each_ref().map(member);
    let (numbers, prepared) = (numbers(10), |placement: &Placement| {
        let ten = self::numbers(10);
        let prepared = prepare(&object(&ten, placement), &fleet).unwrap();
        prepared.clusters.iter().map(|it| it.candidate.weight).collect::<Vec<_>>()
    });
    assert_eq!(prepared(&placement), [5, 5, 1]);
    placement.replicas.weights =
        vec![weight(names(&["a"]), 5), weight(names(&["b"]), 3), weight(names(&["c"]), 2)];
    let placed: Vec<u32> = placed(&numbers, &placement, &fleet).into_iter().map(|it| it.1).collect();
    assert_eq!(placed, [5, 3, 2]);
}

#[test]
fn bounds_are_the_tightest_that_match() {
    let rule = |clusters, min, max| ClusterBounds { clusters, min, max };
    let mut placement = Placement::default();
    placement.replicas.per_cluster = vec![
        rule(ClusterSelector::default(), Some(1), Some(6)),
        rule(names(&["a"]), Some(4), None),
        rule(names(&["b"]), Some(9), Some(2)),
    ];
    let facts = ["a", "b", "c"].map(facts);
    let ten = numbers(10);
    let prepared = prepare(&object(&ten, &placement), &facts.each_ref().map(member)).unwrap();
    let bounds: Vec<_> = prepared.clusters.iter().map(|it| (it.candidate.min, it.candidate.max)).collect();
    assert_eq!(bounds, [(4, Some(6)), (2, Some(2)), (1, Some(6))]);
}

#[test]
fn percentages_are_resolved_on_the_whole_fleet() {
    let facts = ["a", "b", "c"].map(facts);
    let fleet = facts.each_ref().map(member);
    let many = PodNumbers {
        partition: Some(percent(90)),
        unavailable: Some(percent(25)),
        surge: Some(percent(15)),
        scale_unavailable: Some(percent(10)),
        ..numbers(10)
    };
    let placement = Placement::default();
    let spec = prepare(&object(&many, &placement), &fleet).unwrap().spec;
    // REV-2 and BUD-1: partition and surge up, unavailable down where there is a surge.
    assert_eq!((spec.partition, spec.unavailable, spec.surge, spec.scale_unavailable), (9, 2, 2, Some(1)));
    let paused = PodNumbers { paused: true, ..many };
    let spec = prepare(&object(&paused, &placement), &fleet).unwrap().spec;
    assert_eq!((spec.surge, spec.unavailable), (0, 3));
}

#[test]
fn split_6_duplicated_numbers_are_about_all_clusters_unless_the_object_says_otherwise() {
    let facts = ["a", "b", "c"].map(facts);
    let fleet = facts.each_ref().map(member);
    let mut placement = Placement::default();
    placement.replicas.mode = ReplicasMode::Duplicated;
    let half = PodNumbers { partition: Some(percent(50)), ..numbers(10) };
    let mut asked = object(&half, &placement);
    assert_eq!(prepare(&asked, &fleet).unwrap().spec.partition, 15);
    asked.per_cluster = true;
    let spec = prepare(&asked, &fleet).unwrap().spec;
    assert_eq!((spec.partition, spec.numbers), (5, Numbers::PerCluster));
    assert_eq!(sorted(placed(&half, &placement, &fleet)), [10, 10, 10]);
}

#[test]
fn the_policy_and_the_state_of_a_cluster_meet_in_one_state() {
    let facts = ["a", "b", "c", "d"].map(facts);
    let mut fleet = facts.each_ref().map(member);
    fleet[1].has_row = true;
    fleet[2].state = State::Offline;
    fleet[2].has_row = true;
    let mut placement = Placement::default();
    placement.clusters.exclude = vec!["b".to_owned(), "c".to_owned(), "d".to_owned()];
    let one = numbers(1);
    let prepared = prepare(&object(&one, &placement), &fleet).unwrap();
    let states: Vec<_> =
        prepared.clusters.iter().map(|it| (it.candidate.name.to_string(), it.candidate.state)).collect();
    // STATE-4: what is Offline stays as it is, excluded or not. What never had anything is left out.
    assert_eq!(
        states,
        [("a".to_owned(), State::Ready), ("b".to_owned(), State::Excluded), ("c".to_owned(), State::Offline)]
    );
    assert_eq!(prepared.selections.len(), 4);
}

#[test]
fn bad_input_3_a_cluster_that_is_away_does_not_make_a_policy_select_one() {
    let facts = ["a", "b"].map(facts);
    let mut fleet = facts.each_ref().map(member);
    for (it, state) in fleet.iter_mut().zip([State::Offline, State::Ready]) {
        (it.has_row, it.current, it.state) = (true, 3, state);
    }
    let mut placement = Placement::default();
    placement.clusters.selector = names(&["nowhere"]);
    placement.replicas.mode = ReplicasMode::Duplicated;
    let three = numbers(3);
    let prepared = prepare(&object(&three, &placement), &fleet).unwrap();
    assert!(prepared.world().selects_none);
    let start = Ledger {
        rows: ledger::read(&Default::default(), &prepared.names(), None).rows,
        ..Ledger::new(Revision(1))
    };
    let plan = scheduling::round::plan(&prepared.world(), &start).unwrap();
    assert!(plan.conditions.iter().any(|it| it.to_string().contains("selects no cluster")));
}

#[test]
fn bad_input_3_without_a_cluster_nothing_is_changed() {
    let facts = [facts("a")];
    let mut fleet = facts.each_ref().map(member);
    fleet[0].has_row = true;
    fleet[0].current = 5;
    let mut placement = Placement::default();
    placement.clusters.selector = names(&["nowhere"]);
    let ten = numbers(10);
    let prepared = prepare(&object(&ten, &placement), &fleet).unwrap();
    assert!(!prepared.has_cluster());
    let mut start = Ledger {
        rows: ledger::read(&Default::default(), &prepared.names(), None).rows,
        ..Ledger::new(Revision(1))
    };
    start.rows[0].write(
        scheduling::ledger::Share {
            replicas: 5,
            updated: 5,
            body: Revision(1),
            stable: Revision(1),
            ..Default::default()
        },
        Revision(1),
        0,
    );
    start.population = 5;
    let plan = plan(&prepared.world(), &start).unwrap();
    assert_eq!(plan.ledger.rows[0].share.replicas, 5);
    assert!(format!("{:?}", plan.conditions).contains("NoCluster"), "{:?}", plan.conditions);
}

#[test]
fn bad_input_9_a_cluster_that_lacks_the_kind_is_frozen_or_left_empty() {
    let mut facts = ["a", "b"].map(facts);
    facts[1].apis.clear();
    let fleet = facts.each_ref().map(member);
    assert_eq!(
        placed(&numbers(4), &Placement::default(), &fleet),
        [("a".to_owned(), 4), ("b".to_owned(), 0)]
    );
}

#[test]
fn tiers_are_filled_in_order() {
    let tier = |it: &str| Tier { name: it.to_owned(), clusters: names(&[it]) };
    let mut placement = Placement { tiers: vec![tier("b"), tier("a")], ..Placement::default() };
    placement.replicas.per_cluster =
        vec![ClusterBounds { clusters: ClusterSelector::default(), min: None, max: Some(3) }];
    let facts = ["a", "b"].map(facts);
    let fleet = facts.each_ref().map(member);
    assert_eq!(placed(&numbers(4), &placement, &fleet), [("a".to_owned(), 1), ("b".to_owned(), 3)]);
}

#[test]
fn spread_rules_group_clusters_by_field_or_label() {
    let rule = SpreadRule {
        topology_key: "region".to_owned(),
        min_groups: 1,
        max_groups: None,
        max_share: Some("50%".to_owned()),
        when_unsatisfiable: Default::default(),
    };
    let placement = Placement { spread: vec![rule], ..Placement::default() };
    let facts = ["e1", "e2", "u1"].map(facts);
    let fleet = facts.each_ref().map(member);
    let placed = placed(&numbers(10), &placement, &fleet);
    assert_eq!(placed[0].1 + placed[1].1, 5);
    assert_eq!(placed[2].1, 5);
}

#[test]
fn room_that_clusters_report_limits_them_where_the_policy_holds() {
    let mut placement = Placement::default();
    placement.replicas.when_short = ApiWhenShort::Hold;
    let facts = ["a", "b"].map(facts);
    let mut fleet = facts.each_ref().map(member);
    fleet[0].free = Some(3);
    fleet[0].promised_to_others = 1;
    fleet[1].free = Some(1);
    assert_eq!(placed(&numbers(10), &placement, &fleet), [("a".to_owned(), 2), ("b".to_owned(), 1)]);
}

#[test]
fn split_7_weights_by_free_room_stay_while_only_reports_come_in() {
    let mut placement = Placement::default();
    placement.replicas.dynamic = DynamicWeights::FreeCapacity;
    let facts = ["a", "b"].map(facts);
    let mut fleet = facts.each_ref().map(member);
    (fleet[0].free, fleet[1].free) = (Some(100), Some(50));
    let ten = numbers(10);
    let weights = |fleet: &[Member<'_>], in_use: &[(&str, u32)], cause| {
        let in_use = in_use.iter().map(|it| (it.0.to_owned(), it.1)).collect();
        let asked = Object { cause, weights_in_use: &in_use, ..object(&ten, &placement) };
        let prepared = prepare(&asked, fleet).unwrap();
        prepared.clusters.iter().map(|it| it.candidate.weight).collect::<Vec<_>>()
    };
    let in_use = [("a", 7), ("b", 8)];
    assert_eq!(weights(&fleet, &[], fit::Cause::Report), [20, 10]);
    assert_eq!(weights(&fleet, &in_use, fit::Cause::Report), [7, 8]);
    assert_eq!(weights(&fleet, &in_use, fit::Cause::Spec), [20, 10]);
    // Clusters that came, or went.
    assert_eq!(weights(&fleet, &in_use[..1], fit::Cause::Report), [20, 10]);
    assert_eq!(weights(&fleet, &[("a", 7), ("b", 8), ("c", 9)], fit::Cause::Report), [20, 10]);
    fleet[1].state = State::Draining;
    assert_eq!(weights(&fleet, &in_use, fit::Cause::Report), [20, 0]);
    // One that is silent for a while is still there.
    fleet[1].state = State::Offline;
    assert_eq!(weights(&fleet, &in_use, fit::Cause::Report), [7, 8]);
}

#[test]
fn split_7_a_continuous_rebalance_weighs_anew_where_room_is_off_by_more_than_the_tolerance() {
    let mut placement = Placement::default();
    placement.replicas.dynamic = DynamicWeights::FreeCapacity;
    placement.rebalance.trigger = RebalanceTrigger::Continuous;
    placement.rebalance.tolerance = "10%".to_owned();
    let facts = ["a", "b"].map(facts);
    let in_use = BTreeMap::from([("a".to_owned(), 20), ("b".to_owned(), 20)]);
    let ten = numbers(10);
    let stateful = PodNumbers { stateful: true, ..numbers(10) };
    let weights = |free: u32, placement: &Placement, numbers: &PodNumbers, may_weigh_anew: bool| {
        let mut fleet = facts.each_ref().map(member);
        for it in &mut fleet {
            (it.has_row, it.current, it.running) = (true, 5, 5);
        }
        (fleet[0].free, fleet[1].free) = (Some(35), Some(free));
        let weighed = Object {
            cause: fit::Cause::Report,
            weights_in_use: &in_use,
            may_weigh_anew,
            ..object(numbers, placement)
        };
        prepare(&weighed, &fleet).unwrap().weights.into_values().collect::<Vec<_>>()
    };
    // 40 and 20 would be 7 and 3, two off; 40 and 30 would be 6 and 4, which is let be.
    assert_eq!(weights(15, &placement, &ten, true), [20, 10]);
    assert_eq!(weights(25, &placement, &ten, true), [20, 20]);
    assert_eq!(weights(15, &placement, &ten, false), [20, 20], "it has moved in this interval");
    assert_eq!(weights(15, &placement, &stateful, true), [20, 20], "CS-5: what stays is not weighed");
    placement.rebalance.trigger = RebalanceTrigger::OnPolicyChange;
    assert_eq!(weights(15, &placement, &ten, true), [20, 20]);
}

#[test]
fn ha_6_a_cluster_whose_agent_does_not_know_a_field_of_the_share_gets_nothing_new() {
    let mut facts = ["a", "b"].map(facts);
    facts[0].features = vec!["Unheard-of".to_owned(), "ScaleMaxUnavailable".to_owned()];
    let fleet = facts.each_ref().map(member);
    let limited = PodNumbers { scale_unavailable: Some(percent(50)), ..numbers(10) };
    assert_eq!(placed(&limited, &Placement::default(), &fleet), [("a".to_owned(), 5), ("b".to_owned(), 0)]);
    assert_eq!(sorted(placed(&numbers(10), &Placement::default(), &fleet)), [5, 5], "nobody needs it");
}

#[test]
fn rel_6_clusters_in_no_wave_are_in_the_last_called_rest() {
    let wave = |name: &str, clusters| PolicyWave { name: name.to_owned(), clusters, ..PolicyWave::default() };
    let mut placement = Placement::default();
    placement.rollout.order = RolloutOrder::Waves;
    placement.rollout.waves = vec![wave("canary", names(&["b"])), wave("again", names(&["b"]))];
    let mut facts = ["a", "b"].map(facts);
    facts[0].labels.insert(keys::ORDER.to_owned(), "-3".to_owned());
    let ten = numbers(10);
    let fleet = facts.each_ref().map(member);
    let prepared = prepare(&object(&ten, &placement), &fleet).unwrap();
    let words: Vec<_> = prepared.waves.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(words, ["canary", "again", "rest"]);
    let places: Vec<_> = prepared.clusters.iter().map(|it| (it.wave, it.order)).collect();
    assert_eq!(places, [(2, -3), (0, 0)]);
    placement.rollout.waves.push(wave("all", ClusterSelector::default()));
    let prepared = prepare(&object(&ten, &placement), &fleet).unwrap();
    assert_eq!(prepared.waves.len(), 3, "nobody is left out, so there is no rest");
}

#[test]
fn the_rules_of_a_policy_are_numbers_on_n() {
    let placement = Placement {
        rebalance: Rebalance {
            tolerance: "15%".to_owned(),
            max_moves: IntOrString::String("15%".to_owned()),
            max_surge: IntOrString::Int(0),
            max_unavailable: IntOrString::String("1%".to_owned()),
            ..Rebalance::default()
        },
        failover: Failover {
            enabled: true,
            max_overlap: "40%".to_owned(),
            max_clusters: 2,
            ..Failover::default()
        },
        ..Placement::default()
    };
    let ten = numbers(10);
    let rules = prepare(&object(&ten, &placement), &[]).unwrap().rules;
    assert_eq!((rules.rebalance.tolerance, rules.rebalance.max_moves, rules.rebalance.interval), (1, 2, 300));
    // MOVE-1: a percentage of B that rounds to nothing is 1 where M is 0.
    assert_eq!((rules.move_surge, rules.move_unavailable), (0, 1));
    assert_eq!((rules.max_overlap, rules.max_lost, rules.progress_deadline), (40, 2, 600));
    let none = Placement::default();
    assert_eq!(prepare(&object(&ten, &none), &[]).unwrap().rules.max_lost, u32::MAX);
}

#[test]
fn a_release_without_waves_fails_by_itself_only_if_a_rollback_is_asked_for() {
    let ten = numbers(10);
    let gate = |on_failure| {
        let mut placement = Placement::default();
        placement.rollout.on_failure = on_failure;
        prepare(&object(&ten, &placement), &[]).unwrap().rules.gate
    };
    assert!(!gate(OnFailure::Pause).can_fail());
    assert_eq!(gate(OnFailure::Rollback).max_failed, 0);
}

#[test]
fn pods_named_for_deletion_have_a_fingerprint_that_does_not_depend_on_their_order() {
    let words = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    assert_eq!(fingerprint(&[]), 0);
    assert_eq!(fingerprint(&words(&["a", "b"])), fingerprint(&words(&["b", "a"])));
    assert_ne!(fingerprint(&words(&["a", "b"])), fingerprint(&words(&["a"])));
}

proptest! {
    #[test]
    fn split_permutation_invariant_and_nothing_is_lost(
        count in 1usize..12,
        replicas in 0u32..500,
        turn in 0usize..12,
        weights in prop::collection::vec(0u32..20, 12),
    ) {
        let facts: Vec<ClusterFacts> = (0..count).map(|it| facts(&format!("c{it:02}"))).collect();
        let mut placement = Placement::default();
        placement.replicas.weights = facts
            .iter()
            .zip(&weights)
            .map(|(it, weight)| ClusterWeight { clusters: names(&[&it.name]), weight: *weight })
            .collect();
        let mut fleet: Vec<Member<'_>> = facts.iter().map(member).collect();
        let first = placed(&numbers(replicas), &placement, &fleet);
        prop_assert_eq!(first.iter().map(|it| it.1).sum::<u32>(), replicas);
        fleet.rotate_left(turn % count);
        prop_assert_eq!(placed(&numbers(replicas), &placement, &fleet), first);
    }
}
