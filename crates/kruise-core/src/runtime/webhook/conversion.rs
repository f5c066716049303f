//! Converting objects between the versions of their kind, as the API server asks for it.

use serde::Deserialize;
use serde_json::{Value, json};

/// The envelope versions we speak; they have the same shape.
const VERSIONS: [&str; 2] = ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"];

/// One question: these objects, in that version.
#[derive(Debug, Clone)]
pub struct Conversion {
    /// The envelope's version; the answer uses the same.
    pub api_version: String,
    /// Names this question; the answer repeats it.
    pub uid: String,
    /// The group and version wanted.
    pub desired: String,
    /// The objects, each in any version of its kind.
    pub objects: Vec<Value>,
}

/// Opens an envelope. The error says what is wrong with it.
pub fn decode(body: &[u8]) -> Result<Conversion, String> {
    #[derive(Deserialize)]
    struct Request {
        uid: String,
        #[serde(rename = "desiredAPIVersion")]
        desired: String,
        #[serde(default)]
        objects: Vec<Value>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Review {
        #[serde(default)]
        api_version: String,
        #[serde(default)]
        kind: String,
        request: Option<Request>,
    }
    let review: Review =
        serde_json::from_slice(body).map_err(|error| format!("unreadable review: {error}"))?;
    let Review { api_version, kind, request } = review;
    if kind != "ConversionReview" || !VERSIONS.contains(&api_version.as_str()) {
        return Err(format!(
            "expected a ConversionReview of {}, got {kind:?} of {api_version:?}",
            VERSIONS[0]
        ));
    }
    let Request { uid, desired, objects } = request.ok_or("the review has no request")?;
    Ok(Conversion { api_version, uid, desired, objects })
}

/// Converts every object with `convert`, in order. One that fails makes the whole answer a failure that names it.
pub fn convert(
    objects: Vec<Value>,
    desired: &str,
    convert: impl Fn(Value, &str) -> Result<Value, String>,
) -> Result<Vec<Value>, String> {
    objects
        .into_iter()
        .map(|object| {
            if object.get("apiVersion").and_then(Value::as_str) == Some(desired) {
                return Ok(object);
            }
            let subject = subject(&object);
            convert(object, desired).map_err(|error| format!("{subject}: {error}"))
        })
        .collect()
}

/// Closes the envelope around the converted objects, or around the reason why there are none.
pub fn encode(api_version: &str, uid: &str, converted: Result<Vec<Value>, String>) -> Value {
    let (result, objects) = match converted {
        Ok(objects) => (json!({ "status": "Success" }), objects),
        Err(message) => (json!({ "status": "Failure", "message": message }), Vec::new()),
    };
    json!({
        "apiVersion": api_version,
        "kind": "ConversionReview",
        "response": { "uid": uid, "result": result, "convertedObjects": objects },
    })
}

fn subject(object: &Value) -> String {
    let text = |it: Option<&Value>| it.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = object.get("metadata");
    let (namespace, name) =
        (text(metadata.and_then(|it| it.get("namespace"))), text(metadata.and_then(|it| it.get("name"))));
    format!("{} {namespace}/{name} of {}", text(object.get("kind")), text(object.get("apiVersion")))
}
