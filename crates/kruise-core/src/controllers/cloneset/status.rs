//! What a CloneSet reports: counters, revisions and conditions.

mod conditions;
mod progress;

use std::time::Duration;

use jiff::Timestamp;

use super::{plan::limits::Limits, revisions::pinned};
use crate::api::cloneset::v1beta1::{CloneSet, CloneSetStatus};

/// What is counted of one active pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// At the update revision.
    pub is_updated: bool,
    /// Running and ready, whatever its lifecycle state.
    pub is_ready: bool,
    /// Ready for long enough, and in no lifecycle step.
    pub is_available: bool,
}

/// What went wrong in this pass, to be told in a condition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Troubles {
    /// While adding or removing pods.
    pub scale: Trouble,
    /// While updating pods.
    pub update: Trouble,
}

/// What a pass knows of one kind of trouble.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Trouble {
    /// There is none.
    #[default]
    None,
    /// What was due has not been tried: one from before may be there still.
    Untried,
    /// It is there, as a person reads it.
    Told(String),
}

impl Trouble {
    /// The one of both that says more, and the first if they say the same.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, other) | (Self::Untried, other @ Self::Told(_)) => other,
            (it, _) => it,
        }
    }
}

impl From<Option<String>> for Trouble {
    fn from(told: Option<String>) -> Self {
        told.map_or(Self::None, Self::Told)
    }
}

/// The revisions of this pass.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// Where pods go.
    pub update: &'a str,
    /// Where they come from.
    pub current: &'a str,
    /// How often a name was taken.
    pub collision_count: i32,
}

/// A status, and when to look again because of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// What to write.
    pub status: CloneSetStatus,
    /// When the progress deadline passes.
    pub look_again: Option<Duration>,
}

/// The status of `cloneset` with these active pods, before anything is tried: troubles stay as they are.
pub fn report(
    cloneset: &CloneSet,
    limits: &Limits,
    names: Names<'_>,
    pods: impl IntoIterator<Item = Counted>,
    now: Timestamp,
) -> Report {
    let before = cloneset.status.clone().unwrap_or_default();
    let mut status = CloneSetStatus {
        observed_generation: cloneset.metadata.generation.unwrap_or_default(),
        update_revision: names.update.to_owned(),
        current_revision: names.current.to_owned(),
        collision_count: Some(names.collision_count),
        label_selector: selector_text(&cloneset.spec.selector),
        // Without a partition that can be read nothing is known of what is expected.
        expected_updated_replicas: limits.expected_updated().map_or(0, narrow),
        ..CloneSetStatus::default()
    };
    for pod in pods {
        let Counted { is_updated, is_ready, is_available } = pod;
        status.replicas += 1;
        status.ready_replicas += i32::from(is_ready);
        status.available_replicas += i32::from(is_available);
        status.updated_replicas += i32::from(is_updated);
        status.updated_ready_replicas += i32::from(is_updated && is_ready);
        status.updated_available_replicas += i32::from(is_updated && is_available);
    }
    // Both equalities are needed: a deleted old pod must not end a release early (openkruise/kruise#1545). One that is
    // pinned ends when the pin is taken off (federation.md, REV-8).
    let is_complete =
        status.updated_replicas == status.replicas && i64::from(status.replicas) == limits.replicas;
    if is_complete && pinned(cloneset).is_none() {
        status.current_revision.clone_from(&status.update_revision);
    }
    let progress = progress::judge(cloneset, &before, &status, now);
    status.conditions = conditions::with_progress(before.conditions, progress.condition);
    Report { status, look_again: progress.look_again }
}

impl Report {
    /// The status after a pass that met these troubles.
    pub fn after(&self, troubles: &Troubles, now: Timestamp) -> CloneSetStatus {
        let conditions = conditions::with_troubles(self.status.conditions.clone(), troubles, now);
        CloneSetStatus { conditions, ..self.status.clone() }
    }
}

/// Whether `after` tells anything that `before` does not: times alone are no news.
pub fn is_news(before: Option<&CloneSetStatus>, after: &CloneSetStatus) -> bool {
    before != Some(after)
}

fn narrow(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

pub use selector::selector_text;
mod selector;

#[cfg(test)]
mod tests;
