//! One cluster while it is being planned, and how slots become an answer.

use std::cmp::Ordering;

use super::{Answer, Candidate, Mode, Request, Row};
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
    /// How much of its least a group that must be used cannot do without.
    pub(super) needed: u32,
    /// How much of its least is the policy's.
    pub(super) min: u32,
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
        if !self.is_frozen && self.most() > 0 {
            // What closes it is said of the cluster; its minimum is cut with it.
            self.cut += self.min;
            (self.low, self.min, self.high, self.reach) = (0, 0, 0, 0);
            self.limit = limit;
        }
    }

    /// Asks for one replica at least, with room for it or not.
    pub(super) fn need(&mut self) {
        self.needed = 1;
        self.low = self.low.max(1);
        self.high = self.high.max(1);
    }

    /// The most it may have in any case.
    pub(super) fn most(&self) -> u32 {
        self.high.max(self.reach)
    }

    /// Replicas that run today and may stay.
    pub(super) fn stays(&self) -> u32 {
        self.current.min(self.high)
    }

    fn why(&self, before: u32) -> Why {
        let change = match self.result.cmp(&before) {
            Ordering::Greater => Change::Grown(self.result - before),
            Ordering::Less => Change::Shrunk(before - self.result, self.shrink.unwrap_or(Shrink::OverLimit)),
            Ordering::Equal if self.is_frozen => Change::Frozen,
            Ordering::Equal => Change::Kept,
        };
        Why { limit: self.limit, change, cut_min: self.cut }
    }
}

/// All slots decided.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) slots: Vec<Slot>,
    pub(super) population: u64,
    pub(super) unplaced: u64,
    pub(super) conditions: Vec<Condition>,
}

impl Plan {
    /// The result of each cluster, in the order of the request.
    pub(super) fn results(&self) -> Vec<u32> {
        let mut results = vec![0; self.slots.len()];
        for slot in &self.slots {
            results[slot.place as usize] = slot.result;
        }
        results
    }

    /// This plan as the outcome of an `earlier` one, whose reasons to shrink came first.
    pub(super) fn after(mut self, earlier: &Self) -> Self {
        for (slot, earlier) in self.slots.iter_mut().zip(&earlier.slots) {
            slot.shrink = earlier.shrink.or(slot.shrink);
        }
        self
    }

    /// The answer, in the order of the request.
    pub(super) fn answer(self, request: &Request) -> Answer {
        let Self { slots, population, unplaced, mut conditions } = self;
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
                why: slot.why(cluster.current),
            }
        };
        let rows = request.clusters.iter().zip(slot_of).map(row).collect();
        Answer { rows, population, unplaced, conditions }
    }
}

/// The plan where nothing may be changed.
pub(super) fn kept(mut slots: Vec<Slot>, replicas: u32, mode: Mode) -> Plan {
    for slot in &mut slots {
        (slot.low, slot.high) = (slot.current, slot.current);
        (slot.ideal, slot.result) = (slot.current, slot.current);
        slot.is_frozen = true;
    }
    let placed: u64 = slots.iter().map(|it| u64::from(it.result)).sum();
    let population = if mode == Mode::Duplicated { placed } else { u64::from(replicas) };
    let unplaced = population.saturating_sub(placed);
    Plan { slots, population, unplaced, conditions: vec![Condition::NoCluster] }
}

/// Every cluster gets N, within its own bounds (SPLIT-6).
pub(super) fn duplicated(mut slots: Vec<Slot>, replicas: u32, conditions: Vec<Condition>) -> Plan {
    let (mut population, mut unplaced) = (0, 0);
    for slot in &mut slots {
        // A cluster that may not grow is not short of what it was never meant to get.
        let wanted = match slot.limit {
            Limit::None | Limit::Fit(_) | Limit::Max(_) => replicas,
            _ if slot.is_frozen => slot.current,
            _ => replicas.min(slot.high),
        };
        slot.high = slot.most();
        slot.result = if slot.is_frozen { slot.current } else { wanted.min(slot.high) };
        slot.low = slot.low.min(slot.result);
        slot.ideal = slot.result;
        slot.shrink = Some(if slot.high < slot.current { Shrink::OverLimit } else { Shrink::FewerWanted });
        population += u64::from(wanted);
        unplaced += u64::from(wanted - slot.result.min(wanted));
    }
    Plan { slots, population, unplaced, conditions }
}
