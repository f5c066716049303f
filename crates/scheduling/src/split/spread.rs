//! Groups of clusters: which are used, and how much each may hold (SPLIT-4).

use std::{cmp::Reverse, collections::BTreeMap};

use super::{Mode, Request, Spread, WhenUnsatisfiable, slot::Slot};
use crate::{
    names::GroupName,
    numbers::{Percent, Rounding},
    reason::{Condition, Limit},
    webster::NO_GROUP,
};

/// The groups that the request's spread rules make of the slots.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups {
    /// How many rules there are.
    pub(super) families: usize,
    /// The group of slot `i` by rule `f` at `i * families + f`.
    pub(super) member_of: Vec<u32>,
    /// The most each group may hold.
    pub(super) cap: Vec<u64>,
    /// The rule each group belongs to.
    rule_of: Vec<usize>,
    /// Which rules only state a wish.
    is_wish: Vec<bool>,
    /// Groups in the order of their names, rule by rule.
    by_name: Vec<Vec<u32>>,
}

impl Groups {
    pub(super) fn of(request: &Request, order: &[u32]) -> Self {
        let families = request.spread.len();
        let is_wish = |it: &Spread| it.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway;
        let mut groups =
            Self { families, is_wish: request.spread.iter().map(is_wish).collect(), ..Self::default() };
        groups.member_of.reserve(order.len() * families);
        if families == 0 {
            return groups;
        }
        let mut names: Vec<BTreeMap<&GroupName, u32>> = vec![BTreeMap::new(); families];
        for place in order {
            for (rule, name) in request.clusters[*place as usize].groups.iter().enumerate() {
                let number = |name| {
                    *names[rule]
                        .entry(name)
                        .or_insert_with(|| groups.add(&request.spread[rule], rule, request))
                };
                let group = name.as_ref().map_or(NO_GROUP, number);
                groups.member_of.push(group);
            }
        }
        groups.by_name = names.into_iter().map(|it| it.into_values().collect()).collect();
        groups
    }

    fn add(&mut self, spread: &Spread, rule: usize, request: &Request) -> u32 {
        let number = self.cap.len() as u32;
        // A share is not to be passed, so it rounds down; but a share of less than one pod would place nothing at all.
        let cap = |it: Percent| it.of(u64::from(request.replicas), Rounding::Down).max(1);
        self.cap.push(spread.max_share.map_or(u64::MAX, cap));
        self.rule_of.push(rule);
        number
    }

    /// The most a group may hold, where that is more than a wish.
    pub(super) fn firm_cap(&self, group: usize) -> u64 {
        if self.is_wish[self.rule_of[group]] { u64::MAX } else { self.cap[group] }
    }

    /// The groups a slot is in.
    pub(super) fn of_slot(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let start = index * self.families;
        let groups = &self.member_of[start..start + self.families];
        groups.iter().filter(|it| **it != NO_GROUP).map(|it| *it as usize)
    }

    /// The slots of each group, in the given order.
    pub(super) fn members(&self, order: impl Iterator<Item = usize>) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.cap.len()];
        for index in order {
            for group in self.of_slot(index) {
                members[group].push(index);
            }
        }
        members
    }

    /// Adds up `count` over the members of each group.
    pub(super) fn sums(&self, slots: &[Slot], count: impl Fn(&Slot) -> u32) -> Vec<u64> {
        let mut sums = vec![0; self.cap.len()];
        if sums.is_empty() {
            return sums;
        }
        for (index, slot) in slots.iter().enumerate() {
            for group in self.of_slot(index) {
                sums[group] += u64::from(count(slot));
            }
        }
        sums
    }

    /// Lifts the ceilings of rules that only state a wish, and says of which keys.
    pub(super) fn lift_wishes(&mut self, request: &Request) -> Vec<Condition> {
        let mut lifted = Vec::new();
        for (rule, spread) in request.spread.iter().enumerate() {
            if spread.max_share.is_none() || !self.is_wish[rule] {
                continue;
            }
            for (cap, _) in self.cap.iter_mut().zip(&self.rule_of).filter(|(_, it)| **it == rule) {
                *cap = u64::MAX;
            }
            lifted.push(Condition::ShareExceeded(spread.key.clone()));
        }
        lifted
    }

    /// Closes the clusters that no chosen group holds. Where a rule finds too few groups nothing may grow.
    pub(super) fn choose(&self, request: &Request, slots: &mut [Slot]) -> Vec<Condition> {
        let mut conditions = Vec::new();
        for (rule, spread) in request.spread.iter().enumerate() {
            let is_hard = !self.is_wish[rule];
            if is_hard {
                for (index, slot) in slots.iter_mut().enumerate() {
                    if self.member_of[index * self.families + rule] == NO_GROUP {
                        slot.close(Limit::NoGroup);
                    }
                }
            }
            let order = self.by_preference(rule, slots);
            let found = order.len() as u32;
            if found < spread.min_groups {
                let (key, wanted) = (spread.key.clone(), spread.min_groups);
                conditions.push(Condition::SpreadUnsatisfied { key, found, wanted });
                if is_hard {
                    slots.iter_mut().for_each(stand_still);
                }
            }
            if let Some(most) = spread.max_groups {
                let chosen = chosen(&order, most, if is_hard { 0 } else { u64::from(request.replicas) });
                self.close_others(rule, &chosen, slots);
            }
        }
        if request.mode != Mode::Duplicated {
            for (rule, spread) in request.spread.iter().enumerate() {
                // One group is used in any case.
                if spread.min_groups > 1 {
                    let order = self.by_preference(rule, slots);
                    let wanted = spread.min_groups.min(request.replicas) as usize;
                    self.use_groups(order.iter().take(wanted).map(|it| it.0 as usize), slots);
                }
            }
        }
        conditions
    }

    /// Asks for one replica in each of the groups that has to be used: where there is a minimum or something runs, else
    /// where there is room, else where there may be more than room.
    fn use_groups(&self, groups: impl Iterator<Item = usize>, slots: &mut [Slot]) {
        let mut used = self.sums(slots, |it| it.needed + u32::from(it.is_frozen && it.current > 0));
        let mut members: Option<Vec<Vec<usize>>> = None;
        for group in groups {
            if used[group] > 0 {
                continue;
            }
            let members = members.get_or_insert_with(|| self.members(0..slots.len()));
            let first = members[group].iter().copied().filter(|it| slots[*it].most() > 0).min_by_key(|it| {
                let slot = &slots[*it];
                (slot.low == 0, slot.stays() == 0, slot.high == 0, slot.tier, Reverse(slot.weight), *it)
            });
            if let Some(first) = first {
                slots[first].need();
                self.of_slot(first).for_each(|it| used[it] += 1);
            }
        }
    }

    /// Rules with fewer groups in use than there have to be and could be, by the results.
    pub(super) fn unsatisfied(
        &self,
        request: &Request,
        slots: &[Slot],
        said: &[Condition],
    ) -> Vec<Condition> {
        let mut conditions = Vec::new();
        let used = self.sums(slots, |it| it.result);
        for (rule, spread) in request.spread.iter().enumerate() {
            let (key, wanted) = (spread.key.clone(), spread.min_groups);
            let is_said =
                |it: &Condition| matches!(it, Condition::SpreadUnsatisfied { key, .. } if *key == spread.key);
            let found = self.by_name[rule].iter().filter(|it| used[**it as usize] > 0).count() as u32;
            if wanted > 1 && found < wanted.min(request.replicas) && !said.iter().any(is_said) {
                conditions.push(Condition::SpreadUnsatisfied { key, found, wanted });
            }
        }
        conditions
    }

    /// Rules whose largest share is passed where every cluster has all replicas: no division can keep them.
    pub(super) fn exceeded(&self, request: &Request, slots: &[Slot], population: u64) -> Vec<Condition> {
        let held = self.sums(slots, |it| it.result);
        let passes = |rule: usize, share: Percent| {
            let most = share.of(population, Rounding::Down).max(1);
            self.by_name[rule].iter().any(|it| held[*it as usize] > most)
        };
        let rules = request.spread.iter().enumerate();
        rules
            .filter(|(rule, it)| it.max_share.is_some_and(|share| passes(*rule, share)))
            .map(|(_, it)| Condition::ShareExceeded(it.key.clone()))
            .collect()
    }

    /// The groups of one rule that could hold anything, first choice first: those with frozen replicas, those in use,
    /// the larger ones, then by name.
    fn by_preference(&self, rule: usize, slots: &[Slot]) -> Vec<(u32, u64)> {
        let frozen = self.sums(slots, |it| if it.is_frozen { it.current } else { 0 });
        let stays = self.sums(slots, Slot::stays);
        let high = self.sums(slots, |it| it.high);
        let most = self.sums(slots, Slot::most);
        // The groups are in order of names, and the sort keeps that order among equals.
        let usable = |it: &u32| most[*it as usize] > 0;
        let mut order: Vec<u32> = self.by_name[rule].iter().copied().filter(usable).collect();
        order.sort_by_key(|it| {
            let it = *it as usize;
            (frozen[it] == 0, stays[it] == 0, Reverse(high[it]))
        });
        order.into_iter().map(|it| (it, high[it as usize])).collect()
    }

    fn close_others(&self, rule: usize, chosen: &[u32], slots: &mut [Slot]) {
        let mut is_chosen = vec![false; self.cap.len()];
        for group in chosen {
            is_chosen[*group as usize] = true;
        }
        for (index, slot) in slots.iter_mut().enumerate() {
            let group = self.member_of[index * self.families + rule];
            if group != NO_GROUP && !is_chosen[group as usize] {
                slot.close(Limit::GroupNotChosen);
            }
        }
    }
}

/// The first `most` groups, and more as long as they hold less than `wish`.
fn chosen(order: &[(u32, u64)], most: u32, wish: u64) -> Vec<u32> {
    let mut held = 0;
    let mut chosen = Vec::new();
    for (group, high) in order {
        if chosen.len() >= most as usize && held >= wish {
            break;
        }
        held += high;
        chosen.push(*group);
    }
    chosen
}

fn stand_still(slot: &mut Slot) {
    if !slot.is_frozen && slot.high > slot.current {
        slot.high = slot.current;
        slot.low = slot.low.min(slot.high);
        slot.limit = Limit::SpreadUnsatisfied;
    }
    slot.reach = slot.high;
}
