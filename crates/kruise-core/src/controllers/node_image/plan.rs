//! One NodeImage per node: made and removed with it, its labels, and the tags that nobody wants any more.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;

use crate::{
    api::node_image::{
        ImageTagSpec, ImageTagStatus, NodeImageStatus, keys,
        v1beta1::{ImageSpec, NodeImage},
    },
    daemon::images::status::phases,
    runtime::{cache::node::NodeLite, clock::whole_seconds},
};

/// How long a node may take to answer, on top of what the download itself may take.
const RESPONSE_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

/// Why a tag was given up here.
pub mod messages {
    /// The daemon of the node is silent.
    pub const NO_RESPONSE: &str = "node has not responded for a long time";
    /// The download takes too long.
    pub const DEADLINE: &str = "pulling exceeds the activeDeadlineSeconds";
}

/// One read of the world around one node.
#[derive(Debug, Default)]
pub struct Observed<'a> {
    /// The node.
    pub node: Option<&'a NodeLite>,
    /// Its NodeImage.
    pub node_image: Option<&'a NodeImage>,
    /// UIDs of the ImagePullJobs that its tags name, by namespace and name; those that exist.
    pub jobs: BTreeMap<(String, String), String>,
    /// The pull secrets that it names and that exist, by namespace and name.
    pub secrets: BTreeSet<(String, String)>,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Make an empty NodeImage.
    Create,
    /// Remove the NodeImage.
    Delete,
    /// Bring labels and images to this.
    WriteSpec {
        /// All labels.
        labels: BTreeMap<String, String>,
        /// All images.
        images: BTreeMap<String, ImageSpec>,
        /// What was dropped and why, for the log.
        dropped: Vec<String>,
    },
    /// Write this status and tell about the tags that failed.
    WriteStatus {
        /// The whole status.
        status: Box<NodeImageStatus>,
        /// What people hear.
        failures: Vec<Failure>,
    },
}

/// A tag that was given up, and who hears of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// What to say.
    pub message: String,
    /// To whom, besides the NodeImage.
    pub owners: Vec<ObjectReference>,
}

/// What to do about one node.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// At most one write.
    pub action: Option<Action>,
    /// When to look again at the latest.
    pub look_again_in: Option<Duration>,
}

impl Plan {
    fn only(action: Action) -> Self {
        Self { action: Some(action), look_again_in: None }
    }
}

/// The earliest of several wishes to look again.
#[derive(Debug, Default)]
struct Again(Option<SignedDuration>);

impl Again {
    fn propose(&mut self, left: SignedDuration) {
        self.0 = Some(self.0.map_or(left, |it| it.min(left)));
    }

    fn get(self) -> Option<Duration> {
        self.0.map(|it| Duration::try_from(it).unwrap_or_default())
    }
}

/// Decides. A new node gets its NodeImage `creation_delay` after it became ready.
pub fn plan(observed: &Observed<'_>, creation_delay: Duration, now: Timestamp) -> Plan {
    let node = observed.node.filter(|it| it.metadata.deletion_timestamp.is_none());
    let Some(node_image) = observed.node_image else { return create(node, creation_delay, now) };
    let is_fake = node_image.metadata.labels.as_ref().is_some_and(|it| it.contains_key(keys::FAKE));
    if node_image.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    if node.is_none() && !is_fake {
        return Plan::only(Action::Delete);
    }
    let mut again = Again::default();
    if let Some(action) = spec_pass(node, node_image, observed, now, &mut again) {
        return Plan::only(action);
    }
    let action = status_pass(node_image, now, &mut again);
    Plan { action, look_again_in: again.get() }
}

fn create(node: Option<&NodeLite>, delay: Duration, now: Timestamp) -> Plan {
    let Some(ready) = node.filter(|it| !it.is_virtual()).and_then(NodeLite::ready) else {
        return Plan::default();
    };
    let since = ready.last_transition_time.as_ref().map_or(now, |it| it.0);
    let left = SignedDuration::try_from(delay).unwrap_or_default() - now.duration_since(since);
    match left > SignedDuration::ZERO {
        true => Plan { action: None, look_again_in: Some(Duration::try_from(left).unwrap_or_default()) },
        false => Plan::only(Action::Create),
    }
}

/// Brings labels and images to what they should be; nothing if they are.
fn spec_pass(
    node: Option<&NodeLite>,
    node_image: &NodeImage,
    observed: &Observed<'_>,
    now: Timestamp,
    again: &mut Again,
) -> Option<Action> {
    let current = node_image.metadata.labels.clone().unwrap_or_default();
    let labels = node.map_or_else(|| current.clone(), |it| it.metadata.labels.clone().unwrap_or_default());
    let mut dropped = Vec::new();
    let mut images = BTreeMap::new();
    for (name, image) in &node_image.spec.images {
        let mut kept = image.clone();
        kept.tags = image
            .tags
            .iter()
            .filter_map(|it| {
                keep_tag(name, it, node_image.status.as_ref(), observed, now, again)
                    .map_err(|why| dropped.push(why))
                    .ok()
            })
            .collect();
        kept.pull_secrets.retain(|it| {
            it.mode == crate::api::image_pull_job::keys::MODE_BATCH
                || observed.secrets.contains(&(it.namespace.clone(), it.name.clone()))
        });
        if kept.tags.is_empty() {
            dropped.push(format!("no longer has {name} image spec"));
        } else {
            images.insert(name.clone(), kept);
        }
    }
    let is_settled = labels == current && images == node_image.spec.images;
    (!is_settled).then_some(Action::WriteSpec { labels, images, dropped })
}

/// The tag as it should be, or why it goes.
fn keep_tag(
    image: &str,
    tag: &ImageTagSpec,
    status: Option<&NodeImageStatus>,
    observed: &Observed<'_>,
    now: Timestamp,
    again: &mut Again,
) -> Result<ImageTagSpec, String> {
    let name = format!("{image}:{}", tag.tag);
    if tag.created_at.is_none() {
        return Err(format!("image {name} has no createAt field"));
    }
    let mut kept = tag.clone();
    kept.owner_references.retain(|it| is_alive(it, observed));
    if kept.owner_references.is_empty() && !tag.owner_references.is_empty() {
        return Err(format!("image {name} has no owner any more"));
    }
    let ttl = tag.pull_policy.as_ref().and_then(|it| it.ttl_seconds_after_finished);
    let completion = reported(status, image, tag).and_then(|it| it.completion_time.as_ref());
    if let (Some(ttl), Some(completion)) = (ttl, completion) {
        let left = SignedDuration::from_secs(i64::from(ttl)) - now.duration_since(completion.0);
        if left <= SignedDuration::ZERO {
            return Err(format!("image {name} has exceeded its ttlSecondsAfterFinished"));
        }
        again.propose(left);
    }
    Ok(kept)
}

/// Whether whoever owns a tag still exists. Only jobs are known; anybody else counts as existing.
fn is_alive(owner: &ObjectReference, observed: &Observed<'_>) -> bool {
    let group = owner.api_version.as_deref().unwrap_or_default().split_once('/').map(|it| it.0);
    if group != Some("apps.kruise.io") || owner.kind.as_deref() != Some("ImagePullJob") {
        return true;
    }
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    let found = observed.jobs.get(&(text(&owner.namespace), text(&owner.name)));
    found.map(String::as_str) == Some(owner.uid.as_deref().unwrap_or_default())
}

fn reported<'a>(
    status: Option<&'a NodeImageStatus>,
    image: &str,
    tag: &ImageTagSpec,
) -> Option<&'a ImageTagStatus> {
    let tags = &status?.image_statuses.get(image)?.tags;
    tags.iter().find(|it| it.tag == tag.tag && it.version == tag.version)
}

/// Gives tags up that the node does not answer for.
fn status_pass(node_image: &NodeImage, now: Timestamp, again: &mut Again) -> Option<Action> {
    let mut status = node_image.status.clone().unwrap_or_default();
    let mut failures = Vec::new();
    let node = node_image.metadata.name.as_deref().unwrap_or_default();
    for (name, image) in &node_image.spec.images {
        for tag in &image.tags {
            let Some(message) = overdue(node_image.status.as_ref(), name, tag, now, again) else { continue };
            let entry = &mut status.image_statuses.entry(name.clone()).or_default().tags;
            let before = entry.iter().position(|it| it.tag == tag.tag).map(|it| entry.remove(it));
            let start_time = before.filter(|it| it.version == tag.version).and_then(|it| it.start_time);
            entry.push(ImageTagStatus {
                tag: tag.tag.clone(),
                phase: phases::FAILED.into(),
                version: tag.version,
                start_time,
                completion_time: Some(whole_seconds(now)),
                message: message.into(),
                ..ImageTagStatus::default()
            });
            failures.push(Failure {
                message: format!("Failed to pull image {name}:{} on node {node} for {message}", tag.tag),
                owners: tag.owner_references.clone(),
            });
        }
    }
    if failures.is_empty() {
        return None;
    }
    recount(node_image, &mut status);
    Some(Action::WriteStatus { status: Box::new(status), failures })
}

/// Why a tag is given up now; otherwise proposes when to look again.
fn overdue(
    status: Option<&NodeImageStatus>,
    image: &str,
    tag: &ImageTagSpec,
    now: Timestamp,
    again: &mut Again,
) -> Option<&'static str> {
    let created = tag.created_at.as_ref()?.0;
    let policy = tag.pull_policy.clone().unwrap_or_default();
    let (limit, message) = match (reported(status, image, tag), policy.active_deadline_seconds) {
        (None, _) => (RESPONSE_TIMEOUT, messages::NO_RESPONSE),
        (Some(it), Some(deadline)) if it.completion_time.is_none() => {
            (SignedDuration::from_secs(deadline).saturating_add(RESPONSE_TIMEOUT), messages::DEADLINE)
        }
        _ => return None,
    };
    let left = limit.saturating_sub(now.duration_since(created));
    if left <= SignedDuration::ZERO {
        return Some(message);
    }
    again.propose(left);
    None
}

/// Drops entries of what left the spec, sorts, and counts.
fn recount(node_image: &NodeImage, status: &mut NodeImageStatus) {
    let wanted = &node_image.spec.images;
    status.image_statuses.retain(|name, image| {
        let tags = wanted.get(name).map(|it| it.tags.as_slice()).unwrap_or_default();
        image.tags.retain(|it| tags.iter().any(|tag| tag.tag == it.tag));
        image.tags.sort_by(|a, b| a.tag.cmp(&b.tag));
        !image.tags.is_empty()
    });
    let count = |phase: &str| {
        let all = status.image_statuses.values().flat_map(|it| &it.tags);
        i32::try_from(all.filter(|it| it.phase == phase).count()).unwrap_or(i32::MAX)
    };
    let (succeeded, failed, pulling, waiting) =
        (count(phases::SUCCEEDED), count(phases::FAILED), count(phases::PULLING), count(phases::WAITING));
    status.desired =
        i32::try_from(wanted.values().map(|it| it.tags.len()).sum::<usize>()).unwrap_or(i32::MAX);
    (status.succeeded, status.failed, status.pulling, status.waiting) = (succeeded, failed, pulling, waiting);
}
