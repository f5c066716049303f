//! The member's own arithmetic: how many pods to make, delete and update in one pass.

use crate::member::Member;

/// The numbers of one pass (7.2 of the member's rules).
#[derive(Debug)]
pub(crate) struct Numbers {
    /// Pods are missing, whether they may be created now or not.
    pub(crate) short: bool,
    pub(crate) create: u32,
    pub(crate) create_old: u32,
    pub(crate) delete: u32,
    pub(crate) delete_old: u32,
    pub(crate) ready_deletes: u32,
    pub(crate) update: i64,
    pub(crate) update_limit: i64,
}

impl Numbers {
    pub(crate) fn of(member: &Member) -> Self {
        let share = &member.share;
        // Zero for both is not valid in a member: it is written as paused with maxSurge 1 (BUD-9).
        let paused = share.paused || share.is_still();
        let surge_limit = if paused { 0 } else { share.surge };
        let least = u32::from(share.is_still() && member.in_place_only);
        let (replicas, limit) = (i64::from(share.replicas), i64::from(share.unavailable.max(least)));
        let partition = i64::from(share.replicas.saturating_sub(share.updated));
        let (mut new, mut old, mut marked_new, mut marked_old) = (0i64, 0i64, 0i64, 0i64);
        let (mut down, mut marked_down) = (0i64, 0i64);
        for pod in &member.pods {
            let (count, marked) = if pod.revision == share.body {
                (&mut new, &mut marked_new)
            } else {
                (&mut old, &mut marked_old)
            };
            *count += 1;
            *marked += i64::from(pod.marked);
            down += i64::from(!pod.available && !pod.marked);
            marked_down += i64::from(!pod.available && pod.marked);
        }
        let (mut old_over, mut new_over) = (old - partition, new - (replicas - partition));
        if !member.rolls_back || share.body == share.stable {
            (old_over, new_over) = (old_over.max(0), new_over.min(0));
        }
        let marked = marked_new + marked_old;
        let (surge, surge_old) = surge(surge_limit, marked, marked_new, down - limit, old_over, new_over);
        let total = new + old;
        let (want, want_old) = (replicas + surge, partition + surge_old);
        let may_start = share.scale_unavailable.map_or(i64::MAX, |it| (i64::from(it) - down).max(0));
        Self {
            short: want > total,
            create: (want - total).max(0).min(may_start) as u32,
            create_old: (want_old - old).max(0) as u32,
            delete: (total - marked - want).max(0) as u32,
            delete_old: (old - marked_old - want_old).max(0) as u32,
            // Upstream leaves pods that are marked and down out of this, and so takes one more down than it may.
            ready_deletes: (limit + total - replicas - down - marked_down).max(0) as u32,
            update: if old_over.abs() <= new_over.abs() { old_over } else { -new_over },
            update_limit: limit + total - replicas,
        }
    }
}

/// How many pods may be made above the replicas, and how many of those old.
fn surge(
    limit: u32,
    marked: i64,
    marked_new: i64,
    down_over: i64,
    old_over: i64,
    new_over: i64,
) -> (i64, i64) {
    let limit = i64::from(limit);
    if limit == 0 {
        return (0, 0);
    }
    let replace = if marked > 0 { (down_over + marked).max(0).min(marked) } else { 0 };
    let replace_old = (replace - marked_new).max(0);
    let (mut update, mut update_old) = (0, 0);
    if old_over.signum() * new_over.signum() < 0 {
        if old_over.abs() <= new_over.abs() {
            update = old_over.abs();
            update_old = if old_over < 0 { update } else { 0 };
        } else {
            update = new_over.abs();
            update_old = if new_over > 0 { update } else { 0 };
        }
    }
    if replace >= update {
        let surge = limit.min(replace);
        (surge, surge.min(replace_old))
    } else {
        let surge = limit.min(update);
        (surge, surge.min(update_old))
    }
}

#[cfg(test)]
mod tests {
    use scheduling::ledger::Share;

    use crate::member::Member;

    #[test]
    fn a_shrink_takes_growth_off_the_account_before_a_failure_without_a_pod() {
        let mut member = Member::new(false, false, false);
        member.apply(&Share { seq: 1, replicas: 3, updated: 3, ..Share::default() });
        member.reconcile();
        member.pods[0].available = true;
        assert_eq!(member.growing(), 2);
        member.hurt(0, true);
        member.apply(&Share { seq: 2, replicas: 2, updated: 2, ..Share::default() });
        assert_eq!(member.growing(), 1);
    }
}
