//! What a pod asks of a node. Pure.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Affinity, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration},
    apimachinery::pkg::api::resource::Quantity,
};
use kruise_core::{
    quantity::milli,
    runtime::cache::{node::NodeLite, pod::ContainerLite},
};
use serde::Deserialize;
use serde_json::Value;

/// The taint that an unschedulable node has, or is about to get.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Amounts by resource, in thousandths.
pub(super) type Amounts = BTreeMap<String, i128>;

/// Pods that are asked about.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Shape {
    /// What each requests.
    pub(super) requests: Amounts,
    node_selector: BTreeMap<String, String>,
    /// One of these must hold, if there are any.
    terms: Vec<NodeSelectorTerm>,
    tolerations: Vec<Toleration>,
}

/// A question, as far as it is understood. Rules about other pods are not: what is answered is what there is room for.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Pod {
    containers: Vec<ContainerLite>,
    init_containers: Vec<ContainerLite>,
    overhead: BTreeMap<String, Quantity>,
    node_selector: BTreeMap<String, String>,
    affinity: Affinity,
    tolerations: Vec<Toleration>,
}

impl Shape {
    /// Reads a question; nothing if it cannot be read.
    pub(super) fn read(pod: &Value) -> Option<Self> {
        let pod: Pod = serde_json::from_value(pod.clone()).ok()?;
        let mut requests = requests(&pod.containers, &pod.init_containers);
        for (name, quantity) in &pod.overhead {
            *requests.entry(name.clone()).or_default() += milli(&quantity.0)?;
        }
        let required = pod.affinity.node_affinity;
        let required = required.and_then(|it| it.required_during_scheduling_ignored_during_execution);
        Some(Self {
            requests,
            node_selector: pod.node_selector,
            terms: required.map(|it| it.node_selector_terms).unwrap_or_default(),
            tolerations: pod.tolerations,
        })
    }

    /// Whether such pods may run on a node that is ready.
    pub(super) fn may_run_on(&self, node: &NodeLite) -> bool {
        node.ready().is_some() && self.is_selected(node) && self.is_tolerated(node)
    }

    fn is_selected(&self, node: &NodeLite) -> bool {
        let label = |key: &str| node.metadata.labels.as_ref().and_then(|it| it.get(key)).map(String::as_str);
        let name = node.metadata.name.as_deref();
        let field = |key: &str| name.filter(|_| key == "metadata.name");
        let holds = |term: &NodeSelectorTerm| {
            let labels = term.match_expressions.iter().flatten();
            let fields = term.match_fields.iter().flatten();
            // A term that says nothing selects nothing.
            (term.match_expressions.is_some() || term.match_fields.is_some())
                && labels.into_iter().all(|it| is_met(it, label(&it.key)))
                && fields.into_iter().all(|it| is_met(it, field(&it.key)))
        };
        self.node_selector.iter().all(|(key, value)| label(key) == Some(value))
            && (self.terms.is_empty() || self.terms.iter().any(holds))
    }

    fn is_tolerated(&self, node: &NodeLite) -> bool {
        let closed = node.spec.unschedulable.then(|| Taint {
            key: UNSCHEDULABLE.to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        });
        let taints = node.spec.taints.iter().chain(&closed);
        let mut hard = taints.filter(|it| it.effect != "PreferNoSchedule");
        hard.all(|taint| self.tolerations.iter().any(|it| tolerates(it, taint)))
    }
}

/// What a pod requests: the sum of its containers and sidecars, or what an init container needs beside the sidecars that were
/// started before it, whichever is more.
pub(super) fn requests(containers: &[ContainerLite], init: &[ContainerLite]) -> Amounts {
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for it in init {
        let own = of_container(it);
        if it.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, &own);
            continue;
        }
        for (name, amount) in own {
            let beside = amount + sidecars.get(&name).copied().unwrap_or_default();
            let most = peak.entry(name).or_default();
            *most = beside.max(*most);
        }
    }
    let mut total = sidecars;
    containers.iter().for_each(|it| add(&mut total, &of_container(it)));
    for (name, amount) in peak {
        let most = total.entry(name).or_default();
        *most = amount.max(*most);
    }
    total
}

fn add(total: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        *total.entry(name.clone()).or_default() += amount;
    }
}

/// What a container requests. A limit without a request is the request, as API servers fill it in.
fn of_container(container: &ContainerLite) -> Amounts {
    let mut amounts = Amounts::new();
    for list in ["limits", "requests"] {
        let quantities = container.resources[list].as_object().into_iter().flatten();
        let read = quantities.filter_map(|(name, it)| {
            let text = it.as_str().map_or_else(|| it.to_string(), str::to_owned);
            Some((name.clone(), milli(&text)?))
        });
        amounts.extend(read);
    }
    amounts
}

fn is_met(rule: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = rule.values.as_deref().unwrap_or_default();
    let is_listed = || value.is_some_and(|it| values.iter().any(|listed| listed == it));
    let compared = || {
        let own: i64 = value?.parse().ok()?;
        let other: i64 = values.first()?.parse().ok()?;
        Some(own.cmp(&other))
    };
    match rule.operator.as_str() {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(std::cmp::Ordering::is_gt),
        "Lt" => compared().is_some_and(std::cmp::Ordering::is_lt),
        _ => false,
    }
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let Toleration { key, operator, value, effect, .. } = toleration;
    let any = |it: &Option<String>| it.as_deref().is_none_or(str::is_empty);
    let is_any_value = operator.as_deref() == Some("Exists");
    // Without a key only an operator that wants no value tolerates everything.
    let is_key = if any(key) { is_any_value } else { key.as_ref() == Some(&taint.key) };
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    is_key
        && (any(effect) || effect.as_ref() == Some(&taint.effect))
        && (is_any_value || text(value) == text(&taint.value))
}
