//! What the API server asks an admission webhook.

use k8s_openapi::api::authentication::v1::UserInfo;
use kube::core::{GroupVersionKind, GroupVersionResource};
use serde::Deserialize;
use serde_json::{Value, json};

use super::verdict::Verdict;

/// The envelope versions we speak; they have the same shape.
const VERSIONS: [&str; 2] = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];

/// One question of the API server. Objects stay JSON trees, so that fields this build does not know survive.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionRequest {
    /// Names this question; the answer repeats it.
    pub uid: String,
    /// The kind of `object`, after the conversion that the webhook's rule asked for.
    pub kind: GroupVersionKind,
    /// The resource of `object`, likewise.
    pub resource: GroupVersionResource,
    /// The subresource, if the request is for one.
    #[serde(default)]
    pub sub_resource: Option<String>,
    /// The kind in the original request.
    #[serde(default)]
    pub request_kind: Option<GroupVersionKind>,
    /// The resource in the original request.
    #[serde(default)]
    pub request_resource: Option<GroupVersionResource>,
    /// The object's name; absent when the server is to choose one.
    #[serde(default)]
    pub name: Option<String>,
    /// The object's namespace, if it has one.
    #[serde(default)]
    pub namespace: Option<String>,
    /// What is being done.
    pub operation: Operation,
    /// Who does it.
    #[serde(default)]
    pub user_info: UserInfo,
    /// The object as it would be stored; absent on deletes.
    #[serde(default)]
    pub object: Option<Value>,
    /// The object as it is stored; absent on creates.
    #[serde(default)]
    pub old_object: Option<Value>,
    /// Whether nothing will be stored.
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// The options of the operation, such as those of a delete.
    #[serde(default)]
    pub options: Option<Value>,
}

/// What is done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// The object is made.
    Create,
    /// The object is changed.
    Update,
    /// The object is deleted.
    Delete,
    /// A connection to the object is opened.
    Connect,
}

impl Operation {
    /// The word that webhook rules use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

impl AdmissionRequest {
    /// Whether nothing will be stored.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run == Some(true)
    }

    /// How messages name the object: kind, namespace and name, as far as they are known.
    pub fn subject(&self) -> String {
        let meta = |key: &str| {
            let object = self.object.as_ref().or(self.old_object.as_ref())?;
            object.get("metadata")?.get(key)?.as_str().map(str::to_owned)
        };
        let given = |it: &Option<String>| it.clone().filter(|it| !it.is_empty());
        let name = given(&self.name).or_else(|| meta("name")).or_else(|| meta("generateName"));
        let name = name.unwrap_or_else(|| "(no name)".to_owned());
        match given(&self.namespace).or_else(|| meta("namespace")) {
            Some(namespace) => format!("{} {namespace}/{name}", self.kind.kind),
            None => format!("{} {name}", self.kind.kind),
        }
    }
}

/// A question with the version of the envelope it came in.
#[derive(Debug, Clone)]
pub struct Question {
    /// The envelope's version; the answer uses the same.
    pub api_version: String,
    /// What is asked.
    pub request: AdmissionRequest,
}

/// Opens an envelope. The error says what is wrong with it.
pub fn decode(body: &[u8]) -> Result<Question, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Review {
        #[serde(default)]
        api_version: String,
        #[serde(default)]
        kind: String,
        request: Option<AdmissionRequest>,
    }
    let review: Review =
        serde_json::from_slice(body).map_err(|error| format!("unreadable review: {error}"))?;
    let Review { api_version, kind, request } = review;
    if kind != "AdmissionReview" || !VERSIONS.contains(&api_version.as_str()) {
        return Err(format!(
            "expected an AdmissionReview of {}, got {kind:?} of {api_version:?}",
            VERSIONS[0]
        ));
    }
    let request = request.ok_or("the review has no request")?;
    Ok(Question { api_version, request })
}

/// Closes the envelope around an answer.
pub fn encode(question: &Question, verdict: &Verdict) -> Value {
    let Question { api_version, request } = question;
    let response = verdict.response(request);
    json!({ "apiVersion": api_version, "kind": "AdmissionReview", "response": response })
}
