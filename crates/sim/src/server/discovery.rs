//! Discovery: which groups, versions and kinds there are, as lists and as one aggregated document.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    Page, openapi,
    registry::{Registry, Resource, group_version},
    status::Failure,
};

/// The version that the simulation is held to.
pub const VERSION: &str = "v1.34.4";

const JSON: &str = "application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const READ_AND_CHANGE: [&str; 3] = ["get", "patch", "update"];
const CREATE: [&str; 1] = ["create"];

/// Answers a read of a path that is no kind's.
pub(super) fn answer(registry: &Registry, path: &str, accept: &str) -> Page {
    let parts: Vec<&str> = path.split('/').filter(|it| !it.is_empty()).collect();
    let aggregated = accept.split(',').next().is_some_and(|it| it.contains("as=APIGroupDiscoveryList"));
    let groups = Groups::of(registry);
    let found = match parts.as_slice() {
        ["version"] => Some(version()),
        ["healthz" | "livez" | "readyz", ..] => {
            return Page { code: 200, media: "text/plain", body: Bytes::from_static(b"ok") };
        }
        ["api"] if aggregated => return aggregated_page(&groups.aggregated(|it| it.is_empty())),
        ["apis"] if aggregated => return aggregated_page(&groups.aggregated(|it| !it.is_empty())),
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"]})),
        ["apis"] => Some(groups.list()),
        ["api", version] => groups.resources("", version),
        ["apis", group] => groups.group(group),
        ["apis", group, version] => groups.resources(group, version),
        ["openapi", "v3"] => Some(openapi::index(registry)),
        ["openapi", "v3", "api", version] => openapi::document(registry, "", version),
        ["openapi", "v3", "apis", group, version] => openapi::document(registry, group, version),
        _ => None,
    };
    match found {
        Some(body) => page(200, JSON, &body),
        None => page(404, JSON, &Failure::unknown_path().body()),
    }
}

fn page(code: u16, media: &'static str, body: &Value) -> Page {
    Page { code, media, body: body.to_string().into() }
}

fn aggregated_page(body: &Value) -> Page {
    page(200, AGGREGATED, body)
}

fn version() -> Value {
    let short = VERSION.trim_start_matches('v');
    let mut numbers = short.split('.');
    json!({
        "major": numbers.next(), "minor": numbers.next(), "gitVersion": VERSION, "gitCommit": "",
        "gitTreeState": "clean", "buildDate": "2030-01-01T00:00:00Z", "goVersion": "go1.24", "compiler": "gc",
        "platform": "linux/amd64",
    })
}

/// Kinds by group and version; of a group's versions the preferred is first.
struct Groups<'a>(BTreeMap<&'a str, Vec<(&'a str, Vec<&'a Resource>)>>);

impl<'a> Groups<'a> {
    fn of(registry: &'a Registry) -> Self {
        let mut groups: BTreeMap<&str, Vec<(&str, Vec<&Resource>)>> = BTreeMap::new();
        for resource in registry.all() {
            let resource: &Resource = resource;
            let versions = groups.entry(&resource.group).or_default();
            match versions.iter_mut().find(|it| it.0 == resource.version) {
                Some((_, kinds)) => kinds.push(resource),
                None => versions.push((&resource.version, vec![resource])),
            }
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|it| std::cmp::Reverse(rank(it.0)));
        }
        Self(groups)
    }

    fn list(&self) -> Value {
        let named = self.0.keys().filter(|it| !it.is_empty());
        let groups: Vec<Value> = named.filter_map(|it| self.group_entry(it)).collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    }

    fn group(&self, group: &str) -> Option<Value> {
        let mut entry = self.group_entry(group)?;
        entry["kind"] = json!("APIGroup");
        entry["apiVersion"] = json!("v1");
        Some(entry)
    }

    fn group_entry(&self, group: &str) -> Option<Value> {
        let versions = self.0.get(group)?;
        let written =
            |version: &str| json!({"groupVersion": group_version(group, version), "version": version});
        let all: Vec<Value> = versions.iter().map(|it| written(it.0)).collect();
        Some(json!({"name": group, "versions": all, "preferredVersion": all.first()}))
    }

    fn resources(&self, group: &str, version: &str) -> Option<Value> {
        let (_, kinds) = self.0.get(group)?.iter().find(|it| it.0 == version)?;
        let mut resources = Vec::new();
        for kind in kinds {
            let mut entry = json!({
                "name": kind.plural, "singularName": kind.names.singular, "namespaced": kind.namespaced,
                "kind": kind.kind, "verbs": VERBS,
            });
            add_names(&mut entry, kind);
            resources.push(entry);
            for sub in subresources(kind) {
                let mut entry = json!({
                    "name": format!("{}/{}", kind.plural, sub.name), "singularName": "",
                    "namespaced": kind.namespaced, "kind": sub.kind.2, "verbs": sub.verbs,
                });
                if (sub.kind.0, sub.kind.1) != (kind.group.as_str(), kind.version.as_str()) {
                    entry["group"] = json!(sub.kind.0);
                    entry["version"] = json!(sub.kind.1);
                }
                resources.push(entry);
            }
        }
        Some(json!({
            "kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": group_version(group, version), "resources": resources,
        }))
    }

    fn aggregated(&self, wanted: impl Fn(&str) -> bool) -> Value {
        let groups = self.0.iter().filter(|(group, _)| wanted(group));
        let items: Vec<Value> = groups
            .map(|(group, versions)| {
                let versions: Vec<Value> = versions
                    .iter()
                    .map(|(version, kinds)| {
                        let resources: Vec<Value> = kinds.iter().map(|it| aggregated_kind(it)).collect();
                        json!({"version": version, "freshness": "Current", "resources": resources})
                    })
                    .collect();
                json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions})
            })
            .collect();
        json!({
            "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
        })
    }
}

fn aggregated_kind(kind: &Resource) -> Value {
    let response = |(group, version, kind): (&str, &str, &str)| json!({"group": group, "version": version, "kind": kind});
    let mut entry = json!({
        "resource": kind.plural,
        "responseKind": response(own_kind(kind)),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.names.singular,
        "verbs": VERBS,
    });
    add_names(&mut entry, kind);
    let subresources: Vec<Value> = subresources(kind)
        .iter()
        .map(|it| json!({"subresource": it.name, "responseKind": response(it.kind), "verbs": it.verbs}))
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = json!(subresources);
    }
    entry
}

fn add_names(entry: &mut Value, kind: &Resource) {
    if !kind.names.short.is_empty() {
        entry["shortNames"] = json!(kind.names.short);
    }
    if !kind.names.categories.is_empty() {
        entry["categories"] = json!(kind.names.categories);
    }
}

struct Subresource<'a> {
    name: &'a str,
    /// Group, version and kind of what it speaks.
    kind: (&'a str, &'a str, &'a str),
    verbs: &'a [&'a str],
}

fn own_kind(kind: &Resource) -> (&str, &str, &str) {
    (&kind.group, &kind.version, &kind.kind)
}

fn subresources(kind: &Resource) -> Vec<Subresource<'_>> {
    let own = own_kind(kind);
    let mut all = Vec::new();
    if kind.traits.status {
        all.push(Subresource { name: "status", kind: own, verbs: &READ_AND_CHANGE });
    }
    if kind.scale.is_some() {
        let scale = ("autoscaling", "v1", "Scale");
        all.push(Subresource { name: "scale", kind: scale, verbs: &READ_AND_CHANGE });
    }
    if kind.is_core("pods") {
        all.push(Subresource { name: "binding", kind: ("", "v1", "Binding"), verbs: &CREATE });
        all.push(Subresource { name: "eviction", kind: ("policy", "v1", "Eviction"), verbs: &CREATE });
        all.push(Subresource { name: "resize", kind: own, verbs: &READ_AND_CHANGE });
        all.push(Subresource { name: "log", kind: own, verbs: &["get"] });
    }
    if kind.is_core("serviceaccounts") {
        let token = ("authentication.k8s.io", "v1", "TokenRequest");
        all.push(Subresource { name: "token", kind: token, verbs: &CREATE });
    }
    all
}

/// Order of versions: stable before beta before alpha, then by number.
fn rank(version: &str) -> (u8, u64, u64) {
    let number = |text: &str| text.parse::<u64>().ok();
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    for (word, level) in [("alpha", 1), ("beta", 2)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return match (number(major), number(minor)) {
                (Some(major), Some(minor)) => (level, major, minor),
                _ => (0, 0, 0),
            };
        }
    }
    number(rest).map_or((0, 0, 0), |it| (3, it, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_stable_version_is_preferred() {
        let mut versions = vec!["v1alpha1", "v2beta1", "v1", "v1beta1", "odd", "v1beta2"];
        versions.sort_by_key(|it| std::cmp::Reverse(rank(it)));
        assert_eq!(versions, ["v1", "v2beta1", "v1beta2", "v1beta1", "v1alpha1", "odd"]);
    }

    #[test]
    fn both_forms_name_the_same_kinds_and_subresources() {
        let registry = Registry::builtin();
        let read = |path: &str, accept: &str| -> Value {
            serde_json::from_slice(&answer(&registry, path, accept).body).unwrap()
        };
        let plain = read("/apis/apps/v1", JSON);
        let mut names: Vec<String> = Vec::new();
        let all = read("/apis", AGGREGATED);
        let apps =
            all["items"].as_array().unwrap().iter().find(|it| it["metadata"]["name"] == "apps").unwrap();
        for kind in apps["versions"][0]["resources"].as_array().unwrap() {
            let plural = kind["resource"].as_str().unwrap();
            names.push(plural.to_owned());
            for sub in kind["subresources"].as_array().into_iter().flatten() {
                names.push(format!("{plural}/{}", sub["subresource"].as_str().unwrap()));
            }
        }
        let listed: Vec<&str> =
            plain["resources"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(listed, names);
        assert!(names.contains(&"deployments/scale".to_owned()));
    }
}
