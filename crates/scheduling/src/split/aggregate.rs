//! The fewest clusters that hold N (SPLIT-6).

use std::cmp::Reverse;

use super::{slot::Slot, spread::Groups};
use crate::reason::Limit;

/// Closes all clusters but the shortest prefix, in the order (tier, in use, fit, rank), that can hold `replicas`. Those
/// that must have some come first.
pub(super) fn choose(slots: &mut [Slot], groups: &Groups, replicas: u32) {
    let frozen: u64 = slots.iter().filter(|it| it.is_frozen).map(|it| u64::from(it.current)).sum();
    let wanted = u64::from(replicas).saturating_sub(frozen);
    let mut order: Vec<usize> = (0..slots.len()).filter(|it| !slots[*it].is_frozen).collect();
    order.sort_by_key(|it| {
        let slot = &slots[*it];
        (slot.low == 0, slot.tier, slot.stays() == 0, Reverse(slot.fit))
    });
    shorten(&mut order, slots, groups, wanted);

    let mut is_used = vec![false; slots.len()];
    for index in order {
        is_used[index] = true;
    }
    for (slot, is_used) in slots.iter_mut().zip(is_used) {
        if !is_used {
            slot.close(Limit::NotNeeded);
        }
    }
}

/// Cuts `order` to its shortest prefix that holds `wanted`, leaving out clusters whose groups are full by then.
fn shorten(order: &mut Vec<usize>, slots: &[Slot], groups: &Groups, wanted: u64) {
    let frozen = groups.sums(slots, |it| if it.is_frozen { it.current } else { 0 });
    let mut room: Vec<u64> =
        groups.cap.iter().zip(frozen).map(|(cap, frozen)| cap.saturating_sub(frozen)).collect();
    let mut held = 0;
    order.retain(|index| {
        let fits = groups.of_slot(*index).map(|it| room[it]).fold(u64::from(slots[*index].high), u64::min);
        // A cluster that is full by its own word may still be overcommitted once all are.
        let is_used = slots[*index].low > 0 || held < wanted && (fits > 0 || slots[*index].high == 0);
        if is_used {
            held += fits;
            groups.of_slot(*index).for_each(|it| room[it] -= fits);
        }
        is_used
    });
}
