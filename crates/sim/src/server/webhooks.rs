//! Admission by webhooks outside of this process: who is asked what, and what an answer means.
//!
//! The server is a plain function and cannot wait. A write that needs an answer nobody has given yet ends with a
//! [`Question`] and without effect; whoever can wait asks it, adds the answer to the [`Hearing`] of the request, and
//! sends the request again. Requests without a hearing, such as a kubelet's, are not reviewed from outside.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{
    State,
    admission::{Operation, Review, Stage},
    object::{Key, at},
    registry::Resource,
    selector::Requirement,
    status::Failure,
};

const GROUP: &str = "admissionregistration.k8s.io";

/// A question to one webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The webhook's name.
    pub name: String,
    /// Where it is asked; nothing for a Service, as no simulated Service leads anywhere.
    pub url: Option<String>,
    /// The authorities it is trusted by, as PEM.
    pub authorities: Vec<u8>,
    /// How long it may think.
    pub timeout: Duration,
    /// The review's `request`, but for its UID.
    pub request: Value,
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The review's `response`.
    Response(Value),
    /// Why there is none.
    Nothing(String),
}

/// What was asked about one request so far, and what was said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hearing {
    heard: Vec<(Question, Said)>,
}

impl Hearing {
    /// Adds an answer.
    pub fn hear(&mut self, question: Question, said: Said) {
        self.heard.push((question, said));
    }

    /// How many answers there are.
    pub fn len(&self) -> usize {
        self.heard.len()
    }

    /// Whether nobody was asked yet.
    pub fn is_empty(&self) -> bool {
        self.heard.is_empty()
    }

    /// What was said to exactly this. An object that has changed since is another question.
    fn said(&self, question: &Question) -> Result<&Said, Failure> {
        let heard = self.heard.iter().find(|it| it.0 == *question);
        heard.map(|it| &it.1).ok_or_else(|| Failure::unanswered(question.clone()))
    }
}

/// Has the mutating webhooks change the object.
pub(super) fn mutate(
    state: &State,
    hearing: &Hearing,
    mut object: Value,
    review: &Review<'_>,
) -> Result<Value, Failure> {
    for webhook in webhooks(state, Stage::Mutating) {
        let review = Review { object: &object, ..*review };
        if sees(state, &webhook, &review) {
            let question = question(&webhook, &review);
            if let Some(patch) = judge(&webhook, hearing.said(&question)?)? {
                object = patched(&webhook, object, &patch)?;
            }
        }
    }
    Ok(object)
}

/// Has the validating webhooks judge the object.
pub(super) fn validate(state: &State, hearing: &Hearing, review: &Review<'_>) -> Result<(), Failure> {
    for webhook in webhooks(state, Stage::Validating).iter().filter(|it| sees(state, it, review)) {
        judge(webhook, hearing.said(&question(webhook, review))?)?;
    }
    Ok(())
}

/// The webhooks of a stage: configurations by name, and theirs in order.
fn webhooks(state: &State, stage: Stage) -> Vec<Value> {
    let plural = match stage {
        Stage::Mutating => "mutatingwebhookconfigurations",
        Stage::Validating => "validatingwebhookconfigurations",
    };
    let Some(table) = state.store.table(&format!("{plural}.{GROUP}")) else { return Vec::new() };
    let of = |it: Value| it["webhooks"].as_array().cloned().unwrap_or_default();
    table.range("", None).flat_map(|it| of(it.value())).collect()
}

/// Whether a webhook is asked about a write. Match conditions and `matchPolicy: Equivalent` are not simulated.
fn sees(state: &State, webhook: &Value, review: &Review<'_>) -> bool {
    // As on a real server, nobody can lock himself out.
    if review.resource.group == GROUP {
        return false;
    }
    let rules = webhook["rules"].as_array().into_iter().flatten();
    let by_object =
        |it: &Value| !it.is_null() && selects(&webhook["objectSelector"], &it["metadata"]["labels"]);
    rules.into_iter().any(|it| rule_fits(it, review))
        && namespace_labels(state, review).is_none_or(|it| selects(&webhook["namespaceSelector"], &it))
        && (by_object(review.object) || by_object(review.old))
}

fn rule_fits(rule: &Value, review: &Review<'_>) -> bool {
    let Review { resource, subresource, operation, .. } = review;
    let names = |field: &str, fits: &dyn Fn(&str) -> bool| {
        rule[field].as_array().is_some_and(|it| it.iter().filter_map(Value::as_str).any(fits))
    };
    let scope_fits = match rule["scope"].as_str() {
        Some("Cluster") => !resource.namespaced,
        Some("Namespaced") => resource.namespaced,
        _ => true,
    };
    scope_fits
        && names("apiGroups", &|it| it == "*" || it == resource.group)
        && names("apiVersions", &|it| it == "*" || it == resource.version)
        && names("operations", &|it| it == "*" || it == word(*operation))
        && names("resources", &|it| resource_fits(it, resource, subresource))
}

/// `pods` are pods and not their parts, `*` is every kind without parts, `*/*` is everything.
fn resource_fits(rule: &str, resource: &Resource, subresource: &str) -> bool {
    let (kind, part) = rule.split_once('/').unwrap_or((rule, ""));
    (kind == "*" || kind == resource.plural) && (part == subresource || part == "*")
}

/// The labels that a namespace selector looks at; none where it does not matter.
fn namespace_labels(state: &State, review: &Review<'_>) -> Option<Value> {
    if review.resource.is_core("namespaces") {
        let namespace = if review.object.is_null() { review.old } else { review.object };
        return Some(namespace["metadata"]["labels"].clone());
    }
    if !review.resource.namespaced {
        return None;
    }
    let namespace = state.store.get("namespaces", &Key::new("", review.namespace))?;
    Some(namespace.value()["metadata"]["labels"].clone())
}

/// Whether a `metav1.LabelSelector` selects something with these labels.
fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    wanted.into_iter().all(|(key, value)| labels[key] == *value)
        && expressions.filter_map(Requirement::read).all(|it| it.holds(labels[&it.key].as_str()))
}

fn question(webhook: &Value, review: &Review<'_>) -> Question {
    let Review { operation, resource, subresource, namespace, name, object, old, manager: _, dry_run } =
        review;
    let Resource { group, version, kind, plural, .. } = *resource;
    let kind = json!({"group": group, "version": version, "kind": kind});
    let resource = json!({"group": group, "version": version, "resource": plural});
    let mut request = json!({
        "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
        "name": name, "operation": word(*operation), "userInfo": {"username": "simulated-administrator"},
        "object": object, "oldObject": old, "dryRun": dry_run,
    });
    for (field, text) in
        [("namespace", namespace), ("subResource", subresource), ("requestSubResource", subresource)]
    {
        if !text.is_empty() {
            request[field] = json!(text);
        }
    }
    let client = &webhook["clientConfig"];
    let authorities = client["caBundle"].as_str().and_then(|it| BASE64_STANDARD.decode(it).ok());
    Question {
        name: webhook["name"].as_str().unwrap_or_default().to_owned(),
        url: client["url"].as_str().map(str::to_owned),
        authorities: authorities.unwrap_or_default(),
        timeout: Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(10)),
        request,
    }
}

/// What an answer means: let it pass, perhaps with a patch, or refuse it.
fn judge(webhook: &Value, said: &Said) -> Result<Option<String>, Failure> {
    let name = webhook["name"].as_str().unwrap_or_default();
    let response = match said {
        Said::Response(response) => response,
        Said::Nothing(_) if webhook["failurePolicy"] == "Ignore" => return Ok(None),
        Said::Nothing(cause) => {
            return Err(Failure::internal(&format!("failed calling webhook {name:?}: {cause}")));
        }
    };
    if response["allowed"] == true {
        return Ok(response["patch"].as_str().map(str::to_owned));
    }
    let status = &response["status"];
    let code = status["code"].as_u64().and_then(|it| u16::try_from(it).ok()).unwrap_or(400).max(400);
    let why =
        ["message", "reason"].into_iter().find_map(|it| status[it].as_str().filter(|it| !it.is_empty()));
    let message = match why {
        Some(why) => format!("admission webhook {name:?} denied the request: {why}"),
        None => format!("admission webhook {name:?} denied the request without explanation"),
    };
    let reason = match status["reason"].as_str() {
        Some("Invalid") => "Invalid",
        Some("Forbidden") => "Forbidden",
        Some("BadRequest") => "BadRequest",
        Some("InternalError") => "InternalError",
        _ => "",
    };
    Err(Failure { details: status["details"].clone(), ..Failure::plain(code, reason, message) })
}

fn patched(webhook: &Value, mut object: Value, patch: &str) -> Result<Value, Failure> {
    let broken = |cause: String| {
        let name = at(webhook, &["name"]).as_str().unwrap_or_default();
        Failure::internal(&format!("admission webhook {name:?} sent a patch that cannot be used: {cause}"))
    };
    let text = BASE64_STANDARD.decode(patch).map_err(|it| broken(it.to_string()))?;
    let patch: json_patch::Patch = serde_json::from_slice(&text).map_err(|it| broken(it.to_string()))?;
    json_patch::patch(&mut object, &patch).map_err(|it| broken(it.to_string()))?;
    if object.is_object() { Ok(object) } else { Err(broken("it leaves no object".to_owned())) }
}

fn word(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
    }
}
