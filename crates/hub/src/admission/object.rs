//! Federated objects: what the fleet asks of their numbers beyond the rules of one cluster.

use kruise_core::{api::fleet::keys, runtime::webhook::FieldError};
use scheduling::numbers::{self, IntOrPercent, MAX_REPLICAS, Pace, check_partition};
use serde_json::{Value, json};

use super::{Findings, annotation};
use crate::placement::kinds::{self, Division, PodNumbers};

/// What the namespace of an object still allows (SPLIT-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// The most replicas and surge pods of all objects together.
    pub limit: u64,
    /// What the other objects of the namespace have.
    pub used_by_others: u64,
}

impl Quota {
    /// Reads the limit of a namespace. One that cannot be read allows nothing: better than to allow all.
    pub fn of(namespace: &Value, used_by_others: u64) -> Option<Self> {
        let text = annotation(namespace, keys::QUOTA_PODS)?;
        Some(Self { limit: text.trim().parse().unwrap_or(0), used_by_others })
    }
}

/// Whether anything that is judged here is new. Finalizers must come off objects that older rules let in.
pub fn is_to_judge(object: &Value, old: Option<&Value>) -> bool {
    old.is_none_or(|old| {
        object.get("spec") != old.get("spec")
            || annotation(object, keys::NUMBERS) != annotation(old, keys::NUMBERS)
    })
}

/// An object as a write to its scale subresource makes it.
pub fn scaled(stored: &Value, scale: &Value) -> Value {
    let mut object = stored.clone();
    // The API server takes a number that is left out for 0.
    object["spec"]["replicas"] = scale.pointer("/spec/replicas").cloned().unwrap_or_else(|| json!(0));
    object
}

/// What an object takes of its namespace's limit: replicas and surge pods.
pub fn demand(object: &Value) -> u64 {
    match kinds::of(group_of(object), kind_of(object)).division(object) {
        Ok(Division::Pods(pods)) => most_pods(&pods),
        Ok(Division::Pulls(_) | Division::Whole) | Err(_) => 0,
    }
}

/// The limit that still applies to an object that was `before`. What is over a limit already may become less, and may be
/// changed in any other way: a limit that was lowered later must not stand in the way of a mended image.
pub fn limiting(quota: Option<Quota>, object: &Value, before: Option<&Value>) -> Option<Quota> {
    quota.filter(|_| before.is_none_or(|before| demand(object) > demand(before)))
}

/// What is wrong with an object's numbers over the fleet.
pub fn check(object: &Value, quota: Option<Quota>) -> Findings {
    let kind = kind_of(object);
    let mut findings = Findings::default();
    findings.faults.extend(annotation_faults(object));
    match kinds::of(group_of(object), kind).division(object) {
        Err(fault) => findings.faults.push(fault),
        Ok(Division::Pods(pods)) => findings.faults.extend(pod_faults(object, &pods, quota)),
        Ok(Division::Pulls(_)) => {}
        Ok(Division::Whole) if kind == "SidecarSet" => findings.faults.extend(sidecar_faults(object)),
        Ok(Division::Whole) => {}
    }
    findings
}

fn pod_faults(object: &Value, pods: &PodNumbers, quota: Option<Quota>) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let replicas = u64::from(pods.replicas);
    if pods.replicas > MAX_REPLICAS {
        let detail = format!("must be at most {MAX_REPLICAS}, the limit of one object over the fleet");
        faults.push(FieldError::invalid("spec.replicas", json!(pods.replicas), detail));
    }
    if numbers::budgets(pods.unavailable, pods.surge, replicas, Pace::Rolling).is_err() {
        let path = "spec.updateStrategy.rollingUpdate.maxUnavailable";
        let value =
            object.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable").cloned().unwrap_or_default();
        let detail = "maxUnavailable and maxSurge must not both be 0: no pod could ever be updated";
        faults.push(FieldError::invalid(path, value, detail));
    }
    if let Some(quota) = quota {
        let most = most_pods(pods);
        let room = quota.limit.saturating_sub(quota.used_by_others);
        if most > room {
            let detail = format!(
                "{most} replicas and surge pods do not fit: {} of the namespace allows {}, and {} are taken",
                keys::QUOTA_PODS,
                quota.limit,
                quota.used_by_others
            );
            faults.push(FieldError::forbidden("spec.replicas", detail));
        }
    }
    faults
}

fn most_pods(pods: &PodNumbers) -> u64 {
    let replicas = u64::from(pods.replicas);
    replicas + numbers::max_surge(pods.surge, replicas, Pace::Rolling)
}

fn group_of(object: &Value) -> &str {
    object["apiVersion"].as_str().and_then(|it| it.split_once('/')).map_or("", |it| it.0)
}

fn kind_of(object: &Value) -> &str {
    object["kind"].as_str().unwrap_or_default()
}

fn sidecar_faults(object: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    for name in ["partition", "maxUnavailable"] {
        let pointer = format!("/spec/updateStrategy/{name}");
        let path = format!("spec.updateStrategy.{name}");
        let value = object.pointer(&pointer).cloned().unwrap_or_default();
        match kinds::number(object, &pointer) {
            Err(fault) => faults.push(fault),
            Ok(Some(number)) if name == "partition" && is_above_hundred(number) => {
                faults.push(FieldError::invalid(path, value, "must not be above 100%"));
            }
            Ok(Some(number)) if name == "maxUnavailable" && number.is_zero() => {
                let detail = "must not be 0: no pod could ever be updated";
                faults.push(FieldError::invalid(path, value, detail));
            }
            Ok(_) => {}
        }
    }
    faults
}

fn is_above_hundred(number: IntOrPercent) -> bool {
    check_partition("partition", number).is_err()
}

fn annotation_faults(object: &Value) -> Vec<FieldError> {
    let path = |key: &str| format!("metadata.annotations[{key}]");
    let mut faults = Vec::new();
    if let Some(value) = annotation(object, keys::NUMBERS).filter(|it| *it != "PerCluster") {
        let detail = "must be PerCluster, or absent for numbers over the whole fleet";
        faults.push(FieldError::invalid(path(keys::NUMBERS), json!(value), detail));
    }
    faults
}
