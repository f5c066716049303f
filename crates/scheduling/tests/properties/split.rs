//! Properties of the replica split.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use scheduling::{
    numbers::Rounding,
    split::{Answer, Candidate, Goal, Mode, Request, State, WhenShort, WhenUnsatisfiable, plan},
};

use crate::{
    cases,
    fleets::{Groups, PLAIN, Shape, WIDE, carried_out},
    naive,
};

fn replicas(answer: &Answer) -> Vec<u32> {
    answer.rows.iter().map(|it| it.replicas).collect()
}

fn total(counts: &[u32]) -> u64 {
    counts.iter().map(|it| u64::from(*it)).sum()
}

fn is_frozen(it: &Candidate) -> bool {
    it.state == State::Offline || it.state == State::Unsupported && it.current > 0
}

fn frozen(request: &Request) -> u64 {
    request.clusters.iter().filter(|it| is_frozen(it)).map(|it| u64::from(it.current)).sum()
}

/// Whether the policy selects any cluster at all; if not, nothing is changed.
fn selects_any(request: &Request) -> bool {
    request.clusters.iter().any(|it| it.state != State::Excluded)
}

fn movement(from: &[u32], to: &[u32]) -> u64 {
    from.iter().zip(to).map(|(a, b)| u64::from(a.abs_diff(*b))).sum()
}

/// The least total movement to any `total` within the bounds, by trying all.
fn least_movement(bounds: &[(u32, u32)], current: &[u32], total: u64) -> Option<u64> {
    let Some(((low, high), bounds)) = bounds.split_first() else {
        return (total == 0).then_some(0);
    };
    let most = u64::from(*high).min(total) as u32;
    (*low..=most)
        .filter_map(|it| {
            let rest = least_movement(bounds, &current[1..], total - u64::from(it))?;
            Some(rest + u64::from(it.abs_diff(current[0])))
        })
        .min()
}

proptest! {
    #![proptest_config(cases())]

    /// Every replica is placed or reported; frozen clusters may hold more than is wanted.
    #[test]
    fn split_sum(request in Shape { modes: &[Mode::Divided, Mode::Aggregated], ..WIDE }.request()) {
        if !selects_any(&request) {
            return Ok(());
        }
        let answer = plan(&request).unwrap();
        let wanted = u64::from(request.replicas).max(frozen(&request));
        prop_assert_eq!(total(&replicas(&answer)) + answer.unplaced, wanted);
        let ideal: u64 = answer.rows.iter().map(|it| u64::from(it.ideal)).sum();
        prop_assert_eq!(ideal + answer.unplaced, wanted);
    }

    /// SPLIT-1, SPLIT-2, SPLIT-4, SPLIT-6: whatever the policy, no limit is passed.
    #[test]
    fn split_bounds(request in WIDE.request()) {
        if !selects_any(&request) {
            return Ok(());
        }
        let answer = plan(&request).unwrap();
        for (row, it) in answer.rows.iter().zip(&request.clusters) {
            prop_assert!(row.floor <= row.replicas && row.replicas <= row.ceiling, "{row:?}");
            prop_assert!(row.floor <= row.ideal && row.ideal <= row.ceiling, "{row:?}");
            let max = it.max.unwrap_or(u32::MAX);
            let most = match it.state {
                State::Ready | State::Unconfirmed if request.when_short == WhenShort::Overcommit => max,
                State::Ready | State::Unconfirmed => max.min(it.fit.unwrap_or(u32::MAX)),
                State::Cordoned => max.min(it.fit.unwrap_or(u32::MAX)).min(it.current),
                State::Offline | State::Unsupported => it.current,
                _ => 0,
            };
            prop_assert!(row.replicas <= most, "{row:?} above {most}");
            if request.mode == Mode::Duplicated && !is_frozen(it) {
                prop_assert!(row.replicas <= request.replicas);
            }
        }
        check_groups(&request, &replicas(&answer))?;
    }

    /// SPLIT-4: at least minGroups groups are used, if so many can be and there are replicas for them.
    #[test]
    fn split_uses_as_many_groups_as_there_must_be(
        mut request in Shape {
            clusters: 8, rules: 1, modes: &[Mode::Divided, Mode::Aggregated], ..WIDE
        }.request(),
    ) {
        request.clusters.iter_mut().for_each(|it| it.min = 0);
        let Some(spread) = request.spread.first().cloned() else { return Ok(()) };
        let may_have = |it: &&Candidate| match it.state {
            State::Ready | State::Unconfirmed => it.max != Some(0) && it.fit != Some(0),
            State::Cordoned => it.max != Some(0) && it.fit != Some(0) && it.current > 0,
            _ => is_frozen(it) && it.current > 0,
        };
        let group = |it: &Candidate| it.groups[0].clone();
        let possible: BTreeSet<_> = request.clusters.iter().filter(may_have).filter_map(group).collect();
        let free = u64::from(request.replicas).saturating_sub(frozen(&request)) as usize;
        let is_wish = spread.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway;
        if is_wish || possible.len() < spread.min_groups as usize || !selects_any(&request) {
            return Ok(());
        }
        let answer = plan(&request).unwrap();
        let in_use = request.clusters.iter().zip(replicas(&answer)).filter(|it| it.1 > 0);
        let used: BTreeSet<_> = in_use.filter_map(|it| group(it.0)).collect();
        prop_assert!(used.len() >= free.min(spread.min_groups as usize), "{used:?} {answer:?}");
    }

    /// The same values in other memory, on another thread, give the same answer.
    #[test]
    fn split_deterministic(request in WIDE.request()) {
        let copy = request.clone();
        let elsewhere = std::thread::spawn(move || plan(&copy));
        prop_assert_eq!(plan(&request), elsewhere.join().expect("a plan never panics"));
    }

    /// Once carried out, the answer stays as it is.
    #[test]
    fn split_idempotent(request in WIDE.request()) {
        let first = replicas(&plan(&request).unwrap());
        let second = replicas(&plan(&carried_out(&request, &first)).unwrap());
        prop_assert_eq!(first, second);
    }

    /// SPLIT-5: one tier, no groups. The movement is the least there is for the bounds.
    #[test]
    fn split_min_movement(request in PLAIN.request()) {
        let request = Request { goal: Goal::LeastMovement, ..request };
        let answer = plan(&request).unwrap();
        let current: Vec<u32> = request.clusters.iter().map(|it| it.current).collect();
        let clamped: Vec<u32> =
            answer.rows.iter().zip(&current).map(|(it, current)| (*current).clamp(it.floor, it.ceiling)).collect();
        let placed = total(&replicas(&answer));
        let least = movement(&current, &clamped) + placed.abs_diff(total(&clamped));
        prop_assert_eq!(movement(&current, &replicas(&answer)), least);
    }

    /// SPLIT-5 against every other way to reach the same sum.
    #[test]
    fn split_min_movement_equals_brute_force(
        request in Shape { clusters: 4, replicas: 12, ..PLAIN }.request(),
    ) {
        let request = Request { goal: Goal::LeastMovement, ..request };
        let answer = plan(&request).unwrap();
        let current: Vec<u32> = request.clusters.iter().map(|it| it.current).collect();
        let bounds: Vec<(u32, u32)> = answer.rows.iter().map(|it| (it.floor, it.ceiling)).collect();
        let least = least_movement(&bounds, &current, total(&replicas(&answer)));
        prop_assert_eq!(Some(movement(&current, &replicas(&answer))), least);
    }

    /// SPLIT-3: one replica more changes the ideal by one in exactly one cluster.
    #[test]
    fn split_house_monotone(request in Shape { tiers: 3, ..PLAIN }.request()) {
        let more = Request { replicas: request.replicas + 1, ..request.clone() };
        let (before, after) = (plan(&request).unwrap(), plan(&more).unwrap());
        let mut raised = 0;
        for (before, after) in before.rows.iter().zip(&after.rows) {
            prop_assert!(after.ideal >= before.ideal, "{before:?} {after:?}");
            raised += after.ideal - before.ideal;
        }
        let is_short = after.unplaced > before.unplaced;
        let is_surplus = u64::from(request.replicas) < frozen(&request);
        prop_assert_eq!(raised, u32::from(!is_short && !is_surplus && selects_any(&request)));
    }

    /// SPLIT-5: growing N lowers nobody, shrinking N raises nobody.
    #[test]
    fn split_scale_direction(request in Shape { tiers: 3, ..PLAIN }.request(), other in 0..100_000u32) {
        let start = replicas(&plan(&request).unwrap());
        let other = if request.replicas < 200 { other % 400 } else { other };
        let scaled = Request { replicas: other, ..carried_out(&request, &start) };
        let end = replicas(&plan(&scaled).unwrap());
        for (before, after) in start.iter().zip(&end) {
            if other >= request.replicas {
                prop_assert!(after >= before, "{start:?} {end:?}");
            }
            if other <= request.replicas {
                prop_assert!(after <= before, "{start:?} {end:?}");
            }
        }
    }

    #[test]
    fn split_permutation_invariant(request in WIDE.request(), seed in any::<u64>()) {
        let by_name = |request: &Request| {
            let rows = plan(request).unwrap().rows;
            rows.into_iter().map(|it| (it.name.clone(), it)).collect::<BTreeMap<_, _>>()
        };
        let mut shuffled = request.clone();
        shuffled.clusters.sort_by_cached_key(|it| scheduling::rank::rank(&seed.to_string(), &it.name));
        prop_assert_eq!(by_name(&request), by_name(&shuffled));
    }

    /// STATE-4: an Offline cluster keeps what it has for every N, weight and policy.
    #[test]
    fn split_frozen_untouched(request in WIDE.request()) {
        for (row, it) in plan(&request).unwrap().rows.iter().zip(&request.clusters) {
            if is_frozen(it) {
                prop_assert_eq!(row.replicas, it.current);
                prop_assert_eq!(row.ideal, it.current);
            }
        }
    }

    /// SPLIT-2, 3, 4, 5, 8, 10 all at once, against the rules one replica at a time.
    #[test]
    fn the_plan_is_what_the_rules_say_word_for_word(
        request in Shape {
            clusters: 8, replicas: 60, tiers: 3, rules: 2, modes: &[Mode::Divided], groups: Groups::Shares,
        }.request(),
    ) {
        if !selects_any(&request) {
            return Ok(());
        }
        let answer = plan(&request).unwrap();
        let ideal: Vec<u32> = answer.rows.iter().map(|it| it.ideal).collect();
        // The rules are applied until they rest.
        let mut naive = naive::plan(&request);
        for _ in 0..8 {
            let next = naive::plan(&carried_out(&request, &naive.1));
            if next.1 == naive.1 {
                break;
            }
            naive = next;
        }
        prop_assert_eq!((ideal, replicas(&answer)), naive);
    }
}

/// No group above its share, and no more groups than may be used, but for what is frozen.
fn check_groups(request: &Request, replicas: &[u32]) -> Result<(), TestCaseError> {
    for (rule, spread) in request.spread.iter().enumerate() {
        if spread.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway {
            continue;
        }
        let mut used: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (it, count) in request.clusters.iter().zip(replicas).filter(|it| *it.1 > 0) {
            let Some(group) = &it.groups[rule] else {
                prop_assert!(is_frozen(it), "{} lacks the key", it.name);
                continue;
            };
            let held = used.entry(group).or_default();
            held.0 += u64::from(*count);
            held.1 += if is_frozen(it) { u64::from(*count) } else { 0 };
        }
        let frozen: BTreeSet<&str> = used.iter().filter(|it| it.1.1 > 0).map(|it| *it.0).collect();
        if let Some(most) = spread.max_groups {
            prop_assert!(used.len() <= (most as usize).max(frozen.len()), "{used:?}");
        }
        if let (Some(share), true) = (spread.max_share, request.mode != Mode::Duplicated) {
            let cap = share.of(u64::from(request.replicas), Rounding::Down).max(1);
            for (group, (held, frozen)) in used {
                prop_assert!(held <= cap.max(frozen), "{group}: {held} above {cap}");
            }
        }
    }
    Ok(())
}
