//! Which downloads to begin and which to give up.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;

use crate::api::{
    image_pull_job::SandboxConfig,
    node_image::{
        ImageTagPullPolicy, ImageTagSpec, ImageTagStatus, NodeImageStatus,
        v1beta1::{NodeImageSpec, ReferenceObject},
    },
};

/// How long one attempt may take if the tag does not say.
const TIMEOUT: Duration = Duration::from_secs(600);

/// How often a failed attempt is repeated if the tag does not say.
const BACKOFF_LIMIT: u32 = 3;

/// One tag of one image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TagKey {
    /// The familiar name of the image.
    pub image: String,
    /// The tag or digest.
    pub tag: String,
}

impl TagKey {
    /// The tag `tag` of `image`.
    pub fn new(image: &str, tag: &str) -> Self {
        Self { image: image.to_owned(), tag: tag.to_owned() }
    }
}

/// One download to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Of what.
    pub key: TagKey,
    /// Which wish for it.
    pub version: i64,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How many attempts there are in all.
    pub attempts: u32,
    /// How long everything together may take.
    pub deadline: Option<Duration>,
    /// Whether an image that is there already is good enough.
    pub only_if_missing: bool,
    /// Where the credentials are.
    pub secrets: Vec<ReferenceObject>,
    /// On whose behalf the runtime downloads.
    pub sandbox: SandboxConfig,
    /// Who hears about a failure.
    pub owners: Vec<ObjectReference>,
}

/// What changes among the workers.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// Workers to stop, before anything is begun.
    pub stop: Vec<TagKey>,
    /// Downloads to begin.
    pub start: Vec<Job>,
}

/// Compares what the node should have with what it reports and with the versions that workers are busy with.
///
/// A tag that is reported as finished in its present version is never downloaded again, whoever reported it.
pub fn plan(spec: &NodeImageSpec, status: Option<&NodeImageStatus>, workers: &BTreeMap<TagKey, i64>) -> Plan {
    let mut active = BTreeMap::new();
    for (name, image) in &spec.images {
        for tag in &image.tags {
            if finished(status, name, tag).is_none() {
                // Of a tag that is there twice the first counts.
                active.entry(TagKey::new(name, &tag.tag)).or_insert((image, tag));
            }
        }
    }
    let is_current = |key: &TagKey, version: i64| active.get(key).is_some_and(|it| it.1.version == version);
    let stop = workers.iter().filter(|it| !is_current(it.0, *it.1)).map(|it| it.0.clone()).collect();
    let missing = active.iter().filter(|it| workers.get(it.0) != Some(&it.1.1.version));
    let start = missing
        .map(|(key, (image, tag))| {
            let sandbox = image.sandbox_config.clone().unwrap_or_default();
            job(key, tag, image.pull_secrets.clone(), sandbox)
        })
        .collect();
    Plan { stop, start }
}

/// What is reported of a tag that is finished in its present version.
pub fn finished<'a>(
    status: Option<&'a NodeImageStatus>,
    image: &str,
    tag: &ImageTagSpec,
) -> Option<&'a ImageTagStatus> {
    let reported = &status?.image_statuses.get(image)?.tags;
    reported.iter().find(|it| it.tag == tag.tag && it.version == tag.version && it.completion_time.is_some())
}

fn job(key: &TagKey, tag: &ImageTagSpec, secrets: Vec<ReferenceObject>, sandbox: SandboxConfig) -> Job {
    let policy = tag.pull_policy.clone().unwrap_or_default();
    let ImageTagPullPolicy {
        timeout_seconds,
        backoff_limit,
        active_deadline_seconds,
        ttl_seconds_after_finished: _, // the controller's business
    } = policy;
    let timeout = timeout_seconds.and_then(|it| u64::try_from(it).ok()).filter(|it| *it > 0);
    let backoff_limit = backoff_limit.and_then(|it| u32::try_from(it).ok()).unwrap_or(BACKOFF_LIMIT);
    Job {
        key: key.clone(),
        version: tag.version,
        timeout: timeout.map_or(TIMEOUT, Duration::from_secs),
        attempts: backoff_limit.saturating_add(1),
        deadline: active_deadline_seconds.map(|it| Duration::from_secs(u64::try_from(it).unwrap_or(0))),
        only_if_missing: tag.image_pull_policy.as_deref() == Some("IfNotPresent"),
        secrets,
        sandbox,
        owners: tag.owner_references.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(images: Value) -> NodeImageSpec {
        serde_json::from_value(json!({"images": images})).unwrap()
    }

    fn status(images: Value) -> NodeImageStatus {
        serde_json::from_value(json!({"desired": 1, "imageStatuses": images})).unwrap()
    }

    fn busy(workers: &[(&str, &str, i64)]) -> BTreeMap<TagKey, i64> {
        workers.iter().map(|(image, tag, version)| (TagKey::new(image, tag), *version)).collect()
    }

    fn started(plan: &Plan) -> Vec<(&str, &str, i64)> {
        plan.start.iter().map(|it| (it.key.image.as_str(), it.key.tag.as_str(), it.version)).collect()
    }

    #[test]
    fn every_tag_without_a_worker_is_begun_and_planning_again_changes_nothing() {
        let spec = spec(json!({"nginx": {"tags": [{"tag": "2"}, {"tag": "1", "version": 3}]}}));
        let first = plan(&spec, None, &busy(&[]));
        assert_eq!(started(&first), [("nginx", "1", 3), ("nginx", "2", 0)]);
        let again = plan(&spec, None, &busy(&[("nginx", "1", 3), ("nginx", "2", 0)]));
        assert_eq!(again, Plan::default());
    }

    #[test]
    fn what_is_reported_as_finished_in_this_version_is_not_done_again() {
        let spec = spec(json!({"nginx": {"tags": [{"tag": "1", "version": 2}]}}));
        let reported = |version: i64, end: Value| {
            status(json!({"nginx": {"tags": [
                {"tag": "1", "phase": "Succeeded", "version": version, "completionTime": end},
            ]}}))
        };
        let end = json!("2026-01-01T00:00:00Z");
        assert_eq!(plan(&spec, Some(&reported(2, end.clone())), &busy(&[])), Plan::default());
        assert_eq!(started(&plan(&spec, Some(&reported(1, end)), &busy(&[]))), [("nginx", "1", 2)]);
        assert_eq!(started(&plan(&spec, Some(&reported(2, Value::Null)), &busy(&[]))), [("nginx", "1", 2)]);
    }

    #[test]
    fn a_higher_version_stops_the_old_worker_and_begins_a_new_one() {
        let spec = spec(json!({"nginx": {"tags": [{"tag": "1", "version": 1}]}}));
        let it = plan(&spec, None, &busy(&[("nginx", "1", 0)]));
        assert_eq!(it.stop, [TagKey::new("nginx", "1")]);
        assert_eq!(started(&it), [("nginx", "1", 1)]);
    }

    #[test]
    fn workers_of_images_and_tags_that_left_are_stopped_and_others_go_on() {
        let spec = spec(json!({"nginx": {"tags": [{"tag": "1"}]}, "busybox": {"tags": [{"tag": "1"}]}}));
        let it = plan(&spec, None, &busy(&[("redis", "1", 0), ("nginx", "1", 0), ("nginx", "2", 0)]));
        assert_eq!(it.stop, [TagKey::new("nginx", "2"), TagKey::new("redis", "1")]);
        assert_eq!(started(&it), [("busybox", "1", 0)]);
    }

    #[test]
    fn a_download_that_the_controller_gave_up_is_abandoned() {
        let spec = spec(json!({"nginx": {"tags": [{"tag": "1"}]}}));
        let given_up = status(json!({"nginx": {"tags": [
            {"tag": "1", "phase": "Failed", "completionTime": "2026-01-01T00:00:00Z"},
        ]}}));
        let it = plan(&spec, Some(&given_up), &busy(&[("nginx", "1", 0)]));
        assert_eq!((it.stop.len(), it.start.len()), (1, 0));
    }

    #[test]
    fn limits_come_from_the_tag_and_nonsense_from_the_defaults() {
        let one = |tag: Value| {
            let spec = spec(json!({"nginx": {"tags": [tag]}}));
            plan(&spec, None, &busy(&[])).start.remove(0)
        };
        let default = one(json!({"tag": "1"}));
        assert_eq!((default.timeout, default.attempts, default.deadline), (TIMEOUT, 4, None));
        assert!(!default.only_if_missing, "an empty policy asks the registry");
        let own = one(json!({"tag": "1", "imagePullPolicy": "IfNotPresent", "pullPolicy": {
            "timeoutSeconds": 5, "backoffLimit": 0, "activeDeadlineSeconds": 9, "ttlSecondsAfterFinished": 1,
        }}));
        assert_eq!((own.timeout, own.attempts), (Duration::from_secs(5), 1));
        assert_eq!(own.deadline, Some(Duration::from_secs(9)));
        assert!(own.only_if_missing);
        let nonsense = one(json!({"tag": "1", "imagePullPolicy": "Sometimes", "pullPolicy": {
            "timeoutSeconds": -5, "backoffLimit": -1, "activeDeadlineSeconds": -3,
        }}));
        assert_eq!((nonsense.timeout, nonsense.attempts), (TIMEOUT, 4));
        assert_eq!(nonsense.deadline, Some(Duration::ZERO));
        assert!(!nonsense.only_if_missing);
    }

    #[test]
    fn a_tag_that_is_there_twice_is_downloaded_once() {
        let spec = spec(json!({"nginx": {"tags": [{"tag": "1", "version": 1}, {"tag": "1", "version": 2}]}}));
        assert_eq!(started(&plan(&spec, None, &busy(&[]))), [("nginx", "1", 1)]);
        assert_eq!(plan(&spec, None, &busy(&[("nginx", "1", 1)])), Plan::default());
    }
}
