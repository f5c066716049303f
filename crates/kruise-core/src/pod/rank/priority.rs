//! The order in which a user wants pods updated, by their labels.

use std::cmp::Reverse;

use kube::core::{Selector, SelectorExt};

use crate::{api::common::UpdatePriorityStrategy, runtime::cache::pod::PodLite};

/// Puts the pods at these positions into the order that `strategy` asks for. Pods it does not tell apart keep theirs.
///
/// With weights, the heaviest go first; an order next to weights is ignored. With an order, pods that carry the first
/// key go first, the highest number at the end of its value before lower ones; pods with none of the keys go last.
pub fn sort(pods: &[&PodLite], mut order: Vec<usize>, strategy: &UpdatePriorityStrategy) -> Vec<usize> {
    if !strategy.weight_priority.is_empty() {
        let terms = weights(strategy);
        order.sort_by_cached_key(|it| Reverse(weight(pods[*it], &terms)));
    } else if !strategy.order_priority.is_empty() {
        order.sort_by_cached_key(|it| place(pods[*it], strategy));
    }
    order
}

/// Terms with a selector that cannot be read are left out; admission refuses them.
fn weights(strategy: &UpdatePriorityStrategy) -> Vec<(Selector, i64)> {
    let terms = strategy.weight_priority.iter();
    terms
        .filter_map(|it| Some((Selector::try_from(it.match_selector.clone()).ok()?, it.weight.into())))
        .collect()
}

fn weight(pod: &PodLite, terms: &[(Selector, i64)]) -> i64 {
    terms.iter().filter(|(selector, _)| selector.matches(pod.labels())).map(|(_, weight)| weight).sum()
}

/// Which key the pod carries, and the number that its value ends in.
fn place(pod: &PodLite, strategy: &UpdatePriorityStrategy) -> (usize, Reverse<i64>) {
    let terms = strategy.order_priority.iter().enumerate();
    let found = terms.filter_map(|(level, it)| Some((level, pod.labels().get(&it.ordered_key)?))).next();
    // Upstream puts pods without any key first, though its documentation says last.
    found.map_or((usize::MAX, Reverse(0)), |(level, value)| (level, Reverse(number_at_the_end(value))))
}

fn number_at_the_end(text: &str) -> i64 {
    let stem = text.trim_end_matches(|it: char| it.is_ascii_digit());
    text[stem.len()..].parse().unwrap_or(0)
}
