//! Which clusters a policy speaks of.

use kruise_core::{
    admission::metadata,
    api::fleet::policy::{ClusterSelector, FieldKey, FieldOperator, Placement},
    runtime::webhook::{FieldError, FieldFault},
};
use serde_json::json;

use crate::placement::select::{ClusterFacts, version};

/// Topology keys that are fields of a cluster and no labels.
const FIELDS: [&str; 3] = ["region", "zone", "provider"];

/// What is wrong with the selectors and topology keys of a policy.
pub(super) fn faults(placement: &Placement, fleet: &[ClusterFacts]) -> Vec<FieldError> {
    let mut faults = selector_faults("spec.clusters", &placement.clusters.selector);
    let mut more = |path: String, selector: &ClusterSelector| faults.extend(selector_faults(&path, selector));
    for (place, it) in placement.tiers.iter().enumerate() {
        more(format!("spec.tiers[{place}].clusters"), &it.clusters);
    }
    for (place, it) in placement.replicas.weights.iter().enumerate() {
        more(format!("spec.replicas.weights[{place}].clusters"), &it.clusters);
    }
    for (place, it) in placement.replicas.per_cluster.iter().enumerate() {
        more(format!("spec.replicas.perCluster[{place}].clusters"), &it.clusters);
    }
    for (place, it) in placement.rollout.waves.iter().enumerate() {
        more(format!("spec.rollout.waves[{place}].clusters"), &it.clusters);
    }
    for (place, it) in placement.overrides.iter().enumerate() {
        more(format!("spec.overrides[{place}].clusters"), &it.clusters);
    }
    for (place, it) in placement.spread.iter().enumerate() {
        faults.extend(key_fault(&format!("spec.spread[{place}].topologyKey"), &it.topology_key, fleet));
    }
    faults.extend(duplicate_waves(placement));
    faults
}

fn selector_faults(path: &str, selector: &ClusterSelector) -> Vec<FieldError> {
    let mut faults = Vec::new();
    if let Some(labels) = &selector.label_selector {
        let path = format!("{path}.labelSelector");
        faults.extend(metadata::selector(&path, Some(&json!(labels))).err().into_iter().flatten());
    }
    for (place, rule) in selector.field_selector.iter().enumerate() {
        let path = format!("{path}.fieldSelector[{place}]");
        let compares = matches!(rule.operator, FieldOperator::AtLeast | FieldOperator::Below);
        if rule.values.is_empty() {
            faults.push(FieldError::required(format!("{path}.values"), "at least one value to compare with"));
        }
        if compares && (rule.key != FieldKey::Version || rule.values.len() != 1) {
            let detail = "AtLeast and Below take key version and one value";
            faults.push(FieldError::invalid(format!("{path}.operator"), json!(rule.operator), detail));
        }
        if rule.key == FieldKey::Version {
            let unreadable = rule.values.iter().find(|it| version(it).is_none());
            faults.extend(unreadable.map(|it| {
                FieldError::invalid(
                    format!("{path}.values"),
                    json!(it),
                    "must be a version such as 1.34 or v1.34.2",
                )
            }));
        }
    }
    faults
}

/// A key is known if it is a field, or a label that some cluster carries. Before any cluster has joined every label
/// may be one.
fn key_fault(path: &str, key: &str, fleet: &[ClusterFacts]) -> Option<FieldError> {
    if FIELDS.contains(&key) {
        return None;
    }
    if let Some(fault) = metadata::key_fault(key) {
        return Some(FieldError::invalid(
            path,
            json!(key),
            format!("must be region, zone, provider or a label: {fault}"),
        ));
    }
    let is_unknown = !fleet.is_empty() && !fleet.iter().any(|it| it.labels.contains_key(key));
    is_unknown.then(|| {
        let detail =
            "is unknown: it is none of region, zone and provider, and no MemberCluster has this label";
        FieldError::invalid(path, json!(key), detail)
    })
}

fn duplicate_waves(placement: &Placement) -> Vec<FieldError> {
    let waves = &placement.rollout.waves;
    let is_twice = |place: usize| waves[..place].iter().any(|it| it.name == waves[place].name);
    (0..waves.len())
        .filter(|it| is_twice(*it))
        .map(|it| FieldError {
            path: format!("spec.rollout.waves[{it}].name"),
            fault: FieldFault::Duplicate,
            value: Some(json!(waves[it].name)),
            detail: "approvals name waves, so each needs a name of its own".to_owned(),
        })
        .collect()
}
