//! Minimums that do not fit (SPLIT-2).

use std::cmp::Reverse;

use super::{slot::Slot, spread::Groups};
use crate::reason::Condition;

/// Lowers minimums until they fit into every group and into N: later tiers first, then smaller weights, then larger
/// ranks, and what groups need that must be used only if the rest is not enough. What is frozen stays.
pub(super) fn cut(slots: &mut [Slot], groups: &Groups, replicas: u32) -> Option<Condition> {
    let wanted: u64 = slots.iter().map(|it| u64::from(it.low)).sum();
    let sums = groups.sums(slots, |it| it.low);
    let overfull: Vec<usize> = (0..sums.len()).filter(|it| sums[*it] > groups.firm_cap(*it)).collect();
    if wanted > u64::from(replicas) || !overfull.is_empty() {
        let mut order: Vec<usize> = (0..slots.len()).rev().filter(|it| !slots[*it].is_frozen).collect();
        order.sort_by_key(|it| (Reverse(slots[*it].tier), slots[*it].weight));
        if !overfull.is_empty() {
            lower_groups(slots, groups, &overfull, &order, sums);
        }
        let still: u64 = slots.iter().map(|it| u64::from(it.low)).sum();
        lower(slots, order.iter().copied(), still.saturating_sub(u64::from(replicas)));
    }
    let cut: u64 = slots.iter().map(|it| u64::from(it.cut)).sum();
    (cut > 0).then_some(Condition::MinsCut(cut))
}

/// Lowers the minimums of groups that are asked for more than they may hold. An earlier group may lower members of a
/// later one.
fn lower_groups(
    slots: &mut [Slot],
    groups: &Groups,
    overfull: &[usize],
    order: &[usize],
    mut sums: Vec<u64>,
) {
    let members = groups.members(order.iter().copied());
    for &group in overfull {
        let excess = sums[group].saturating_sub(groups.firm_cap(group));
        let before: Vec<u32> = members[group].iter().map(|it| slots[*it].low).collect();
        lower(slots, members[group].iter().copied(), excess);
        for (index, before) in members[group].iter().zip(before) {
            let less = u64::from(before - slots[*index].low);
            groups.of_slot(*index).for_each(|it| sums[it] -= less);
        }
    }
}

fn lower(slots: &mut [Slot], order: impl Iterator<Item = usize> + Clone, mut excess: u64) {
    for spares_needed in [true, false] {
        for index in order.clone() {
            if excess == 0 {
                return;
            }
            let slot = &mut slots[index];
            let kept = if spares_needed { slot.needed.min(slot.low) } else { 0 };
            let less = u64::from(slot.low - kept).min(excess) as u32;
            slot.low -= less;
            excess -= u64::from(less);
            let cut = slot.min.saturating_sub(slot.low);
            slot.min -= cut;
            slot.cut += cut;
        }
    }
}
