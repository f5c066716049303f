//! Telling a node to download: which change one job makes to one NodeImage.

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::util::intstr::IntOrString};

use super::progress::lacks;
use crate::{
    api::{
        image_pull_job::{CompletionPolicyType, ImagePullPolicy, v1beta1::ImagePullJob},
        node_image::{
            ImageTagPullPolicy, ImageTagSpec,
            v1beta1::{ImageSpec, NodeImage, ReferenceObject},
        },
    },
    image::{self, Malformed},
    runtime::clock::whole_seconds,
};

/// Seconds that a finished tag of an ending job stays in the NodeImage beyond the job's own time, if nothing else is
/// said.
pub const DEFAULT_TTL: i32 = 300;

/// Seconds that a finished tag of an endless job stays: then it is looked at again.
const NEVER_TTL: i64 = 86_400;

/// The least deadline of a download for an endless job.
const NEVER_DEADLINE: i64 = 1_800;

/// How many nodes download at the same time.
pub fn parallelism(job: &ImagePullJob) -> usize {
    let number = match &job.spec.template.parallelism {
        None => Some(1),
        Some(IntOrString::Int(number)) => usize::try_from(*number).ok(),
        Some(IntOrString::String(text)) => text.parse().ok(),
    };
    // What is no number pauses the job; admission refuses it.
    number.unwrap_or(0)
}

/// The image of a node as the job wants it; nothing if it is so already. `chance` spreads when tags end.
pub fn assign(
    job: &ImagePullJob,
    node: &NodeImage,
    secrets: &[ReferenceObject],
    default_ttl: i32,
    chance: u64,
    now: Timestamp,
) -> Result<Option<(String, ImageSpec)>, Malformed> {
    let (name, tag) = image::split(&job.spec.image)?;
    let before = node.spec.images.get(&name);
    let mut after = before.cloned().unwrap_or_default();
    let owner = owner(job);
    after.pull_secrets.extend(lacks(&after.pull_secrets, secrets).into_iter().cloned().collect::<Vec<_>>());
    let owned = after.tags.iter().any(|it| it.tag == tag && it.owner_references.contains(&owner));
    if !owned {
        after.sandbox_config = job.spec.template.sandbox_config.clone();
        let policy = pull_policy(job, default_ttl, chance);
        let image_pull_policy = job.spec.template.image_pull_policy.unwrap_or_default();
        let image_pull_policy = Some(match image_pull_policy {
            ImagePullPolicy::Always => "Always".to_owned(),
            ImagePullPolicy::IfNotPresent => "IfNotPresent".to_owned(),
        });
        let created_at = Some(whole_seconds(now));
        match after.tags.iter_mut().find(|it| it.tag == tag) {
            Some(wanted) => {
                wanted.version += 1;
                wanted.owner_references.push(owner);
                wanted.created_at = created_at;
                wanted.image_pull_policy = image_pull_policy;
                // The limits of the job that is served now, not of the one before.
                wanted.pull_policy = Some(policy);
            }
            None => after.tags.push(ImageTagSpec {
                version: next_version(node, &name, &tag),
                tag,
                created_at,
                pull_policy: Some(policy),
                owner_references: vec![owner],
                image_pull_policy,
            }),
        }
    }
    after.tags.sort_by(|a, b| a.tag.cmp(&b.tag));
    Ok((before != Some(&after)).then_some((name, after)))
}

/// A tag that was there before goes on from its last version: its old report must not count for the new wish.
fn next_version(node: &NodeImage, name: &str, tag: &str) -> i64 {
    let reported = node.status.as_ref().and_then(|it| it.image_statuses.get(name));
    let reported = reported.and_then(|it| it.tags.iter().find(|it| it.tag == tag));
    reported.map_or(0, |it| it.version + 1)
}

/// How the job is named on its tags.
pub fn owner(job: &ImagePullJob) -> ObjectReference {
    ObjectReference {
        api_version: Some("apps.kruise.io/v1beta1".into()),
        kind: Some("ImagePullJob".into()),
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

fn pull_policy(job: &ImagePullJob, default_ttl: i32, chance: u64) -> ImageTagPullPolicy {
    let template = &job.spec.template;
    let own = template.pull_policy.clone().unwrap_or_default();
    let below = |limit: u64| i64::try_from(chance % limit).unwrap_or(0);
    let (timeout, backoff) =
        (i64::from(own.timeout_seconds.unwrap_or(600)), i64::from(own.backoff_limit.unwrap_or(3)));
    let policy = &template.completion_policy;
    let (ttl, deadline) = match policy.type_.unwrap_or_default() {
        CompletionPolicyType::Never => {
            let all_attempts = timeout.saturating_mul(backoff.saturating_add(1));
            (NEVER_TTL + below(1_200) - 600, Some(NEVER_DEADLINE.max(all_attempts)))
        }
        CompletionPolicyType::Always => {
            let base = policy
                .ttl_seconds_after_finished
                .map(i64::from)
                .or(policy.active_deadline_seconds)
                .unwrap_or_else(|| timeout.saturating_mul(backoff));
            (
                base.saturating_add(i64::from(default_ttl)).saturating_add(below(300)),
                policy.active_deadline_seconds,
            )
        }
    };
    ImageTagPullPolicy {
        timeout_seconds: own.timeout_seconds,
        backoff_limit: own.backoff_limit,
        ttl_seconds_after_finished: Some(i32::try_from(ttl).unwrap_or(i32::MAX)),
        active_deadline_seconds: deadline,
    }
}
