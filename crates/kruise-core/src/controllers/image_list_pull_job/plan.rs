//! One ImagePullJob for each image of the list, and what they come to together.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    api::{
        common::keys::CONTROLLER_REVISION_HASH,
        image_list_pull_job::{FailedImageStatus, ImageListPullJobStatus, v1beta1::ImageListPullJob},
        image_pull_job::{CompletionPolicyType, ImagePullJobTemplate, v1beta1::ImagePullJob},
    },
    runtime::clock::whole_seconds,
};

/// What to do about one list.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// The label that tells which template is meant, if it has to be written.
    pub label: Option<String>,
    /// Jobs to make: the name and the whole object.
    pub create: Vec<(String, Value)>,
    /// Names of jobs to delete, after the others were made.
    pub delete: Vec<String>,
    /// The status, if it differs.
    pub status: Option<ImageListPullJobStatus>,
    /// Whether the list itself is to go.
    pub delete_list: bool,
    /// When to look again.
    pub look_again_in: Option<Duration>,
}

/// Decides. `children` are the jobs that the list controls.
pub fn plan(list: &ImageListPullJob, children: &[&ImagePullJob], now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if list.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    if let Some(completion) = list.status.as_ref().and_then(|it| it.completion_time.as_ref()) {
        let ttl = list.spec.template.completion_policy.ttl_seconds_after_finished;
        let left = ttl.map(|it| SignedDuration::from_secs(i64::from(it)) - now.duration_since(completion.0));
        match left {
            Some(left) if left <= SignedDuration::ZERO => plan.delete_list = true,
            left => plan.look_again_in = left.and_then(|it| Duration::try_from(it).ok()),
        }
        return plan;
    }
    let label = list.metadata.labels.as_ref().and_then(|it| it.get(CONTROLLER_REVISION_HASH)).cloned();
    let wanted = with_defaults(&list.spec.template);
    let own = hash(&wanted);
    // A label of OpenKruise cannot be recomputed; it is kept for as long as its jobs agree with the template.
    let agree = |it: &ImagePullJob| with_defaults(&it.spec.template) == wanted;
    let open: Vec<&ImagePullJob> =
        children.iter().filter(|it| it.metadata.deletion_timestamp.is_none()).copied().collect();
    let is_kept = label.is_some() && !open.is_empty() && open.iter().all(|it| agree(it));
    let hash = if is_kept { label.clone().unwrap_or_default() } else { own };
    plan.label = (label.as_deref() != Some(&hash)).then(|| hash.clone());

    let mut right: BTreeMap<&str, &ImagePullJob> = BTreeMap::new();
    for child in &open {
        let is_wanted = list.spec.images.contains(&child.spec.image) && agree(child);
        if is_wanted && !right.contains_key(child.spec.image.as_str()) {
            right.insert(&child.spec.image, child);
        } else {
            plan.delete.push(child.metadata.name.clone().unwrap_or_default());
        }
    }
    plan.delete.sort();
    for image in list.spec.images.iter().filter(|it| !right.contains_key(it.as_str())) {
        plan.create.push(job(list, image, &hash));
    }
    let status = status(list, &right, now);
    plan.status = (list.status.as_ref() != Some(&status)).then_some(status);
    plan
}

/// What the jobs of the present template come to.
fn status(
    list: &ImageListPullJob,
    jobs: &BTreeMap<&str, &ImagePullJob>,
    now: Timestamp,
) -> ImageListPullJobStatus {
    let start =
        list.status.as_ref().and_then(|it| it.start_time.clone()).unwrap_or_else(|| whole_seconds(now));
    let mut status = ImageListPullJobStatus {
        start_time: Some(start),
        desired: i32::try_from(list.spec.images.len()).unwrap_or(i32::MAX),
        ..ImageListPullJobStatus::default()
    };
    let may_end = list.spec.template.completion_policy.type_ != Some(CompletionPolicyType::Never);
    for (image, job) in jobs {
        let Some(it) = job.status.as_ref().filter(|it| it.start_time.is_some()) else { continue };
        let name = job.metadata.name.clone().unwrap_or_default();
        status.active += i32::from(it.active > 0);
        // A job over a fleet counts the nodes of clusters as they answer: only its own word says that it is over.
        let is_done = it.completion_time.is_some() || (!may_end && it.desired == it.failed + it.succeeded);
        status.completed += i32::from(is_done);
        status.succeeded += i32::from(is_done && it.desired == it.succeeded);
        if it.failed > 0 {
            status.failed_image_statuses.push(FailedImageStatus {
                message: format!(
                    "Please check for details which nodes failed by 'kubectl get ImagePullJob {name}'."
                ),
                image_pull_job: name,
                name: (*image).to_owned(),
            });
        }
    }
    status.completion_time = (may_end && status.desired == status.completed).then(|| whole_seconds(now));
    status
}

/// A job for one image: its name is always the same for the same list, template and image.
fn job(list: &ImageListPullJob, image: &str, hash: &str) -> (String, Value) {
    let uid = list.metadata.uid.clone().unwrap_or_default();
    let list_name = list.metadata.name.clone().unwrap_or_default();
    let stem: String = list_name.chars().take(200).collect();
    let name = format!("{stem}-{:08x}", fnv(&format!("{uid} {hash} {image}")));
    let body = json!({
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImagePullJob",
        "metadata": {
            "name": name,
            "namespace": list.metadata.namespace,
            "labels": {CONTROLLER_REVISION_HASH: hash},
            "ownerReferences": [{
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImageListPullJob", "name": list_name, "uid": uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": with_image(json!(list.spec.template), image),
    });
    (name, body)
}

/// A template with what admission fills in: lists and jobs are filled in to a different degree.
fn with_defaults(template: &ImagePullJobTemplate) -> ImagePullJobTemplate {
    let mut it = template.clone();
    it.completion_policy.type_.get_or_insert_default();
    it.image_pull_policy.get_or_insert_default();
    let pull = it.pull_policy.get_or_insert_default();
    pull.timeout_seconds.get_or_insert(600);
    pull.backoff_limit.get_or_insert(3);
    it
}

fn with_image(mut spec: Value, image: &str) -> Value {
    if let Some(fields) = spec.as_object_mut() {
        fields.insert("image".into(), json!(image));
    }
    spec
}

fn hash(template: &ImagePullJobTemplate) -> String {
    format!("{:08x}", fnv(&json!(template).to_string()))
}

/// FNV-1a, 32 bits.
fn fnv(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn list(images: &[&str], change: Value) -> ImageListPullJob {
        let mut it = json!({
            "metadata": {"name": "l", "namespace": "ns", "uid": "u"},
            "spec": {"images": images, "completionPolicy": {"type": "Always"}},
        });
        json_patch::merge(&mut it, &change);
        serde_json::from_value(it).unwrap()
    }

    /// The jobs that a plan makes, with the template as admission leaves it.
    fn made(plan: &Plan) -> Vec<ImagePullJob> {
        plan.create.iter().map(|it| serde_json::from_value(it.1.clone()).unwrap()).collect()
    }

    fn with_status(mut job: ImagePullJob, status: Value) -> ImagePullJob {
        job.status = serde_json::from_value(status).unwrap();
        job
    }

    fn views(jobs: &[ImagePullJob]) -> Vec<&ImagePullJob> {
        jobs.iter().collect()
    }

    fn labelled(list: &ImageListPullJob, plan: &Plan) -> ImageListPullJob {
        let mut it = list.clone();
        it.metadata.labels =
            plan.label.clone().map(|label| BTreeMap::from([(CONTROLLER_REVISION_HASH.into(), label)]));
        it.status = plan.status.clone();
        it
    }

    #[test]
    fn every_image_gets_a_job_of_the_list_and_planning_again_changes_nothing() {
        let list = list(&["a", "b"], json!({}));
        let first = plan(&list, &[], at(5));
        let jobs = made(&first);
        assert_eq!(jobs.iter().map(|it| it.spec.image.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(jobs[0].metadata.name.as_deref().unwrap().starts_with("l-"));
        assert_eq!(jobs[0].metadata.owner_references.as_ref().unwrap()[0].uid, "u");
        assert_eq!(first.create, plan(&list, &[], at(9)).create, "trying again makes the same ones");
        let settled = labelled(&list, &first);
        assert_eq!(plan(&settled, &views(&jobs), at(5)), Plan::default());
    }

    #[test]
    fn a_longer_list_adds_a_shorter_one_removes_and_another_template_replaces_all() {
        let short = list(&["a", "b"], json!({}));
        let first = plan(&short, &[], at(5));
        let jobs = made(&first);
        let longer = plan(&labelled(&list(&["a", "b", "c"], json!({})), &first), &views(&jobs), at(5));
        assert_eq!(
            (made(&longer)[0].spec.image.as_str(), longer.create.len(), longer.delete.len()),
            ("c", 1, 0)
        );
        let shorter = plan(&labelled(&list(&["b"], json!({})), &first), &views(&jobs), at(5));
        assert_eq!((shorter.create.len(), shorter.delete), (0, vec![jobs[0].metadata.name.clone().unwrap()]));
        let other = labelled(&list(&["a", "b"], json!({"spec": {"parallelism": 5}})), &first);
        let other = plan(&other, &views(&jobs), at(5));
        assert_eq!((other.create.len(), other.delete.len()), (2, 2));
        assert!(other.label.is_some() && other.label != first.label);
    }

    #[test]
    fn what_admission_fills_in_is_no_difference() {
        let list = list(&["a"], json!({}));
        let first = plan(&list, &[], at(5));
        let mut jobs = made(&first);
        jobs[0].spec.template = with_defaults(&jobs[0].spec.template);
        assert_ne!(jobs[0].spec.template, list.spec.template);
        assert_eq!(plan(&labelled(&list, &first), &views(&jobs), at(5)), Plan::default());
    }

    #[test]
    fn a_label_of_openkruise_is_kept_while_its_jobs_agree() {
        let mut list = list(&["a"], json!({}));
        let jobs = made(&plan(&list, &[], at(5)));
        list.metadata.labels = Some(BTreeMap::from([(CONTROLLER_REVISION_HASH.into(), "6f8d".into())]));
        let got = plan(&list, &views(&jobs), at(5));
        assert_eq!((got.label, got.create.len(), got.delete.len()), (None, 0, 0));
    }

    #[test]
    fn the_status_adds_up_what_the_jobs_say() {
        let list = list(&["a", "b", "c"], json!({}));
        let jobs: Vec<ImagePullJob> = made(&plan(&list, &[], at(5)))
            .into_iter()
            .zip([
                json!({"startTime": at(1).to_string(), "completionTime": at(2).to_string(), "desired": 2, "succeeded": 2}),
                json!({
                    "startTime": at(1).to_string(), "completionTime": at(2).to_string(),
                    "desired": 2, "succeeded": 1, "failed": 1,
                }),
                json!({"startTime": at(1).to_string(), "desired": 2, "active": 1}),
            ])
            .map(|(job, status)| with_status(job, status))
            .collect();
        let status = plan(&list, &views(&jobs), at(5)).status.unwrap();
        assert_eq!((status.desired, status.active, status.succeeded, status.completed), (3, 1, 1, 2));
        assert_eq!(status.failed_image_statuses.len(), 1);
        assert_eq!(status.failed_image_statuses[0].name, "b");
        assert_eq!(status.completion_time, None);
        let done = plan(&self::list(&["a", "b"], json!({})), &views(&jobs[..2]), at(5)).status.unwrap();
        assert_eq!(done.completion_time.unwrap().0, at(5));
        let never = self::list(&["a", "b"], json!({"spec": {"completionPolicy": {"type": "Never"}}}));
        let jobs: Vec<_> = made(&plan(&never, &[], at(5)))
            .into_iter()
            .map(|it| with_status(it, json!({"startTime": at(1).to_string(), "desired": 1, "succeeded": 1})))
            .collect();
        let status = plan(&never, &views(&jobs), at(5)).status.unwrap();
        assert_eq!((status.completed, status.completion_time), (2, None));
    }

    #[test]
    fn a_job_that_has_not_said_that_it_is_over_does_not_end_the_list() {
        // The first of several clusters has answered, or none has.
        for status in [json!({"desired": 3, "succeeded": 3}), json!({"desired": 0})] {
            let list = list(&["a"], json!({}));
            let mut status = status;
            status["startTime"] = json!(at(1).to_string());
            let jobs: Vec<_> = made(&plan(&list, &[], at(5)))
                .into_iter()
                .map(|it| with_status(it, status.clone()))
                .collect();
            let status = plan(&list, &views(&jobs), at(5)).status.unwrap();
            assert_eq!((status.completed, status.succeeded, status.completion_time), (0, 0, None));
        }
    }

    #[test]
    fn jobs_of_an_old_template_do_not_end_the_list() {
        let old = list(&["a"], json!({}));
        let jobs: Vec<_> = made(&plan(&old, &[], at(5)))
            .into_iter()
            .map(|it| with_status(it, json!({"startTime": at(1).to_string(), "desired": 1, "succeeded": 1})))
            .collect();
        let new = list(&["a"], json!({"spec": {"parallelism": 2}}));
        let got = plan(&new, &views(&jobs), at(5));
        assert_eq!((got.create.len(), got.status.unwrap().completion_time), (1, None));
    }

    #[test]
    fn a_finished_list_goes_when_its_time_is_up_and_a_deleted_one_makes_nothing() {
        let done = |ttl: Value| {
            list(
                &["a"],
                json!({
                    "spec": {"completionPolicy": {"ttlSecondsAfterFinished": ttl}},
                    "status": {"desired": 1, "completionTime": at(100).to_string()},
                }),
            )
        };
        assert_eq!(plan(&done(json!(20)), &[], at(110)).look_again_in, Some(Duration::from_secs(10)));
        assert!(plan(&done(json!(20)), &[], at(120)).delete_list);
        assert_eq!(plan(&done(Value::Null), &[], at(9999)), Plan::default());
        let deleted = list(&["a"], json!({"metadata": {"deletionTimestamp": at(1).to_string()}}));
        assert_eq!(plan(&deleted, &[], at(5)), Plan::default());
    }
}
