//! The result closest to what runs today (SPLIT-5, SPLIT-8, SPLIT-10).

use super::{Goal, slot::Slot, spread::Groups};
use crate::{
    reason::Shrink,
    webster::{Caps, Part, fill, fill_capped},
};

/// Sets the result of every slot.
pub(super) fn settle(slots: &mut [Slot], groups: &Groups, goal: Goal) {
    if goal == Goal::Rebalance {
        for slot in slots.iter_mut() {
            slot.result = slot.ideal;
            slot.shrink = Some(if slot.high < slot.current { Shrink::OverLimit } else { Shrink::Rebalance });
        }
        return;
    }

    for slot in slots.iter_mut() {
        slot.result = slot.current.max(slot.low).min(slot.high);
        slot.shrink = (slot.result < slot.current).then_some(Shrink::OverLimit);
    }
    // What the ideal itself puts into a group (frozen replicas, rules that only state a wish) is no excess.
    let ideal = groups.sums(slots, |it| it.ideal);
    let most: Vec<u64> = groups.cap.iter().zip(ideal).map(|(cap, ideal)| ideal.max(*cap)).collect();
    shrink_groups(slots, groups, &most);

    for tier in slots.chunk_by_mut(|a, b| a.tier == b.tier) {
        let goal: u64 = tier.iter().map(|it| u64::from(it.ideal)).sum();
        let excess = total(tier).saturating_sub(goal);
        let excess = excess - shrink_named(tier, excess);
        shrink(tier, excess, |it| it.ideal, Shrink::FewerWanted);
    }
    if !grow(slots, groups, &most) {
        // Crossing groups can leave no way from here to N that keeps all of their limits. The ideal keeps them.
        for slot in slots.iter_mut() {
            slot.result = slot.ideal;
        }
    }
}

fn total(slots: &[Slot]) -> u64 {
    slots.iter().map(|it| u64::from(it.result)).sum()
}

/// Takes from each group what it has above its limit, later tiers first.
fn shrink_groups(slots: &mut [Slot], groups: &Groups, most: &[u64]) {
    let mut sums = groups.sums(slots, |it| it.result);
    if sums.iter().zip(most).all(|(sum, most)| sum <= most) {
        return;
    }
    let members = groups.members(0..slots.len());
    let tier_of: Vec<u32> = slots.iter().map(|it| it.tier).collect();
    let mut part: Vec<Slot> = Vec::new();
    for (group, most) in most.iter().enumerate() {
        let mut excess = sums[group].saturating_sub(*most);
        for tier in members[group].chunk_by(|a, b| tier_of[*a] == tier_of[*b]).rev() {
            if excess == 0 {
                break;
            }
            part.clear();
            part.extend(tier.iter().map(|it| slots[*it]));
            excess -= shrink(&mut part, excess, |it| it.ideal, Shrink::OverShare);
            for (index, shrunk) in tier.iter().zip(&part) {
                let less = u64::from(slots[*index].result - shrunk.result);
                groups.of_slot(*index).for_each(|it| sums[it] -= less);
                slots[*index] = *shrunk;
            }
        }
    }
}

/// On a scale-down the clusters whose pods the user named go first, not below their minimum. Returns how many went.
fn shrink_named(tier: &mut [Slot], excess: u64) -> u64 {
    if excess == 0 || tier.iter().all(|it| it.named == 0) {
        return 0;
    }
    shrink(tier, excess, |it| it.low.max(it.result.saturating_sub(it.named)), Shrink::Named)
}

/// Takes up to `excess` replicas from the slots above their `floor`: those come off last which Webster would have
/// given first. Returns how many were taken.
fn shrink(tier: &mut [Slot], excess: u64, floor: impl Fn(&Slot) -> u32, cause: Shrink) -> u64 {
    if excess == 0 {
        return 0;
    }
    let part = |it: &Slot| Part { weight: it.weight, at: floor(it).min(it.result), top: it.result };
    let mut parts: Vec<Part> = tier.iter().map(part).collect();
    let room: u64 = parts.iter().map(Part::room).sum();
    let taken = room.min(excess);
    fill(&mut parts, room - taken);
    for (slot, part) in tier.iter_mut().zip(parts) {
        if part.at < slot.result {
            slot.result = part.at;
            slot.shrink = slot.shrink.or(Some(cause));
        }
    }
    taken
}

/// Adds what each tier lacks to slots below their ideal; false if the limits of groups leave no way.
fn grow(slots: &mut [Slot], groups: &Groups, most: &[u64]) -> bool {
    let held = groups.sums(slots, |it| it.result);
    let mut room: Vec<u64> = most.iter().zip(held).map(|(most, held)| most.saturating_sub(held)).collect();
    let mut start = 0;
    for tier in slots.chunk_by_mut(|a, b| a.tier == b.tier) {
        let end = start + tier.len();
        let goal: u64 = tier.iter().map(|it| u64::from(it.ideal)).sum();
        let lacking = goal.saturating_sub(total(tier));
        if lacking > 0 {
            let part = |it: &Slot| Part { weight: it.weight, at: it.result, top: it.ideal.max(it.result) };
            let mut parts: Vec<Part> = tier.iter().map(part).collect();
            let member_of = &groups.member_of[start * groups.families..end * groups.families];
            let mut caps = Caps { families: groups.families, member_of, room: &mut room };
            if fill_capped(&mut parts, &mut caps, lacking) > 0 {
                return false;
            }
            for (slot, part) in tier.iter_mut().zip(parts) {
                slot.result = part.at;
            }
        }
        start = end;
    }
    true
}
