//! MemberClusters.

use kruise_core::{
    admission::metadata,
    api::fleet::keys::{self, reasons},
    runtime::webhook::FieldError,
};
use scheduling::numbers::MAX_CLUSTERS;
use serde_json::{Value, json};

use super::{Findings, annotation, name_of};
use crate::{members::departure::Departure, names::RESERVED_CLUSTERS};

/// What a new or changed MemberCluster is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Fleet<'a> {
    /// UID of the hub's own `kube-system` namespace.
    pub hub_uid: &'a str,
    /// The members: name and cluster UID.
    pub members: &'a [(&'a str, &'a str)],
}

/// What is wrong with a MemberCluster; `old` is the one it replaces.
pub fn check(member: &Value, old: Option<&Value>, fleet: &Fleet<'_>) -> Findings {
    let mut faults = Vec::new();
    let name = name_of(member);
    let text = |object: &Value, field: &str| {
        object.pointer(&format!("/spec/{field}")).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let uid = text(member, "clusterUid");
    if uid.is_empty() {
        faults
            .push(FieldError::required("spec.clusterUid", "the UID of the cluster's kube-system namespace"));
    } else if uid == fleet.hub_uid {
        let detail = format!("{}: the cluster is the hub's own", reasons::HUB_CANNOT_BE_MEMBER);
        faults.push(FieldError::invalid("spec.clusterUid", json!(uid), detail));
    }
    if let Some((other, _)) = fleet.members.iter().find(|(other, it)| *it == uid && *other != name) {
        let detail = format!("{}: the cluster is a member already, as {other}", reasons::IDENTITY_MISMATCH);
        faults.push(FieldError::invalid("spec.clusterUid", json!(uid), detail));
    }
    match old {
        None => faults.extend(new_faults(name, fleet)),
        Some(old) => {
            for field in ["clusterUid", "publicKey"] {
                if text(old, field) != text(member, field) {
                    let detail = format!(
                        "{}: the identity of a cluster never changes; remove the member and let it join again",
                        reasons::IDENTITY_MISMATCH
                    );
                    faults.push(FieldError::forbidden(format!("spec.{field}"), detail));
                }
            }
        }
    }
    faults.extend(taint_faults(member));
    if let Some(words) = annotation(member, keys::LEAVE).filter(|it| Departure::read(it).is_none()) {
        let path = format!("metadata.annotations[{}]", keys::LEAVE);
        let detail =
            "must be Orphan, Force or Orphan,Force; without it the cluster is drained before it leaves";
        faults.push(FieldError::invalid(path, json!(words), detail));
    }
    Findings { faults, warnings: Vec::new() }
}

fn new_faults(name: &str, fleet: &Fleet<'_>) -> Vec<FieldError> {
    let mut faults = Vec::new();
    if RESERVED_CLUSTERS.contains(&name) {
        let detail = format!("the namespace fleet-{name} belongs to the fleet itself; choose another name");
        faults.push(FieldError::invalid("metadata.name", json!(name), detail));
    }
    if fleet.members.len() >= MAX_CLUSTERS {
        let detail = format!("the fleet has {MAX_CLUSTERS} clusters, which is the most it may have");
        faults.push(FieldError::forbidden("metadata.name", detail));
    }
    faults
}

fn taint_faults(member: &Value) -> Vec<FieldError> {
    let taints = member.pointer("/spec/taints").and_then(Value::as_array).into_iter().flatten();
    let fault = |(place, taint): (usize, &Value)| {
        let key = taint["key"].as_str().unwrap_or_default();
        let path = format!("spec.taints[{place}].key");
        metadata::key_fault(key).map(|it| FieldError::invalid(path, json!(key), it))
    };
    taints.enumerate().filter_map(fault).collect()
}
