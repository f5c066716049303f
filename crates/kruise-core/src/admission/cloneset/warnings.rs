//! What is accepted and cannot take effect. The user is told, and the object passes.

use serde_json::{Value, json};

use super::{default::is_default, lifecycle, strategy::Strategy};
use crate::{
    admission::{Version, numbers, tree},
    api::{cloneset::keys, common},
    runtime::gates::{Gate, Gates},
};

/// What the user should know about an object that passes.
pub fn warnings(new: &Value, old: Option<&Value>, version: Version, gates: Gates) -> Vec<String> {
    let strategy = Strategy::of(new, version);
    let mut warnings: Vec<_> = long_name(new, gates).into_iter().collect();
    warnings.extend(on_delete(&strategy));
    warnings.extend(lifecycle::warnings(new, &strategy));
    warnings.extend(in_place(&strategy, version));
    warnings.extend(predownload(new, &strategy, version, gates));
    warnings.extend(weights(&strategy));
    warnings.extend(labels(new, version, gates));
    warnings.extend(claims(new, old));
    warnings
}

/// How long a name may be so that `<name>-<hash>` still fits into a label: 63 less a dash and ten digits.
const NAME_LENGTH: usize = 52;

fn long_name(new: &Value, gates: Gates) -> Option<String> {
    let name = tree::text(new, &["metadata", "name"])?;
    (name.len() > NAME_LENGTH && !gates.is_on(Gate::CloneSetShortHash)).then(|| {
        format!(
            "metadata.name is longer than {NAME_LENGTH} characters: pods carry the name and a hash as a label, and cannot \
             be created if that gets longer than 63; use a shorter name, or turn on the feature gate {} with the chart \
             value featureGates",
            Gate::CloneSetShortHash.name()
        )
    })
}

fn on_delete(strategy: &Strategy<'_>) -> Vec<String> {
    if !strategy.is_on_delete() {
        return Vec::new();
    }
    let fields = strategy.rolling.and_then(Value::as_object).into_iter().flatten();
    fields
        .filter(|(name, value)| !is_default(name, value))
        .map(|(name, _)| format!("{} has no effect while the update type is OnDelete", strategy.at(name)))
        .collect()
}

fn in_place(strategy: &Strategy<'_>, version: Version) -> Vec<String> {
    let Some(in_place) = strategy.get("inPlaceUpdateStrategy").filter(|_| !strategy.is_on_delete()) else {
        return Vec::new();
    };
    let path = strategy.at("inPlaceUpdateStrategy");
    let mut warnings = Vec::new();
    if !strategy.is_in_place() && !tree::is_same(Some(in_place), None) {
        warnings.push(format!(
            "{path} has no effect with {}; pods are replaced, not changed in place",
            if strategy.policy.is_empty() { "ReCreate" } else { strategy.policy }
        ));
    }
    if version == Version::V1Alpha1 {
        for (field, key) in PREDOWNLOAD {
            if tree::at(in_place, &[field]).is_some() {
                warnings.push(format!("{path}.{field} has no effect in v1alpha1; use the annotation {key}"));
            }
        }
    }
    warnings
}

/// The fields about downloading ahead, and the annotations that stand for them in v1alpha1.
const PREDOWNLOAD: [(&str, &str); 3] = [
    ("imagePreDownloadParallelism", keys::PREDOWNLOAD_PARALLELISM),
    ("imagePreDownloadTimeoutSeconds", keys::PREDOWNLOAD_TIMEOUT_SECONDS),
    ("imagePreDownloadMinUpdatedReadyPods", keys::PREDOWNLOAD_MIN_UPDATED_READY_PODS),
];

fn predownload(new: &Value, strategy: &Strategy<'_>, version: Version, gates: Gates) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut asked = Vec::new();
    for (field, key) in PREDOWNLOAD {
        match version {
            Version::V1Alpha1 => {
                let Some(text) = tree::text(new, &["metadata", "annotations", key]) else { continue };
                asked.push(format!("annotation {key}"));
                if !is_readable(key, text) {
                    warnings.push(format!(
                        "annotation {key} has no effect: {text:?} is no number it could be read as"
                    ));
                }
            }
            Version::V1Beta1 => {
                let in_place = strategy.get("inPlaceUpdateStrategy");
                if in_place.and_then(|it| tree::at(it, &[field])).is_some() {
                    asked.push(format!("{}.{field}", strategy.at("inPlaceUpdateStrategy")));
                }
            }
        }
    }
    if asked.is_empty() {
        return warnings;
    }
    let asked = asked.join(" and ");
    if !gates.is_on(Gate::PreDownloadImageForInPlaceUpdate) {
        let gate = Gate::PreDownloadImageForInPlaceUpdate.name();
        warnings.push(format!(
            "{asked} has no effect while the feature gate {gate} is off; turn it on with the chart value featureGates"
        ));
    } else if !strategy.is_in_place() && version == Version::V1Alpha1 {
        warnings.push(format!("{asked} has no effect unless pods are updated in place"));
    }
    warnings
}

fn is_readable(key: &str, text: &str) -> bool {
    let is_number = text.parse::<i32>().is_ok_and(|it| it >= 0);
    match key {
        // A share of the replicas.
        keys::PREDOWNLOAD_MIN_UPDATED_READY_PODS => is_number || numbers::read("", &json!(text)).is_ok(),
        _ => is_number,
    }
}

fn weights(strategy: &Strategy<'_>) -> Vec<String> {
    let terms = strategy.get("priorityStrategy").map_or(&[][..], |it| tree::items(it, &["weightPriority"]));
    let idle = terms.iter().enumerate().filter(|(_, it)| it.get("weight") == Some(&json!(0)));
    let path = strategy.at("priorityStrategy.weightPriority");
    idle.map(|(index, _)| format!("{path}[{index}] has no effect: its weight is 0")).collect()
}

fn labels(new: &Value, version: Version, gates: Gates) -> Vec<String> {
    let label = |key: &str| tree::text(new, &["metadata", "labels", key]);
    let mut warnings = Vec::new();
    if version == Version::V1Alpha1
        && let Some(value) = label(keys::SCALING_EXCLUDE_PREPARING_DELETE).filter(|it| *it != "true")
    {
        let key = keys::SCALING_EXCLUDE_PREPARING_DELETE;
        warnings.push(format!("label {key}={value} has no effect; only \"true\" has"));
    }
    let key = common::keys::DELETE_PROTECTION;
    match label(key) {
        Some("Always" | "Cascading") if !gates.is_on(Gate::ResourcesDeletionProtection) => {
            let gate = Gate::ResourcesDeletionProtection.name();
            warnings.push(format!(
                "label {key} does not protect anything while the feature gate {gate} is off; turn it on with the \
                 chart value featureGates"
            ));
        }
        None | Some("Always" | "Cascading") => {}
        Some(value) => warnings
            .push(format!("label {key}={value} does not protect anything; it must be Always or Cascading")),
    }
    warnings
}

fn claims(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    for name in super::claims::names(new) {
        let volumes = tree::items(new, &["spec", "template", "spec", "volumes"]);
        if let Some(index) = volumes.iter().position(|it| it["name"] == name.as_str()) {
            warnings.push(format!(
                "spec.template.spec.volumes[{index}] has no effect: the claim template {name} takes its place"
            ));
        }
    }
    let changed =
        |path: &[&str]| old.is_some_and(|old| !tree::is_same(tree::at(new, path), tree::at(old, path)));
    if changed(&["spec", "volumeClaimTemplates"]) && !changed(&["spec", "template"]) {
        warnings.push(
            "spec.volumeClaimTemplates changed: only new pods get the new claims, existing pods and claims stay as \
             they are"
                .to_owned(),
        );
    }
    warnings
}
