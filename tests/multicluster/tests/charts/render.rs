//! What the charts consist of, whatever the values.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::{Value, json};

use crate::chart::{Chart, HUB, HUB_FULL, MEMBER, MEMBER_FULL, MEMBER_JOINS};

const ALL: [(Chart, &[&str]); 5] =
    [(MEMBER, &[]), (MEMBER, MEMBER_FULL), (MEMBER, MEMBER_JOINS), (HUB, &[]), (HUB, HUB_FULL)];

pub(crate) fn named<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let is_it = |it: &&Value| it["kind"] == kind && it["metadata"]["name"] == name;
    objects.iter().find(is_it).unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|it| it["kind"] == kind).collect()
}

/// Pods of Deployments and DaemonSets, each with the name of what makes them.
pub(crate) fn pods(objects: &[Value]) -> Vec<(&str, &Value)> {
    let makers = objects.iter().filter(|it| it["kind"] == "Deployment" || it["kind"] == "DaemonSet");
    makers
        .map(|it| (it["metadata"]["name"].as_str().unwrap_or_default(), &it["spec"]["template"]["spec"]))
        .collect()
}

#[test]
fn no_role_has_a_wildcard() -> Result<()> {
    for (chart, values) in ALL {
        let objects = chart.render(values)?;
        let roles = [of_kind(&objects, "ClusterRole"), of_kind(&objects, "Role")].concat();
        assert!(roles.len() >= 2, "{chart:?} has roles");
        for role in roles {
            let rules = role["rules"].as_array().unwrap();
            assert!(!rules.is_empty() && !role["rules"].to_string().contains('*'), "{role}");
        }
    }
    Ok(())
}

#[test]
fn roles_and_definitions_are_the_generated_ones() -> Result<()> {
    let config = format!("{}/../../config", env!("CARGO_MANIFEST_DIR"));
    let cases = [
        (MEMBER, MEMBER_FULL, &["crd", "rbac", "rbac/link", "rbac/link/pull-secrets"][..]),
        (HUB, HUB_FULL, &["crd", "crd/fleet", "rbac/hub", "rbac/hub/pull-secrets"][..]),
    ];
    for (chart, values, folders) in cases {
        let objects = chart.render(values)?;
        for folder in folders {
            for entry in std::fs::read_dir(format!("{config}/{folder}"))? {
                let path = entry?.path();
                if path.is_dir() {
                    continue;
                }
                let mut generated: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path)?)?;
                let same = |it: &&Value| {
                    it["kind"] == generated["kind"]
                        && ["name", "namespace"]
                            .iter()
                            .all(|key| it["metadata"][*key] == generated["metadata"][*key])
                };
                let found = objects.iter().find(same);
                let mut found = found.unwrap_or_else(|| panic!("{} is not there", path.display())).clone();
                (found["metadata"], generated["metadata"]) = (json!({}), json!({}));
                assert_eq!(found, generated, "{}", path.display());
            }
        }
    }
    Ok(())
}

#[test]
fn ipj_6_rights_to_pull_secrets_are_granted_only_where_somebody_asks() -> Result<()> {
    for (chart, values) in [(MEMBER, MEMBER_JOINS), (HUB, &[])] {
        let objects = chart.render(values)?;
        assert!(
            !objects
                .iter()
                .any(|it| it["metadata"]["name"].as_str().is_some_and(|it| it.contains("pull-secrets")))
        );
    }
    Ok(())
}

#[test]
fn nothing_runs_with_more_than_it_needs() -> Result<()> {
    for (chart, values) in ALL {
        for (name, pod) in pods(&chart.render(values)?) {
            let container = &pod["containers"][0];
            let context = &container["securityContext"];
            assert_eq!(context["readOnlyRootFilesystem"], true, "{name}");
            assert_eq!(context["allowPrivilegeEscalation"], false, "{name}");
            assert_eq!(context["capabilities"], json!({ "drop": ["ALL"] }), "{name}");
            assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault", "{name}");
            // Sockets of runtimes belong to root.
            let root = name == "kruise-daemon";
            assert_eq!(pod["securityContext"]["runAsNonRoot"] == true, !root, "{name}");
            for probe in ["livenessProbe", "readinessProbe"] {
                let port = &container[probe]["httpGet"]["port"];
                let ports = container["ports"].as_array().unwrap();
                assert!(ports.iter().any(|it| it["name"] == *port), "{name}: {probe}");
            }
            for limit in ["requests", "limits"] {
                assert!(container["resources"][limit]["memory"].is_string(), "{name}: {limit}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_budget_covers_each_deployment() -> Result<()> {
    for (chart, name) in [(MEMBER, "kruise-controller-manager"), (HUB, "kruise-hub")] {
        let objects = chart.render(&[])?;
        let budget = &named(&objects, "PodDisruptionBudget", name)["spec"];
        let deployment = &named(&objects, "Deployment", name)["spec"];
        assert_eq!(budget["maxUnavailable"], 1);
        assert_eq!(budget["selector"], deployment["selector"]);
        let labels = &deployment["template"]["metadata"]["labels"];
        for (key, value) in budget["selector"]["matchLabels"].as_object().unwrap() {
            assert_eq!(labels[key], *value);
        }
        assert!(of_kind(&objects, "ServiceMonitor").is_empty(), "monitors are asked for");
    }
    Ok(())
}

#[test]
fn g_01_definitions_stay_unless_somebody_asks() -> Result<()> {
    for (chart, count) in [(MEMBER, 8), (HUB, 16)] {
        let kept = |values: &[&str]| -> Result<(usize, usize)> {
            let objects = chart.render(values)?;
            let all = of_kind(&objects, "CustomResourceDefinition");
            let policy = |it: &&&Value| it["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep";
            Ok((all.len(), all.iter().filter(policy).count()))
        };
        assert_eq!(kept(&[])?, (count, count));
        assert_eq!(kept(&["crds.keep=false"])?, (count, 0));
        assert_eq!(kept(&["crds.managed=false"])?, (0, 0));
    }
    Ok(())
}

#[test]
fn join_6_the_namespace_with_the_key_of_a_member_outlives_the_release() -> Result<()> {
    let policy = |values: &[&str]| -> Result<Value> {
        let objects = MEMBER.render(values)?;
        let namespace = named(&objects, "Namespace", "kruise-system");
        Ok(namespace["metadata"]["annotations"]["helm.sh/resource-policy"].clone())
    };
    assert_eq!(policy(MEMBER_JOINS)?, "keep");
    assert_eq!(policy(MEMBER_FULL)?, "keep", "also where it was joined by hand: plans are in there");
    assert_eq!(policy(&[])?, Value::Null, "no hub, no key");
    Ok(())
}

#[test]
fn the_namespace_of_bodies_is_made_also_where_the_hub_has_its_own_already() -> Result<()> {
    let made = |values: &[&str]| -> Result<Vec<String>> {
        let objects = HUB.render(values)?;
        let all = of_kind(&objects, "Namespace").into_iter();
        let mut names: Vec<_> =
            all.filter_map(|it| it["metadata"]["name"].as_str().map(str::to_owned)).collect();
        names.sort();
        Ok(names)
    };
    assert_eq!(made(&[])?, ["fleet-content", "fleet-system"]);
    assert_eq!(made(&["installation.createNamespace=false"])?, ["fleet-content"]);
    assert_eq!(made(&["installation.createContentNamespace=false"])?, ["fleet-system"]);
    Ok(())
}

#[test]
fn g_01_everything_follows_the_namespace_of_the_values() -> Result<()> {
    let objects = MEMBER
        .render(&["installation.namespace=elsewhere", "hub.enabled=true,hub.uid=a,hub.kubeconfigSecret=b"])?;
    let text = serde_json::to_string(&objects)?;
    assert!(!text.contains("kruise-system"), "something stayed behind");
    let crd = named(&objects, "CustomResourceDefinition", "clonesets.apps.kruise.io");
    assert_eq!(crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["namespace"], "elsewhere");
    Ok(())
}

#[test]
fn g_03_the_gates_of_our_install_are_on_unless_turned_off() -> Result<()> {
    let gates = |values: &[&str]| -> Result<String> {
        let objects = MEMBER.render(values)?;
        let arguments = objects.iter().find(|it| it["kind"] == "Deployment").unwrap();
        let arguments = arguments["spec"]["template"]["spec"]["containers"][0]["args"].clone();
        let flag = |it: &Value| it.as_str()?.strip_prefix("--feature-gates=").map(str::to_owned);
        Ok(arguments.as_array().unwrap().iter().find_map(flag).unwrap())
    };
    let ours = "ImagePullJobGate=true,ResourceDistributionGate=true";
    assert_eq!(gates(&[])?, ours);
    assert_eq!(gates(&["featureGates=ImagePullJobGate=false"])?, format!("{ours},ImagePullJobGate=false"));
    let without = MEMBER.render(&["featureGates=KruiseDaemon=false\\,PodWebhook=false"])?;
    assert!(of_kind(&without, "DaemonSet").is_empty());
    assert!(!serde_json::to_string(&without)?.contains("mpod.kb.io"));
    Ok(())
}

#[test]
fn values_that_cannot_work_are_named() {
    let complaint = MEMBER.complaint(&["hub.enabled=true,hub.kubeconfigSecret=a"]);
    assert!(complaint.contains("hub.uid is needed with hub.enabled"), "{complaint}");
    let complaint = MEMBER.complaint(&["hub.enabled=true,hub.server=https://hub:6443"]);
    assert!(complaint.contains("hub.clusterName is needed with hub.server"), "{complaint}");
    let complaint = MEMBER.complaint(&["webhookConfiguration.failurePolicy.pods=Maybe"]);
    assert!(complaint.contains("it must be Fail or Ignore"), "{complaint}");
}

/// Values by their paths, down to what is a value as a whole.
fn paths(values: &Value, above: &str, found: &mut Vec<String>) {
    for (name, value) in values.as_object().into_iter().flatten() {
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        let is_whole = ["resources", "affinity"].contains(&name.as_str());
        match value.as_object() {
            Some(fields) if !fields.is_empty() && !is_whole => paths(value, &path, found),
            _ => found.push(path),
        }
    }
}

#[test]
fn every_value_is_in_the_readme() -> Result<()> {
    for chart in ["member", "hub"] {
        let folder = format!("{}/../../deploy/{chart}", env!("CARGO_MANIFEST_DIR"));
        let values: Value =
            serde_saphyr::from_str(&std::fs::read_to_string(format!("{folder}/values.yaml"))?)?;
        let readme = std::fs::read_to_string(format!("{folder}/README.md"))?;
        let mut wanted = Vec::new();
        paths(&values, "", &mut wanted);
        assert!(wanted.len() > 20, "{wanted:?}");
        let documented = readme.lines().filter_map(|it| it.strip_prefix("| `")?.split('`').next());
        let documented: BTreeSet<&str> = documented.collect();
        let wanted: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
        assert_eq!(documented, wanted, "the table of {chart} has what values.yaml has");
    }
    Ok(())
}
