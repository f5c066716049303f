//! Errors as kube-apiserver words them: clients branch on code, reason and details.

use serde_json::{Value, json};

use crate::server::{registry::Resource, webhooks::Question};

/// An answer that is not the object asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The HTTP code.
    pub code: u16,
    /// The machine-readable reason, such as `NotFound`.
    pub reason: &'static str,
    /// The text for people.
    pub message: String,
    /// `details` of the Status, or null.
    pub details: Value,
    /// `metadata.continue`, for an expired list.
    pub continue_token: Option<String>,
    /// Who has to be asked before the request can be answered. The client never sees it.
    pub question: Option<Box<Question>>,
}

/// One field that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The cause's reason, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// What is wrong, without the field.
    pub message: String,
    /// The path, such as `spec.replicas`.
    pub field: String,
}

impl FieldError {
    /// The field is missing.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = join("Required value", detail);
        Self { reason: "FieldValueRequired", message, field: field.into() }
    }

    /// The field has a value it may not have.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let message = format!("Invalid value: {}: {detail}", shown(value));
        Self { reason: "FieldValueInvalid", message, field: field.into() }
    }

    /// The field has a value it may not have, and which is shown as the text says.
    pub fn invalid_shown(field: impl Into<String>, shown: &str, detail: &str) -> Self {
        let message = format!("Invalid value: {shown}: {detail}");
        Self { reason: "FieldValueInvalid", message, field: field.into() }
    }

    /// The field has a value of the wrong type.
    pub fn wrong_type(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let message = format!("Invalid value: {}: {detail}", shown_type(value));
        Self { reason: "FieldValueTypeInvalid", message, field: field.into() }
    }

    /// The field has a value that is not one of the listed ones.
    pub fn unsupported(field: impl Into<String>, value: &Value, allowed: &[String]) -> Self {
        let allowed: Vec<String> = allowed.iter().map(|it| format!("{it:?}")).collect();
        let message =
            format!("Unsupported value: {}: supported values: {}", shown(value), allowed.join(", "));
        Self { reason: "FieldValueNotSupported", message, field: field.into() }
    }

    /// The field may not be set (or changed) here.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        let message = join("Forbidden", detail);
        Self { reason: "FieldValueForbidden", message, field: field.into() }
    }
}

impl Failure {
    /// An error with a code, a reason and a text, and no details.
    pub fn plain(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, reason, message, details: Value::Null, continue_token: None, question: None }
    }

    /// Nobody has said yet what is asked here.
    pub(crate) fn unanswered(question: Question) -> Self {
        let message = format!("webhook {:?} has not been asked", question.name);
        Self { question: Some(Box::new(question)), ..Self::internal(&message) }
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::plain(400, "BadRequest", message)
    }

    /// 404 for a path that names nothing.
    pub fn unknown_path() -> Self {
        let message = "the server could not find the requested resource";
        Self { details: json!({}), ..Self::plain(404, "NotFound", message) }
    }

    /// 404 for an object.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.qualified());
        Self { details: resource.details(name), ..Self::plain(404, "NotFound", message) }
    }

    /// 409 for a name that is taken.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.qualified());
        Self { details: resource.details(name), ..Self::plain(409, "AlreadyExists", message) }
    }

    /// 409 for a lost race or a failed precondition.
    pub fn conflict(resource: &Resource, name: &str, cause: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {cause}", resource.qualified());
        Self { details: resource.details(name), ..Self::plain(409, "Conflict", message) }
    }

    /// 409 for an old `resourceVersion`.
    pub fn stale(resource: &Resource, name: &str) -> Self {
        let cause =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, cause)
    }

    /// 403.
    pub fn forbidden(resource: &Resource, name: &str, cause: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {cause}", resource.qualified());
        Self { details: resource.details(name), ..Self::plain(403, "Forbidden", message) }
    }

    /// 422 with one cause per field.
    pub fn invalid(kind: &str, group: &str, name: &str, errors: Vec<FieldError>) -> Self {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let mut texts: Vec<String> = Vec::new();
        for it in &errors {
            let text = if it.field.is_empty() {
                it.message.clone()
            } else {
                format!("{}: {}", it.field, it.message)
            };
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let shown = if texts.len() == 1 { texts[0].clone() } else { format!("[{}]", texts.join(", ")) };
        let causes: Vec<Value> = errors
            .iter()
            .map(|it| json!({"reason": it.reason, "message": it.message, "field": it.field}))
            .collect();
        let mut details = json!({"causes": causes});
        if !kind.is_empty() {
            details["kind"] = json!(kind);
        }
        if !name.is_empty() {
            details["name"] = json!(name);
        }
        if !group.is_empty() {
            details["group"] = json!(group);
        }
        let message = format!("{qualified} {name:?} is invalid: {shown}");
        Self { details, ..Self::plain(422, "Invalid", message) }
    }

    /// 410 for a resourceVersion or token that history no longer holds.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::plain(410, "Expired", message)
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self { details: json!({}), ..Self::plain(405, "MethodNotAllowed", message) }
    }

    /// 500.
    pub fn internal(cause: &str) -> Self {
        let message = format!("Internal error occurred: {cause}");
        Self {
            details: json!({"causes": [{"message": cause}]}),
            ..Self::plain(500, "InternalError", message)
        }
    }

    /// The Status object.
    pub fn body(&self) -> Value {
        let mut metadata = json!({});
        if let Some(token) = &self.continue_token {
            metadata["continue"] = json!(token);
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}

fn join(head: &str, detail: &str) -> String {
    if detail.is_empty() { head.to_owned() } else { format!("{head}: {detail}") }
}

/// A value as Go's field errors print it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Null => "null".to_owned(),
        other => other.to_string(),
    }
}

fn shown_type(value: &Value) -> String {
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("{name:?}")
}
