//! What an admission webhook answers.

use std::fmt;

use k8s_openapi::ByteString;
use serde_json::{Map, Value, json};

use super::review::AdmissionRequest;

/// The answer of a review.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The object may pass as it is.
    Allowed {
        /// Shown to the user.
        warnings: Vec<String>,
    },
    /// The object may pass, changed.
    Patched {
        /// The whole object as it should be. What changed is worked out from the JSON trees.
        object: Value,
        /// Shown to the user.
        warnings: Vec<String>,
    },
    /// The object must not pass.
    Denied(Denial),
}

/// Why an object must not pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Denial {
    /// The HTTP status that the user's request ends with.
    pub code: u16,
    /// What the user reads.
    pub message: String,
    /// The fields at fault, if the object itself is.
    pub causes: Vec<FieldError>,
    /// Shown to the user besides.
    pub warnings: Vec<String>,
}

/// One field at fault.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// Where, as in `spec.updateStrategy.partition` or `spec.containers[0].name`.
    pub path: String,
    /// In what way.
    pub fault: FieldFault,
    /// What is there, where that helps.
    pub value: Option<Value>,
    /// What would be right.
    pub detail: String,
}

/// In what way a field is at fault; Kubernetes' own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldFault {
    /// The value breaks a rule.
    Invalid,
    /// A value is needed.
    Required,
    /// No value, or no such change, is allowed here.
    Forbidden,
    /// The value is none of a list.
    NotSupported,
    /// The value occurs twice.
    Duplicate,
    /// The value names something that does not exist.
    NotFound,
}

impl Verdict {
    /// The object may pass.
    pub fn allow() -> Self {
        Self::Allowed { warnings: Vec::new() }
    }

    /// The object may pass as `object`.
    pub fn patched(object: Value) -> Self {
        Self::Patched { object, warnings: Vec::new() }
    }

    /// The object must not pass; the user's request ends with `code`.
    pub fn denied(code: u16, message: impl Into<String>) -> Self {
        Self::Denied(Denial { code, message: message.into(), causes: Vec::new(), warnings: Vec::new() })
    }

    /// The object cannot be read.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::denied(400, message)
    }

    /// Fields are at fault. No faults, no denial.
    pub fn invalid(causes: Vec<FieldError>) -> Self {
        let message = match causes.as_slice() {
            [] => return Self::allow(),
            [only] => only.to_string(),
            several => {
                let several: Vec<_> = several.iter().map(FieldError::to_string).collect();
                format!("[{}]", several.join(", "))
            }
        };
        Self::Denied(Denial { code: 422, message, causes, warnings: Vec::new() })
    }

    /// The user lacks rights that these fields need. No faults, no denial.
    pub fn forbidden(causes: Vec<FieldError>) -> Self {
        match Self::invalid(causes) {
            Self::Denied(denial) => Self::Denied(Denial { code: 403, ..denial }),
            allowed => allowed,
        }
    }

    /// The same verdict with one more warning for the user.
    #[must_use]
    pub fn warn(mut self, warning: impl Into<String>) -> Self {
        match &mut self {
            Self::Allowed { warnings } | Self::Patched { warnings, .. } => warnings.push(warning.into()),
            Self::Denied(denial) => denial.warnings.push(warning.into()),
        }
        self
    }

    /// A fixed word for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Allowed { .. } => "allowed",
            Self::Patched { .. } => "patched",
            Self::Denied(it) if it.code >= 500 => "failed",
            Self::Denied(_) => "denied",
        }
    }

    /// The answer as the API server reads it.
    pub(super) fn response(&self, request: &AdmissionRequest) -> Value {
        let mut response = Map::new();
        response.insert("uid".to_owned(), json!(request.uid));
        response.insert("allowed".to_owned(), json!(!matches!(self, Self::Denied(_))));
        let warnings = match self {
            Self::Allowed { warnings } => warnings,
            Self::Patched { object, warnings } => {
                if let Some(patch) = patch(request.object.as_ref().unwrap_or(&Value::Null), object) {
                    response.insert("patchType".to_owned(), json!("JSONPatch"));
                    response.insert("patch".to_owned(), json!(ByteString(patch)));
                }
                warnings
            }
            Self::Denied(denial) => {
                response.insert("status".to_owned(), denial.status(request));
                &denial.warnings
            }
        };
        if !warnings.is_empty() {
            response.insert("warnings".to_owned(), json!(warnings));
        }
        Value::Object(response)
    }
}

impl Denial {
    fn status(&self, request: &AdmissionRequest) -> Value {
        let Self { code, message, causes, warnings: _ } = self;
        let mut status =
            json!({ "status": "Failure", "code": code, "message": message, "reason": reason(*code) });
        if !causes.is_empty() {
            let causes: Vec<_> = causes
                .iter()
                .map(|it| json!({ "reason": it.fault.reason(), "message": it.message(), "field": it.path }))
                .collect();
            let kind = &request.kind;
            status["details"] =
                json!({ "name": request.name, "group": kind.group, "kind": kind.kind, "causes": causes });
        }
        status
    }
}

impl FieldError {
    /// A value that breaks a rule.
    pub fn invalid(path: impl Into<String>, value: Value, detail: impl Into<String>) -> Self {
        Self { path: path.into(), fault: FieldFault::Invalid, value: Some(value), detail: detail.into() }
    }

    /// A value that is missing.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), fault: FieldFault::Required, value: None, detail: detail.into() }
    }

    /// A value, or a change, that is not allowed.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), fault: FieldFault::Forbidden, value: None, detail: detail.into() }
    }

    /// The text without the path.
    fn message(&self) -> String {
        let mut message = self.fault.title().to_owned();
        if let Some(value) = &self.value {
            message = format!("{message}: {value}");
        }
        if self.detail.is_empty() { message } else { format!("{message}: {}", self.detail) }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message())
    }
}

impl FieldFault {
    fn title(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid value",
            Self::Required => "Required value",
            Self::Forbidden => "Forbidden",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::NotFound => "Not found",
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
        }
    }
}

/// The change from one tree to the other as an RFC 6902 document; none if there is no change.
pub fn patch(from: &Value, to: &Value) -> Option<Vec<u8>> {
    let patch = json_patch::diff(from, to);
    if patch.is_empty() {
        return None;
    }
    Some(serde_json::to_vec(&patch).expect("a patch is made of strings and JSON trees"))
}

fn reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        _ => "",
    }
}
