//! The rules as they are worded: one replica at a time, with no thought of speed.

use std::cmp::Ordering;

use scheduling::{
    numbers::Rounding,
    split::{Candidate, Goal, Request, State, WhenShort, WhenUnsatisfiable},
    webster::{NO_GROUP, Part},
};

/// Which of two parts gets the next seat (SPLIT-3).
fn precedence(parts: &[Part], a: usize, b: usize) -> Ordering {
    let (x, y) = (parts[a], parts[b]);
    let left = u128::from(x.weight) * (2 * u128::from(y.at) + 1);
    let right = u128::from(y.weight) * (2 * u128::from(x.at) + 1);
    right.cmp(&left).then(x.at.cmp(&y.at)).then(a.cmp(&b))
}

/// SPLIT-3 and SPLIT-4 word for word.
pub(crate) fn fill(
    parts: &mut [Part],
    families: usize,
    member_of: &[u32],
    room: &mut [u64],
    mut give: u64,
) -> u64 {
    let groups = |it: usize| {
        member_of[it * families..(it + 1) * families]
            .iter()
            .filter(|it| **it != NO_GROUP)
            .map(|it| *it as usize)
    };
    while give > 0 {
        let next = (0..parts.len())
            .filter(|it| parts[*it].at < parts[*it].top && groups(*it).all(|it| room[it] > 0))
            .min_by(|a, b| precedence(parts, *a, *b));
        let Some(next) = next else { break };
        parts[next].at += 1;
        groups(next).for_each(|it| room[it] -= 1);
        give -= 1;
    }
    give
}

#[derive(Debug, Clone)]
struct Row {
    place: usize,
    low: u32,
    high: u32,
    max: u32,
    is_frozen: bool,
    ideal: u32,
    result: u32,
}

/// The divided split, for requests whose spread rules only limit shares. Returns the ideal and the result, in the
/// order of the request.
pub(crate) fn plan(request: &Request) -> (Vec<u32>, Vec<u32>) {
    let clusters = &request.clusters;
    let mut rows: Vec<Row> = clusters.iter().enumerate().map(|(place, it)| bounds(place, it)).collect();
    rows.sort_by(|a, b| {
        let key =
            |it: &Row| (clusters[it.place].tier, clusters[it.place].rank, clusters[it.place].name.clone());
        key(a).cmp(&key(b))
    });
    let caps = Shares::of(request, &rows);
    cut_mins(request, &mut rows, &caps);
    rows.iter_mut().for_each(|it| it.ideal = it.low);

    let low: u64 = rows.iter().map(|it| u64::from(it.low)).sum();
    let mut left = u64::from(request.replicas).saturating_sub(low);
    left = give(request, &mut rows, &caps, left);
    let soft_lifted = caps.lifted(request);
    let caps = if left > 0 { soft_lifted } else { caps };
    left = give(request, &mut rows, &caps, left);
    if left > 0 && request.when_short == WhenShort::Overcommit {
        for row in rows.iter_mut() {
            if row.ideal == row.high {
                row.low = row.high;
            }
            if matches!(clusters[row.place].state, State::Ready | State::Unconfirmed) {
                row.high = row.max;
            }
        }
        give(request, &mut rows, &caps, left);
    }
    settle(request, &mut rows, &caps);

    let mut answer = vec![(0, 0); rows.len()];
    for row in rows {
        answer[row.place] = (row.ideal, row.result);
    }
    answer.into_iter().unzip()
}

fn bounds(place: usize, it: &Candidate) -> Row {
    let max = it.max.unwrap_or(u32::MAX);
    let mut low = it.min;
    let mut high = max.min(it.fit.unwrap_or(u32::MAX));
    let mut is_frozen = false;
    match it.state {
        State::Ready | State::Unconfirmed => {}
        State::Cordoned => high = high.min(it.current),
        State::Draining | State::Excluded | State::Lost | State::Pending | State::Returning => {
            (low, high) = (0, 0)
        }
        State::Offline | State::Unsupported => {
            (low, high) = (it.current, it.current);
            is_frozen = true;
        }
    }
    Row { place, low: low.min(high), high, max, is_frozen, ideal: 0, result: 0 }
}

/// Ceilings of the groups that spread rules make.
struct Shares {
    member_of: Vec<u32>,
    cap: Vec<u64>,
    rule_of: Vec<usize>,
}

impl Shares {
    fn of(request: &Request, rows: &[Row]) -> Self {
        let mut names: Vec<(usize, String)> = Vec::new();
        let mut member_of = Vec::new();
        for row in rows {
            for (rule, group) in request.clusters[row.place].groups.iter().enumerate() {
                let Some(group) = group else {
                    member_of.push(NO_GROUP);
                    continue;
                };
                let key = (rule, group.to_string());
                let number = names.iter().position(|it| *it == key).unwrap_or_else(|| {
                    names.push(key);
                    names.len() - 1
                });
                member_of.push(number as u32);
            }
        }
        let cap = |(rule, _): &(usize, String)| match request.spread[*rule].max_share {
            Some(share) => share.of(u64::from(request.replicas), Rounding::Down).max(1),
            None => u64::MAX,
        };
        Self {
            member_of,
            cap: names.iter().map(cap).collect(),
            rule_of: names.iter().map(|it| it.0).collect(),
        }
    }

    fn lifted(&self, request: &Request) -> Self {
        let is_wish =
            |rule: usize| request.spread[rule].when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway;
        let cap = self.cap.iter().zip(&self.rule_of);
        let cap = cap.map(|(cap, rule)| if is_wish(*rule) { u64::MAX } else { *cap }).collect();
        Self { member_of: self.member_of.clone(), cap, rule_of: self.rule_of.clone() }
    }

    fn held(&self, request: &Request, rows: &[Row], count: impl Fn(&Row) -> u32) -> Vec<u64> {
        let families = request.spread.len();
        let mut held = vec![0; self.cap.len()];
        for (index, row) in rows.iter().enumerate() {
            for group in &self.member_of[index * families..(index + 1) * families] {
                if *group != NO_GROUP {
                    held[*group as usize] += u64::from(count(row));
                }
            }
        }
        held
    }
}

/// SPLIT-2: one off the first in the order (later tier, smaller weight, larger rank), again and again.
fn cut_mins(request: &Request, rows: &mut [Row], caps: &Shares) {
    let families = request.spread.len();
    let firm = caps.lifted(request);
    // Lifting keeps the ceilings of rules that are more than a wish, which is what is wanted here.
    let mut groups: Vec<Option<usize>> = (0..caps.cap.len()).map(Some).collect();
    groups.push(None);
    for group in groups {
        loop {
            let over = match group {
                Some(group) => firm.held(request, rows, |it| it.low)[group] > firm.cap[group],
                None => rows.iter().map(|it| u64::from(it.low)).sum::<u64>() > u64::from(request.replicas),
            };
            let member = |index: usize| match group {
                Some(group) => {
                    firm.member_of[index * families..(index + 1) * families].contains(&(group as u32))
                }
                None => true,
            };
            let key = |it: &usize| {
                let cluster = &request.clusters[rows[*it].place];
                (std::cmp::Reverse(cluster.tier), cluster.weight, std::cmp::Reverse(*it))
            };
            let next = (0..rows.len())
                .filter(|it| !rows[*it].is_frozen && rows[*it].low > 0 && member(*it))
                .min_by_key(key);
            match next {
                Some(next) if over => rows[next].low -= 1,
                _ => break,
            }
        }
    }
}

fn tiers(request: &Request, rows: &[Row]) -> Vec<Vec<usize>> {
    let mut tiers: Vec<u32> = request.clusters.iter().map(|it| it.tier).collect();
    tiers.sort_unstable();
    tiers.dedup();
    let members =
        |tier| (0..rows.len()).filter(|it| request.clusters[rows[*it].place].tier == tier).collect();
    tiers.into_iter().map(members).collect()
}

fn give(request: &Request, rows: &mut [Row], caps: &Shares, mut left: u64) -> u64 {
    let families = request.spread.len();
    for tier in tiers(request, rows) {
        let held = caps.held(request, rows, |it| it.ideal);
        let mut room: Vec<u64> = caps.cap.iter().zip(held).map(|(cap, it)| cap.saturating_sub(it)).collect();
        let part = |row: &Row, is_in: bool| Part {
            weight: request.clusters[row.place].weight,
            at: row.ideal,
            top: if is_in { row.high } else { row.ideal },
        };
        let mut parts: Vec<Part> =
            rows.iter().enumerate().map(|(index, row)| part(row, tier.contains(&index))).collect();
        left = fill(&mut parts, families, &caps.member_of, &mut room, left);
        rows.iter_mut().zip(parts).for_each(|(row, part)| row.ideal = part.at);
    }
    left
}

/// SPLIT-5, SPLIT-8 and SPLIT-10.
fn settle(request: &Request, rows: &mut [Row], caps: &Shares) {
    if request.goal == Goal::Rebalance {
        rows.iter_mut().for_each(|it| it.result = it.ideal);
        return;
    }
    rows.iter_mut().for_each(|it| it.result = request.clusters[it.place].current.clamp(it.low, it.high));
    let families = request.spread.len();
    let ideal = caps.held(request, rows, |it| it.ideal);
    let most: Vec<u64> = caps.cap.iter().zip(ideal).map(|(cap, ideal)| ideal.max(*cap)).collect();
    for (group, most) in most.iter().enumerate() {
        for tier in tiers(request, rows).into_iter().rev() {
            while caps.held(request, rows, |it| it.result)[group] > *most {
                let is_member =
                    |it: &usize| caps.member_of[it * families..(it + 1) * families].contains(&(group as u32));
                let members: Vec<usize> = tier.iter().copied().filter(is_member).collect();
                if !take_one(request, rows, &members, |row, _| row.result > row.ideal) {
                    break;
                }
            }
        }
    }
    let tiers = tiers(request, rows);
    for tier in &tiers {
        let goal: u64 = tier.iter().map(|it| u64::from(rows[*it].ideal)).sum();
        let has = |rows: &[Row]| tier.iter().map(|it| u64::from(rows[*it].result)).sum::<u64>();
        let before: Vec<u32> = rows.iter().map(|it| it.result).collect();
        while has(rows) > goal {
            let is_named = |row: &Row, index: usize| {
                row.result > row.low
                    && before[index] - row.result < request.clusters[row.place].named_for_deletion
            };
            if !take_one(request, rows, tier, is_named) {
                break;
            }
        }
        while has(rows) > goal && take_one(request, rows, tier, |row, _| row.result > row.ideal) {}
    }
    for tier in &tiers {
        let goal: u64 = tier.iter().map(|it| u64::from(rows[*it].ideal)).sum();
        let has: u64 = tier.iter().map(|it| u64::from(rows[*it].result)).sum();
        let held = caps.held(request, rows, |it| it.result);
        let mut room: Vec<u64> =
            most.iter().zip(held).map(|(most, held)| most.saturating_sub(held)).collect();
        let part = |(index, row): (usize, &Row)| Part {
            weight: request.clusters[row.place].weight,
            at: row.result,
            top: if tier.contains(&index) { row.ideal.max(row.result) } else { row.result },
        };
        let mut parts: Vec<Part> = rows.iter().enumerate().map(part).collect();
        if fill(&mut parts, families, &caps.member_of, &mut room, goal.saturating_sub(has)) > 0 {
            rows.iter_mut().for_each(|it| it.result = it.ideal);
            return;
        }
        rows.iter_mut().zip(parts).for_each(|(row, part)| row.result = part.at);
    }
}

/// Removes one from the row that `may` give, with the smallest `w/(2c-1)`; ties: larger c, then larger rank.
fn take_one(request: &Request, rows: &mut [Row], tier: &[usize], may: impl Fn(&Row, usize) -> bool) -> bool {
    let last = tier.iter().copied().filter(|it| may(&rows[*it], *it)).max_by(|a, b| {
        let weight = |it: usize| u128::from(request.clusters[rows[it].place].weight);
        let seat = |it: usize| 2 * u128::from(rows[it].result) - 1;
        let (left, right) = (weight(*b) * seat(*a), weight(*a) * seat(*b));
        left.cmp(&right).then(rows[*a].result.cmp(&rows[*b].result)).then(a.cmp(b))
    });
    if let Some(last) = last {
        rows[last].result -= 1;
    }
    last.is_some()
}
