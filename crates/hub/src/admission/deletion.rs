//! What must not be deleted by mistake (DEL-4).

use std::collections::BTreeSet;

use kruise_core::{
    api::{
        common::keys::DELETE_PROTECTION,
        fleet::{binding::FleetBinding, keys},
    },
    runtime::webhook::Verdict,
};
use serde_json::Value;

use super::{annotation, name_of};

/// What is known about an object that somebody wants to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reach {
    /// Replicas that it has over the fleet.
    pub replicas: u64,
    /// For a namespace: clusters on which federated objects of it run.
    pub clusters: usize,
}

/// On how many clusters the objects of these bindings run.
pub fn reached(bindings: &[FleetBinding]) -> usize {
    let rows = bindings.iter().flat_map(|it| it.status.iter().flat_map(|it| &it.clusters));
    // A row without a plan is of a cluster that was left out.
    rows.filter(|it| it.seq > 0).map(|it| it.cluster.as_str()).collect::<BTreeSet<_>>().len()
}

/// Judges a deletion of an object, namespace, policy or MemberCluster.
pub fn review(object: &Value, reach: Reach) -> Verdict {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = name_of(object);
    if annotation(object, keys::DELETION_PROTECTION) == Some("true") {
        let fix = format!("remove the annotation {} first", keys::DELETION_PROTECTION);
        return Verdict::denied(403, format!("{kind} {name} is protected from deletion: {fix}"));
    }
    let protection =
        object.pointer("/metadata/labels").and_then(|it| it.get(DELETE_PROTECTION)).and_then(Value::as_str);
    match protection {
        Some("Always") => {
            let fix = format!("remove the label {DELETE_PROTECTION} first");
            return Verdict::denied(403, format!("{kind} {name} is protected from deletion: {fix}"));
        }
        Some("Cascading") if reach.replicas > 0 => {
            let message = format!(
                "{kind} {name} has {} replicas over the fleet, and {DELETE_PROTECTION} is Cascading: scale it to 0 first",
                reach.replicas
            );
            return Verdict::denied(403, message);
        }
        _ => {}
    }
    let confirmed = annotation(object, keys::CONFIRM_DELETE) == Some(name);
    if kind == "Namespace" && reach.clusters > 1 && !confirmed {
        let message = format!(
            "namespace {name} holds objects that run on {} clusters: annotate it with {}={name} to confirm",
            reach.clusters,
            keys::CONFIRM_DELETE
        );
        return Verdict::denied(403, message);
    }
    Verdict::allow()
}
