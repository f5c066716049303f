//! What upstream's tests pin about the orders, and what must hold for any pods.

mod deletion;
mod properties;
mod update;

use std::collections::BTreeMap;

use crate::runtime::cache::pod::PodLite;

/// Nodes and their labels.
struct Nodes(BTreeMap<String, BTreeMap<String, String>>);

impl Nodes {
    fn labels(&self, node: &str) -> Option<&BTreeMap<String, String>> {
        self.0.get(node)
    }
}

fn refs(pods: &[PodLite]) -> Vec<&PodLite> {
    pods.iter().collect()
}

fn names(pods: &[&PodLite], order: &[usize]) -> Vec<String> {
    order.iter().map(|it| pods[*it].metadata.name.clone().unwrap()).collect()
}
