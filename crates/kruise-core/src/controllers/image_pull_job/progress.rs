//! How far a job has come on its nodes.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::{
        image_pull_job::{CompletionPolicyType, ImagePullJobStatus, v1beta1::ImagePullJob},
        node_image::v1beta1::{NodeImage, ReferenceObject},
    },
    daemon::images::status::phases,
    image::{self, Malformed},
    runtime::clock::whole_seconds,
};

/// The job and what was read for it.
#[derive(Debug)]
pub struct Observed<'a> {
    /// The job.
    pub job: &'a ImagePullJob,
    /// The NodeImages of its nodes.
    pub nodes: Vec<&'a NodeImage>,
    /// Where its secrets are for the nodes.
    pub secrets: Vec<ReferenceObject>,
}

/// Where a job stands, and what is missing.
#[derive(Debug, PartialEq)]
pub struct Progress {
    /// What is reported.
    pub status: ImagePullJobStatus,
    /// Nodes that have not heard of the job, by name.
    pub missing: Vec<String>,
    /// Nodes that have, and lack a secret of it.
    pub lacking: Vec<String>,
    /// How much of the deadline is left.
    pub left: Option<Duration>,
}

/// Works out where a job stands.
pub fn progress(observed: &Observed<'_>, now: Timestamp) -> Result<Progress, Malformed> {
    let Observed { job, nodes, secrets } = observed;
    let (name, tag) = image::split(&job.spec.image)?;
    let (mut succeeded, mut failed, mut pulling) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let (mut missing, mut lacking) = (BTreeSet::new(), BTreeSet::new());
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    for node in nodes {
        let node_name = node.metadata.name.clone().unwrap_or_default();
        let image = node.spec.images.get(&name);
        let wanted = image.and_then(|it| it.tags.iter().find(|it| it.tag == tag));
        let is_owner =
            |owner: &&k8s_openapi::api::core::v1::ObjectReference| owner.uid.as_deref() == Some(uid);
        let Some(wanted) = wanted.filter(|it| it.owner_references.iter().any(|it| is_owner(&it))) else {
            missing.insert(node_name);
            continue;
        };
        if image.is_some_and(|image| !lacks(image.pull_secrets.as_slice(), secrets).is_empty()) {
            lacking.insert(node_name.clone());
        }
        let reported = node.status.as_ref().and_then(|it| it.image_statuses.get(&name));
        let reported = reported.and_then(|it| it.tags.iter().find(|it| it.tag == tag));
        let phase = reported.filter(|it| it.version == wanted.version).map(|it| it.phase.as_str());
        match phase {
            Some(phases::SUCCEEDED) => succeeded.insert(node_name),
            Some(phases::FAILED) => failed.insert(node_name),
            _ => pulling.insert(node_name),
        };
    }
    let (status, left) = status(job, nodes.len(), &succeeded, failed, &pulling, &missing, now);
    let lists = |it: BTreeSet<String>| it.into_iter().collect();
    Ok(Progress { status, missing: lists(missing), lacking: lists(lacking), left })
}

/// What a job that is over says when it was edited since: that this was seen, and changes nothing.
pub fn seen(job: &ImagePullJob) -> Option<ImagePullJobStatus> {
    let generation = job.metadata.generation.unwrap_or_default();
    let status = job.status.as_ref().filter(|_| job.metadata.deletion_timestamp.is_none())?;
    (status.observed_generation < generation)
        .then(|| ImagePullJobStatus { observed_generation: generation, ..status.clone() })
}

/// The secrets of a job that an image does not name yet. How they are managed does not matter.
pub fn lacks<'a>(has: &[ReferenceObject], wanted: &'a [ReferenceObject]) -> Vec<&'a ReferenceObject> {
    let is_there =
        |it: &ReferenceObject| has.iter().any(|has| has.namespace == it.namespace && has.name == it.name);
    wanted.iter().filter(|it| !is_there(it)).collect()
}

fn status(
    job: &ImagePullJob,
    desired: usize,
    succeeded: &BTreeSet<String>,
    mut failed: BTreeSet<String>,
    pulling: &BTreeSet<String>,
    missing: &BTreeSet<String>,
    now: Timestamp,
) -> (ImagePullJobStatus, Option<Duration>) {
    let policy = &job.spec.template.completion_policy;
    let start =
        job.status.as_ref().and_then(|it| it.start_time.clone()).unwrap_or_else(|| whole_seconds(now));
    let may_end = policy.type_ != Some(CompletionPolicyType::Never);
    let is_done = succeeded.len() + failed.len() == desired;
    let deadline = policy.active_deadline_seconds.filter(|_| may_end && !is_done);
    let left = deadline.map(|it| SignedDuration::from_secs(it).saturating_sub(now.duration_since(start.0)));
    let is_late = left.is_some_and(|it| it <= SignedDuration::ZERO);
    let mut active = pulling.len();
    if is_late {
        active = 0;
        failed.extend(pulling.iter().chain(missing).cloned());
    }
    let is_over = is_late || (may_end && is_done);
    let message = match (is_late, is_over, desired) {
        (true, _, _) => "job exceeds activeDeadlineSeconds".to_owned(),
        (_, true, _) => "job has completed".to_owned(),
        (_, _, 0) => "job is running, no progress".to_owned(),
        _ => {
            let done = 1000 * (succeeded.len() + failed.len()) / desired;
            format!("job is running, progress {}.{}%", done / 10, done % 10)
        }
    };
    let count = |it: usize| i32::try_from(it).unwrap_or(i32::MAX);
    let status = ImagePullJobStatus {
        start_time: Some(start),
        completion_time: is_over.then(|| whole_seconds(now)),
        observed_generation: job.metadata.generation.unwrap_or_default(),
        desired: count(desired),
        active: count(active),
        succeeded: count(succeeded.len()),
        failed: count(failed.len()),
        message,
        failed_nodes: failed.into_iter().collect(),
    };
    (status, left.filter(|_| !is_late).map(|it| Duration::try_from(it).unwrap_or_default()))
}
