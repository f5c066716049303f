//! How many pods to add, to remove and to update: the arithmetic of one pass.
//!
//! The names follow the counts of the spec (cloneset.md 7.2): *old* and *new* are pods before and at the update
//! revision, *marked* pods are those that a user or an update has named for deletion.

use super::limits::{Limits, Partition};

/// What is counted of one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// At the update revision.
    pub is_new: bool,
    /// Held back by a hook before its deletion.
    pub is_preparing_delete: bool,
    /// Named for deletion.
    pub is_marked: bool,
    /// Ready for long enough, and in no lifecycle step.
    pub is_available: bool,
}

/// What besides limits and pods decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mode {
    /// The revisions before and after are the same: nothing is being released.
    pub is_settled: bool,
    /// A grown partition takes updated pods back.
    pub may_roll_back: bool,
    /// Pods that prepare for deletion are no replicas any more.
    pub excludes_preparing_delete: bool,
    /// Every pod that has to change can do so without a restart, so that no pod has to be added for it.
    pub needs_no_surge: bool,
}

/// How many pods to add, to remove and to update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Numbers {
    /// Pods that are missing.
    pub scale_up: i64,
    /// Old pods that are missing; may be more than `scale_up`.
    pub scale_up_old: i64,
    /// Pods that may be added now.
    pub scale_up_limit: i64,
    /// Pods that are too many, besides the marked ones.
    pub scale_down: i64,
    /// Old pods that are too many; may be more than `scale_down`.
    pub scale_down_old: i64,
    /// Ready pods that may be deleted now.
    pub delete_ready_limit: i64,
    /// Pods wanted beyond the replicas for now.
    pub surge: i64,
    /// Old pods among them.
    pub surge_old: i64,
    /// Pods to bring to the update revision or, if negative, back to the current one.
    pub update: i64,
    /// Pods that may be unavailable after that.
    pub update_max_unavailable: i64,
}

/// Counts of old and new pods.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    old: i64,
    new: i64,
}

impl Pair {
    fn count(&mut self, is_new: bool) {
        *(if is_new { &mut self.new } else { &mut self.old }) += 1;
    }

    fn sum(self) -> i64 {
        self.old + self.new
    }
}

/// What is there.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// All pods.
    all: Pair,
    /// Those that do not prepare for deletion.
    active: Pair,
    preparing_delete: Pair,
    /// Active and named for deletion.
    marked: Pair,
    /// Active, not marked, not available.
    unavailable: Pair,
    /// Active, marked, not available.
    marked_down: i64,
}

impl Tally {
    fn of(pods: impl IntoIterator<Item = Counted>) -> Self {
        let mut it = Self::default();
        for pod in pods {
            it.all.count(pod.is_new);
            if pod.is_preparing_delete {
                it.preparing_delete.count(pod.is_new);
                continue;
            }
            it.active.count(pod.is_new);
            if pod.is_marked {
                it.marked.count(pod.is_new);
                it.marked_down += i64::from(!pod.is_available);
            } else if !pod.is_available {
                it.unavailable.count(pod.is_new);
            }
        }
        it
    }

    /// Pods that are down, marked ones aside.
    fn down(&self) -> i64 {
        self.preparing_delete.sum() + self.unavailable.sum()
    }
}

/// The numbers of one pass.
pub fn numbers(limits: &Limits, pods: impl IntoIterator<Item = Counted>, mode: Mode) -> Numbers {
    let tally = Tally::of(pods);
    let diff = Diff::of(limits, &tally, mode);
    let mut it = Numbers::default();
    (it.surge, it.surge_old) = surge(limits, &tally, diff, mode);
    scale(&mut it, limits, &tally, diff, mode);
    it.update = diff.update();
    if it.update != 0 {
        it.update_max_unavailable = limits.max_unavailable + tally.all.sum() - limits.replicas;
    }
    it
}

/// How many available pods may really be deleted now, when so many marked ones are down.
///
/// [`Numbers::delete_ready_limit`] leaves marked pods out of what is down. That is right for those that are up: they are
/// what is about to go. Those that are down use the budget up; otherwise a user who names a broken and a ready pod loses
/// two at `maxUnavailable: 1`.
pub fn ready_deletions(numbers: &Numbers, marked_down: usize) -> i64 {
    (numbers.delete_ready_limit - i64::try_from(marked_down).unwrap_or(i64::MAX)).max(0)
}

/// How far the pods are from the partition. Positive: too many of them.
#[derive(Debug, Clone, Copy)]
struct Diff {
    kept: i64,
    old: i64,
    new: i64,
}

impl Diff {
    fn of(limits: &Limits, tally: &Tally, mode: Mode) -> Self {
        let Partition::Keep(kept) = limits.partition else {
            // Pods keep their revisions, and what is missing comes back as what it was.
            return Self { kept: limits.replicas, old: 0, new: 0 };
        };
        let mut old = tally.active.old - kept;
        let mut new = tally.active.new - (limits.replicas - kept);
        if mode.is_settled || !mode.may_roll_back {
            old = old.max(0);
            new = new.min(0);
        }
        Self { kept, old, new }
    }

    fn update(self) -> i64 {
        if self.old.abs() <= self.new.abs() { self.old } else { -self.new }
    }
}

/// Pods beyond the replicas, and old ones among them.
fn surge(limits: &Limits, tally: &Tally, diff: Diff, mode: Mode) -> (i64, i64) {
    if limits.max_surge == 0 {
        return (0, 0);
    }
    // Marked pods are replaced before they go as far as the budget does not allow to take them down first.
    let marked = tally.marked.sum();
    let replaced = (tally.down() + marked - limits.max_unavailable).clamp(0, marked);
    let replaced_old = (replaced - tally.marked.new).max(0);
    let (mut updated, mut updated_old) = (0, 0);
    // Without any budget the extra pod is the only way to go on, restart or not.
    let does_without = mode.needs_no_surge && limits.max_unavailable > 0;
    if diff.old.signum() * diff.new.signum() < 0 && !does_without {
        updated = diff.old.abs().min(diff.new.abs());
        let goes_back = if diff.old.abs() <= diff.new.abs() { diff.old < 0 } else { diff.new > 0 };
        updated_old = if goes_back { updated } else { 0 };
    }
    let (wanted, wanted_old) =
        if replaced >= updated { (replaced, replaced_old) } else { (updated, updated_old) };
    let surge = limits.max_surge.min(wanted);
    (surge, surge.min(wanted_old))
}

fn scale(it: &mut Numbers, limits: &Limits, tally: &Tally, diff: Diff, mode: Mode) {
    let left_out = if mode.excludes_preparing_delete { tally.preparing_delete } else { Pair::default() };
    let total = tally.all.sum() - left_out.sum();
    let old = tally.all.old - left_out.old;
    let (wanted, wanted_old) = (limits.replicas + it.surge, diff.kept + it.surge_old);
    if wanted > total {
        it.scale_up = wanted - total;
        it.scale_up_old = (wanted_old - old).max(0);
        it.scale_up_limit = it.scale_up.min((limits.scale_max_unavailable - tally.down()).max(0));
    }
    let surplus = total - tally.marked.sum() - wanted;
    if surplus > 0 {
        it.scale_down = surplus;
        it.scale_down_old = (old - tally.marked.old - wanted_old).max(0);
    }
    if tally.marked.sum() > 0 || it.scale_down > 0 {
        it.delete_ready_limit =
            (limits.max_unavailable + tally.all.sum() - limits.replicas - tally.down()).max(0);
    }
}

#[cfg(test)]
mod tests;
