//! One cluster while it is being planned, and how slots become an answer.

use std::cmp::Ordering;

use super::{Answer, Candidate, Request, Row};
use crate::reason::{Change, Condition, Limit, Shrink, Why};

/// One cluster at work. Slots are ordered by tier, then rank; see [`super::bounds::slots`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    /// Its index in the request.
    pub(super) place: u32,
    pub(super) tier: u32,
    pub(super) weight: u32,
    /// The least it may have.
    pub(super) low: u32,
    /// The most it may have.
    pub(super) high: u32,
    /// The most it may have once the fleet is known to be short.
    pub(super) reach: u32,
    pub(super) fit: u32,
    pub(super) current: u32,
    pub(super) named: u32,
    pub(super) is_frozen: bool,
    pub(super) limit: Limit,
    /// How much of its minimum was taken back.
    pub(super) cut: u32,
    pub(super) ideal: u32,
    pub(super) result: u32,
    /// Why it shrinks, if it does.
    pub(super) shrink: Option<Shrink>,
}

impl Slot {
    /// Takes the slot out of play, unless it is frozen.
    pub(super) fn close(&mut self, limit: Limit) {
        if !self.is_frozen && self.high > 0 {
            (self.low, self.high, self.reach) = (0, 0, 0);
            self.limit = limit;
        }
    }

    /// Replicas that run today and may stay.
    pub(super) fn stays(&self) -> u32 {
        self.current.min(self.high)
    }

    fn why(&self) -> Why {
        let change = match self.result.cmp(&self.current) {
            Ordering::Greater => Change::Grown(self.result - self.current),
            Ordering::Less => {
                Change::Shrunk(self.current - self.result, self.shrink.unwrap_or(Shrink::OverLimit))
            }
            Ordering::Equal if self.is_frozen => Change::Frozen,
            Ordering::Equal => Change::Kept,
        };
        Why { limit: self.limit, change, cut_min: self.cut }
    }
}

/// The answer where nothing may be changed.
pub(super) fn kept(request: &Request, slots: &mut [Slot], condition: Condition) -> Answer {
    for slot in slots.iter_mut() {
        (slot.low, slot.high) = (slot.current, slot.current);
        (slot.ideal, slot.result) = (slot.current, slot.current);
        slot.is_frozen = true;
    }
    let placed: u64 = slots.iter().map(|it| u64::from(it.result)).sum();
    let unplaced = u64::from(request.replicas).saturating_sub(placed);
    answer(request, slots, u64::from(request.replicas), unplaced, vec![condition])
}

/// Every cluster gets N, within its own bounds (SPLIT-6).
pub(super) fn duplicated(request: &Request, slots: &mut [Slot], conditions: Vec<Condition>) -> Answer {
    let (mut population, mut unplaced) = (0, 0);
    for slot in slots.iter_mut() {
        // A cluster that may not grow is not short of what it was never meant to get.
        let wanted = match slot.limit {
            Limit::None | Limit::Fit(_) | Limit::Max(_) => request.replicas,
            _ if slot.is_frozen => slot.current,
            _ => request.replicas.min(slot.high),
        };
        slot.high = slot.high.max(slot.reach);
        slot.result = if slot.is_frozen { slot.current } else { wanted.min(slot.high) };
        slot.low = slot.low.min(slot.result);
        slot.ideal = slot.result;
        slot.shrink = Some(if slot.high < slot.current { Shrink::OverLimit } else { Shrink::FewerWanted });
        population += u64::from(wanted);
        unplaced += u64::from(wanted - slot.result.min(wanted));
    }
    answer(request, slots, population, unplaced, conditions)
}

/// Puts the slots back into the order of the request.
pub(super) fn answer(
    request: &Request,
    slots: &[Slot],
    population: u64,
    unplaced: u64,
    mut conditions: Vec<Condition>,
) -> Answer {
    if unplaced > 0 {
        conditions.push(Condition::Unplaced(unplaced));
    }
    let mut slot_of = vec![0; slots.len()];
    for (index, slot) in slots.iter().enumerate() {
        slot_of[slot.place as usize] = index;
    }
    let row = |(cluster, index): (&Candidate, usize)| {
        let slot = &slots[index];
        Row {
            name: cluster.name.clone(),
            replicas: slot.result,
            ideal: slot.ideal,
            floor: slot.low,
            ceiling: slot.high,
            why: slot.why(),
        }
    };
    let rows = request.clusters.iter().zip(slot_of).map(row).collect();
    Answer { rows, population, unplaced, conditions }
}
