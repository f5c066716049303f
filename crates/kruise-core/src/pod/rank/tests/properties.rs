use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use proptest::prelude::*;

use super::{Nodes, names, refs};
use crate::{
    api::common::{UpdateScatterTerm, keys},
    pod::{
        rank::{Spread, order_for_deletion, order_for_update, scatter},
        sample::{noon, pod},
        state,
    },
    runtime::cache::pod::PodLite,
};

const ZONE: &str = "zone";

prop_compose! {
    /// Few values of everything, so that many pods are alike.
    fn any_pod()(
        node in 0..5_usize, phase in 0..4_usize, ready in prop::option::of(prop::option::of(0..3_i64)),
        restarts in 0..3_i32, cost in prop::option::of(-1..2_i32), created in prop::option::of(0..3_i64),
        state in 0..3_usize,
    ) -> PodLite {
        let ago = |seconds| noon() - SignedDuration::from_secs(seconds);
        let mut it = pod("").in_phase(["Running", "Running", "Pending", "Unknown"][phase]).restarted(restarts);
        it = if node > 0 { it.on(&format!("n{node}")) } else { it };
        it = ready.map_or(it.clone(), |since| it.ready_since(since.map(ago)));
        it = cost.map_or(it.clone(), |cost| it.with_annotation(keys::POD_DELETION_COST, &cost.to_string()));
        it = created.map_or(it.clone(), |at| it.created(ago(at)));
        it.with_label(keys::LIFECYCLE_STATE, ["", "Normal", "Updating"][state])
    }
}

fn any_pods() -> impl Strategy<Value = Vec<PodLite>> {
    prop::collection::vec(any_pod(), 0..24).prop_map(|mut pods| {
        for (index, pod) in pods.iter_mut().enumerate() {
            pod.metadata.name = Some(format!("p{index:02}"));
        }
        pods
    })
}

/// Two zones; node n4 is in none and n3 is not known.
fn nodes() -> Nodes {
    let zoned = |zone: &str| BTreeMap::from([(ZONE.to_owned(), zone.to_owned())]);
    let nodes = [("n1", zoned("a")), ("n2", zoned("b")), ("n4", BTreeMap::new())];
    Nodes(nodes.into_iter().map(|(name, labels)| (name.to_owned(), labels)).collect())
}

fn order(pods: &[&PodLite], constraints: &[&str]) -> Vec<usize> {
    let nodes = nodes();
    let how = Spread {
        constraints: constraints.iter().map(|it| (*it).to_owned()).collect(),
        node_labels: &|it| nodes.labels(it),
    };
    order_for_deletion(pods, &how, 1, noon())
}

/// The first four rules, written down once more.
fn serves(pod: &PodLite) -> (bool, usize, bool, bool, i32) {
    let phases = ["Pending", "Unknown", "Running"];
    let phase = phases.iter().position(|it| Some(*it) == pod.status.phase.as_deref()).unwrap();
    let cost = pod.annotations().get(keys::POD_DELETION_COST).map_or(0, |it| it.parse().unwrap());
    (pod.spec.node_name.is_some(), phase, state::is_available(pod, 1, noon()), state::is_ready(pod), cost)
}

proptest! {
    #[test]
    fn every_order_is_a_permutation_that_does_not_depend_on_the_list(
        (pods, shuffled) in any_pods().prop_flat_map(|it| (Just(it.clone()), Just(it).prop_shuffle())),
    ) {
        let (pods, shuffled) = (refs(&pods), refs(&shuffled));
        for constraints in [&[][..], &[ZONE], &[ZONE, "kubernetes.io/hostname"]] {
            let got = order(&pods, constraints);
            prop_assert_eq!(got.iter().collect::<BTreeSet<_>>().len(), pods.len());
            prop_assert_eq!(names(&pods, &got), names(&shuffled, &order(&shuffled, constraints)));
        }
        let got = names(&pods, &order_for_update(&pods));
        prop_assert_eq!(got.iter().collect::<BTreeSet<_>>().len(), pods.len());
        prop_assert_eq!(got, names(&shuffled, &order_for_update(&shuffled)));
    }

    #[test]
    fn no_pod_goes_before_one_that_serves_less_or_costs_less(pods in any_pods()) {
        let pods = refs(&pods);
        for constraints in [&[][..], &[ZONE]] {
            let got = order(&pods, constraints);
            prop_assert!(got.windows(2).all(|it| serves(pods[it[0]]) <= serves(pods[it[1]])));
        }
    }

    #[test]
    fn among_pods_alike_no_node_loses_its_last_pod_while_another_has_two(
        places in prop::collection::vec(1..5_usize, 1..24),
    ) {
        let pods: Vec<_> =
            places.iter().enumerate().map(|(i, it)| pod(&format!("p{i:02}")).on(&format!("n{it}"))).collect();
        let pods = refs(&pods);
        let node = |pod: usize| pods[pod].spec.node_name.as_deref().unwrap();
        let mut left: BTreeMap<&str, usize> = BTreeMap::new();
        for pod in 0..pods.len() {
            *left.entry(node(pod)).or_default() += 1;
        }
        for pod in order(&pods, &[]) {
            let count = left[node(pod)];
            let most = left.values().max().unwrap();
            prop_assert!(count == *most, "{left:?} loses one of {}", node(pod));
            left.insert(node(pod), count - 1);
        }
    }

    #[test]
    fn among_pods_alike_zones_are_evened_out(places in prop::collection::vec(1..3_usize, 1..24)) {
        let pods: Vec<_> =
            places.iter().enumerate().map(|(i, it)| pod(&format!("p{i:02}")).on(&format!("n{it}"))).collect();
        let pods = refs(&pods);
        let zone = |pod: usize| nodes().0[pods[pod].spec.node_name.as_deref().unwrap()][ZONE].clone();
        let mut left: BTreeMap<String, usize> = BTreeMap::new();
        for pod in 0..pods.len() {
            *left.entry(zone(pod)).or_default() += 1;
        }
        for pod in order(&pods, &[ZONE]) {
            let most = *left.values().max().unwrap();
            prop_assert_eq!(left[&zone(pod)], most);
            *left.get_mut(&zone(pod)).unwrap() -= 1;
        }
    }

    #[test]
    fn scattering_loses_nobody_and_keeps_the_order_within_each_kind(
        labels in prop::collection::vec(any::<bool>(), 0..40), candidates in 0..40_usize,
    ) {
        let with = |it: &bool| if *it { pod("p").with_label("a", "x") } else { pod("p") };
        let pods: Vec<_> = labels.iter().map(with).collect();
        let before: Vec<_> = (0..candidates.min(labels.len())).collect();
        let term = UpdateScatterTerm { key: "a".into(), value: "x".into() };
        let after = scatter::sort(&refs(&pods), before.clone(), &[term]);
        for kind in [true, false] {
            let only = |order: &[usize]| order.iter().copied().filter(|it| labels[*it] == kind).collect::<Vec<_>>();
            prop_assert_eq!(only(&before), only(&after));
        }
        prop_assert_eq!(before.len(), after.len());
    }
}

#[test]
fn ten_thousand_pods_are_sorted() {
    let pods: Vec<_> = (0..10_000)
        .map(|it| pod(&format!("p{it:05}")).on(&format!("n{}", it % 700)).ready_since(Some(noon())))
        .collect();
    let pods = refs(&pods);
    for constraints in [&[][..], &[ZONE]] {
        let got: BTreeSet<_> = order(&pods, constraints).into_iter().collect();
        assert_eq!(got.len(), 10_000);
    }
    assert_eq!(order_for_update(&pods), (0..10_000).collect::<Vec<_>>());
}
