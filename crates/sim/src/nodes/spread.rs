//! Topology spread constraints: how evenly pods lie over the values of a label of their nodes.
//!
//! The rules are those of kube-scheduler's plugin PodTopologySpread.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::server::selector::{Requirement, Test};

const HOST: &str = "kubernetes.io/hostname";

/// What a pod asks for.
#[derive(Debug, Default)]
pub(super) struct Spread {
    /// Constraints that a node must keep (`DoNotSchedule`).
    hard: Vec<Constraint>,
    /// Constraints that make one node better than another (`ScheduleAnyway`).
    soft: Vec<Constraint>,
    labels: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Constraint {
    key: String,
    max_skew: i64,
    min_domains: usize,
    /// Which pods are counted; none without a selector.
    selector: Option<Vec<Requirement>>,
    honours_affinity: bool,
    honours_taints: bool,
}

/// A node as the constraints of one pod see it.
#[derive(Debug, Clone)]
pub(super) struct Place<'a> {
    pub(super) labels: &'a BTreeMap<String, String>,
    /// Whether the pod's node selector and affinity choose it.
    pub(super) is_selected: bool,
    /// Whether the pod tolerates its taints.
    pub(super) is_tolerated: bool,
    /// The labels of the pods on it that are of the same namespace and not on their way out.
    pub(super) pods: Vec<&'a [(Box<str>, Box<str>)]>,
}

/// How many pods each value of each constraint has.
type Counts<'a> = Vec<BTreeMap<&'a str, i64>>;

impl Spread {
    /// What a pod asks for; none if it has no constraints.
    pub(super) fn of(pod: &Value) -> Option<Self> {
        let constraints = pod["spec"]["topologySpreadConstraints"].as_array().filter(|it| !it.is_empty())?;
        let labels = pod["metadata"]["labels"].as_object().into_iter().flatten();
        let labels = labels.filter_map(|(key, it)| Some((key.clone(), it.as_str()?.to_owned())));
        let mut spread = Self { labels: labels.collect(), ..Self::default() };
        for it in constraints {
            let constraint = Constraint::read(it, &spread.labels);
            match it["whenUnsatisfiable"].as_str() {
                Some("ScheduleAnyway") => spread.soft.push(constraint),
                _ => spread.hard.push(constraint),
            }
        }
        Some(spread)
    }

    /// Which nodes the pod may go to, in the order of `places`.
    pub(super) fn allowed(&self, places: &[Place<'_>]) -> Vec<bool> {
        let counts = counts(&self.hard, places, |_| true);
        let may = |place: &Place<'_>| {
            self.hard.iter().zip(&counts).all(|(constraint, counts)| {
                let Some(value) = place.labels.get(&constraint.key) else { return false };
                let own = i64::from(constraint.counts(|key| self.labels.get(key).map(String::as_str)));
                // With fewer values than asked for, one that is not there counts as empty.
                let least = match counts.len() < constraint.min_domains {
                    true => 0,
                    false => counts.values().copied().min().unwrap_or(i64::MAX),
                };
                let here = counts.get(value.as_str()).copied().unwrap_or(0);
                (here + own).saturating_sub(least) <= constraint.max_skew
            })
        };
        places.iter().map(may).collect()
    }

    /// How uneven the pod would make it on each of `places`: the least is the best. Only nodes in `candidates` are compared.
    pub(super) fn unevenness(&self, places: &[Place<'_>], candidates: &[bool]) -> Vec<i64> {
        if self.soft.is_empty() {
            return vec![0; places.len()];
        }
        let all = counts(&self.soft, places, |it| it.key != HOST);
        let chosen: Vec<&Place<'_>> = places
            .iter()
            .zip(candidates)
            .filter(|(place, is_candidate)| **is_candidate && has_all(place, &self.soft))
            .map(|(place, _)| place)
            .collect();
        let of = |place: &Place<'_>| {
            if !has_all(place, &self.soft) {
                return i64::MAX;
            }
            let mut score = 0.0;
            for (constraint, counts) in self.soft.iter().zip(&all) {
                let value = &place.labels[&constraint.key];
                let mut values: Vec<&str> =
                    chosen.iter().map(|it| it.labels[&constraint.key].as_str()).collect();
                values.sort_unstable();
                values.dedup();
                let (pods, size) = match constraint.key == HOST {
                    true => (constraint.pods_on(place), chosen.len()),
                    false => (counts.get(value.as_str()).copied().unwrap_or(0), values.len()),
                };
                // Many values must not water the few down.
                let weight = ((size + 2) as f64).ln();
                score += pods as f64 * weight + (constraint.max_skew - 1) as f64;
            }
            score.round() as i64
        };
        places.iter().map(of).collect()
    }
}

impl Constraint {
    fn read(constraint: &Value, labels: &BTreeMap<String, String>) -> Self {
        let selector = constraint["labelSelector"].as_object().map(|selector| {
            let equal = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
            let equal = equal.filter_map(|(key, value)| Some(equals(key, value.as_str()?)));
            let expressions =
                selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
            let keys =
                constraint["matchLabelKeys"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let own = keys.filter_map(|key| Some(equals(key, labels.get(key)?)));
            equal.chain(expressions.filter_map(Requirement::read)).chain(own).collect()
        });
        let min_domains = constraint["minDomains"].as_u64().unwrap_or(1);
        Self {
            key: constraint["topologyKey"].as_str().unwrap_or_default().to_owned(),
            max_skew: constraint["maxSkew"].as_i64().unwrap_or(1),
            min_domains: usize::try_from(min_domains).unwrap_or(usize::MAX),
            selector,
            honours_affinity: constraint["nodeAffinityPolicy"] != "Ignore",
            honours_taints: constraint["nodeTaintsPolicy"] == "Honor",
        }
    }

    fn counts<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.selector.as_ref().is_some_and(|it| it.iter().all(|it| it.holds(label(&it.key))))
    }

    fn includes(&self, place: &Place<'_>) -> bool {
        (place.is_selected || !self.honours_affinity) && (place.is_tolerated || !self.honours_taints)
    }

    fn pods_on(&self, place: &Place<'_>) -> i64 {
        let is_counted = |labels: &&&[(Box<str>, Box<str>)]| {
            self.counts(|key| labels.iter().find(|it| *it.0 == *key).map(|it| &*it.1))
        };
        place.pods.iter().filter(is_counted).count() as i64
    }
}

/// Counts pods by value, on nodes that have the labels of all constraints.
fn counts<'a>(
    constraints: &[Constraint],
    places: &'a [Place<'_>],
    is_wanted: impl Fn(&Constraint) -> bool,
) -> Counts<'a> {
    let count = |constraint: &Constraint| {
        let mut counts = BTreeMap::new();
        let fitting = places.iter().filter(|it| has_all(it, constraints) && constraint.includes(it));
        for place in fitting.filter(|_| is_wanted(constraint)) {
            *counts.entry(place.labels[&constraint.key].as_str()).or_insert(0) += constraint.pods_on(place);
        }
        counts
    };
    constraints.iter().map(count).collect()
}

fn has_all(place: &Place<'_>, constraints: &[Constraint]) -> bool {
    constraints.iter().all(|it| place.labels.contains_key(&it.key))
}

fn equals(key: &str, value: &str) -> Requirement {
    Requirement { key: key.to_owned(), test: Test::In(vec![value.to_owned()]) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Labels = BTreeMap<String, String>;

    /// A node of a zone (none when empty) with so many pods of the app `web`.
    fn node(name: &str, zone: &str) -> Labels {
        let mut labels = Labels::from([(HOST.to_owned(), name.to_owned())]);
        if !zone.is_empty() {
            labels.insert("zone".to_owned(), zone.to_owned());
        }
        labels
    }

    fn web() -> Vec<(Box<str>, Box<str>)> {
        vec![("app".into(), "web".into())]
    }

    fn places<'a>(nodes: &'a [(Labels, usize)], web: &'a [(Box<str>, Box<str>)]) -> Vec<Place<'a>> {
        let place = |(labels, pods): &'a (Labels, usize)| Place {
            labels,
            is_selected: true,
            is_tolerated: true,
            pods: vec![web; *pods],
        };
        nodes.iter().map(place).collect()
    }

    fn spread(constraint: Value) -> Spread {
        let mut whole = json!({
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        });
        for (name, value) in constraint.as_object().into_iter().flatten() {
            whole[name] = value.clone();
        }
        let pod = json!({
            "metadata": {"labels": {"app": "web"}}, "spec": {"topologySpreadConstraints": [whole]},
        });
        Spread::of(&pod).unwrap()
    }

    #[test]
    fn a_pod_goes_where_the_skew_stays_within_its_bound() {
        let web = web();
        let nodes = [(node("a", "one"), 2), (node("b", "one"), 0), (node("c", "two"), 1), (node("d", ""), 0)];
        let places = places(&nodes, &web);
        assert_eq!(spread(json!({})).allowed(&places), [false, false, true, false]);
        assert_eq!(spread(json!({"maxSkew": 2})).allowed(&places), [true, true, true, false]);
        let by_host = json!({"topologyKey": HOST});
        assert_eq!(spread(by_host).allowed(&places), [false, true, false, true]);
        let others = json!({"labelSelector": {"matchLabels": {"app": "db"}}});
        assert_eq!(spread(others).allowed(&places), [true, true, true, false], "nobody is counted");
        let unselective = json!({"labelSelector": null});
        assert_eq!(spread(unselective).allowed(&places), [true, true, true, false]);
        let domains = json!({"minDomains": 3});
        assert_eq!(spread(domains).allowed(&places), [false; 4], "a third zone would be empty");
    }

    #[test]
    fn nodes_that_are_not_chosen_are_counted_only_if_asked() {
        let web = web();
        let nodes = [(node("a", "one"), 1), (node("b", "two"), 0)];
        let mut places = places(&nodes, &web);
        places[1].is_selected = false;
        assert!(spread(json!({})).allowed(&places)[0]);
        assert!(!spread(json!({"nodeAffinityPolicy": "Ignore"})).allowed(&places)[0]);
        places[1].is_selected = true;
        places[1].is_tolerated = false;
        assert!(!spread(json!({})).allowed(&places)[0]);
        assert!(spread(json!({"nodeTaintsPolicy": "Honor"})).allowed(&places)[0]);
    }

    #[test]
    fn a_wish_makes_nodes_better_and_forbids_none() {
        let web = web();
        let nodes = [(node("a", "one"), 2), (node("b", "one"), 0), (node("c", "two"), 1), (node("d", ""), 0)];
        let places = places(&nodes, &web);
        let wish = spread(json!({"whenUnsatisfiable": "ScheduleAnyway"}));
        assert_eq!(wish.allowed(&places), [true; 4]);
        let scores = wish.unevenness(&places, &[true; 4]);
        assert_eq!((scores[0], scores[3]), (scores[1], i64::MAX));
        assert!(scores[2] < scores[0], "{scores:?}");
        let by_host = spread(json!({"whenUnsatisfiable": "ScheduleAnyway", "topologyKey": HOST}));
        let scores = by_host.unevenness(&places, &[true; 4]);
        assert!(scores[1] < scores[2] && scores[2] < scores[0], "{scores:?}");
        assert_eq!(spread(json!({})).unevenness(&places, &[true; 4]), [0; 4]);
    }
}
