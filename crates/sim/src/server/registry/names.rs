//! What people call the kinds: singular and short names, and the categories of `kubectl get all`.

use serde_json::Value;

/// The names of a kind besides its plural.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    /// The singular, in lower case.
    pub singular: String,
    /// Abbreviations.
    pub short: Vec<String>,
    /// Groups of kinds that are asked for together.
    pub categories: Vec<String>,
}

const SHORT: &[(&str, &str)] = &[
    ("pods", "po"),
    ("nodes", "no"),
    ("namespaces", "ns"),
    ("configmaps", "cm"),
    ("services", "svc"),
    ("serviceaccounts", "sa"),
    ("persistentvolumeclaims", "pvc"),
    ("persistentvolumes", "pv"),
    ("events", "ev"),
    ("events.events.k8s.io", "ev"),
    ("endpoints", "ep"),
    ("resourcequotas", "quota"),
    ("limitranges", "limits"),
    ("replicationcontrollers", "rc"),
    ("deployments.apps", "deploy"),
    ("replicasets.apps", "rs"),
    ("statefulsets.apps", "sts"),
    ("daemonsets.apps", "ds"),
    ("cronjobs.batch", "cj"),
    ("poddisruptionbudgets.policy", "pdb"),
    ("horizontalpodautoscalers.autoscaling", "hpa"),
    ("ingresses.networking.k8s.io", "ing"),
    ("networkpolicies.networking.k8s.io", "netpol"),
    ("priorityclasses.scheduling.k8s.io", "pc"),
    ("storageclasses.storage.k8s.io", "sc"),
    ("certificatesigningrequests.certificates.k8s.io", "csr"),
    ("customresourcedefinitions.apiextensions.k8s.io", "crd"),
];

/// What `kubectl get all` shows.
const ALL: &[&str] = &[
    "pods",
    "services",
    "replicationcontrollers",
    "deployments.apps",
    "replicasets.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "cronjobs.batch",
    "horizontalpodautoscalers.autoscaling",
];

impl Names {
    /// Those of a built-in kind.
    pub(super) fn builtin(qualified: &str, kind: &str) -> Self {
        let short = SHORT.iter().filter(|(name, _)| *name == qualified).map(|(_, short)| (*short).to_owned());
        let categories = ALL.contains(&qualified).then(|| "all".to_owned());
        Self {
            singular: kind.to_lowercase(),
            short: short.collect(),
            categories: categories.into_iter().collect(),
        }
    }

    /// Those that a definition gives: `spec.names`.
    pub(super) fn custom(names: &Value) -> Self {
        let list = |name: &str| -> Vec<String> {
            let items = names[name].as_array().into_iter().flatten();
            items.filter_map(|it| it.as_str().map(str::to_owned)).collect()
        };
        let kind = names["kind"].as_str().unwrap_or_default().to_lowercase();
        let singular = names["singular"].as_str().filter(|it| !it.is_empty()).map_or(kind, str::to_owned);
        Self { singular, short: list("shortNames"), categories: list("categories") }
    }
}
