//! The `Progressing` condition: does a release move on within its deadline?

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::{
    api::cloneset::{
        CloneSetCondition, CloneSetStatus, conditions::PROGRESSING, progress, v1beta1::CloneSet,
    },
    controllers::cloneset::{plan::limits::is_paused, revisions::pinned},
};

/// The deadline that means none.
const NOT_TRACKED: i32 = i32::MAX;

/// What is to be said of the progress.
#[derive(Debug)]
pub(super) struct Progress {
    /// The condition; none if no deadline is set.
    pub(super) condition: Option<CloneSetCondition>,
    /// When the deadline passes.
    pub(super) look_again: Option<Duration>,
}

/// Judges the progress of `after`, which follows `before`.
pub(super) fn judge(
    cloneset: &CloneSet,
    before: &CloneSetStatus,
    after: &CloneSetStatus,
    now: Timestamp,
) -> Progress {
    let deadline = match cloneset.spec.progress_deadline_seconds {
        None | Some(NOT_TRACKED) => return Progress { condition: None, look_again: None },
        Some(seconds) => SignedDuration::from_secs(i64::from(seconds)),
    };
    let known = before.conditions.iter().find(|it| it.type_ == PROGRESSING);
    let (status, reason, message) = match rests(cloneset, after) {
        Some((reason, message)) => ("True", reason, message.to_owned()),
        None if is_overdue(known, before, after, deadline, now) => {
            let message = format!("CloneSet revision {} has timed out progressing", after.update_revision);
            ("False", progress::DEADLINE_EXCEEDED, message)
        }
        None => ("True", progress::UPDATED, "CloneSet is progressing".to_owned()),
    };
    let restarts = reason == progress::UPDATED && restarts_the_clock(known, before, after);
    let look_again = (reason == progress::UPDATED)
        .then(|| remaining(known.filter(|_| !restarts), deadline, now))
        .flatten();
    let says_the_same = |it: &&CloneSetCondition| it.status == status && it.reason == reason && !restarts;
    let condition = known.filter(says_the_same).cloned().unwrap_or_else(|| CloneSetCondition {
        type_: PROGRESSING.to_owned(),
        status: status.to_owned(),
        last_update_time: Some(Time(now)),
        last_transition_time: known
            .filter(|it| it.status == status)
            .map_or(Some(Time(now)), |it| it.last_transition_time.clone()),
        reason: reason.to_owned(),
        message,
    });
    Progress { condition: Some(condition), look_again }
}

/// Why nothing has to move, if so.
fn rests(cloneset: &CloneSet, status: &CloneSetStatus) -> Option<(&'static str, &'static str)> {
    let replicas = cloneset.spec.replicas.unwrap_or(1);
    let is_released = status.current_revision == status.update_revision || pinned(cloneset).is_some();
    let is_complete = is_released
        && [status.replicas, status.updated_replicas, status.updated_available_replicas] == [replicas; 3];
    if is_complete {
        return Some((progress::AVAILABLE, "CloneSet is available"));
    }
    if is_paused(&cloneset.spec) {
        return Some((progress::PAUSED, "CloneSet is paused"));
    }
    let expected = status.expected_updated_replicas;
    (expected < replicas && expected <= status.updated_available_replicas)
        .then_some((progress::PARTITION_AVAILABLE, "CloneSet has been paused due to partition ready"))
}

/// Whether the deadline has passed. Once it has, that stays until the release rests or another one begins.
fn is_overdue(
    known: Option<&CloneSetCondition>,
    before: &CloneSetStatus,
    after: &CloneSetStatus,
    deadline: SignedDuration,
    now: Timestamp,
) -> bool {
    let Some(condition) = known.filter(|_| !restarts_the_clock(known, before, after)) else { return false };
    condition.reason == progress::DEADLINE_EXCEEDED
        || condition.last_update_time.as_ref().is_some_and(|it| now.duration_since(it.0) > deadline)
}

/// Whether the clock starts anew: the release before has come to rest, or another one has begun. Otherwise the first pass
/// of a release a day after the last one would be late at once.
fn restarts_the_clock(
    known: Option<&CloneSetCondition>,
    before: &CloneSetStatus,
    after: &CloneSetStatus,
) -> bool {
    let at_rest = [progress::AVAILABLE, progress::PAUSED, progress::PARTITION_AVAILABLE];
    known.is_none_or(|it| at_rest.contains(&it.reason.as_str()))
        || before.update_revision != after.update_revision
}

/// How long until the deadline passes, and a second more so that it has passed for sure.
fn remaining(
    known: Option<&CloneSetCondition>,
    deadline: SignedDuration,
    now: Timestamp,
) -> Option<Duration> {
    let since = known.and_then(|it| it.last_update_time.as_ref()).map_or(now, |it| it.0);
    let left = deadline - now.duration_since(since);
    let left = if left >= SignedDuration::from_secs(1) { left + SignedDuration::from_secs(1) } else { left };
    Duration::try_from(left).ok()
}
