//! The list of conditions: what stays, what is new, what is over.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Trouble, Troubles};
use crate::api::cloneset::{
    CloneSetCondition,
    conditions::{FAILED_SCALE, FAILED_UPDATE, PROGRESSING},
};

/// The conditions after a pass. A trouble that is over is taken off the list: a condition that stayed for good would tell
/// nobody anything (openkruise/kruise#1351).
pub(super) fn with_troubles(
    mut conditions: Vec<CloneSetCondition>,
    troubles: &Troubles,
    now: Timestamp,
) -> Vec<CloneSetCondition> {
    for (kind, trouble) in [(FAILED_SCALE, &troubles.scale), (FAILED_UPDATE, &troubles.update)] {
        match trouble {
            Trouble::Told(message) => put(&mut conditions, failed(kind, message, now)),
            Trouble::Untried => {}
            Trouble::None => conditions.retain(|it| it.type_ != kind),
        }
    }
    conditions
}

/// The conditions with what is to be said of the progress.
pub(super) fn with_progress(
    mut conditions: Vec<CloneSetCondition>,
    progress: Option<CloneSetCondition>,
) -> Vec<CloneSetCondition> {
    match progress {
        Some(condition) => put(&mut conditions, condition),
        None => conditions.retain(|it| it.type_ != PROGRESSING),
    }
    conditions
}

fn failed(kind: &str, message: &str, now: Timestamp) -> CloneSetCondition {
    CloneSetCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        last_transition_time: Some(Time(now)),
        message: message.to_owned(),
        ..CloneSetCondition::default()
    }
}

/// Puts `new` in place of the condition of its type, last on the list; one that says nothing new stays where it is.
fn put(conditions: &mut Vec<CloneSetCondition>, mut new: CloneSetCondition) {
    if let Some(old) = conditions.iter().find(|it| it.type_ == new.type_) {
        let is_old_news = if new.type_ == PROGRESSING { *old == new } else { old.message == new.message };
        if is_old_news {
            return;
        }
        // Only a new status is a transition; for progress that is settled already.
        if new.type_ != PROGRESSING && old.status == new.status {
            new.last_transition_time.clone_from(&old.last_transition_time);
        }
    }
    conditions.retain(|it| it.type_ != new.type_);
    conditions.push(new);
}
