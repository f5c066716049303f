//! The fewest clusters that hold N (SPLIT-6).

use std::cmp::Reverse;

use super::slot::Slot;
use crate::reason::Limit;

/// Closes all clusters but the shortest prefix, in the order (tier, in use, fit, rank), that can hold `replicas`.
///
/// A small cluster in use comes before a large one that is not, though the large one alone may hold everything. Taking
/// the prefix once more, now by fit alone, drops such clusters at once; otherwise the next round would, and planning
/// twice would move replicas twice.
pub(super) fn choose(slots: &mut [Slot], replicas: u32) {
    let frozen: u64 = slots.iter().filter(|it| it.is_frozen).map(|it| u64::from(it.current)).sum();
    let wanted = u64::from(replicas).saturating_sub(frozen);
    let mut order: Vec<usize> = (0..slots.len()).filter(|it| !slots[*it].is_frozen).collect();
    order.sort_by_key(|it| (slots[*it].tier, slots[*it].stays() == 0, Reverse(slots[*it].fit)));
    shorten(&mut order, slots, wanted);
    order.sort_by_key(|it| (slots[*it].tier, Reverse(slots[*it].fit), *it));
    shorten(&mut order, slots, wanted);

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

/// Cuts `order` to its shortest prefix whose bounds hold `wanted`.
fn shorten(order: &mut Vec<usize>, slots: &[Slot], wanted: u64) {
    let mut held = 0;
    let mut length = 0;
    while held < wanted && length < order.len() {
        held += u64::from(slots[order[length]].high);
        length += 1;
    }
    order.truncate(length);
}
