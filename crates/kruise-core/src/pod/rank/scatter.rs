//! Spreading pods with certain labels over the whole update.

use crate::{api::common::UpdateScatterTerm, runtime::cache::pod::PodLite};

/// Mixes the pods at these positions so that those with a label of `terms` are not updated one after another. `pods`
/// are all pods, updated or not: they say how dense the label is.
///
/// A pod that carries a label in `terms` is as good as another one that does, so both groups keep their order.
pub fn sort(pods: &[&PodLite], mut order: Vec<usize>, terms: &[UpdateScatterTerm]) -> Vec<usize> {
    for term in by_frequency(pods, &order, terms) {
        let matching: Vec<_> = pods.iter().map(|it| carries(it, term)).collect();
        order = scatter(&matching, order);
    }
    order
}

fn carries(pod: &PodLite, term: &UpdateScatterTerm) -> bool {
    pod.labels().get(&term.key) == Some(&term.value)
}

/// The terms to apply: the most frequent label first, those nobody carries left out.
fn by_frequency<'a>(
    pods: &[&PodLite],
    order: &[usize],
    terms: &'a [UpdateScatterTerm],
) -> Vec<&'a UpdateScatterTerm> {
    let mut counted: Vec<(usize, &UpdateScatterTerm)> = Vec::new();
    for term in terms {
        let count = order.iter().filter(|it| carries(pods[**it], term)).count();
        // Upstream adds up the matches of a term that is given twice.
        match counted.iter_mut().find(|(_, it)| *it == term) {
            Some((sum, _)) => *sum += count,
            None if count > 0 => counted.push((count, term)),
            None => {}
        }
    }
    counted.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    counted.into_iter().map(|(_, term)| term).collect()
}

/// How many of each kind follow each other, and how often.
#[derive(Debug, PartialEq, Eq)]
struct Groups {
    count: usize,
    matching: usize,
    others: usize,
    /// Others that go before the first group.
    first: usize,
}

fn scatter(matching: &[bool], order: Vec<usize>) -> Vec<usize> {
    let (with, without): (Vec<usize>, Vec<usize>) = order.iter().partition(|it| matching[**it]);
    let all_with = matching.iter().filter(|it| **it).count();
    let [head @ .., last] = with.as_slice() else { return order };
    if head.is_empty() || without.len() <= 1 {
        return order;
    }

    let groups = groups((all_with - 1, matching.len() - all_with), (head.len(), without.len()));
    let mut head = head.iter().copied();
    let mut without = without.into_iter();
    let mut mixed: Vec<usize> = without.by_ref().take(groups.first).collect();
    for _ in 0..groups.count {
        mixed.extend(head.by_ref().take(groups.matching));
        mixed.extend(without.by_ref().take(groups.others));
    }
    mixed.extend(head);
    mixed.extend(without);
    // One pod with the label ends the update: otherwise the last stretch would be without any.
    mixed.push(*last);
    mixed
}

/// Groups for pods with and without the label, among all pods and among those to update. No count is 0.
fn groups(all: (usize, usize), update: (usize, usize)) -> Groups {
    let thin_enough = all.1 * update.0 >= update.1 * all.0;
    let (matching, others) = if thin_enough { sizes(update) } else { sizes(all) };
    if thin_enough {
        return Groups { count: update.0.min(update.1), matching, others, first: 0 };
    }
    let count = (update.0 / matching).min(update.1 / others);
    Groups { count, matching, others, first: update.1 - count * others }
}

/// How many of each kind make a group: one of the rarer kind, and as many of the other as come on one of it.
fn sizes((with, without): (usize, usize)) -> (usize, usize) {
    let rarer = with.min(without).max(1);
    let rounded = |count: usize| ((2 * count + rarer) / (2 * rarer)).max(1);
    (rounded(with), rounded(without))
}
