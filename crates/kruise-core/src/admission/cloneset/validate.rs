//! The rules a CloneSet must keep.

mod scale;
mod update;

use kube::core::{Selector, SelectorExt};
use serde_json::{Value, json};

use super::{
    claims,
    strategy::{IN_PLACE_ONLY, Strategy},
};
use crate::{
    admission::{Version, metadata, numbers, tree},
    api::common::keys,
    runtime::{
        gates::{Gate, Gates},
        webhook::{Denial, FieldError, FieldFault},
    },
};

/// A deadline or period that stands for "never".
const FOREVER: i64 = i32::MAX as i64;

/// Fields of the spec that may change.
const CHANGEABLE: [&str; 9] = [
    "replicas",
    "template",
    "lifecycle",
    "scaleStrategy",
    "updateStrategy",
    "minReadySeconds",
    "progressDeadlineSeconds",
    "volumeClaimTemplates",
    "revisionHistoryLimit",
];

/// What the rules need to know besides the object.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Finds pods of the CloneSet's namespace by name. `None` where there are no pods to look at, as on the hub: names
    /// of pods are then taken on trust.
    pub pods: Option<&'a FindPod<'a>>,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

/// Finds a pod by its name.
pub type FindPod<'a> = dyn Fn(&str) -> Option<PodFacts> + 'a;

/// What the rules need to know about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFacts {
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// The UID of its controller.
    pub controller: Option<String>,
}

/// What is wrong with `new`. `old` is the object as it is stored, on updates. The core rules for pod templates are not
/// among these: [`template::validate`](crate::admission::template::validate) asks the API server about them.
pub fn validate(
    new: &Value,
    old: Option<&Value>,
    version: Version,
    context: &Context<'_>,
) -> Vec<FieldError> {
    let mut faults = metadata::faults(new);
    let Some(old) = old else {
        faults.extend(spec_faults(new, None, version, context));
        return faults;
    };
    // A spec that nobody touches is not judged again: finalizers must come off objects that older rules let in.
    if !tree::is_same(new.get("spec"), old.get("spec")) {
        faults.extend(change_fault(new, old));
        faults.extend(in_place_fault(new, old, version));
        faults.extend(spec_faults(new, Some(old), version, context));
    }
    faults
}

/// Why `old` must not be deleted, if it must not.
pub fn validate_delete(old: &Value, gates: Gates) -> Option<Denial> {
    let is_deleting = tree::at(old, &["metadata", "deletionTimestamp"]).is_some();
    if is_deleting || !gates.is_on(Gate::ResourcesDeletionProtection) {
        return None;
    }
    let key = keys::DELETE_PROTECTION;
    let message = match tree::text(old, &["metadata", "labels", key]) {
        Some("Always") => format!("deletion is forbidden by the label {key}=Always; remove the label first"),
        Some("Cascading") if replicas(old) > 0 => format!(
            "deletion is forbidden by the label {key}=Cascading while spec.replicas is {}; scale to 0 or remove the \
             label first",
            replicas(old)
        ),
        _ => return None,
    };
    Some(Denial { code: 403, message, causes: Vec::new(), warnings: Vec::new() })
}

fn spec_faults(new: &Value, old: Option<&Value>, version: Version, context: &Context<'_>) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let spec = |name: &str| tree::at(new, &["spec", name]);
    for name in ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        faults.extend(numbers::not_negative(&format!("spec.{name}"), spec(name)));
    }
    faults.extend(deadline_fault(new));
    faults.extend(selector_faults(new));
    faults.extend(template_faults(new));
    faults.extend(claims::faults(new));
    faults.extend(scale::faults(new, old, context));
    faults.extend(update::faults(&Strategy::of(new, version), version, replicas(new)));
    faults
}

fn deadline_fault(new: &Value) -> Option<FieldError> {
    let number = |name: &str| tree::at(new, &["spec", name]).and_then(Value::as_i64);
    let (deadline, ready) = (number("progressDeadlineSeconds")?, number("minReadySeconds").unwrap_or(0));
    if deadline < 0 || deadline == FOREVER || deadline > ready {
        return None;
    }
    let detail = format!("must be greater than minReadySeconds, which is {ready}");
    Some(FieldError::invalid("spec.progressDeadlineSeconds", deadline.into(), detail))
}

fn selector_faults(new: &Value) -> Vec<FieldError> {
    let path = "spec.selector";
    let value = tree::at(new, &["spec", "selector"]);
    let selector = match metadata::selector(path, value) {
        Err(faults) => return faults,
        Ok(None) => return vec![FieldError::required(path, "it says which pods belong to the cloneset")],
        Ok(Some(it)) if metadata::is_empty(&it) => {
            let detail =
                "empty selector is invalid for cloneset; select a label of spec.template.metadata.labels";
            return vec![FieldError::invalid(path, json!(it), detail)];
        }
        Ok(Some(it)) => it,
    };
    let labels = tree::at(new, &["spec", "template", "metadata", "labels"]);
    let matches = Selector::try_from(selector).is_ok_and(|it| it.matches(&metadata::labels(labels)));
    let fault = (!matches).then(|| {
        let detail =
            "`selector` does not match template `labels`; the template must carry the selector's labels";
        FieldError::invalid("spec.template.metadata.labels", labels.cloned().unwrap_or(json!({})), detail)
    });
    fault.into_iter().collect()
}

fn template_faults(new: &Value) -> Vec<FieldError> {
    let Some(template) = tree::at(new, &["spec", "template"]) else {
        return vec![FieldError::required("spec.template", "it says what the pods look like")];
    };
    let mut faults =
        metadata::label_faults("spec.template.metadata.labels", tree::at(template, &["metadata", "labels"]));
    let policy = tree::text(template, &["spec", "restartPolicy"]).unwrap_or_default();
    if !matches!(policy, "" | "Always") {
        faults.push(FieldError {
            path: "spec.template.spec.restartPolicy".to_owned(),
            fault: FieldFault::NotSupported,
            value: Some(json!(policy)),
            detail: "supported values: \"Always\"".to_owned(),
        });
    }
    if tree::at(template, &["spec", "activeDeadlineSeconds"]).is_some() {
        let path = "spec.template.spec.activeDeadlineSeconds";
        faults.push(FieldError::forbidden(path, "pods of a cloneset do not end by a deadline; remove it"));
    }
    faults
}

fn change_fault(new: &Value, old: &Value) -> Option<FieldError> {
    let fields = |object: &Value| -> Vec<String> {
        let fields = object.get("spec").and_then(Value::as_object).into_iter().flatten();
        fields.map(|(name, _)| name.clone()).collect()
    };
    let mut names = [fields(new), fields(old)].concat();
    names.sort_unstable();
    names.dedup();
    let is_changed =
        |name: &String| !tree::is_same(tree::at(new, &["spec", name]), tree::at(old, &["spec", name]));
    names.retain(|it| !CHANGEABLE.contains(&it.as_str()) && is_changed(it));
    (!names.is_empty()).then(|| {
        let detail = format!(
            "{} must not change; only {} may. Make another cloneset instead",
            names.join(" and "),
            CHANGEABLE.join(", ")
        );
        FieldError::forbidden("spec", detail)
    })
}

/// Where pods are only ever changed in place, nothing may change that cannot be: in a template's spec only images.
fn in_place_fault(new: &Value, old: &Value, version: Version) -> Option<FieldError> {
    let strategy = Strategy::of(new, version);
    if strategy.is_on_delete() || strategy.policy != IN_PLACE_ONLY {
        return None;
    }
    let spec = |object: &Value| {
        tree::essence(tree::at(object, &["spec", "template", "spec"]).unwrap_or(&Value::Null))
    };
    let (new, mut old) = (spec(new), spec(old));
    let containers = old.get_mut("containers").and_then(Value::as_array_mut).into_iter().flatten();
    for (before, after) in containers.zip(tree::items(&new, &["containers"])) {
        if let (Some(before), Some(after)) = (before.get_mut("image"), after.get("image")) {
            *before = after.clone();
        }
    }
    let change = json_patch::diff(&old, &new);
    let first = serde_json::to_value(change.first()?).ok()?;
    let detail = format!(
        "with InPlaceOnly only images of containers may change in the template's spec, but this would {} {}; use \
         InPlaceIfPossible or ReCreate for it",
        first["op"].as_str().unwrap_or_default(),
        first["path"].as_str().unwrap_or_default()
    );
    Some(FieldError::forbidden("spec", detail))
}

fn replicas(object: &Value) -> u64 {
    let replicas = tree::at(object, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(1);
    u64::try_from(replicas).unwrap_or(0)
}
