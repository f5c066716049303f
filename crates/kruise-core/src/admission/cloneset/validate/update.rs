//! Rules for updating pods.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::super::strategy::{IN_PLACE_ONLY, ON_DELETE, POLICIES, Strategy, TYPE};
use crate::{
    admission::{Version, metadata, numbers, tree},
    runtime::webhook::FieldError,
};

/// What is wrong with the update strategy.
pub(super) fn faults(strategy: &Strategy<'_>, version: Version, replicas: u64) -> Vec<FieldError> {
    let mut faults: Vec<_> = kind_faults(strategy, version);
    // Nobody resolves the numbers of an update that never runs, and nothing fills them in.
    if strategy.rolling.is_some() && !strategy.is_on_delete() {
        faults.extend(number_faults(strategy, replicas));
    }
    faults.extend(priority_fault(strategy));
    faults.extend(scatter_fault(strategy));
    faults.extend(in_place_faults(strategy));
    faults
}

fn kind_faults(strategy: &Strategy<'_>, version: Version) -> Vec<FieldError> {
    let fault = |path, value: &str, allowed: &[&str]| {
        let is_known = allowed.contains(&value);
        (!is_known).then(|| {
            FieldError::invalid(
                path,
                json!(value),
                format!("must be {}", allowed.join(", ").trim_end_matches([',', ' '])),
            )
        })
    };
    let [recreate, possible, only] = POLICIES;
    let found = match version {
        Version::V1Alpha1 => vec![fault(TYPE, strategy.kind, &[recreate, possible, only, ON_DELETE])],
        Version::V1Beta1 => vec![
            fault(TYPE, strategy.kind, &["RollingUpdate", ON_DELETE, ""]),
            fault(strategy.policy_path, strategy.policy, &[recreate, possible, only, ""]),
        ],
    };
    found.into_iter().flatten().collect()
}

fn number_faults(strategy: &Strategy<'_>, replicas: u64) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let path = strategy.at("partition");
    match strategy.get("partition") {
        Some(value) => faults.extend(numbers::resolve(&path, value, replicas).err()),
        None => {
            let detail = "must be an integer or a percentage; 0 updates every pod";
            faults.push(FieldError::invalid(path, Value::Null, detail));
        }
    }

    let mut limit = |name: &str| {
        let value = strategy.get(name)?;
        numbers::resolve(&strategy.at(name), value, replicas).map_err(|it| faults.push(it)).ok()
    };
    let (unavailable, surge) = (limit("maxUnavailable"), limit("maxSurge"));
    if strategy.policy == IN_PLACE_ONLY && surge.is_some_and(|it| it > 0) {
        let value = strategy.get("maxSurge").cloned().unwrap_or_default();
        let detail = "must be 0 with InPlaceOnly, which never makes pods for an update";
        faults.push(FieldError::invalid(strategy.at("maxSurge"), value, detail));
    }
    if replicas > 0 && unavailable.unwrap_or(0) < 1 && surge.unwrap_or(0) < 1 {
        let value = strategy.get("maxUnavailable").cloned().unwrap_or_default();
        let detail =
            "maxUnavailable and maxSurge should not both be less than 1: no pod could ever be updated";
        faults.push(FieldError::invalid(strategy.at("maxUnavailable"), value, detail));
    }
    faults
}

fn priority_fault(strategy: &Strategy<'_>) -> Option<FieldError> {
    let priority = strategy.get("priorityStrategy")?;
    let (weights, keys) =
        (tree::items(priority, &["weightPriority"]), tree::items(priority, &["orderPriority"]));
    let detail = if !weights.is_empty() && !keys.is_empty() {
        Some("only one of weightPriority and orderPriority can be used".to_owned())
    } else {
        weights.iter().find_map(weight_fault).or_else(|| {
            let is_blank = |it: &Value| tree::text(it, &["orderedKey"]).unwrap_or_default().is_empty();
            keys.iter()
                .any(is_blank)
                .then(|| "orderedKey must not be empty; it is the key of a label".to_owned())
        })
    };
    detail.map(|it| FieldError::required(strategy.at("priorityStrategy"), it))
}

fn weight_fault(term: &Value) -> Option<String> {
    let weight = tree::at(term, &["weight"]).and_then(Value::as_i64).unwrap_or(0);
    if !(0..=100).contains(&weight) {
        return Some(format!("weight must be a number from 0 to 100, not {weight}"));
    }
    match metadata::selector("matchSelector", tree::at(term, &["matchSelector"])) {
        Err(faults) => {
            let faults: Vec<_> = faults.iter().map(FieldError::to_string).collect();
            Some(format!("invalid selector: {}", faults.join("; ")))
        }
        Ok(Some(it)) if !metadata::is_empty(&it) => None,
        Ok(_) => Some(
            "matchSelector must not be empty; name the labels of the pods that get the weight".to_owned(),
        ),
    }
}

fn scatter_fault(strategy: &Strategy<'_>) -> Option<FieldError> {
    let terms = strategy.get("scatterStrategy").and_then(Value::as_array)?;
    let mut seen = BTreeSet::new();
    let fault = |term: &Value| {
        let text = |name| tree::text(term, &[name]).unwrap_or_default().to_owned();
        let (key, value) = (text("key"), text("value"));
        if key.is_empty() {
            return Some("key must not be empty; it is the key of a label".to_owned());
        }
        let detail = format!("{key}:{value} is given twice; once is enough");
        (!seen.insert((key, value))).then_some(detail)
    };
    let detail = terms.iter().find_map(fault)?;
    Some(FieldError::required(strategy.at("scatterStrategy"), detail))
}

fn in_place_faults(strategy: &Strategy<'_>) -> Vec<FieldError> {
    let Some(in_place) = strategy.get("inPlaceUpdateStrategy") else { return Vec::new() };
    let path = |name: &str| format!("{}.{name}", strategy.at("inPlaceUpdateStrategy"));
    let mut faults = Vec::new();
    for name in
        ["gracePeriodSeconds", "imagePreDownloadTimeoutSeconds", "imagePreDownloadMinUpdatedReadyPods"]
    {
        faults.extend(numbers::not_negative(&path(name), tree::at(in_place, &[name])));
    }
    let name = "imagePreDownloadParallelism";
    if let Some(value) = tree::at(in_place, &[name]) {
        let number = match serde_json::from_value(value.clone()) {
            Ok(IntOrString::Int(number)) => Some(number),
            Ok(IntOrString::String(text)) => text.parse().ok(),
            Err(_) => None,
        };
        if number.is_none_or(|it| it < 0) {
            let detail = "must be an integer of at least 0, not a percentage";
            faults.push(FieldError::invalid(path(name), value.clone(), detail));
        }
    }
    faults
}
