//! The worked examples of the replica split, and one example per rule.

use scheduling::{
    names::GroupName,
    numbers::Percent,
    reason::{Change, Condition, Limit, Shrink},
    split::{
        Answer, Candidate, Error, Goal, Mode, Request, Spread, State, WhenShort, WhenUnsatisfiable, plan,
    },
};

/// Clusters a, b, c, ... in order of rank.
fn clusters(current: &[u32]) -> Vec<Candidate> {
    let candidate = |(rank, current): (usize, &u32)| {
        let name = char::from(b'a' + rank as u8).to_string();
        Candidate { current: *current, ..Candidate::new(name, rank as u64) }
    };
    current.iter().enumerate().map(candidate).collect()
}

fn divided(replicas: u32, clusters: Vec<Candidate>) -> Request {
    Request { replicas, clusters, ..Request::default() }
}

fn weighted(weights: &[u32]) -> Vec<Candidate> {
    let mut clusters = clusters(&vec![0; weights.len()]);
    clusters.iter_mut().zip(weights).for_each(|(it, weight)| it.weight = *weight);
    clusters
}

fn by_region(clusters: &mut [Candidate], regions: &[&str]) {
    for (it, region) in clusters.iter_mut().zip(regions) {
        it.groups = vec![Some(GroupName::from(*region))];
    }
}

fn spread() -> Spread {
    Spread {
        key: "region".into(),
        min_groups: 1,
        max_groups: None,
        max_share: None,
        when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
    }
}

fn replicas(answer: &Answer) -> Vec<u32> {
    answer.rows.iter().map(|it| it.replicas).collect()
}

fn split(request: &Request) -> Vec<u32> {
    replicas(&plan(request).expect("a request that makes sense"))
}

#[test]
fn split_3_ten_over_four_equal_clusters_is_3_3_2_2() {
    assert_eq!(split(&divided(10, clusters(&[0; 4]))), [3, 3, 2, 2]);
}

#[test]
fn split_3_seven_by_weights_2_1_1_is_3_2_2() {
    assert_eq!(split(&divided(7, weighted(&[2, 1, 1]))), [3, 2, 2]);
}

#[test]
fn split_3_a_weight_of_zero_receives_only_what_nobody_else_can_take() {
    let mut clusters = weighted(&[1, 0, 0]);
    assert_eq!(split(&divided(9, clusters.clone())), [9, 0, 0]);
    clusters[0].max = Some(4);
    assert_eq!(split(&divided(9, clusters)), [4, 3, 2]);
}

#[test]
fn split_5_a_scale_down_starts_nothing_in_an_empty_cluster() {
    assert_eq!(split(&divided(9, clusters(&[15, 15, 0]))), [5, 4, 0]);
}

#[test]
fn split_1_an_offline_cluster_is_untouched_by_a_scale_up() {
    let mut clusters = clusters(&[4, 3, 3]);
    clusters[1].state = State::Offline;
    let answer = plan(&divided(14, clusters)).unwrap();
    assert_eq!(replicas(&answer), [6, 3, 5]);
    assert_eq!(answer.rows[1].why.change, Change::Frozen);
    assert_eq!(answer.rows[1].to_string(), "b: 3, frozen, is offline, its share stays as it is");
    assert_eq!(answer.rows[0].to_string(), "a: 6, 2 more");
}

#[test]
fn split_1_what_an_offline_cluster_holds_too_much_is_reported() {
    let mut clusters = clusters(&[4, 3, 3]);
    clusters[1].state = State::Offline;
    let answer = plan(&divided(2, clusters.clone())).unwrap();
    assert_eq!(replicas(&answer), [0, 3, 0]);
    assert_eq!(answer.conditions, [Condition::SurplusFrozen(1)]);

    // It is back: the surplus goes.
    clusters.iter_mut().zip([0, 3, 0]).for_each(|(it, current)| it.current = current);
    clusters[1].state = State::Ready;
    assert_eq!(split(&divided(2, clusters)), [0, 2, 0]);
}

#[test]
fn split_1_states_bound_what_a_cluster_may_have() {
    let states = [
        State::Ready,
        State::Cordoned,
        State::Draining,
        State::Offline,
        State::Lost,
        State::Pending,
        State::Returning,
        State::Excluded,
        State::Unsupported,
    ];
    let mut clusters = clusters(&[2; 9]);
    clusters.iter_mut().zip(states).for_each(|(it, state)| it.state = state);
    let answer = plan(&divided(20, clusters.clone())).unwrap();
    assert_eq!(replicas(&answer), [14, 2, 0, 2, 0, 0, 0, 0, 2]);
    let limits: Vec<Limit> = answer.rows.iter().map(|it| it.why.limit).collect();
    assert_eq!(
        limits,
        [
            Limit::None,
            Limit::Cordoned,
            Limit::Draining,
            Limit::Offline,
            Limit::Lost,
            Limit::Pending,
            Limit::Returning,
            Limit::Excluded,
            Limit::Unsupported
        ]
    );

    // A cluster that lacks the kind and runs nothing is simply left out.
    clusters[8].current = 0;
    assert_eq!(split(&divided(20, clusters)), [16, 2, 0, 2, 0, 0, 0, 0, 0]);
}

#[test]
fn state_5_offline_wins_over_draining_and_draining_over_cordoned() {
    use State::{Cordoned, Draining, Offline, Ready};
    assert_eq!(State::strongest([Draining, Offline, Cordoned]), Offline);
    assert_eq!(State::strongest([Cordoned, Draining]), Draining);
    assert_eq!(State::strongest([Ready, Cordoned]), Cordoned);
    assert_eq!(State::strongest([]), Ready);
}

#[test]
fn split_2_overcommit_fills_to_fit_first_and_then_goes_by_weight() {
    let mut clusters = weighted(&[3, 1, 1]);
    clusters.iter_mut().zip([2, 4, 1]).for_each(|(it, fit)| it.fit = Some(fit));
    clusters[2].max = Some(2);
    // 7 fit. Three more by weight, from 2/4/1 on: a (3/5), a (3/7), then c (1/3) is the largest of 3/9, 1/9, 1/3.
    assert_eq!(split(&divided(10, clusters.clone())), [4, 4, 2]);

    let held = Request { when_short: WhenShort::Hold, ..divided(10, clusters.clone()) };
    let answer = plan(&held).unwrap();
    assert_eq!(replicas(&answer), [2, 4, 1]);
    assert_eq!(answer.unplaced, 3);
    assert_eq!(answer.conditions, [Condition::Unplaced(3)]);

    clusters.iter_mut().for_each(|it| it.max = Some(4));
    let answer = plan(&divided(20, clusters)).unwrap();
    assert_eq!((replicas(&answer), answer.unplaced), (vec![4, 4, 4], 8));
}

#[test]
fn split_2_a_cordoned_cluster_is_not_overcommitted() {
    let mut clusters = clusters(&[2, 2]);
    clusters.iter_mut().for_each(|it| it.fit = Some(3));
    clusters[0].state = State::Cordoned;
    assert_eq!(split(&divided(10, clusters)), [2, 8]);
}

#[test]
fn split_2_minimums_are_cut_in_later_tiers_then_smaller_weights_then_larger_ranks() {
    let mut clusters = weighted(&[2, 1, 1, 9]);
    clusters.iter_mut().for_each(|it| it.min = 3);
    clusters[3].tier = 1;
    let cut = |replicas| {
        let answer = plan(&divided(replicas, clusters.clone())).unwrap();
        (self::replicas(&answer), answer.conditions)
    };
    assert_eq!(cut(12), (vec![3, 3, 3, 3], vec![]));
    assert_eq!(cut(11), (vec![3, 3, 3, 2], vec![Condition::MinsCut(1)]));
    assert_eq!(cut(8), (vec![3, 3, 2, 0], vec![Condition::MinsCut(4)]));
    assert_eq!(cut(4), (vec![3, 1, 0, 0], vec![Condition::MinsCut(8)]));
    assert_eq!(cut(0), (vec![0, 0, 0, 0], vec![Condition::MinsCut(12)]));
}

#[test]
fn split_2_a_frozen_cluster_is_never_cut() {
    let mut clusters = clusters(&[0, 4]);
    clusters.iter_mut().for_each(|it| it.min = 2);
    clusters[1].state = State::Offline;
    assert_eq!(split(&divided(5, clusters)), [1, 4]);
}

#[test]
fn split_4_a_later_tier_receives_only_what_earlier_ones_cannot_hold() {
    let mut clusters = clusters(&[0, 0, 0, 0]);
    clusters[0].max = Some(3);
    clusters[1].max = Some(4);
    (clusters[2].tier, clusters[3].tier) = (1, 2);
    clusters[2].max = Some(2);
    assert_eq!(split(&divided(6, clusters.clone())), [3, 3, 0, 0]);
    assert_eq!(split(&divided(8, clusters.clone())), [3, 4, 1, 0]);
    assert_eq!(split(&divided(12, clusters)), [3, 4, 2, 3]);
}

#[test]
fn split_4_a_largest_share_caps_a_group() {
    let mut clusters = clusters(&[0, 0, 0, 0]);
    by_region(&mut clusters, &["eu", "eu", "eu", "us"]);
    let rule = Spread { max_share: Some(Percent::whole(60)), ..spread() };
    let request = Request { spread: vec![rule], ..divided(10, clusters) };
    let answer = plan(&request).unwrap();
    assert_eq!(replicas(&answer), [2, 2, 2, 4]);
    assert_eq!(answer.rows[0].why.limit, Limit::ShareFull);
}

#[test]
fn split_4_a_share_that_is_only_a_wish_is_passed_when_nothing_else_has_room() {
    let mut clusters = clusters(&[0, 0]);
    by_region(&mut clusters, &["eu", "us"]);
    clusters[1].max = Some(2);
    let rule = Spread { max_share: Some(Percent::whole(50)), ..spread() };
    let firm = Request { spread: vec![rule.clone()], ..divided(10, clusters) };
    let answer = plan(&firm).unwrap();
    assert_eq!((replicas(&answer), answer.unplaced), (vec![5, 2], 3));

    let wish = Spread { when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway, ..rule };
    let answer = plan(&Request { spread: vec![wish], ..firm }).unwrap();
    assert_eq!((replicas(&answer), answer.unplaced), (vec![8, 2], 0));
    assert_eq!(answer.conditions, [Condition::ShareExceeded("region".into())]);
}

#[test]
fn split_4_groups_in_use_are_chosen_before_larger_ones_and_larger_ones_before_names() {
    let mut clusters = clusters(&[0, 1, 0]);
    by_region(&mut clusters, &["ap", "eu", "us"]);
    clusters.iter_mut().zip([5, 2, 9]).for_each(|(it, max)| it.max = Some(max));
    let rule = Spread { max_groups: Some(2), ..spread() };
    let request = Request { spread: vec![rule], ..divided(4, clusters.clone()) };
    let answer = plan(&request).unwrap();
    assert_eq!(replicas(&answer), [0, 2, 2]);
    assert_eq!(answer.rows[0].why.limit, Limit::GroupNotChosen);

    clusters.iter_mut().for_each(|it| (it.max, it.current) = (None, 0));
    assert_eq!(split(&Request { clusters, ..request }), [2, 2, 0]);
}

#[test]
fn split_4_too_few_groups_let_nothing_grow() {
    let mut clusters = clusters(&[2, 1]);
    by_region(&mut clusters, &["eu", "eu"]);
    let rule = Spread { min_groups: 2, ..spread() };
    let request = Request { spread: vec![rule.clone()], ..divided(9, clusters.clone()) };
    let answer = plan(&request).unwrap();
    assert_eq!((replicas(&answer), answer.unplaced), (vec![2, 1], 6));
    let unsatisfied = Condition::SpreadUnsatisfied { key: "region".into(), found: 1, wanted: 2 };
    assert_eq!(answer.conditions[0], unsatisfied);
    // A user can still scale down.
    assert_eq!(split(&Request { replicas: 2, ..request.clone() }), [1, 1]);

    let wish = Spread { when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway, ..rule };
    let answer = plan(&Request { spread: vec![wish], ..request }).unwrap();
    assert_eq!(replicas(&answer), [5, 4]);
    assert_eq!(answer.conditions, [unsatisfied]);
}

#[test]
fn split_6_duplicated_gives_every_cluster_all() {
    let mut clusters = clusters(&[0, 9, 4, 3, 1]);
    clusters[2].state = State::Cordoned;
    clusters[3].state = State::Offline;
    clusters[4].state = State::Draining;
    let request = Request { mode: Mode::Duplicated, ..divided(5, clusters) };
    let answer = plan(&request).unwrap();
    assert_eq!(replicas(&answer), [5, 5, 4, 3, 0]);
    assert_eq!((answer.population, answer.unplaced), (17, 0));
}

#[test]
fn split_6_aggregated_uses_the_fewest_clusters() {
    let mut clusters = clusters(&[0, 0, 0]);
    clusters.iter_mut().zip([4, 9, 6]).for_each(|(it, fit)| it.fit = Some(fit));
    let request = Request { mode: Mode::Aggregated, ..divided(8, clusters.clone()) };
    assert_eq!(split(&request), [0, 8, 0]);
    assert_eq!(split(&Request { replicas: 12, ..request.clone() }), [0, 6, 6]);
    // One in use comes first.
    clusters[2].current = 5;
    assert_eq!(split(&Request { clusters, replicas: 6, ..request }), [0, 0, 6]);
}

#[test]
fn split_6_aggregated_drops_a_small_cluster_at_once_and_not_a_round_later() {
    let mut clusters = clusters(&[1, 0]);
    clusters.iter_mut().zip([1, 5]).for_each(|(it, fit)| it.fit = Some(fit));
    let mut request = Request { mode: Mode::Aggregated, ..divided(5, clusters) };
    let first = split(&request);
    request.clusters.iter_mut().zip(&first).for_each(|(it, current)| it.current = *current);
    assert_eq!((first, split(&request)), (vec![0, 5], vec![0, 5]));
}

#[test]
fn split_8_named_pods_say_where_a_scale_down_happens() {
    let mut clusters = clusters(&[4, 3, 3]);
    clusters[1].named_for_deletion = 1;
    let answer = plan(&divided(9, clusters.clone())).unwrap();
    assert_eq!(replicas(&answer), [4, 2, 3]);
    assert_eq!(answer.rows[1].why.change, Change::Shrunk(1, Shrink::Named));
    // Without a scale-down the pod is replaced where it is.
    assert_eq!(split(&divided(10, clusters.clone())), [4, 3, 3]);
    // Not below a minimum, and no more than the scale-down asks.
    clusters[1].named_for_deletion = 3;
    clusters[1].min = 2;
    assert_eq!(split(&divided(7, clusters)), [3, 2, 2]);
}

#[test]
fn split_10_a_rebalance_gives_the_ideal_and_a_broken_limit_is_corrected_without_one() {
    let mut clusters = clusters(&[8, 1, 1]);
    let request = Request { goal: Goal::Rebalance, ..divided(10, clusters.clone()) };
    assert_eq!(split(&request), [4, 3, 3]);
    assert_eq!(split(&divided(10, clusters.clone())), [8, 1, 1]);

    clusters[0].max = Some(6);
    assert_eq!(split(&divided(10, clusters.clone())), [6, 2, 2]);
    clusters[0].state = State::Excluded;
    assert_eq!(split(&divided(10, clusters)), [0, 5, 5]);
}

#[test]
fn split_10_a_group_above_its_share_gives_what_it_has_too_much() {
    let mut clusters = clusters(&[6, 3, 1]);
    by_region(&mut clusters, &["eu", "eu", "us"]);
    let rule = Spread { max_share: Some(Percent::whole(50)), ..spread() };
    let answer = plan(&Request { spread: vec![rule], ..divided(10, clusters) }).unwrap();
    assert_eq!(replicas(&answer), [3, 2, 5]);
    assert_eq!(answer.rows[0].why.change, Change::Shrunk(3, Shrink::OverShare));
}

#[test]
fn no_selected_cluster_changes_nothing() {
    let mut clusters = clusters(&[3]);
    clusters[0].state = State::Excluded;
    let answer = plan(&divided(3, clusters)).unwrap();
    assert_eq!((replicas(&answer), answer.conditions), (vec![3], vec![Condition::NoCluster]));

    let answer = plan(&divided(3, Vec::new())).unwrap();
    assert_eq!(answer.conditions, [Condition::NoCluster, Condition::Unplaced(3)]);
}

#[test]
fn split_4_as_many_groups_are_used_as_there_must_be() {
    let rule = Spread { min_groups: 2, ..spread() };
    // The fewest clusters that hold all are two, as one region is not enough.
    let mut three = clusters(&[0, 0, 0]);
    by_region(&mut three, &["eu", "eu", "us"]);
    let request = Request { mode: Mode::Aggregated, spread: vec![rule.clone()], ..divided(5, three.clone()) };
    assert_eq!(split(&request), [3, 0, 2]);
    // What runs in one region alone gives one pod to another, and no more.
    three[0].current = 5;
    assert_eq!(split(&Request { spread: vec![rule.clone()], ..divided(5, three.clone()) }), [4, 0, 1]);
    // A weight of 0 keeps no region empty; and one pod cannot be in two regions.
    three[0].current = 0;
    three[2].weight = 0;
    let spread_out = |replicas| Request { spread: vec![rule.clone()], ..divided(replicas, three.clone()) };
    assert_eq!(split(&spread_out(7)), [3, 3, 1]);
    assert_eq!(split(&spread_out(1)).iter().sum::<u32>(), 1);
    assert!(plan(&spread_out(1)).unwrap().conditions.is_empty());
    // Rules that ask for more groups than there are pods for say so.
    let zones = Spread { key: "zone".into(), min_groups: 3, ..spread() };
    for (it, zone) in three.iter_mut().zip(["a", "b", "c"]) {
        it.groups.push(Some(zone.into()));
        it.max = Some(1);
    }
    three[1].max = Some(0);
    let answer = plan(&Request { spread: vec![rule, zones], ..divided(2, three) }).unwrap();
    let found = Condition::SpreadUnsatisfied { key: "zone".into(), found: 2, wanted: 3 };
    assert!(answer.conditions.contains(&found), "{:?}", answer.conditions);
}

/// Minimums of the policy give way to the groups there must be, and the order of the rules does not matter.
#[test]
fn split_4_groups_that_must_be_used_come_before_minimums_and_in_any_order_of_rules() {
    let mut two = clusters(&[0, 0]);
    by_region(&mut two, &["eu", "us"]);
    (two[0].weight, two[0].min) = (2, 2);
    let rule = Spread { min_groups: 2, ..spread() };
    let answer = plan(&Request { spread: vec![rule.clone()], ..divided(2, two.clone()) }).unwrap();
    assert_eq!((replicas(&answer), answer.conditions), (vec![1, 1], vec![Condition::MinsCut(1)]));
    // Room that the second region does not have is overcommitted, as the policy says.
    (two[0].min, two[1].fit) = (0, Some(0));
    assert_eq!(split(&Request { spread: vec![rule.clone()], ..divided(5, two.clone()) }), [4, 1]);
    let held = Request { when_short: WhenShort::Hold, spread: vec![rule], ..divided(5, two) };
    assert_eq!(split(&held), [0, 0]);

    let mut three = clusters(&[0, 0, 0]);
    by_region(&mut three, &["z1", "z2", "z2"]);
    for (it, (region, weight)) in three.iter_mut().zip([("r1", 10), ("r2", 9), ("r1", 1)]) {
        it.groups.push(Some(region.into()));
        it.weight = weight;
    }
    three[1].fit = Some(5);
    let zones = Spread { min_groups: 2, ..spread() };
    let regions = Spread { key: "zone".into(), max_groups: Some(1), ..spread() };
    let request = Request { spread: vec![zones.clone(), regions.clone()], ..divided(2, three.clone()) };
    assert_eq!(split(&request), [1, 0, 1]);
    three.iter_mut().for_each(|it| it.groups.reverse());
    assert_eq!(split(&Request { spread: vec![regions, zones], ..divided(2, three) }), [1, 0, 1]);
}

/// What groups ask for is no minimum of the policy: none is cut.
#[test]
fn split_4_a_group_that_cannot_be_used_cuts_no_minimum() {
    let mut two = clusters(&[3, 0]);
    by_region(&mut two, &["eu", "us"]);
    two[0].state = State::Offline;
    let rule = Spread { min_groups: 2, ..spread() };
    let answer = plan(&Request { spread: vec![rule], ..divided(3, two) }).unwrap();
    assert!(!answer.conditions.iter().any(|it| matches!(it, Condition::MinsCut(_))), "{answer:?}");
}

#[test]
fn split_6_aggregated_keeps_minimums() {
    let mut three = clusters(&[0, 0, 0]);
    three[2].min = 2;
    let answer = plan(&Request { mode: Mode::Aggregated, ..divided(5, three.clone()) }).unwrap();
    assert_eq!(replicas(&answer), [0, 0, 5]);
    (three[2].max, three[1].min) = (Some(3), 1);
    assert_eq!(split(&Request { mode: Mode::Aggregated, ..divided(5, three) }), [0, 3, 2]);
}

#[test]
fn split_6_duplicated_says_when_a_group_has_more_than_its_share() {
    let mut three = clusters(&[0, 0, 0]);
    by_region(&mut three, &["eu", "eu", "us"]);
    let rule = Spread { max_share: Some(Percent::whole(50)), ..spread() };
    let answer = plan(&Request { mode: Mode::Duplicated, spread: vec![rule], ..divided(4, three) }).unwrap();
    assert_eq!(replicas(&answer), [4, 4, 4]);
    assert_eq!(answer.conditions, [Condition::ShareExceeded("region".into())]);
}

#[test]
fn split_6_a_cordoned_cluster_above_its_maximum_asks_for_the_same_in_every_round() {
    let mut two = clusters(&[5, 5]);
    (two[0].state, two[0].max) = (State::Cordoned, Some(3));
    let request = Request { mode: Mode::Duplicated, ..divided(5, two.clone()) };
    let first = plan(&request).unwrap();
    two[0].current = 3;
    let second = plan(&Request { mode: Mode::Duplicated, ..divided(5, two) }).unwrap();
    assert_eq!((first.population, first.unplaced), (second.population, second.unplaced));
    assert_eq!((replicas(&first), first.population), (vec![3, 5], 8));
}

#[test]
fn senseless_requests_are_refused_by_name() {
    let with = |change: fn(&mut Candidate)| {
        let mut clusters = clusters(&[0, 0]);
        change(&mut clusters[1]);
        plan(&divided(5, clusters)).unwrap_err()
    };
    assert_eq!(with(|it| it.weight = 10_001), Error::WeightTooLarge("b".into(), 10_001));
    assert_eq!(with(|it| (it.min, it.max) = (3, Some(2))), Error::MinAboveMax("b".into()));
    assert_eq!(with(|it| it.groups = vec![None]), Error::GroupsMissing("b".into()));
    assert_eq!(with(|it| (it.name, it.rank) = ("a".into(), 0)), Error::DuplicateCluster("a".into()));
    assert_eq!(
        with(|it| (it.name, it.rank, it.tier) = ("a".into(), 0, 3)),
        Error::DuplicateCluster("a".into())
    );
    assert_eq!(plan(&divided(1_000_001, vec![])).unwrap_err(), Error::TooManyReplicas(1_000_001));

    let mut clusters = clusters(&[0]);
    by_region(&mut clusters, &["eu"]);
    let refused = |rule| plan(&Request { spread: vec![rule], ..divided(5, clusters.clone()) }).unwrap_err();
    let zero = Percent::whole(0);
    assert_eq!(refused(Spread { max_share: Some(zero), ..spread() }), Error::ShareZero("region".into()));
    let none = Spread { max_groups: Some(0), ..spread() };
    assert_eq!(refused(none), Error::GroupsContradict("region".into()));
    assert!(Error::TooManyReplicas(1_000_001).to_string().contains("1000000"));
}
