//! Which nodes a job is about.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

use crate::{api::image_pull_job::ImagePullJobTemplate, runtime::cache::pod::PodLite};

/// Whether a job that selects nodes by themselves selects this one. Jobs that select by pods do not.
pub fn selects_node(job: &ImagePullJobTemplate, name: &str, labels: &BTreeMap<String, String>) -> bool {
    if job.pod_selector.is_some() {
        return false;
    }
    let Some(selector) = &job.selector else { return true };
    if !selector.names.is_empty() {
        return selector.names.iter().any(|it| it == name);
    }
    let labelled = LabelSelector {
        match_labels: Some(selector.match_labels.clone()),
        match_expressions: Some(selector.match_expressions.clone()),
    };
    matches(&labelled, labels)
}

/// Whether a job selects the nodes of this pod.
pub fn selects_pod(job: &ImagePullJobTemplate, pod: &PodLite) -> bool {
    job.pod_selector.as_ref().is_some_and(|it| matches(it, pod.labels()))
}

/// The nodes of the pods that a job selects: those that run and have a node.
pub fn nodes_of_pods<'a>(
    job: &ImagePullJobTemplate,
    pods: impl IntoIterator<Item = &'a PodLite>,
) -> BTreeSet<String> {
    let is_active = |it: &&PodLite| {
        !it.is_terminating() && !matches!(it.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    };
    pods.into_iter()
        .filter(is_active)
        .filter(|it| selects_pod(job, it))
        .filter_map(|it| it.spec.node_name.as_deref().filter(|it| !it.is_empty()))
        .map(str::to_owned)
        .collect()
}

/// A selector that cannot be read selects nothing; admission refuses it.
fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    Selector::try_from(selector.clone()).is_ok_and(|it| it.matches(labels))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(spec: Value) -> ImagePullJobTemplate {
        let mut it = json!({"completionPolicy": {}});
        json_patch::merge(&mut it, &spec);
        serde_json::from_value(it).unwrap()
    }

    fn selected(spec: Value) -> Vec<&'static str> {
        let arm = BTreeMap::from([("arch".to_owned(), "arm64".to_owned())]);
        let amd = BTreeMap::from([("arch".to_owned(), "amd64".to_owned())]);
        let none = BTreeMap::new();
        let nodes = [("node1", &none), ("node2", &amd), ("node3", &arm), ("node4", &none), ("node5", &arm)];
        let job = job(spec);
        nodes.into_iter().filter(|it| selects_node(&job, it.0, it.1)).map(|it| it.0).collect()
    }

    #[test]
    fn nodes_are_selected_by_name_by_label_or_all() {
        assert_eq!(selected(json!({})).len(), 5);
        assert_eq!(selected(json!({"selector": {}})).len(), 5);
        assert_eq!(
            selected(json!({"selector": {"names": ["node2", "node4", "unknown"]}})),
            ["node2", "node4"]
        );
        assert_eq!(selected(json!({"selector": {"matchLabels": {"arch": "arm64"}}})), ["node3", "node5"]);
        let absent = json!([{"key": "arch", "operator": "DoesNotExist"}]);
        assert_eq!(selected(json!({"selector": {"matchExpressions": absent}})), ["node1", "node4"]);
        assert!(selected(json!({"podSelector": {}})).is_empty());
    }

    #[test]
    fn pods_select_their_nodes_once_and_only_while_they_run() {
        let pod = |node: &str, app: &str, more: Value| -> PodLite {
            let mut it = json!({"metadata": {"labels": {"app": app}}, "spec": {"nodeName": node}});
            json_patch::merge(&mut it, &more);
            serde_json::from_value(it).unwrap()
        };
        let pods = [
            pod("node2", "foo", json!({})),
            pod("node2", "foo", json!({})),
            pod("node3", "bar", json!({})),
            pod("", "foo", json!({})),
            pod("node4", "foo", json!({"status": {"phase": "Succeeded"}})),
            pod("node5", "foo", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
        ];
        let job = job(json!({"podSelector": {"matchLabels": {"app": "foo"}}}));
        assert_eq!(nodes_of_pods(&job, &pods), BTreeSet::from(["node2".to_owned()]));
    }
}
