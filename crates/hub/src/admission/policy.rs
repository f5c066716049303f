//! PlacementPolicies and ClusterPlacementPolicies.

mod clusters;
mod numbers;
mod overrides;

use std::collections::BTreeSet;

use kruise_core::{
    api::{
        APPS_GROUP,
        fleet::policy::{Dependencies, Encryption, Fencing, Placement, RolloutOrder},
    },
    runtime::webhook::FieldError,
};
use serde_json::{Value, json};

use super::{Findings, fill_in};
use crate::{
    members::OFFLINE_AFTER,
    placement::select::{ClusterFacts, Selection, select, selects},
};

/// How many times the silence that makes a cluster Offline must pass at least before it is given up.
const LEAST_AFTER: u32 = 2;
/// SelfFence: how much later than the fence the hub takes over, in percent, for clocks that do not run alike (FO-4).
const CLOCK_DRIFT_PERCENT: u32 = 2;

/// The kinds that are brought into clusters, all of the group of workloads. One that is dispatched gets a word here.
const DISPATCHED: [&str; 3] = ["CloneSet", "ImagePullJob", "ImageListPullJob"];

/// Fills in what a policy leaves out.
pub fn default(policy: &mut Value) {
    let Some(spec) = policy.get_mut("spec") else { return };
    // What cannot be read is for the check to complain about.
    let Ok(placement) = serde_json::from_value::<Placement>(spec.clone()) else { return };
    let mut defaults = serde_json::to_value(placement).expect("a policy is plain data");
    // Absent means something else than empty here, or is filled in for nobody's benefit.
    if let Some(fields) = defaults.as_object_mut() {
        fields.retain(|name, _| name != "targets");
    }
    fill_in(spec, &defaults);
}

/// What a policy says, if that can be read.
pub fn placement(policy: &Value) -> Option<Placement> {
    serde_json::from_value(policy.get("spec")?.clone()).ok()
}

/// What is wrong with a policy, given the clusters that there are.
pub fn check(policy: &Value, fleet: &[ClusterFacts]) -> Findings {
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    // First what the types could only refuse without naming the field.
    let mut findings = Findings { faults: numbers::faults(spec), warnings: Vec::new() };
    if !findings.faults.is_empty() {
        return findings;
    }
    let placement: Placement = match serde_json::from_value(spec.clone()) {
        Ok(placement) => placement,
        Err(error) => {
            findings.faults.push(FieldError::invalid("spec", Value::Null, error.to_string()));
            return findings;
        }
    };
    findings.faults.extend(target_faults(&placement));
    findings.faults.extend(clusters::faults(&placement, fleet));
    findings.faults.extend(failover_faults(&placement));
    findings.faults.extend(overrides::faults(&placement));
    findings.warnings.extend(not_yet(&placement));
    findings.warnings.extend(wave_warnings(&placement, fleet));
    findings.warnings.extend(no_cluster_warning(&placement, fleet));
    findings
}

fn target_faults(placement: &Placement) -> Vec<FieldError> {
    let mut faults = Vec::new();
    if placement.targets.is_empty() {
        let detail = "name at least one kind of object, by name or labelSelector";
        faults.push(FieldError::required("spec.targets", detail));
    }
    for (place, target) in placement.targets.iter().enumerate() {
        if target.name.is_some() == target.label_selector.is_some() {
            let path = format!("spec.targets[{place}]");
            faults.push(FieldError::invalid(path, json!(target), "give either name or labelSelector"));
        }
    }
    faults
}

fn failover_faults(placement: &Placement) -> Vec<FieldError> {
    let failover = &placement.failover;
    let after: std::time::Duration = failover.after.into();
    let shown = json!(failover.after);
    let least = OFFLINE_AFTER * LEAST_AFTER;
    let mut faults = Vec::new();
    if after < least {
        let detail = format!(
            "must be at least {}s, {LEAST_AFTER} times the {}s of silence that make a cluster Offline",
            least.as_secs(),
            OFFLINE_AFTER.as_secs()
        );
        faults.push(FieldError::invalid("spec.failover.after", shown.clone(), detail));
    }
    if failover.fencing != Fencing::SelfFence {
        return faults;
    }
    match failover.fence_after {
        None => faults.push(FieldError::required("spec.failover.fenceAfter", "fencing SelfFence needs it")),
        Some(fence_after) => {
            let fence_after: std::time::Duration = fence_after.into();
            let grace: std::time::Duration = failover.fence_grace.into();
            let needed = fence_after.saturating_add(grace).saturating_add(OFFLINE_AFTER);
            let needed_millis = needed.as_millis().saturating_mul(u128::from(100 + CLOCK_DRIFT_PERCENT));
            if after.as_millis().saturating_mul(100) < needed_millis {
                let detail = format!(
                    "must be at least fenceAfter + fenceGrace + {}s, and {CLOCK_DRIFT_PERCENT}% more: {}s",
                    OFFLINE_AFTER.as_secs(),
                    needed_millis.div_ceil(100_000)
                );
                faults.push(FieldError::invalid("spec.failover.after", shown, detail));
            }
        }
    }
    faults
}

/// What is accepted and cannot be done yet, so that nobody counts on it (G-04). A part that is finished takes its line with it.
fn not_yet(placement: &Placement) -> Vec<String> {
    let Placement { rollout, failover, dependencies, encryption, .. } = placement;
    let parts = [
        (
            *dependencies == Dependencies::Auto,
            "spec.dependencies: Auto has no effect yet: put ConfigMaps, Secrets and ServiceAccounts into the clusters yourself",
        ),
        (
            failover.enabled,
            "spec.failover.enabled has no effect yet: replicas of a cluster that does not answer are not replaced elsewhere",
        ),
        (
            rollout.pre_pull.enabled,
            "spec.rollout.prePull has no effect yet: images are downloaded ahead only where a CloneSet asks for that itself",
        ),
        (
            *encryption == Encryption::Sealed,
            "spec.encryption: Sealed has no effect yet: bodies are stored on the hub as they are",
        ),
        (
            rollout.order == RolloutOrder::Waves,
            "spec.rollout.order: Waves cannot be carried out yet: objects of this policy are left as they are, scaling included, until \
             it is Proportional",
        ),
    ];
    let parts = parts.into_iter().filter(|it| it.0).map(|it| it.1.to_owned());
    parts.chain(not_dispatched(placement)).collect()
}

/// One warning for each kind of targets that nobody brings into clusters yet.
fn not_dispatched(placement: &Placement) -> Vec<String> {
    let mut known = BTreeSet::new();
    let mut warnings = Vec::new();
    for (place, target) in placement.targets.iter().enumerate() {
        let group = target.group.as_deref().unwrap_or(APPS_GROUP);
        let is_dispatched = group == APPS_GROUP && DISPATCHED.contains(&target.kind.as_str());
        if !is_dispatched && known.insert((group, &target.kind)) {
            warnings.push(format!(
                "spec.targets[{place}].kind: {} of {group} has no effect yet: clusters are given {} only",
                target.kind,
                DISPATCHED.join(", ")
            ));
        }
    }
    warnings
}

/// A cluster in two waves is in the first of them; one in none is in the last, which is called `rest`.
fn wave_warnings(placement: &Placement, fleet: &[ClusterFacts]) -> Vec<String> {
    if placement.rollout.order != RolloutOrder::Waves {
        return Vec::new();
    }
    let waves = &placement.rollout.waves;
    let mut warnings = Vec::new();
    for cluster in fleet {
        let mut of = waves.iter().filter(|it| selects(&it.clusters, cluster)).map(|it| it.name.as_str());
        let (first, others) = (of.next(), of.collect::<Vec<_>>());
        // A last wave without a selector is how one writes "all others".
        let overlapping = others
            .iter()
            .any(|name| waves.iter().any(|it| it.name == **name && it.clusters != Default::default()));
        if let (Some(first), true) = (first, overlapping) {
            let others = others.join(", ");
            warnings
                .push(format!("cluster {} is in waves {first} and {others}: {first} counts", cluster.name));
        }
    }
    warnings.truncate(5);
    warnings
}

fn no_cluster_warning(placement: &Placement, fleet: &[ClusterFacts]) -> Option<String> {
    let is_selected = |it: &ClusterFacts| match placement.targets.first() {
        Some(target) => {
            let group = target.group.as_deref().unwrap_or(APPS_GROUP);
            !matches!(select(placement, it, group, &target.kind), Selection::Not(_))
        }
        None => true,
    };
    (!fleet.iter().any(is_selected))
        .then(|| "the policy selects no cluster at present: nothing is placed or changed".to_owned())
}
