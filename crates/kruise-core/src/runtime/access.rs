//! Which rights the parts of a process need at the API server.
//!
//! Each part lists its own, beside the code that uses them. Roles are generated from these lists and a process compares
//! them with what it was granted, so that a missing right is named before it is missed.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{authorization::v1::ResourceRule, rbac::v1::PolicyRule};

/// Where a right is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// In every namespace, or for objects outside of namespaces.
    Cluster,
    /// In the namespace that the process runs in.
    OwnNamespace,
    /// In this namespace.
    Namespace(&'static str),
}

/// What may be done to objects of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    /// Where.
    pub scope: Scope,
    /// The group; empty for the core group.
    pub group: &'static str,
    /// The resource in the plural, with its subresource: `pods/status`.
    pub resource: &'static str,
    /// What is done: `get`, `patch`.
    pub verbs: &'static [&'static str],
    /// To which objects only; to all if empty.
    pub names: Vec<String>,
}

/// A right in every namespace.
pub fn cluster(group: &'static str, resource: &'static str, verbs: &'static [&'static str]) -> Right {
    Right { scope: Scope::Cluster, group, resource, verbs, names: Vec::new() }
}

/// A right in the namespace of the process.
pub fn own_namespace(group: &'static str, resource: &'static str, verbs: &'static [&'static str]) -> Right {
    Right { scope: Scope::OwnNamespace, group, resource, verbs, names: Vec::new() }
}

/// A right in one namespace.
pub fn in_namespace(
    namespace: &'static str,
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
) -> Right {
    Right { scope: Scope::Namespace(namespace), group, resource, verbs, names: Vec::new() }
}

impl Right {
    /// The same right to the objects with these names only.
    #[must_use]
    pub fn named<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.names = names.into_iter().map(Into::into).collect();
        self.names.sort();
        self
    }

    /// One line for each thing that `rules` do not allow: `patch pods/status`.
    pub fn missing_in(&self, rules: &[ResourceRule]) -> Vec<String> {
        let Self { scope: _, group, resource, verbs, names } = self;
        let dot = if group.is_empty() { "" } else { "." };
        let missing = verbs.iter().filter(|verb| !rules.iter().any(|it| self.is_granted_by(it, verb)));
        let which = if names.is_empty() { String::new() } else { format!(" {}", names.join(", ")) };
        missing.map(|verb| format!("{verb} {resource}{dot}{group}{which}")).collect()
    }

    fn is_granted_by(&self, rule: &ResourceRule, verb: &str) -> bool {
        let ResourceRule { api_groups, resources, resource_names, verbs } = rule;
        let has = |list: &Option<Vec<String>>, wanted: &str| {
            list.iter().flatten().any(|it| it == wanted || it == "*")
        };
        let any_parent = self.resource.split_once('/').map(|(_, part)| format!("*/{part}"));
        let names = resource_names.as_deref().unwrap_or_default();
        has(api_groups, self.group)
            && (has(resources, self.resource) || any_parent.is_some_and(|it| has(resources, &it)))
            && (verbs.iter().any(|it| it == verb || it == "*"))
            && (names.is_empty()
                || (!self.names.is_empty() && self.names.iter().all(|it| names.contains(it))))
    }
}

/// The rules that grant exactly `rights` in `scope`: what can be said in one rule is, and always in the same order.
pub fn rules(rights: &[Right], scope: Scope) -> Vec<PolicyRule> {
    // What is allowed, by resource and names.
    let mut verbs: BTreeMap<(&str, &str, &[String]), BTreeSet<&str>> = BTreeMap::new();
    for Right { group, resource, verbs: more, names, .. } in rights.iter().filter(|it| it.scope == scope) {
        verbs.entry((group, resource, names)).or_default().extend(more.iter());
    }
    // Resources of one group with the same verbs share a rule.
    let mut shared: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for ((group, resource, names), verbs) in verbs {
        shared.entry((group, verbs, names)).or_default().push(resource);
    }
    let owned = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let mut rules: Vec<_> = shared
        .into_iter()
        .map(|((group, verbs, names), resources)| PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(owned(&resources)),
            resource_names: Some(names.to_vec()).filter(|it| !it.is_empty()),
            verbs: verbs.into_iter().map(str::to_owned).collect(),
            non_resource_urls: None,
        })
        .collect();
    rules.sort_by(|a, b| (&a.api_groups, &a.resources).cmp(&(&b.api_groups, &b.resources)));
    rules
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn rights_of_several_parts_become_few_rules() {
        let rights = [
            cluster("", "pods", &["get", "list"]),
            cluster("", "pods", &["watch", "get"]),
            cluster("", "nodes", &["get", "list", "watch"]),
            cluster("", "pods/status", &["patch"]),
            cluster("apps", "controllerrevisions", &["get", "list", "watch"]),
            own_namespace("", "secrets", &["get"]).named(["certs"]),
            own_namespace("", "secrets", &["create"]),
        ];
        let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
        assert_eq!(
            serde_json::to_value(rules(&rights, Scope::Cluster)).unwrap(),
            json!([
                rule("", &["nodes", "pods"], &["get", "list", "watch"]),
                rule("", &["pods/status"], &["patch"]),
                rule("apps", &["controllerrevisions"], &["get", "list", "watch"]),
            ])
        );
        let mut named = rule("", &["secrets"], &["get"]);
        named["resourceNames"] = json!(["certs"]);
        assert_eq!(
            serde_json::to_value(rules(&rights, Scope::OwnNamespace)).unwrap(),
            json!([rule("", &["secrets"], &["create"]), named])
        );
    }

    fn granted(rule: Value) -> Vec<ResourceRule> {
        vec![serde_json::from_value(rule).unwrap()]
    }

    #[test]
    fn missing_rights_are_named_one_by_one() {
        let right = cluster("", "pods/status", &["get", "patch"]);
        let only_get = granted(json!({ "apiGroups": [""], "resources": ["pods/status"], "verbs": ["get"] }));
        assert_eq!(right.missing_in(&only_get), ["patch pods/status"]);
        let by_part = granted(json!({ "apiGroups": ["*"], "resources": ["*/status"], "verbs": ["*"] }));
        assert_eq!(right.missing_in(&by_part), Vec::<String>::new());
        let pods = granted(json!({ "apiGroups": [""], "resources": ["pods"], "verbs": ["*"] }));
        assert_eq!(right.missing_in(&pods), ["get pods/status", "patch pods/status"]);
    }

    #[test]
    fn a_right_to_some_objects_is_no_right_to_all() {
        let some = granted(json!({
            "apiGroups": ["apps"], "resources": ["x"], "resourceNames": ["a", "b"], "verbs": ["get"],
        }));
        let right = cluster("apps", "x", &["get"]);
        assert_eq!(right.missing_in(&some), ["get x.apps"]);
        assert_eq!(right.clone().named(["a"]).missing_in(&some), Vec::<String>::new());
        assert_eq!(right.named(["a", "c"]).missing_in(&some), ["get x.apps a, c"]);
    }
}
