use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::{names, refs};
use crate::{
    api::common::{OrderPriorityTerm, UpdatePriorityStrategy, UpdateScatterTerm, WeightPriorityTerm},
    pod::{
        rank::{order_for_update, priority, scatter},
        sample::{noon, pod},
    },
    runtime::cache::pod::PodLite,
};

/// Names would say the opposite.
#[track_caller]
fn assert_first(mut first: PodLite, mut second: PodLite) {
    (first.metadata.name, second.metadata.name) = (Some("z".into()), Some("a".into()));
    assert_eq!(order_for_update(&[&first, &second]), [0, 1]);
    assert_eq!(order_for_update(&[&second, &first]), [1, 0]);
}

#[test]
fn by_default_pods_that_serve_least_are_updated_first() {
    let on = |phase| pod("a").on("node").in_phase(phase);
    let earlier = noon() - SignedDuration::from_secs(1);
    assert_first(pod("a"), on("Pending"));
    assert_first(on("Pending"), on("Pending").ready_since(None));
    assert_first(on("Pending").ready_since(None), on("Unknown"));
    assert_first(on("Unknown"), on("Running"));
    assert_first(on("Running"), on("Running").ready_since(None));
    let ready = |since| on("Running").ready_since(Some(since));
    assert_first(on("Running").ready_since(None), ready(noon()));
    assert_first(ready(noon()), ready(earlier));
    assert_first(ready(noon()).restarted(2), ready(noon()).restarted(1).sidecar_restarted(9));
    assert_first(ready(noon()).sidecar_restarted(2), ready(noon()).sidecar_restarted(1));
    assert_first(ready(noon()).created(noon()), ready(noon()).created(earlier));
    assert_first(ready(noon()), ready(noon()).created(noon()));
}

#[test]
fn restarts_of_init_containers_that_end_do_not_count() {
    let mut plain = pod("z").sidecar_restarted(9);
    plain.spec.init_containers[0].restart_policy = None;
    assert_eq!(order_for_update(&[&plain, &pod("a")]), [1, 0], "a tie, which the names settle");
}

fn labelled(labels: &[&[(&str, &str)]]) -> Vec<PodLite> {
    let pods = labels.iter().enumerate();
    pods.map(|(index, labels)| {
        labels.iter().fold(pod(&format!("{index}")), |pod, (key, value)| pod.with_label(key, value))
    })
    .collect()
}

fn weight(weight: i32, key: &str, value: &str) -> WeightPriorityTerm {
    let match_labels = Some([(key.to_owned(), value.to_owned())].into());
    WeightPriorityTerm { weight, match_selector: LabelSelector { match_labels, ..LabelSelector::default() } }
}

fn prioritised(strategy: &UpdatePriorityStrategy, labels: &[&[(&str, &str)]]) -> Vec<String> {
    let pods = labelled(labels);
    let pods = refs(&pods);
    names(&pods, &priority::sort(&pods, (0..pods.len()).collect(), strategy))
}

#[test]
fn the_weights_of_matching_terms_add_up_and_the_heaviest_go_first() {
    let strategy = UpdatePriorityStrategy {
        weight_priority: vec![weight(20, "a", "x"), weight(10, "b", "x"), weight(15, "c", "x")],
        ..UpdatePriorityStrategy::default()
    };
    let labels: &[&[(&str, &str)]] =
        &[&[], &[("b", "x")], &[("a", "x")], &[("b", "x"), ("c", "x")], &[("a", "other")], &[("b", "x")]];
    assert_eq!(prioritised(&strategy, labels), ["3", "2", "1", "5", "0", "4"]);
}

#[test]
fn a_selector_that_cannot_be_read_weighs_nothing() {
    let broken = LabelSelectorRequirement { key: "a".into(), operator: "Like".into(), values: None };
    let match_selector = LabelSelector { match_expressions: Some(vec![broken]), ..LabelSelector::default() };
    let strategy = UpdatePriorityStrategy {
        weight_priority: vec![WeightPriorityTerm { weight: 100, match_selector }, weight(1, "b", "x")],
        ..UpdatePriorityStrategy::default()
    };
    assert_eq!(prioritised(&strategy, &[&[("a", "x")], &[("b", "x")]]), ["1", "0"]);
}

fn by_keys(keys: &[&str]) -> UpdatePriorityStrategy {
    let term = |it: &&str| OrderPriorityTerm { ordered_key: (*it).to_owned() };
    UpdatePriorityStrategy { order_priority: keys.iter().map(term).collect(), ..Default::default() }
}

#[test]
fn an_order_compares_the_first_key_a_pod_carries_and_then_the_number_at_its_end() {
    let strategy = by_keys(&["k1", "k2"]);
    let labels: &[&[(&str, &str)]] = &[
        &[("k1", "o-5")],
        &[("k2", "o-20")],
        &[("k1", "o-10"), ("k2", "o-1")],
        &[("k2", "x")],
        &[("k1", "o-10")],
        &[("k2", "99999999999999999999")],
    ];
    assert_eq!(prioritised(&strategy, labels), ["2", "4", "0", "1", "3", "5"]);
}

#[test]
fn pods_with_none_of_the_keys_are_updated_last() {
    let labels: &[&[(&str, &str)]] = &[&[], &[("k2", "0")], &[("other", "9")], &[("k1", "0")]];
    assert_eq!(prioritised(&by_keys(&["k1", "k2"]), labels), ["3", "1", "0", "2"]);
}

#[test]
fn weights_silence_an_order_and_no_strategy_changes_nothing() {
    let labels: &[&[(&str, &str)]] = &[&[("k", "1")], &[("k", "2")], &[("a", "x")]];
    let mut both = by_keys(&["k"]);
    both.weight_priority = vec![weight(1, "a", "x")];
    assert_eq!(prioritised(&both, labels), ["2", "0", "1"]);
    assert_eq!(prioritised(&UpdatePriorityStrategy::default(), labels), ["0", "1", "2"]);
}

const A: &[(&str, &str)] = &[("a", "x")];
const B: &[(&str, &str)] = &[("b", "x")];
const C: &[(&str, &str)] = &[("c", "x")];
const AB: &[(&str, &str)] = &[("a", "x"), ("b", "x")];
const O: &[(&str, &str)] = &[];

/// Scatters the first `candidates` of these pods by the given labels; the others are updated already.
fn scattered(keys: &[&str], labels: &[&[(&str, &str)]], candidates: usize) -> Vec<usize> {
    let terms: Vec<_> =
        keys.iter().map(|it| UpdateScatterTerm { key: (*it).into(), value: "x".into() }).collect();
    let pods = labelled(labels);
    scatter::sort(&refs(&pods), (0..candidates).collect(), &terms)
}

fn all(keys: &[&str], labels: &[&[(&str, &str)]]) -> Vec<usize> {
    scattered(keys, labels, labels.len())
}

#[test]
fn one_label_is_spread_over_the_update() {
    assert_eq!(all(&["a"], &[O, O, O, O, A, A]), [4, 0, 1, 2, 3, 5]);
    assert_eq!(all(&["a"], &[O, O, O, A, A, A]), [3, 0, 1, 4, 2, 5]);
    assert_eq!(all(&["a"], &[O, O, O, A, O, O, A]), [3, 0, 1, 2, 4, 5, 6]);
    assert_eq!(all(&["a"], &[O, O, O, O, O, O, A, A, A]), [6, 0, 1, 2, 7, 3, 4, 5, 8]);
    assert_eq!(all(&["a"], &[O, O, A, A, A, A]), [2, 3, 0, 4, 1, 5]);
    assert_eq!(all(&["a"], &[O, O, A, O, A, A, A, A, A]), [2, 4, 0, 5, 6, 1, 7, 3, 8]);
    assert_eq!(all(&["a"], &[O, A, O, A, O, O, A, A, A]), [1, 0, 3, 2, 6, 4, 7, 5, 8]);
}

#[test]
fn there_is_nothing_to_spread_with_one_pod_of_a_kind() {
    assert_eq!(all(&["a"], &[]), [0_usize; 0]);
    assert_eq!(all(&["a"], &[O, A, O]), [0, 1, 2]);
    assert_eq!(all(&["a"], &[A, O, A]), [0, 1, 2]);
    assert_eq!(all(&["a"], &[A, A, A]), [0, 1, 2]);
    assert_eq!(all(&[], &[A, O, A, O]), [0, 1, 2, 3]);
}

#[test]
fn several_labels_are_spread_the_most_frequent_first() {
    assert_eq!(all(&["a", "b"], &[B, B, O, O, A, A]), [0, 4, 2, 3, 5, 1]);
    assert_eq!(all(&["a", "b"], &[O, O, O, B, AB, A]), [4, 0, 1, 2, 5, 3]);
    assert_eq!(all(&["b", "a"], &[O, O, O, O, O, O, B, A, A, B]), [7, 6, 0, 1, 2, 3, 4, 5, 9, 8]);
    assert_eq!(all(&["a", "b"], &[O, O, O, O, O, O, B, A, A, B]), [6, 7, 0, 1, 2, 3, 4, 5, 8, 9]);
    assert_eq!(all(&["a", "b"], &[O, O, O, O, O, O, AB, O, O, AB]), [6, 0, 1, 2, 3, 4, 5, 7, 8, 9]);
    assert_eq!(all(&["a", "b", "c"], &[O, A, A, B, B, C, C, C, C, C]), [3, 1, 5, 0, 6, 7, 8, 9, 2, 4]);
}

#[test]
fn pods_that_are_updated_already_say_how_dense_a_label_should_be() {
    assert_eq!(scattered(&["a"], &[O, A, A, O, O, O, O, O, O, A], 7), [0, 1, 3, 4, 5, 6, 2]);
    assert_eq!(scattered(&["a"], &[O, O, O, A, O, O, O, O, A, A], 10), [3, 0, 1, 2, 4, 8, 5, 6, 7, 9]);
    assert_eq!(
        scattered(&["a", "b"], &[O, O, O, A, O, O, O, O, AB, O, O, AB], 11),
        [0, 1, 2, 4, 3, 5, 6, 7, 9, 10, 8]
    );
    assert_eq!(
        scattered(&["a", "b"], &[O, O, A, A, O, A, O, O, AB, O, O, AB], 11),
        [0, 2, 1, 4, 3, 6, 7, 5, 9, 10, 8]
    );
}
