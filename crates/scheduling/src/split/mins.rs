//! Minimums that do not fit (SPLIT-2).

use std::cmp::Reverse;

use super::{slot::Slot, spread::Groups};
use crate::reason::Condition;

/// Lowers minimums until they fit into every group and into N: later tiers first, then smaller weights, then larger
/// ranks. What is frozen stays.
pub(super) fn cut(slots: &mut [Slot], groups: &Groups, replicas: u32) -> Option<Condition> {
    let wanted: u64 = slots.iter().map(|it| u64::from(it.low)).sum();
    let sums = groups.sums(slots, |it| it.low);
    let overfull: Vec<usize> = (0..sums.len()).filter(|it| sums[*it] > groups.firm_cap(*it)).collect();
    if wanted <= u64::from(replicas) && overfull.is_empty() {
        return None;
    }

    let mut order: Vec<usize> = (0..slots.len()).rev().filter(|it| !slots[*it].is_frozen).collect();
    order.sort_by_key(|it| (Reverse(slots[*it].tier), slots[*it].weight));
    if !overfull.is_empty() {
        lower_groups(slots, groups, &overfull, &order, sums);
    }
    let still: u64 = slots.iter().map(|it| u64::from(it.low)).sum();
    lower(slots, order.iter().copied(), still.saturating_sub(u64::from(replicas)));
    let left: u64 = slots.iter().map(|it| u64::from(it.low)).sum();
    (left < wanted).then(|| Condition::MinsCut(wanted - left))
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
        let mut excess = sums[group].saturating_sub(groups.firm_cap(group));
        for &index in &members[group] {
            if excess == 0 {
                break;
            }
            let less = u64::from(slots[index].low).min(excess);
            lower(slots, std::iter::once(index), less);
            groups.of_slot(index).for_each(|it| sums[it] -= less);
            excess -= less;
        }
    }
}

fn lower(slots: &mut [Slot], order: impl Iterator<Item = usize>, mut excess: u64) {
    for index in order {
        let slot = &mut slots[index];
        let less = u64::from(slot.low).min(excess) as u32;
        slot.low -= less;
        slot.cut += less;
        excess -= u64::from(less);
        if excess == 0 {
            break;
        }
    }
}
