//! JoinRequests: a bootstrap identity may ask for its own names only (JOIN-1).

use jiff::Timestamp;
use kruise_core::{
    api::fleet::keys,
    runtime::webhook::{FieldError, Operation, Verdict},
};
use serde_json::{Map, Value, json};

use super::{annotation, name_of};
use crate::members::joining::{Token, TokenFault};

/// Users that hold a bootstrap token are called this and the token's id.
pub const BOOTSTRAP_USER: &str = "system:bootstrap:";

/// The token that a user holds, if any.
pub fn token_of(user: &str) -> Option<&str> {
    user.strip_prefix(BOOTSTRAP_USER)
}

/// Writes down which token a request was made with. Nobody can claim one that is not theirs.
pub fn mutate(request: &mut Value, operation: Operation, user: &str) {
    if operation != Operation::Create {
        return;
    }
    let Some(metadata) = request.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let annotations = metadata.entry("annotations").or_insert(Value::Null);
    if annotations.is_null() {
        *annotations = Value::Object(Map::new());
    }
    let Some(annotations) = annotations.as_object_mut() else { return };
    match token_of(user) {
        Some(token) => {
            annotations.insert(keys::TOKEN.to_owned(), json!(token));
        }
        None => {
            annotations.remove(keys::TOKEN);
        }
    }
}

/// Judges a request as it is made or changed. What becomes of one that is let in is decided later.
pub fn review(request: &Value, old: Option<&Value>, user: &str, tokens: &[Token], now: Timestamp) -> Verdict {
    let denied = |message: String| Verdict::denied(403, format!("TokenRejected: {message}"));
    let by_token = token_of(user);
    if let Some(old) = old {
        return review_change(request, old, by_token.is_some());
    }
    let Some(id) = by_token else { return Verdict::allow() };
    if annotation(request, keys::DECISION).is_some() {
        let path = format!("metadata.annotations[{}]", keys::DECISION);
        return Verdict::invalid(vec![FieldError::forbidden(path, "a cluster cannot approve itself")]);
    }
    let name = name_of(request);
    let fault = match tokens.iter().find(|it| it.id == id) {
        None => Some(TokenFault::Unknown),
        // The request has no UID yet: it is a new use.
        Some(token) => token.fault(name, "", now),
    };
    match fault {
        None => Verdict::allow(),
        Some(fault) => denied(format!("{name} cannot ask to join: {fault}")),
    }
}

fn review_change(request: &Value, old: &Value, by_token: bool) -> Verdict {
    if by_token {
        return Verdict::denied(403, "TokenRejected: a bootstrap token may create a request, not change one");
    }
    if annotation(request, keys::TOKEN) != annotation(old, keys::TOKEN) {
        let path = format!("metadata.annotations[{}]", keys::TOKEN);
        return Verdict::invalid(vec![FieldError::forbidden(path, "the token of a request never changes")]);
    }
    if request["spec"] != old["spec"] {
        let detail = "a JoinRequest never changes; delete it and ask again";
        return Verdict::invalid(vec![FieldError::forbidden("spec", detail)]);
    }
    match annotation(request, keys::DECISION) {
        None | Some("Approve" | "Deny") => Verdict::allow(),
        Some(other) => {
            let path = format!("metadata.annotations[{}]", keys::DECISION);
            Verdict::invalid(vec![FieldError::invalid(path, json!(other), "must be Approve or Deny")])
        }
    }
}
