//! What a webhook configuration should contain, given what it contains.
//!
//! A configuration arrives with every webhook of the release, and loses those that this server does not serve. The
//! annotation `template` remembers them all, as OpenKruise does. Unlike there, an entry that somebody has changed since
//! (by applying newer manifests, say) replaces its remembered form, so that no template ever goes stale
//! (openkruise/kruise#453, #535, #803); an entry that is gone comes back from the template.

use std::collections::BTreeSet;

use k8s_openapi::ByteString;
use serde_json::{Map, Value, json};

use super::{
    host::{Host, path_of},
    registration::{exempt, without_nulls},
};

/// The annotation that remembers all webhooks.
pub const TEMPLATE: &str = "template";

/// What every configuration must agree with.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// How the server is reached.
    pub host: &'a Host,
    /// What clients must trust.
    pub ca_bundle: &'a [u8],
    /// The paths that are served.
    pub served: &'a BTreeSet<String>,
    /// The server's own namespace, which no webhook may cover.
    pub own_namespace: &'a str,
}

/// A configuration as it should be.
#[derive(Debug, Clone, PartialEq)]
pub struct Rebuilt {
    /// The value of the annotation.
    pub template: String,
    /// The webhooks.
    pub webhooks: Vec<Value>,
}

/// Rebuilds a configuration whose webhooks are `live`, whose annotation is `template`, and to which the entries of
/// `generated` belong even if neither has them. `None` if it is already as it should be.
pub fn rebuild(
    live: &[Value],
    template: Option<&str>,
    generated: &[Value],
    wanted: &Wanted<'_>,
) -> Option<Rebuilt> {
    let remembered = template.and_then(|it| serde_json::from_str::<Vec<Value>>(it).ok());
    let entries = merge(live, remembered.as_deref().unwrap_or_default(), generated, wanted);
    let webhooks: Vec<_> = entries
        .iter()
        .filter(|it| wanted.served.contains(&path_of(&it["clientConfig"])))
        .map(|it| build(it, wanted))
        .collect();

    let same_template = remembered.as_deref() == Some(entries.as_slice());
    let same_webhooks = live.len() == webhooks.len()
        && live.iter().zip(&webhooks).all(|(live, built)| normal(live) == normal(built));
    if same_template && same_webhooks {
        return None;
    }
    Some(Rebuilt { template: Value::Array(entries).to_string(), webhooks })
}

/// The names of the served webhooks in `live` that do not trust exactly `ca_bundle`. For authorities that others manage.
pub fn distrusting(live: &[Value], wanted: &Wanted<'_>) -> Vec<String> {
    let bundle = json!(ByteString(wanted.ca_bundle.to_vec()));
    live.iter()
        .filter(|it| wanted.served.contains(&path_of(&it["clientConfig"])))
        .filter(|it| it["clientConfig"]["caBundle"] != bundle)
        .map(|it| name_of(it).to_owned())
        .collect()
}

/// All entries to remember: in the template's order, then what is new.
fn merge(live: &[Value], remembered: &[Value], generated: &[Value], wanted: &Wanted<'_>) -> Vec<Value> {
    let mut entries: Vec<Value> = Vec::new();
    for entry in remembered.iter().chain(live).chain(generated) {
        if entry.is_object() && !entries.iter().any(|it| name_of(it) == name_of(entry)) {
            entries.push(entry.clone());
        }
    }
    for entry in &mut entries {
        let Some(live) = live.iter().find(|it| it.is_object() && name_of(it) == name_of(entry)) else {
            continue;
        };
        // Compared as we would write it: what we added ourselves is no change by somebody else.
        if rules_of(live) != rules_of(&build(entry, wanted)) {
            *entry = live.clone();
        }
    }
    for entry in &mut entries {
        if let Some(client_config) = entry["clientConfig"].as_object_mut() {
            client_config.remove("caBundle");
        }
    }
    entries
}

/// `entry` as the API server should have it.
fn build(entry: &Value, wanted: &Wanted<'_>) -> Value {
    let mut built = entry.clone();
    let mut client_config = without_nulls(wanted.host.client_config(&path_of(&entry["clientConfig"])));
    client_config["caBundle"] = json!(ByteString(wanted.ca_bundle.to_vec()));
    built["clientConfig"] = client_config;
    exempt(&mut built, wanted.own_namespace);
    built
}

/// Everything of `entry` but how the server is reached.
fn rules_of(entry: &Value) -> Value {
    let path = path_of(&entry["clientConfig"]);
    let mut rules = normal(entry);
    rules["clientConfig"] = json!(path);
    rules
}

/// `entry` with the defaults that the API server fills in, so that what we wrote compares equal to what we read back.
fn normal(entry: &Value) -> Value {
    let mut normal = entry.clone();
    let Some(fields) = normal.as_object_mut() else {
        return normal;
    };
    set_default(fields, "failurePolicy", json!("Fail"));
    set_default(fields, "matchPolicy", json!("Equivalent"));
    set_default(fields, "namespaceSelector", json!({}));
    set_default(fields, "objectSelector", json!({}));
    set_default(fields, "timeoutSeconds", json!(10));
    // Only mutating webhooks have it; on validating ones both sides get it alike.
    set_default(fields, "reinvocationPolicy", json!("Never"));
    for rule in fields.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(rule) = rule.as_object_mut() {
            set_default(rule, "scope", json!("*"));
        }
    }
    if let Some(service) = normal.pointer_mut("/clientConfig/service").and_then(Value::as_object_mut) {
        set_default(service, "port", json!(443));
    }
    normal
}

fn set_default(fields: &mut Map<String, Value>, name: &str, value: Value) {
    let field = fields.entry(name).or_insert(Value::Null);
    if field.is_null() {
        *field = value;
    }
}

fn name_of(entry: &Value) -> &str {
    entry["name"].as_str().unwrap_or_default()
}
