//! Owner references: what is wrong with them, and what is said twice.

use serde_json::Value;

use crate::server::{
    object::{owner_references, set},
    status::FieldError,
};

const PATH: &str = "metadata.ownerReferences";

/// The members of a reference, in the order in which the API server prints them.
const MEMBERS: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];

pub(super) fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let mut controller: Option<&Value> = None;
    for owner in owner_references(object) {
        validate_one(owner, errors);
        if owner["controller"] != true {
            continue;
        }
        let Some(first) = controller else {
            controller = Some(owner);
            continue;
        };
        let name = |it: &Value| format!("{}/{}", text(it, "kind"), text(it, "name"));
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
            name(first),
            name(owner)
        );
        let all: Vec<String> = owner_references(object).map(shown).collect();
        errors.push(FieldError::invalid_shown(PATH, &format!("[{}]", all.join(",")), &detail));
    }
}

fn validate_one(owner: &Value, errors: &mut Vec<FieldError>) {
    let (api_version, kind) = (text(owner, "apiVersion"), text(owner, "kind"));
    let checks = [
        ("apiVersion", version(api_version).is_empty(), "version must not be empty"),
        ("kind", kind.is_empty(), "must not be empty"),
        ("name", text(owner, "name").is_empty(), "must not be empty"),
        ("uid", text(owner, "uid").is_empty(), "must not be empty"),
    ];
    for (member, _, rule) in checks.into_iter().filter(|it| it.1) {
        let value = text(owner, member).into();
        errors.push(FieldError::invalid(format!("{PATH}.{member}"), &value, rule));
    }
    if (api_version, kind) == ("v1", "Event") {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(FieldError::invalid_shown(PATH, &shown(owner), detail));
    }
}

/// Drops references that were given before, word for word.
pub fn drop_repeated(object: &mut Value) {
    let mut kept: Vec<Value> = Vec::new();
    for owner in owner_references(object) {
        if !kept.contains(owner) {
            kept.push(owner.clone());
        }
    }
    if kept.len() < owner_references(object).count() {
        set(object, &["metadata", "ownerReferences"], kept.into());
    }
}

/// The version in `group/version`; more than one slash is no version at all.
fn version(api_version: &str) -> &str {
    match api_version.split_once('/') {
        None => api_version,
        Some((_, version)) if !version.contains('/') => version,
        Some(_) => "",
    }
}

fn shown(owner: &Value) -> String {
    let members = MEMBERS.iter().enumerate().filter_map(|(index, name)| {
        // The first four are never left out.
        let value = if index < 4 { text(owner, name).into() } else { owner[name].clone() };
        (!value.is_null()).then(|| format!("\"{name}\":{value}"))
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn text<'a>(owner: &'a Value, member: &str) -> &'a str {
    owner[member].as_str().unwrap_or_default()
}
