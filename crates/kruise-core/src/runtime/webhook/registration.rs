//! Which questions the API server is told to ask: one table, from which both webhook configurations are generated.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{host::Host, review::Operation};

/// The groups whose kinds are ours. Only for them may a webhook fail closed without any selector.
const OUR_GROUPS: [&str; 3] = ["apps.kruise.io", "policy.kruise.io", "fleet.kruise.io"];

/// The label that every namespace carries its own name in.
pub(super) const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// One row of the table: which requests are sent to which path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registration {
    /// The webhook's name, such as `mcloneset.kb.io`.
    pub name: &'static str,
    /// When it is asked.
    pub phase: Phase,
    /// Where it is served.
    pub path: &'static str,
    /// For which operations it is asked.
    pub operations: &'static [Operation],
    /// For resources of which group; empty for the core group.
    pub group: &'static str,
    /// In which versions.
    pub versions: &'static [&'static str],
    /// For which resources and subresources, in the plural.
    pub resources: &'static [&'static str],
    /// Only for objects in namespaces with these labels.
    pub namespaces: &'static [LabelRule],
    /// Only for objects with these labels.
    pub objects: &'static [LabelRule],
    /// What happens when nobody answers.
    pub failure: FailurePolicy,
    /// Whether answering changes anything.
    pub side_effects: SideEffects,
}

/// When a webhook is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// First, and it may change the object.
    Mutating,
    /// Last, and it may only refuse.
    Validating,
}

/// One condition on labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelRule {
    /// The label is there, whatever its value.
    Exists(&'static str),
    /// The label is not there.
    DoesNotExist(&'static str),
}

/// What happens to a request when nobody answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    /// It is refused.
    Fail,
    /// It passes.
    Ignore,
}

/// Whether answering changes anything outside of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SideEffects {
    /// Never.
    None,
    /// Not when the request is a dry run.
    NoneOnDryRun,
}

/// Both configurations, ready to be printed or created.
#[derive(Debug, Clone, PartialEq)]
pub struct Configurations {
    /// The `MutatingWebhookConfiguration`, if the table has a row for one.
    pub mutating: Option<Value>,
    /// The `ValidatingWebhookConfiguration`, likewise.
    pub validating: Option<Value>,
}

/// The names of both configurations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigurationNames {
    /// Of the `MutatingWebhookConfiguration`.
    pub mutating: String,
    /// Of the `ValidatingWebhookConfiguration`.
    pub validating: String,
}

impl Default for ConfigurationNames {
    /// OpenKruise's names.
    fn default() -> Self {
        Self {
            mutating: "kruise-mutating-webhook-configuration".to_owned(),
            validating: "kruise-validating-webhook-configuration".to_owned(),
        }
    }
}

/// Generates both configurations. `own_namespace` is where the server itself runs: requests there are never sent to
/// it, so that it can be installed and repaired while it is down. The bundle is filled in at run time.
pub fn configurations(
    table: &[Registration],
    names: &ConfigurationNames,
    host: &Host,
    own_namespace: &str,
) -> Configurations {
    let of = |phase: Phase, name: &str| {
        let webhooks = webhooks(table, phase, host, own_namespace);
        (!webhooks.is_empty()).then(|| {
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": phase.configuration_kind(),
                "metadata": { "name": name },
                "webhooks": webhooks,
            })
        })
    };
    Configurations {
        mutating: of(Phase::Mutating, &names.mutating),
        validating: of(Phase::Validating, &names.validating),
    }
}

/// The webhooks of one configuration.
pub(super) fn webhooks(table: &[Registration], phase: Phase, host: &Host, own_namespace: &str) -> Vec<Value> {
    table.iter().filter(|it| it.phase == phase).map(|it| it.webhook(host, own_namespace)).collect()
}

/// What is wrong with a table, one line for each fault. A good table has none.
pub fn check(table: &[Registration]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut names = BTreeSet::new();
    for it in table {
        if !names.insert(it.name) {
            faults.push(format!("{}: the name is used twice", it.name));
        }
        if !it.path.starts_with('/') {
            faults.push(format!("{}: the path does not start with a slash", it.name));
        }
        if it.operations.is_empty() || it.versions.is_empty() || it.resources.is_empty() {
            faults.push(format!("{}: the rule matches nothing", it.name));
        }
        let wildcard = [it.versions, it.resources].concat().iter().any(|it| it.contains('*'));
        if wildcard || it.group.contains('*') {
            faults.push(format!("{}: wildcards are not allowed", it.name));
        }
        let selective = !it.namespaces.is_empty() || !it.objects.is_empty();
        if it.failure == FailurePolicy::Fail && !OUR_GROUPS.contains(&it.group) && !selective {
            faults.push(format!("{}: fails closed for every object of a kind that is not ours", it.name));
        }
    }
    faults
}

impl Registration {
    fn webhook(&self, host: &Host, own_namespace: &str) -> Value {
        let Self { name, phase: _, path, operations, group, versions, resources, .. } = *self;
        let mut webhook = json!({
            "name": name,
            "admissionReviewVersions": ["v1", "v1beta1"],
            "clientConfig": without_nulls(host.client_config(path)),
            "failurePolicy": match self.failure {
                FailurePolicy::Fail => "Fail",
                FailurePolicy::Ignore => "Ignore",
            },
            "sideEffects": match self.side_effects {
                SideEffects::None => "None",
                SideEffects::NoneOnDryRun => "NoneOnDryRun",
            },
            "rules": [{
                "apiGroups": [group],
                "apiVersions": versions,
                "operations": operations.iter().map(|it| it.as_str()).collect::<Vec<_>>(),
                "resources": resources,
            }],
        });
        if !self.namespaces.is_empty() {
            webhook["namespaceSelector"] = selector(self.namespaces);
        }
        if !self.objects.is_empty() {
            webhook["objectSelector"] = selector(self.objects);
        }
        exempt(&mut webhook, own_namespace);
        webhook
    }
}

impl Phase {
    /// The kind of the configuration that holds the webhooks of this phase.
    pub fn configuration_kind(self) -> &'static str {
        match self {
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::Validating => "ValidatingWebhookConfiguration",
        }
    }
}

/// Makes `webhook` leave out `namespace`, unless it does already.
pub(super) fn exempt(webhook: &mut Value, namespace: &str) {
    let is_exempting = |it: &Value| {
        it["key"] == NAMESPACE_NAME
            && it["operator"] == "NotIn"
            && it["values"].as_array().is_some_and(|it| it.iter().any(|it| it == namespace))
    };
    let selector = entry(webhook, "namespaceSelector", json!({}));
    let expressions = entry(selector, "matchExpressions", json!([]));
    if let Some(expressions) = expressions.as_array_mut()
        && !expressions.iter().any(is_exempting)
    {
        expressions.push(json!({ "key": NAMESPACE_NAME, "operator": "NotIn", "values": [namespace] }));
    }
}

/// `object` without its `null` fields.
pub(super) fn without_nulls(object: Value) -> Value {
    match object {
        Value::Object(fields) => {
            Value::Object(fields.into_iter().filter(|(_, it)| !it.is_null()).collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// The field `name` of `object`, put there as `fresh` if it is missing, `null` or of another type.
fn entry<'a>(object: &'a mut Value, name: &str, fresh: Value) -> &'a mut Value {
    let field = &mut object[name];
    if std::mem::discriminant(field) != std::mem::discriminant(&fresh) {
        *field = fresh;
    }
    field
}

fn selector(rules: &[LabelRule]) -> Value {
    let expressions: Vec<_> = rules
        .iter()
        .map(|it| match it {
            LabelRule::Exists(key) => json!({ "key": key, "operator": "Exists" }),
            LabelRule::DoesNotExist(key) => json!({ "key": key, "operator": "DoesNotExist" }),
        })
        .collect();
    json!({ "matchExpressions": expressions })
}
