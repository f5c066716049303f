//! Tokens of service accounts. They look like real ones and say whose they are; nobody has signed them, and who holds one is for
//! whoever stands before the server to judge.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::server::{
    Answer,
    status::{Failure, FieldError},
    verbs::Call,
};

/// What is granted where nothing is asked for, in seconds.
const USUAL: i64 = 3_600;
/// The shortest life of a token, in seconds.
const SHORTEST: i64 = 600;

pub(super) fn issue(call: &mut Call<'_>) -> Result<Answer, Failure> {
    if call.request.method != Method::POST {
        return Err(Failure::method_not_allowed());
    }
    let mut request: Value = serde_json::from_slice(&call.request.body)
        .map_err(|error| Failure::bad_request(error.to_string()))?;
    let existing = call.existing()?;
    let account = existing.value();
    let (name, namespace) = (existing.name.to_string(), existing.namespace.to_string());
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(USUAL);
    if seconds < SHORTEST {
        let field = "spec.expirationSeconds";
        let error =
            FieldError::invalid(field, &json!(seconds), "may not specify a duration less than 10 minutes");
        return Err(Failure::invalid("TokenRequest", "authentication.k8s.io", &name, vec![error]));
    }
    let issued = call.time();
    let expires = issued + SignedDuration::from_secs(seconds);
    let seed = call.seed.of("token").of(&namespace).of(&name).at(call.state.store.version());
    let claims = json!({
        "sub": format!("system:serviceaccount:{namespace}:{name}"),
        "iat": issued.as_second(), "exp": expires.as_second(), "jti": seed.uuid(),
        "kubernetes.io": {
            "namespace": namespace, "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]},
        },
    });
    let part = |it: &Value| BASE64_URL_SAFE_NO_PAD.encode(it.to_string());
    let token = format!("{}.{}.simulated", part(&json!({"alg": "none"})), part(&claims));
    request["apiVersion"] = json!("authentication.k8s.io/v1");
    request["kind"] = json!("TokenRequest");
    request["metadata"] = json!({"name": name, "namespace": namespace, "creationTimestamp": call.now});
    request["spec"]["expirationSeconds"] = json!(seconds);
    request["status"] = json!({"token": token, "expirationTimestamp": crate::time::seconds(expires)});
    Ok(Answer::json(201, &request))
}
