//! Which jobs a change matters to. Large clusters change all the time: a job is woken only for its own image.

use std::collections::BTreeSet;

use super::select::{selects_node, selects_pod};
use crate::{
    api::{image_pull_job::v1beta1::ImagePullJob, node_image::v1beta1::NodeImage},
    image,
    runtime::cache::{Change, pod::PodLite, shared::Word},
};

/// Whether a job is neither over nor on its way out.
pub fn is_open(job: &ImagePullJob) -> bool {
    job.metadata.deletion_timestamp.is_none()
        && job.status.as_ref().is_none_or(|it| it.completion_time.is_none())
}

/// What changed on a node, worked out once for all jobs.
#[derive(Debug, Default)]
pub struct NodeChange {
    /// Images whose secrets, sandbox or existence changed.
    images: BTreeSet<String>,
    /// Tags whose wish or report changed.
    tags: BTreeSet<(String, String)>,
    /// The node came, went, or has other labels.
    membership: bool,
}

impl NodeChange {
    /// Compares a NodeImage with what it was.
    pub fn of(change: &Change<NodeImage>) -> Self {
        let (Some(before), Some(after)) = (&change.before, &change.after) else {
            return Self { membership: true, ..Self::default() };
        };
        let mut it = Self { membership: before.metadata.labels != after.metadata.labels, ..Self::default() };
        let names = before.spec.images.keys().chain(after.spec.images.keys());
        for name in names.collect::<BTreeSet<_>>() {
            let (old, new) = (before.spec.images.get(name), after.spec.images.get(name));
            let (Some(old), Some(new)) = (old, new) else {
                it.images.insert(name.clone());
                continue;
            };
            if old.pull_secrets != new.pull_secrets || old.sandbox_config != new.sandbox_config {
                it.images.insert(name.clone());
            }
            for tag in old.tags.iter().filter(|tag| !new.tags.contains(tag)) {
                it.tags.insert((name.clone(), tag.tag.clone()));
            }
            for tag in new.tags.iter().filter(|tag| !old.tags.contains(tag)) {
                it.tags.insert((name.clone(), tag.tag.clone()));
            }
        }
        it.add_reports(before, after);
        it
    }

    fn add_reports(&mut self, before: &NodeImage, after: &NodeImage) {
        let reports = |it: &NodeImage| {
            let images = it.status.iter().flat_map(|it| &it.image_statuses);
            let tags =
                images.flat_map(|(name, it)| it.tags.iter().map(move |tag| (name.clone(), tag.clone())));
            tags.collect::<Vec<_>>()
        };
        let (old, new) = (reports(before), reports(after));
        for (name, tag) in
            old.iter().filter(|it| !new.contains(it)).chain(new.iter().filter(|it| !old.contains(it)))
        {
            self.tags.insert((name.clone(), tag.tag.clone()));
        }
    }

    /// Whether it matters to this job.
    pub fn wakes(&self, job: &ImagePullJob, change: &Change<NodeImage>) -> bool {
        let Ok((name, tag)) = image::split(&job.spec.image) else { return false };
        if self.images.contains(&name) || self.tags.contains(&(name, tag)) {
            return true;
        }
        if !self.membership {
            return false;
        }
        // A job by pods sees nodes come and go; any other one sees them match or not.
        let selects = |it: &Option<std::sync::Arc<NodeImage>>| {
            it.as_ref().is_some_and(|it| {
                let labels = it.metadata.labels.clone().unwrap_or_default();
                selects_node(&job.spec.template, it.metadata.name.as_deref().unwrap_or_default(), &labels)
            })
        };
        let came_or_went = change.before.is_none() || change.after.is_none();
        (job.spec.template.pod_selector.is_some() && came_or_went)
            || selects(&change.before) != selects(&change.after)
    }
}

/// Whether a change of a pod matters to a job of its namespace.
pub fn pod_wakes(job: &ImagePullJob, change: &Change<PodLite>) -> bool {
    let facts = |it: &Option<std::sync::Arc<PodLite>>| {
        it.as_ref().map(|it| {
            let is_over = matches!(it.status.phase.as_deref(), Some("Succeeded" | "Failed"));
            let node = it.spec.node_name.clone().filter(|_| selects_pod(&job.spec.template, it));
            (node, is_over || it.is_terminating())
        })
    };
    let (before, after) = (facts(&change.before), facts(&change.after));
    let is_ours = |it: &Option<(Option<Word>, bool)>| it.as_ref().is_some_and(|it| it.0.is_some());
    (is_ours(&before) || is_ours(&after)) && before != after
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn job(image: &str, selector: Value) -> ImagePullJob {
        serde_json::from_value(json!({
            "metadata": {"name": "j", "namespace": "ns"},
            "spec": {"image": image, "completionPolicy": {}, "selector": selector},
        }))
        .unwrap()
    }

    fn node(change: Value) -> Arc<NodeImage> {
        let mut it = json!({
            "metadata": {"name": "n1", "labels": {"arch": "arm64"}},
            "spec": {"images": {"nginx": {"tags": [{"tag": "a"}, {"tag": "b"}]}}},
            "status": {"desired": 2, "imageStatuses": {"nginx": {"tags": [{"tag": "a", "phase": "Pulling"}]}}},
        });
        json_patch::merge(&mut it, &change);
        Arc::new(serde_json::from_value(it).unwrap())
    }

    fn woken(before: Option<Arc<NodeImage>>, after: Option<Arc<NodeImage>>, job: &ImagePullJob) -> bool {
        let change = Change { before, after };
        NodeChange::of(&change).wakes(job, &change)
    }

    #[test]
    fn a_change_of_one_tag_wakes_the_jobs_of_that_tag() {
        let (a, b) = (job("nginx:a", Value::Null), job("nginx:b", Value::Null));
        let wakes = |change: Value| {
            (
                woken(Some(node(json!({}))), Some(node(change.clone())), &a),
                woken(Some(node(json!({}))), Some(node(change)), &b),
            )
        };
        assert_eq!(wakes(json!({})), (false, false));
        let reported =
            json!({"status": {"imageStatuses": {"nginx": {"tags": [{"tag": "a", "phase": "Succeeded"}]}}}});
        assert_eq!(wakes(reported), (true, false));
        let spec =
            json!({"spec": {"images": {"nginx": {"tags": [{"tag": "a"}, {"tag": "b", "version": 2}]}}}});
        assert_eq!(wakes(spec), (false, true));
        let secrets = json!({"spec": {"images": {"nginx": {"pullSecrets": [{"name": "s"}]}}}});
        assert_eq!(wakes(secrets), (true, true));
        assert_eq!(wakes(json!({"spec": {"images": {"nginx": null}}})), (true, true));
        assert_eq!(wakes(json!({"spec": {"images": {"redis": {"tags": []}}}})), (false, false));
    }

    #[test]
    fn nodes_that_come_go_or_change_labels_wake_jobs_that_select_them() {
        let arm = job("x", json!({"matchLabels": {"arch": "arm64"}}));
        let amd = job("x", json!({"matchLabels": {"arch": "amd64"}}));
        assert!(woken(None, Some(node(json!({}))), &arm) && woken(Some(node(json!({}))), None, &arm));
        assert!(!woken(None, Some(node(json!({}))), &amd));
        let relabelled = node(json!({"metadata": {"labels": {"arch": "amd64"}}}));
        for it in [&arm, &amd] {
            assert!(woken(Some(node(json!({}))), Some(relabelled.clone()), it), "one lost it, one gained it");
        }
        let more = node(json!({"metadata": {"labels": {"new": "x"}}}));
        assert!(!woken(Some(node(json!({}))), Some(more), &arm));
    }

    #[test]
    fn pods_wake_jobs_that_select_them_when_they_move() {
        let by_pods: ImagePullJob = serde_json::from_value(json!({
            "metadata": {"name": "j"},
            "spec": {"image": "x", "completionPolicy": {}, "podSelector": {"matchLabels": {"app": "a"}}},
        }))
        .unwrap();
        let pod = |app: &str, node: Value| -> Option<Arc<PodLite>> {
            let pod = json!({"metadata": {"labels": {"app": app}}, "spec": {"nodeName": node}});
            Some(Arc::new(serde_json::from_value(pod).unwrap()))
        };
        let wakes = |before, after| pod_wakes(&by_pods, &Change { before, after });
        assert!(wakes(None, pod("a", json!("n1"))));
        assert!(!wakes(None, pod("a", Value::Null)));
        assert!(!wakes(None, pod("b", json!("n1"))));
        assert!(wakes(pod("a", Value::Null), pod("a", json!("n1"))));
        assert!(!wakes(pod("a", json!("n1")), pod("a", json!("n1"))));
        assert!(wakes(pod("a", json!("n1")), pod("b", json!("n1"))));
        assert!(wakes(pod("a", json!("n1")), None));
    }
}
