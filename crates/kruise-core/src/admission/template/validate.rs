//! Is this a good pod template? The API server knows best: it is asked to pretend to store one.
//!
//! A `PodTemplate` with the template is created as a dry run, and what the API server finds wrong with it is translated
//! into fields of the workload. [`probe`] and [`Answer::of`] are plain functions; [`ask`] is the call between them. See
//! ADR 7.

use std::time::Duration;

use k8s_openapi::api::core::v1::PodTemplate;
use kube::{
    Api, Client,
    api::PostParams,
    core::{ApiResource, DynamicObject, Status, response::StatusCause},
};
use serde_json::{Value, json};

use super::defaults;
use crate::{
    admission::tree,
    api::common::keys,
    runtime::{
        client::{self, call_within},
        webhook::{FieldError, FieldFault, Verdict},
    },
};

/// The API server waits ten seconds for a webhook; this leaves time to answer.
const PATIENCE: Duration = Duration::from_secs(7);

/// What somebody has to be allowed for templates to be judged.
const PERMISSION: &str = "create podtemplates (core group) as a dry run";

/// What the API server makes of a template.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// These fields are at fault; none, and the template is good.
    Judged(Vec<FieldError>),
    /// It did not judge. Letting the template pass would be a guess.
    Silent(String),
}

/// The object to ask the API server about: `template` with a volume for each claim template, so that mounts of claims
/// resolve, and without what we judge ourselves or let pass.
pub fn probe(template: &Value, claims: &[String]) -> Value {
    let mut template = template.clone();
    if let Some(annotations) = template.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(keys::POD_DELETION_COST);
    }
    if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
        if spec.get("restartPolicy").is_some_and(|it| it != "Always") {
            spec.remove("restartPolicy");
        }
        spec.remove("activeDeadlineSeconds");
        // Pods get these from the API server, templates may not, and validation wants them.
        if spec.get("hostNetwork") == Some(&json!(true)) {
            defaults::host_ports(spec);
        }
        let own = spec.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
        let is_new = |claim: &&String| !own.iter().any(|it| it["name"] == claim.as_str());
        let added = claims.iter().filter(is_new);
        let added = added.map(|it| json!({"name": it, "persistentVolumeClaim": {"claimName": it}}));
        let volumes: Vec<_> = own.iter().cloned().chain(added).collect();
        if !volumes.is_empty() {
            spec.insert("volumes".to_owned(), volumes.into());
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"generateName": "kruise-probe-"},
        "template": template,
    })
}

/// Asks the API server about `template`.
pub async fn ask(client: Client, namespace: &str, template: &Value, claims: &[String]) -> Answer {
    // Raw JSON, so that fields reach the API server which this build does not know.
    let resource = ApiResource::erase::<PodTemplate>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
    let probe = match serde_json::from_value(probe(template, claims)) {
        Ok(probe) => probe,
        Err(error) => return Answer::Silent(error.to_string()),
    };
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let asked =
        call_within(PATIENCE, "create a pod template as a dry run", api.create(&params, &probe)).await;
    match asked {
        Ok(_) => Answer::Judged(Vec::new()),
        Err(client::Error::Api { source: kube::Error::Api(status), .. }) => Answer::of(&status, template),
        Err(error) => {
            let cause = std::error::Error::source(&error).map_or_else(String::new, |it| format!(": {it}"));
            Answer::Silent(format!("{error}{cause}"))
        }
    }
}

impl Answer {
    /// What a refusal says about `template`.
    pub fn of(status: &Status, template: &Value) -> Self {
        let causes = status.details.as_ref().map_or(&[][..], |it| it.causes.as_slice());
        match status.code {
            422 if !causes.is_empty() => {
                let volumes = tree::items(template, &["spec", "volumes"]).len();
                let counting = causes.iter().filter(|it| !is_let_pass(it) && !is_added(it, volumes));
                Self::Judged(counting.map(fault).collect())
            }
            // The template is not even of the right types.
            400 | 422 => Self::Judged(vec![FieldError {
                path: "spec.template".to_owned(),
                fault: FieldFault::Invalid,
                value: None,
                detail: status.message.clone(),
            }]),
            code => Self::Silent(format!("the API server answered {code}: {}", status.message)),
        }
    }

    /// The fields at fault, or the answer to give when nobody judged: an internal error that says what is missing.
    pub fn into_faults(self) -> Result<Vec<FieldError>, Verdict> {
        match self {
            Self::Judged(faults) => Ok(faults),
            Self::Silent(why) => Err(Verdict::denied(
                500,
                format!("spec.template could not be checked; this needs permission to {PERMISSION}: {why}"),
            )),
        }
    }
}

/// Whether OpenKruise lets this pass: huge pages that are not multiples, values in selectors of affinities that are no
/// label values, and spread constraints with a bad selector.
fn is_let_pass(cause: &StatusCause) -> bool {
    let field = cause.field.as_str();
    let huge_pages = field.contains("hugepages-") && cause.message.contains("multiple");
    let in_selector =
        field.contains("ffinity") && field.contains(".labelSelector.") && field.contains(".values[");
    let spread = field.contains(".topologySpreadConstraints[") && field.contains("].labelSelector");
    huge_pages || in_selector || spread
}

/// Whether this is about a volume that is only in the probe. Names of claim templates are judged where they are.
fn is_added(cause: &StatusCause, volumes: usize) -> bool {
    let index = cause.field.strip_prefix("template.spec.volumes[").and_then(|it| it.split_once(']'));
    index.and_then(|(index, _)| index.parse::<usize>().ok()).is_some_and(|it| it >= volumes)
}

fn fault(cause: &StatusCause) -> FieldError {
    let (fault, title) = match cause.reason.as_str() {
        "FieldValueRequired" => (FieldFault::Required, "Required value"),
        "FieldValueForbidden" => (FieldFault::Forbidden, "Forbidden"),
        "FieldValueNotSupported" => (FieldFault::NotSupported, "Unsupported value"),
        "FieldValueDuplicate" => (FieldFault::Duplicate, "Duplicate value"),
        "FieldValueNotFound" => (FieldFault::NotFound, "Not found"),
        _ => (FieldFault::Invalid, "Invalid value"),
    };
    // The server leaves `metadata` out of the paths of a template's metadata.
    let path = match cause.field.strip_prefix("template").map(|it| it.strip_prefix('.').unwrap_or(it)) {
        Some("") | None => "spec.template".to_owned(),
        Some(field) if field.starts_with("labels") || field.starts_with("annotations") => {
            format!("spec.template.metadata.{field}")
        }
        Some(field) => format!("spec.template.{field}"),
    };
    // The message starts with the words that a fault is printed with.
    let detail = cause
        .message
        .strip_prefix(title)
        .map_or(cause.message.as_str(), |it| it.trim_start_matches([':', ' ']));
    FieldError { path, fault, value: None, detail: detail.to_owned() }
}

#[cfg(test)]
mod tests;
