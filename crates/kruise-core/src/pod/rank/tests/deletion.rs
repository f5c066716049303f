use jiff::{SignedDuration, Timestamp};

use super::{Nodes, names, refs};
use crate::{
    api::common::keys,
    pod::{
        rank::{Spread, order_for_deletion},
        sample::{noon, pod},
    },
    runtime::cache::pod::PodLite,
};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

fn over_nodes(pods: &[PodLite]) -> Vec<String> {
    let pods = refs(pods);
    names(&pods, &order_for_deletion(&pods, &Spread::over_nodes(), 0, noon()))
}

fn month_ago() -> Timestamp {
    noon() - SignedDuration::from_hours(30 * 24)
}

fn ready_now(name: &str) -> PodLite {
    pod(name).on("node").ready_since(Some(noon())).created(noon())
}

/// Both pods are on nodes of their own, so that only the pods themselves are compared; names would say the opposite.
#[track_caller]
fn assert_first(mut first: PodLite, mut second: PodLite) {
    (first.metadata.name, second.metadata.name) = (Some("z".into()), Some("a".into()));
    if first.spec.node_name.is_some() {
        first.spec.node_name = Some("other".into());
    }
    assert_eq!(over_nodes(&[first.clone(), second.clone()]), ["z", "a"]);
    assert_eq!(over_nodes(&[second, first]), ["z", "a"]);
}

#[test]
fn pods_that_serve_least_go_first() {
    let scheduled = pod("a").on("node");
    assert_first(pod("a").in_phase("Pending"), scheduled.clone().in_phase("Pending"));
    assert_first(scheduled.clone().in_phase("Pending"), scheduled.clone().in_phase("Unknown"));
    assert_first(scheduled.clone().in_phase("Unknown"), scheduled.clone());
    assert_first(scheduled.clone(), scheduled.clone().ready_since(None));
    assert_first(scheduled.clone().ready_since(None), ready_now("a"));
    assert_first(ready_now("a"), pod("a").on("node").ready_since(Some(month_ago())).created(month_ago()));
    assert_first(ready_now("a").restarted(9001), ready_now("a"));
    assert_first(ready_now("a"), ready_now("a").created(month_ago()));
    let mut uncreated = ready_now("a");
    uncreated.metadata.creation_timestamp = None;
    assert_first(uncreated, ready_now("a"));
}

#[test]
fn a_pod_that_is_ready_but_not_available_goes_before_an_available_one() {
    let preparing =
        pod("a").on("node").ready_since(Some(month_ago())).with_label(keys::LIFECYCLE_STATE, "Updating");
    assert_first(preparing, ready_now("a"));
    let pods = [pod("a").on("n").ready_since(Some(month_ago())), pod("b").on("m").ready_since(Some(noon()))];
    let all = refs(&pods);
    let later = noon() + SignedDuration::from_secs(10);
    assert_eq!(order_for_deletion(&all, &Spread::over_nodes(), 10, later), [1, 0]);
}

#[test]
fn a_cheap_pod_goes_before_a_dear_one() {
    let costing = |text| ready_now("a").with_annotation(keys::POD_DELETION_COST, text);
    assert_first(costing("10"), costing("100"));
    assert_first(costing("-5"), ready_now("a"));
    assert_first(costing("-5"), costing("0"));
    // No numbers in Kubernetes' eyes, so they cost 0.
    for text in ["+10", "008", "", "1e3", "2147483648", "abc", "-", "--1"] {
        assert_first(costing(text), costing("1"));
        assert_first(costing("-1"), costing(text));
    }
    // The cost counts only among pods that serve alike.
    assert_first(pod("a").on("node").with_annotation(keys::POD_DELETION_COST, "100"), costing("-100"));
}

#[test]
fn every_node_keeps_a_pod_before_any_node_loses_its_last() {
    let on = |number: u32, node| pod(&format!("{number:02}")).on(node);
    let pods = [
        on(0, "a"),
        pod("01"),
        pod("02"),
        on(3, "b"),
        on(4, "a"),
        on(5, "c"),
        on(6, "b"),
        on(7, "d"),
        on(8, "d"),
        on(9, "d"),
        on(10, "a"),
    ];
    let expected = ["01", "02", "00", "07", "03", "04", "08", "05", "06", "09", "10"];
    assert_eq!(over_nodes(&pods), expected);
}

/// z1 has ten pods on b, c and d; z2 eight on e and f; z3 five on i. Node a has no labels.
fn zones() -> (Vec<PodLite>, Nodes) {
    let shape = [
        ("a", "", 2),
        ("b", "z1", 2),
        ("c", "z1", 3),
        ("d", "z1", 5),
        ("e", "z2", 5),
        ("f", "z2", 3),
        ("i", "z3", 5),
    ];
    let pods = shape
        .iter()
        .flat_map(|(node, _, count)| (0..*count).map(move |index| pod(&format!("{node}-{index}")).on(node)));
    let nodes = shape.iter().map(|(node, zone, _)| {
        let labels = [(ZONE, *zone), (HOST, *node)].map(|(key, value)| (key.to_owned(), value.to_owned()));
        ((*node).to_owned(), if zone.is_empty() { [].into() } else { labels.into() })
    });
    (pods.collect(), Nodes(nodes.collect()))
}

/// The order in which the pods of [`zones`] go. Pods whose ranks are equal are in the order of their names.
fn over(constraints: &[&str]) -> Vec<String> {
    let (pods, nodes) = zones();
    let pods = refs(&pods);
    let how = Spread {
        constraints: constraints.iter().map(|it| (*it).to_owned()).collect(),
        node_labels: &|node| nodes.labels(node),
    };
    names(&pods, &order_for_deletion(&pods, &how, 0, noon()))
}

#[test]
fn crowded_zones_are_thinned_first_and_within_them_crowded_nodes() {
    let expected =
        "d-0 d-1 c-0 e-0 d-2 e-1 b-0 e-2 c-1 f-0 i-0 d-3 e-3 i-1 b-1 f-1 i-2 c-2 e-4 i-3 d-4 f-2 i-4 a-0 a-1";
    assert_eq!(over(&[ZONE]).join(" "), expected);
}

#[test]
fn two_constraints_add_up() {
    let order = over(&[ZONE, HOST]);
    let expected =
        "d-0 e-0 d-1 e-1 c-0 i-0 d-2 e-2 i-1 f-0 b-0 c-1 i-2 d-3 e-3 f-1 i-3 b-1 c-2 e-4 d-4 f-2 i-4";
    assert_eq!(order[..23].join(" "), expected);
}

#[test]
fn a_node_nobody_knows_is_a_node_without_labels() {
    let pods = [pod("a").on("gone"), pod("b").on("gone"), pod("c").on("here"), pod("d")];
    let nodes = Nodes([("here".to_owned(), [(ZONE.to_owned(), "z".to_owned())].into())].into());
    let all = refs(&pods);
    let how = Spread { constraints: vec![ZONE.to_owned()], node_labels: &|node| nodes.labels(node) };
    assert_eq!(names(&all, &order_for_deletion(&all, &how, 0, noon())), ["d", "c", "a", "b"]);
}
