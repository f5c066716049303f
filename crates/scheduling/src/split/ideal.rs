//! The division as it would be if nothing ran yet (SPLIT-2, SPLIT-3, SPLIT-4).

use super::{Request, WhenShort, slot::Slot, spread::Groups};
use crate::{
    reason::{Condition, Limit},
    webster::{Caps, Part, fill_capped},
};

/// Sets the ideal of every slot and returns what could not be placed. Where the fleet is short the bounds are widened
/// to what may be overcommitted.
pub(super) fn solve(
    slots: &mut [Slot],
    groups: &mut Groups,
    request: &Request,
    conditions: &mut Vec<Condition>,
) -> u64 {
    let wanted = u64::from(request.replicas);
    let taken: u64 = slots.iter().map(|it| u64::from(it.low)).sum();
    if taken > wanted {
        // Only frozen clusters hold more than is wanted: all other minimums have been cut.
        conditions.push(Condition::SurplusFrozen(taken - wanted));
    }
    for slot in slots.iter_mut() {
        slot.ideal = slot.low;
    }

    let mut left = give(slots, groups, wanted.saturating_sub(taken));
    if left > 0 {
        let lifted = groups.lift_wishes(request);
        if !lifted.is_empty() {
            let before = left;
            left = give(slots, groups, left);
            if left < before {
                conditions.extend(lifted);
            }
        }
    }
    if left > 0 && request.when_short == WhenShort::Overcommit {
        widen(slots);
        left = give(slots, groups, left);
    }
    mark_full_groups(slots, groups);
    left
}

/// The fleet is short: clusters that are full by their own word stay full, and may be filled beyond it.
fn widen(slots: &mut [Slot]) {
    for slot in slots.iter_mut() {
        if slot.ideal == slot.high {
            slot.low = slot.high;
        }
        if slot.reach > slot.high {
            slot.high = slot.reach;
            slot.limit = if slot.high == u32::MAX { Limit::None } else { Limit::Max(slot.high) };
        }
    }
}

/// Gives replicas to the tiers in order and returns what is left.
fn give(slots: &mut [Slot], groups: &Groups, mut left: u64) -> u64 {
    let held = groups.sums(slots, |it| it.ideal);
    let mut room: Vec<u64> =
        groups.cap.iter().zip(held).map(|(cap, held)| cap.saturating_sub(held)).collect();
    let mut parts = Vec::with_capacity(slots.len());
    let mut start = 0;
    for tier in slots.chunk_by_mut(|a, b| a.tier == b.tier) {
        parts.clear();
        parts.extend(tier.iter().map(|it| Part { weight: it.weight, at: it.ideal, top: it.high }));
        let end = start + tier.len();
        let member_of = &groups.member_of[start * groups.families..end * groups.families];
        left = fill_capped(
            &mut parts,
            &mut Caps { families: groups.families, member_of, room: &mut room },
            left,
        );
        for (slot, part) in tier.iter_mut().zip(&parts) {
            slot.ideal = part.at;
        }
        start = end;
    }
    left
}

fn mark_full_groups(slots: &mut [Slot], groups: &Groups) {
    if groups.families == 0 {
        return;
    }
    let held = groups.sums(slots, |it| it.ideal);
    for (index, slot) in slots.iter_mut().enumerate() {
        let is_full = groups.of_slot(index).any(|it| held[it] >= groups.cap[it]);
        if is_full && slot.ideal < slot.high && !slot.is_frozen {
            slot.limit = Limit::ShareFull;
        }
    }
}
